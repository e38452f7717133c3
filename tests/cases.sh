#!/bin/sh
# Which test is for which of the forty cases, and whether one is missing (tests/cases.txt).
#
#   usage: tests/cases.sh                  checks, and prints what is missing
#          tests/cases.sh --list           prints each test with its case, its stages and its suite
#          tests/cases.sh --table [FILE]   prints the table of docs/withstands.md
#
# A test's file tells which stages it runs for: those in tests/conformance, tests/faults and
# tests/soak run for all, those in tests/chat, tests/pop3 and tests/http for the stages that have
# applications, those in tests/stageN for stage N. Tests in tests/common are of parts that all stages
# share; they are listed, but a part is no server: they do not count.
#
# The check also looks at the page: its table must not say of a case that it is withstood where there
# is no test for it. Stages that are not there yet are not asked for. The last line is "N passed, N
# failed": a case is passed if no test of it is missing.
#
# The table is that of a run whose results are in FILE, in the form of --list and with "ok" or "FAIL"
# behind each line. Without one, all tests count as passed.
set -eu
cd "$(dirname "$0")/.."

page=docs/withstands.md
stages=$(for folder in stage[1-5]-*/; do
    number=${folder#stage}
    printf '%s' "${number%%-*}"
done)

# CASE STAGES SUITE NAME, a line for each test of a case.
list() {
    grep -roE '[a-z0-9_]*case_[0-9]{2}[a-z0-9_]*' tests --include='*.c' | sort -u |
        awk -F '[/:]' -v stages="$stages" '
            function runs_for(suite) {
                if (suite ~ /^stage/) return substr(suite, 6)
                if (suite ~ /^(chat|pop3|http)$/) return "45"
                return suite == "common" ? "unit" : stages
            }
            {
                name = $NF
                match(name, /case_[0-9][0-9]/)
                print substr(name, RSTART + 5, 2) + 0, runs_for($2), $2, name
            }'
}

# The rows of the table, and on standard error what is missing.
table() {
    awk -v stages="$stages" '
        FILENAME == "-" {
            failed = $5 == "FAIL"
            suites[$1, $3] += 1
            suites_failed[$1, $3] += failed
            for (i = 1; i <= length($2) && $2 != "unit"; i++) {
                found[$1, substr($2, i, 1)]++
                bad[$1, substr($2, i, 1)] += failed
            }
            next
        }
        /^#/ || NF == 0 { next }
        {
            number = $1
            line = $0
            sub(/^[0-9]+ +/, "", line)
            wanted = line
            sub(/ .*/, "", wanted)
            sub(/^[^ ]+ +/, "", line)
            applications = line
            sub(/  .*/, "", applications)
            sub(/^([^ ]| [^ ])+  +/, "", line)

            missing = ""
            row = "| " number " | " line " |"
            for (i = 1; i <= 5; i++) {
                asked = index(wanted, i) > 0
                cell = ""
                if (asked && bad[number, i] > 0)
                    cell = "no"
                else if (asked && found[number, i] > 0)
                    cell = "yes"
                else if (asked && index(stages, i))
                    missing = missing " stage " i
                row = row " " cell " |"
            }
            cells = ""
            count = split(applications, application, / /)
            for (i = 1; i <= count && applications != "-"; i++) {
                name = application[i]
                if (suites[number, name] > 0)
                    cells = cells (cells == "" ? "" : ", ") name \
                        (suites_failed[number, name] > 0 ? " not" : "")
                else if (system("test -d tests/" name) == 0)
                    missing = missing " " name
            }
            print row " " cells " |"
            if (missing != "")
                print "case " number " has no test for:" missing >"/dev/stderr"
        }' - tests/cases.txt
}

case ${1-} in
--list) list | sort -n ;;
--table)
    if [ $# -gt 1 ]; then
        table <"$2"
    else
        list | table
    fi
    ;;
*)
    work=$(mktemp -d)
    trap 'rm -rf "$work"' EXIT
    list | table >"$work/table" 2>"$work/missing"
    cat "$work/missing"
    failed=$(grep -c . "$work/missing" || true)
    # What the page claims and no test shows.
    if [ -e "$page" ]; then
        awk -F '|' -v page="$page" '
            FNR == NR { for (i = 4; i <= 9; i++) have[$2, i] = $i; next }
            /^\| [0-9]/ && NF == 10 && ($2, 4) in have {
                for (i = 4; i <= 8; i++)
                    if ($i ~ /yes/ && have[$2, i] !~ /yes/)
                        print page ": case" $2 "says yes of stage " i - 3 ", and no test does"
            }' "$work/table" "$page" >"$work/claims"
        cat "$work/claims"
        failed=$((failed + $(grep -c . "$work/claims" || true)))
    fi
    total=$(grep -c . "$work/table")
    echo "$((failed < total ? total - failed : 0)) passed, $failed failed"
    [ "$failed" -eq 0 ]
    ;;
esac
