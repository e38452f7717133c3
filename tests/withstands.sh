#!/bin/sh
# Writes what the servers withstand into the tables of docs/withstands.md: runs every test of a case,
# for every stage, and takes down how it went; and those tests that ask for nothing but an echo, for
# the servers that ours are measured against.
#
#   usage: OUT=folder tests/withstands.sh STAGE...      (`make withstands` calls this)
#
# A stage is the name of its folder. The programs and the suites are below OUT. What is between two
# marks in the page is replaced.
set -eu
: "${OUT:?the folder of programs and suites}"

page=docs/withstands.md
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
trap 'exit 130' INT TERM

# Tests that need no option and no counter.
plain='@(echo/case_01*|pipelining/case_02*|output/case_04_lines*|half_close/case_06_with_output*'
plain="$plain|hostile_peers/case_10*|output/case_11_client*|output/erratum_05*|descriptors/case_19_out*"
plain="$plain|descriptors/case_19_does*|descriptors/case_23*|hostile_peers/case_24*|overload/case_30*"
plain="$plain|handing_over/case_36*)"

# Prints "NAME ok" or "NAME FAIL" for each test that was run.
read_results() {
    sed -n 's/^\(not \)\{0,1\}ok - [a-z0-9_]*::\([a-z0-9_]*\) .*s)$/\1\2/p' "$work/tap" |
        awk '{ print $NF, $1 == "not" ? "FAIL" : "ok" }'
}

# try SUITE SERVER: runs the tests of cases.
try() {
    SERVER=$2 FAULTS=few CRITERION_TEST_PATTERN='*/*case_*' tests/gate.sh \
        "$OUT/tests/$1" --tap="$work/tap" >"$work/log" 2>&1
}

# run SUITE STAGES SERVER: adds CASE STAGES SUITE NAME ok|FAIL for each test of a case. What fails on a
# machine that is busy with something else has a second try.
run() {
    try "$1" "$3" || try "$1" "$3" || tail -n 20 "$work/log"
    read_results | awk -v suite="$1" -v stages="$2" 'match($1, /case_[0-9][0-9]/) {
        print substr($1, RSTART + 5, 2) + 0, stages, suite, $0 }' >>"$work/results"
}

stages() { # STAGE...: the table of the forty cases
    run common unit ''
    for stage; do
        number=${stage#stage}
        number=${number%%-*}
        for suite in conformance soak "stage$number" chat pop3 http; do
            case $suite in
            chat | pop3 | http) [ "$number" -ge 4 ] || continue ;;
            esac
            [ ! -x "$OUT/tests/$suite" ] || run "$suite" "$number" "$OUT/$stage"
        done
        run faults "$number" "$OUT/faults/$stage"
    done
    echo '| | case | 1 | 2 | 3 | 4 | 5 | applications |'
    echo '| --- | --- | --- | --- | --- | --- | --- | --- |'
    sort -u "$work/results" >"$work/sorted"
    tests/cases.sh --table "$work/sorted"
}

# others PROGRAM...: a column for each that is there; what fails once in three times has failed
others() {
    : >"$work/others"
    for program; do
        [ -x "$OUT/tests/$program" ] || continue
        for _ in 1 2 3; do
            SERVER=$OUT/tests/$program LD_PRELOAD=$work/ends_well.so TEST_DEADLINE_MS=4000 \
                timeout 300 "$OUT/tests/conformance" --filter "$plain" --tap="$work/tap" \
                >/dev/null 2>&1 </dev/null || true
            read_results | sed "s/^/$program /" >>"$work/others"
        done
    done
    awk '
        FILENAME ~ /cases.txt/ {
            if ($0 ~ /^[0-9]/) { number = $1; sub(/^([^ ]+ +)([^ ]+ +)(- +|([a-z0-9]+ )+ +)/, ""); what[number + 0] = $0 }
            next
        }
        {
            number = match($2, /case_[0-9][0-9]/) ? substr($2, RSTART + 5, 2) + 0 : 11
            if (!($1 in known)) { known[$1]; order[++programs] = $1 }
            seen[number]; results[number, $1] = results[number, $1] == "no" || $3 == "FAIL" ? "no" : "yes"
        }
        END {
            header = "| | case |"; line = "| --- | --- |"
            for (i = 1; i <= programs; i++) {
                name = order[i]; gsub(/_/, " ", name); sub(/^peer /, "", name)
                header = header " " name " |"; line = line " --- |"
            }
            print header; print line
            for (number = 1; number <= 40; number++) {
                if (!(number in seen)) continue
                row = "| " number " | " what[number] " |"
                for (i = 1; i <= programs; i++) row = row " " results[number, order[i]] " |"
                print row
            }
        }' tests/cases.txt "$work/others"
}

# replace NAME: what is between the marks of that name becomes what comes in
replace() {
    cat >"$work/new"
    {
        sed "/^<!-- $1 begin/q" "$page"
        echo
        cat "$work/new"
        echo
        sed -n "/^<!-- $1 end/,\$p" "$page"
    } >"$work/page"
    cp "$work/page" "$page"
}

: >"$work/results"
stages "$@" >"$work/table"
cc -shared -fPIC -o "$work/ends_well.so" tests/ends_well.c
others peer_libevent peer_libuv raw_epoll raw_threads >"$work/table2"
replace cases <"$work/table"
replace others <"$work/table2"

grep ' FAIL$' "$work/sorted" || true
passed=$(grep -c ' ok$' "$work/sorted" || true) failed=$(grep -c ' FAIL$' "$work/sorted" || true)
echo "$passed passed, $failed failed"
