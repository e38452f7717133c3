#!/bin/sh
# Goes through the labs as a reader would who knows the answers: lays each out, grades what is in it
# at the beginning, puts the solution into it, and grades that.
#
#   usage: [BUILD=folder] tests/lab.sh [STAGE]      (all stages that have steps, if none is named)
#
# - `make lab` lays out what builds and runs, and leaves a lab alone that is there already.
# - What the lab begins with, the server of the stage before, passes none of the tests that a step
#   names behind "Turns green:", and all that one names behind "Stays green:".
# - The solution passes all tests there are.
# - So does a server that shares nothing with the repository's, stage 2 in Python (labs/server.py).
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

# The tests that are named in the steps behind a word, one in each line.
named() { # WORD STEPS
    awk -v word="$1" '
        $0 ~ "^" word { inside = 1 }
        /^$/ { inside = 0 }
        inside' "$2" | grep -oE '`[a-z0-9_]+/[a-z0-9_]+`' | tr -d '`' | sort -u
}

grade() { # PATTERN: of tests, all if it is empty
    run env CRITERION_TEST_PATTERN="$1" CRITERION_VERBOSITY_LEVEL=1 \
        make --no-print-directory -C "$lab" BUILD="$BUILD" test
}

pattern() { # TEST...
    printf '%s' "$*" | sed 's/ /|/g; s/.*/@(&)/'
}

# The tests that failed, or crashed, as suite/test. One with parameters is there once for each.
failures() {
    printf '%s\n' "$out" | sed -n 's/^\[FAIL\] \([a-z0-9_]*\)::\([a-z0-9_]*\).*/\1\/\2/p' | sort -u
}

for steps in docs/labs/stage[2-5].md; do
    number=${steps#docs/labs/stage}
    number=${number%.md}
    stage=$(echo stage"$number"-*)
    if [ ! -e "$stage/main.c" ] || [ "${1:-$number}" != "$number" ]; then
        continue
    fi
    echo "$stage"
    lab=$work/lab/stage$number

    run make --no-print-directory lab STAGE="$number" LAB="$work/lab"
    check 'make lab lays it out' '[ $status -eq 0 ] && [ -e "$lab/README.md" ]'
    run make --no-print-directory lab STAGE="$number" LAB="$work/lab"
    check 'a lab that is there is left alone' '[ $status -ne 0 ] && says "is there already"'
    run make --no-print-directory -C "$lab" BUILD="$BUILD"
    check 'what it begins with builds' '[ $status -eq 0 ] && ! says "warning:"'
    run "$lab/server" --version
    check 'its server runs under its own name' '[ $status -eq 0 ] && says "^server "'

    green=$(named 'Turns green:' "$steps")
    stays=$(named 'Stays green:' "$steps")
    # What fails by waiting in vain need not wait for long.
    export TEST_DEADLINE_MS=3000
    # shellcheck disable=SC2086 # words
    grade "$(pattern $green)"
    unset TEST_DEADLINE_MS
    out_of_green=$out
    check 'the stage before fails' '[ $status -ne 0 ]'
    for test in $green; do
        out=$out_of_green
        check "the stage before fails $test" 'failures | grep -qx "$test"'
    done
    # shellcheck disable=SC2086 # words
    grade "$(pattern $stays)"
    check 'the stage before passes what stays green' '[ $status -eq 0 ] && says "Passing: [1-9]"'

    rm "$lab"/*.[ch]
    cp "$stage"/*.[ch] "$lab"
    sed 's/^#define STAGE_NAME .*/#define STAGE_NAME "server"/' "$stage/main.c" >"$lab/main.c"
    grade ''
    check 'the solution passes everything' '[ $status -eq 0 ]'
    # shellcheck disable=SC2086 # words
    grade "$(pattern $green $stays)"
    check 'the solution passes what the steps name' '[ $status -eq 0 ] && says "Passing: [1-9]"'
done

number=2
if [ "${1:-2}" = 2 ] && command -v python3 >/dev/null; then
    echo 'stage 2, in another language'
    run make --no-print-directory BUILD="$BUILD" test-stage2 SERVER=tests/labs/server.py
    check 'a server in another language passes everything' '[ $status -eq 0 ]'
fi

echo "$passed passed, $failed failed"
[ "$failed" -eq 0 ] && [ "$passed" -gt 0 ]
