#!/bin/sh
# Goes through the labs as a reader would who knows the answers: lays each out, grades what is in it
# at the beginning, and then goes from step to step.
#
#   usage: [BUILD=folder] tests/lab.sh [STAGE]      (all stages that have steps, if none is named)
#
# - `make lab` lays out what builds and runs, and leaves a lab alone that is there already.
# - At the beginning and after each step whose state is known, the tests that the steps name are what
#   the steps say: one that "Turns green:" in a step is red in each state before it, and green after
#   it; one that is "Green again:" is red right before the step, and was green at the beginning; one
#   that "Stays green:" is green before and after.
# - The solution passes all tests there are.
# - So does a server that shares nothing with the repository's, stage 2 in Python (labs/server.py).
#
# The first state is the server of the stage before, the last one the solution. Between them,
# labs/stage3-step1.patch makes of the first what it is after step 1, and labs/stage3-without6.patch
# takes step 6 out of the solution; without5 goes on from there. Where a patch is missing the steps
# around it are one. A patch that does not fit any more has to be mended.
#
# Prints what failed, and "N passed, N failed" at the end.
# shellcheck disable=SC2016,SC2034 # the conditions are evaluated in check(), which reads variables
set -u
cd "$(dirname "$0")/.." || exit 2
unset MAKEFLAGS MAKELEVEL MFLAGS

BUILD=${BUILD:-build}
work=$(mktemp -d "${TMPDIR:-/tmp}/lab.XXXXXX") || exit 2
trap 'rm -rf "$work"' EXIT
trap 'exit 130' INT TERM

passed=0 failed=0
check() { # WHAT CONDITION: the condition is a command line; $out is what was printed
    if eval "$2"; then
        passed=$((passed + 1))
    else
        failed=$((failed + 1))
        printf 'labs: FAILED: stage %s: %s\n%s\n' "$number" "$1" \
            "$(printf '%s\n' "$out" | tail -30 | sed 's/^/    /')"
    fi
}

run() {
    out=$("$@" 2>&1 </dev/null)
    status=$?
}

says() { # PATTERN
    printf '%s\n' "$out" | grep -q -- "$1"
}

# What the tests that the steps name are to be after a step: lines of "green TEST" and "red TEST".
# Nothing is said of one that some step has lost and a later one brings back.
expected() { # STEP STEPS
    awk -v state="$1" '
        /^## Step [0-9]+/ { step = $3 + 0 }
        /^(Turns green|Green again|Stays green):/ { word = $1 }
        /^$/ { word = "" }
        word != "" {
            for (rest = $0; match(rest, /`[a-z0-9_]+\/[a-z0-9_]+`/); ) {
                test = substr(rest, RSTART + 1, RLENGTH - 2)
                rest = substr(rest, RSTART + RLENGTH)
                if (!(test in last)) {
                    tests[++count] = test
                    turns[test] = word == "Turns" ? step : 0
                }
                last[test] = step
                named[test, step]
                if (word == "Stays" && step > 0)
                    named[test, step - 1]
                if (word == "Green")
                    lost[test, step - 1]
            }
        }
        END {
            for (i = 1; i <= count; i++) {
                test = tests[i]
                if (state < turns[test] || (test, state) in lost)
                    print "red " test
                else if (state == 0 || state >= last[test] || (test, state) in named)
                    print "green " test
            }
        }' "$2"
}

grade() { # PATTERN: of tests, all if it is empty
    run env CRITERION_TEST_PATTERN="$1" make --no-print-directory -C "$lab" BUILD="$BUILD" test
}

pattern() { # TEST...
    printf '%s' "$*" | sed 's/ /|/g; s/.*/@(&)/'
}

# The tests that failed, or crashed, as suite/test. One with parameters is there once for each.
failures() {
    printf '%s\n' "$out" | sed -n 's/^\[FAIL\] \([a-z0-9_]*\)::\([a-z0-9_]*\).*/\1\/\2/p' | sort -u
}

# Grades what is in the lab by the tests that are named: as they are to be after a step.
check_state() { # STEP
    green=$(expected "$1" "$steps" | sed -n 's/^green //p')
    red=$(expected "$1" "$steps" | sed -n 's/^red //p')
    if [ -n "$red" ]; then
        # What fails by waiting in vain need not wait for long.
        export TEST_DEADLINE_MS=2000
        # shellcheck disable=SC2086 # words
        grade "$(pattern $red)"
        unset TEST_DEADLINE_MS
        out_of_red=$out
        for test in $red; do
            out=$out_of_red
            check "after step $1 $test fails" 'failures | grep -qx "$test"'
        done
    fi
    # shellcheck disable=SC2086 # words
    grade "$(pattern $green)"
    check "after step $1 what is green by then passes" '[ $status -eq 0 ] && says "Passing: [1-9]"'
}

# Puts the sources of a stage into the lab, and a patch over them if one is named.
fill() { # STAGE
    rm "$lab"/*.[ch]
    cp "$1"/*.[ch] "$lab"
    sed 's/^#define STAGE_NAME .*/#define STAGE_NAME "server"/' "$1/main.c" >"$lab/main.c"
}

change() { # PATCH
    run git -C "$lab" apply -C1 -p2 "$1"
    check "$(basename "$1") fits" '[ $status -eq 0 ]'
}

for steps in docs/labs/stage[2-5].md; do
    number=${steps#docs/labs/stage}
    number=${number%.md}
    stage=$(echo stage"$number"-*)
    previous=$(echo stage$((number - 1))-*)
    if [ ! -e "$stage/main.c" ] || [ "${1:-$number}" != "$number" ]; then
        continue
    fi
    lab=$work/lab/stage$number
    last=$(sed -n 's/^## Step \([0-9]*\).*/\1/p' "$steps" | tail -1)

    run make --no-print-directory lab STAGE="$number" LAB="$work/lab"
    check 'make lab lays it out' '[ $status -eq 0 ] && [ -e "$lab/README.md" ]'
    run make --no-print-directory lab STAGE="$number" LAB="$work/lab"
    check 'a lab that is there is left alone' '[ $status -ne 0 ] && says "is there already"'
    run make --no-print-directory -C "$lab" BUILD="$BUILD"
    check 'what it begins with builds' '[ $status -eq 0 ] && ! says "warning:"'
    run "$lab/server" --version
    check 'its server runs under its own name' '[ $status -eq 0 ] && says "^server "'
    check_state 0
    states=0
    if [ -e "tests/labs/stage$number-step1.patch" ]; then
        change "$PWD/tests/labs/stage$number-step1.patch"
        check_state 1
        states="$states 1"
    fi

    fill "$stage"
    grade ''
    check 'the solution passes everything' '[ $status -eq 0 ]'
    after=
    step=$last
    while [ "$step" -gt 1 ]; do
        if [ -e "tests/labs/stage$number-without$step.patch" ]; then
            change "$PWD/tests/labs/stage$number-without$step.patch"
            check_state $((step - 1))
            after="$((step - 1)) $after"
        fi
        step=$((step - 1))
    done
    echo "$stage: of $last steps, after $states $after$last"
done

number=2
if [ "${1:-2}" = 2 ] && command -v python3 >/dev/null; then
    echo 'stage 2, in another language'
    run make --no-print-directory BUILD="$BUILD" test-stage2 SERVER=tests/labs/server.py
    check 'a server in another language passes everything' '[ $status -eq 0 ]'
fi

echo "$passed passed, $failed failed"
[ "$failed" -eq 0 ] && [ "$passed" -gt 0 ]
