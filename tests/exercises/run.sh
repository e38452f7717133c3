#!/bin/sh
# Shows that the tests of the exercises are worth something: each fails before the exercise has been
# done, and passes with its solution, solutions/stage2-small.patch for example.
#
# Two exercises are done in another way: the medium one of stage 1, a server of one's own, and the
# large one of stage 2, its lab. tests/lab.sh has a server and a solution for them.
#
#   usage: [BUILD=folder] tests/exercises/run.sh      (`make test-exercises` calls this)
#
# A patch is put on a copy of the tree and taken off again. One that does not fit any more has to be
# mended. Prints what failed, and "N passed, N failed" at the end.
set -u
cd "$(dirname "$0")/../.." || exit 2
unset MAKEFLAGS MAKELEVEL MFLAGS

BUILD=${BUILD:-build}
suite=$(cd "$BUILD" && pwd)/tests/exercises
work=$(mktemp -d "${TMPDIR:-/tmp}/exercises.XXXXXX") || exit 2
trap 'rm -rf "$work"' EXIT
trap 'exit 130' INT TERM

passed=0 failed=0
pass() {
    passed=$((passed + 1))
}

fail() { # WHAT
    failed=$((failed + 1))
    echo "exercises: FAILED: $1"
}

# The tests of a stage, of one size or of all.
run() { # SERVER NUMBER SIZE
    SERVER=$1 CRITERION_TEST_PATTERN="exercise_stage$2/$3*" CRITERION_VERBOSITY_LEVEL=1 \
        "$suite" 2>&1
}

# ---- before -----------------------------------------------------------------------------------------

# What fails by waiting in vain need not wait for long.
export TEST_DEADLINE_MS=2000
for stage in stage[1-5]-*; do
    number=${stage#stage}
    number=${number%%-*}
    [ -e "tests/exercises/stage$number.c" ] || continue
    run "$BUILD/$stage" "$number" '' >"$work/output"
    sed -n "s/^Test(exercise_stage$number, \([a-z_0-9]*\))/\1/p" "tests/exercises/stage$number.c" |
        while read -r test; do
            grep -q "^\[FAIL\] exercise_stage$number::$test:" "$work/output" ||
                echo "stage $number: $test passes, and nobody has done the exercise"
        done >"$work/passing"
    if [ -s "$work/passing" ]; then
        fail "$(cat "$work/passing")"
    else
        pass
    fi
    for size in small medium large; do
        if grep -q "^Test(exercise_stage$number, ${size}_" "tests/exercises/stage$number.c" &&
            [ ! -e "tests/exercises/solutions/stage$number-$size.patch" ]; then
            fail "stage $number: the $size exercise has tests, and no solution"
        fi
    done
done
unset TEST_DEADLINE_MS

# ---- after ------------------------------------------------------------------------------------------

mkdir "$work/tree"
cp -R Makefile common stage[1-5]-* "$work/tree"
mkdir "$work/tree/tests"
cp tests/*.sh "$work/tree/tests"
solutions=$PWD/tests/exercises/solutions
cd "$work/tree" || exit 2
for solution in "$solutions"/*.patch; do
    name=$(basename "$solution" .patch)
    stage=$(echo "${name%-*}"-*)
    if ! git apply -C1 "$solution" 2>"$work/output"; then
        fail "$name.patch does not fit: $(cat "$work/output")"
    elif ! make --no-print-directory -j2 "build/$stage" >"$work/output" 2>&1; then
        fail "$name.patch does not build: $(tail -20 "$work/output")"
    elif ! run "build/$stage" "$(echo "$name" | tr -dc 0-9)" "${name#*-}" >"$work/output" ||
        ! grep -q 'Passing: [1-9]' "$work/output"; then
        fail "$name: the solution does not pass: $(tail -20 "$work/output")"
    else
        pass
    fi
    git apply -C1 -R "$solution" 2>/dev/null
done

echo "$passed passed, $failed failed"
[ "$failed" -eq 0 ] && [ "$passed" -gt 0 ]
