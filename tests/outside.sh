#!/bin/sh
# Grades a server that somebody else has written, in whatever language: the echo contract of a stage.
#
#   usage: SERVER=path tests/outside.sh CONFORMANCE STAGE_GRADED     (make test-stageN SERVER=path)
#
# It begins with what all other tests depend on: the server starts, prints its line, answers, and exits
# with 0 at SIGTERM. Then it runs the suite that all stages share, and those tests of the stage that look
# at a program from outside; no applications. A test that wants an option which `SERVER --help` does not
# name is skipped. What fails is told by cause: tests that fail alike stand together, the most of them
# first. CRITERION_TEST_PATTERN chooses among the tests, and leaves the beginning out.
#
# Prints "N passed, N failed, N skipped" at the end. Exit status 0 if nothing failed.
set -u

work=$(mktemp -d "${TMPDIR:-/tmp}/outside.XXXXXX") || exit 2
trap 'rm -rf "$work"' EXIT
trap 'exit 130' INT TERM
name=${SERVER##*/}

# At least a space, so that tests know that they grade.
GRADED_OPTIONS=" $(timeout 5 "$SERVER" --help 2>/dev/null </dev/null | grep -oE -- '--[a-z][a-z-]*' | sort -u | tr '\n' ' ')"
export GRADED_OPTIONS

# Somebody waits for the grade, and mostly on a machine that does nothing else.
export TEST_DEADLINE_MS="${TEST_DEADLINE_MS:-10000}"

# Runs a suite. What failed goes to $work/failed, a line each: TEST, a tab, the words of its assertion.
run() { # SUITE PATTERN
    CRITERION_TEST_PATTERN=$2 CRITERION_VERBOSITY_LEVEL=1 tests/gate.sh "$1" --output=tap:"$work/tap" >"$work/output" 2>&1
    status=$?
    touch "$work/tap"
    awk '
        function done() { if (test != "") print test "\t" words; test = words = "" }
        /^(not )?ok - / {
            done()
            if (/^ok/) { if (!/ # SKIP /) passed++; next }
            test = $0
            sub(/^not ok - /, "", test)
            how = test
            sub(/ .*/, "", test)
            sub(/::/, "/", test)
            sub(/^[^ ]* */, "", how)
            words = how ~ /timed out|signal/ ? how : ""
            next
        }
        test != "" && words == "" && /Assertion failed: / { words = $0; sub(/.*Assertion failed: */, "", words); next }
        test != "" && words == "" && /^ {6}[^ ]/ { words = $0; sub(/^ */, "", words) }
        END { done(); print passed + 0 >"/dev/stderr" }' "$work/tap" 2>"$work/passed" >"$work/failed"
    grep -E '^skipped: ' "$work/output" >>"$work/skipped"
}

passed=0 failed=0
: >"$work/skipped"
require() { # NUMBER WHAT
    echo "outside: FAILED: requirement $1: $2"
    sed 's/^[^	]*	/    seen: /' "$work/failed" | head -n 3
    failed=$((failed + 1))
}

sum_up() {
    # A line for each reason, with how many tests.
    sed 's/^skipped: [^:]*: //' "$work/skipped" | sort | uniq -c | sort -rn |
        sed -E 's/^ *([0-9]+) (.*)/skipped: \1 tests: \2/; s/^skipped: 1 tests/skipped: 1 test/'
    skipped=$(wc -l <"$work/skipped")
    echo "$passed passed, $failed failed, $((skipped)) skipped"
    [ "$failed" -eq 0 ]
    exit
}

if [ -z "${CRITERION_TEST_PATTERN:-}" ]; then
    echo 'what all tests depend on:'
    echo "  1. started with --port 0, it prints a first line such as \`$name: echo on 127.0.0.1:40123\`, and flushes it"
    echo '  2. it sends each line back, byte for byte'
    echo '  3. at SIGTERM it ends in order, and exits with 0'
    run "$1" startup/ready_line
    if [ -s "$work/failed" ]; then
        if grep -q 'should exit with 0; it was killed by signal 15' "$work/failed"; then
            require 3 'at SIGTERM it has to exit with 0. SIGTERM ends it; the tests below go on without that'
            export GRADED_ENDS_BY_SIGNAL=1
        elif grep -q 'first line on standard output' "$work/failed"; then
            require 1 'it does not print where it listens'
            sum_up
        elif grep -q 'should exit with 0\|still runs' "$work/failed"; then
            require 3 'at SIGTERM it has to exit with 0, within the time of a test'
            sum_up
        else
            require 2 'it does not send back the first line that it gets'
            sum_up
        fi
    fi
fi

for suite; do
    run "$suite" "${CRITERION_TEST_PATTERN:-$GRADED_TESTS}"
    passed=$((passed + $(cat "$work/passed"))) failed=$((failed + $(wc -l <"$work/failed")))
    cat "$work/failed" >>"$work/all"
    if [ $status -ne 0 ] && [ ! -s "$work/failed" ]; then
        echo "outside: FAILED: ${suite##*/}: exit status $status"
        failed=$((failed + 1))
        tail -n 20 "$work/output"
    fi
done

# Alike is what differs in numbers, in places of the tests and in what was sent only.
touch "$work/all"
awk -F '\t' '
    {
        cause = $2
        sub(/^tests\/[^ ]*: /, "", cause)
        kind = cause
        gsub(/"[^"]*"|`[^`]*`|[0-9]+/, "#", kind)
        if (!(kind in count)) { first[kind] = cause; order[++kinds] = kind }
        count[kind]++
        tests[kind] = tests[kind] (count[kind] > 1 ? ", " : "") $1
    }
    END {
        while (kinds > 0) {
            best = 1
            for (i = 2; i <= kinds; i++)
                if (count[order[i]] > count[order[best]]) best = i
            kind = order[best]
            print "\noutside: FAILED: " count[kind] (count[kind] > 1 ? " tests, alike: " : " test: ") first[kind]
            print "    " tests[kind]
            order[best] = order[kinds--]
        }
    }' "$work/all"
echo
sum_up
