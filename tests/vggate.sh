#!/bin/sh
# Runs a Criterion binary under valgrind and fails if valgrind found anything.
#
#   usage: [BUDGET=seconds] tests/vggate.sh memcheck|helgrind|drd BINARY [SUITE...]
#
# Why: valgrind's --error-exitcode is lost inside Criterion's processes, as tests/gate.sh tells, so
# the errors are counted in the logs. A test takes about a second here, most of it to start, and
# Criterion runs only one at a time under valgrind; so the suites run side by side, each by itself.
#
# Tests that are expected to fail (tests/gate.sh) are left out: many of them measure. Without a SUITE
# all of them run but no_memory: it takes away the memory that valgrind needs.
set -u

if [ "$1" != --one ]; then
    tool=$1 binary=$2
    shift 2
    if [ $# -eq 0 ]; then
        # shellcheck disable=SC2046 # one word for each suite
        set -- $("$binary" --list | sed -n 's/^\([a-z_0-9]*\): .*/\1/p' | grep -vx no_memory)
    fi
    printf '%s\n' "$@" |
        xargs -n 1 -P "$(getconf _NPROCESSORS_ONLN)" "$0" --one "$tool" "$binary"
    exit
fi

tool=$2 binary=$3 suite=$4
here=$(cd "$(dirname "$0")" && pwd)
work=$(mktemp -d "${TMPDIR:-/tmp}/vggate.XXXXXX") || exit 2
trap 'rm -rf "$work"' EXIT
trap 'exit 130' INT TERM

leaks=
if [ "$tool" = memcheck ]; then
    leaks='--leak-check=full --show-leak-kinds=definite --errors-for-leak-kinds=definite'
fi

# shellcheck disable=SC2086 # $leaks is several words or none
timeout --foreground -k 5 "${BUDGET:-600}" \
    valgrind --tool="$tool" --trace-children=yes $leaks \
    --suppressions="$here/valgrind.supp" --log-file="$work/log.%p" \
    "$binary" --filter "$suite/!(red_*)" >"$work/output" 2>&1 </dev/null
status=$?
sed "s/Synthesis:/$suite: &/" "$work/output"

fail() { # STATUS MESSAGE
    echo "vggate: $suite: $2"
    [ "$status" -ne 0 ] || status=$1
}

for log in "$work"/log.*; do
    grep -q 'ERROR SUMMARY: [1-9]' "$log" || continue
    head -c 20000 "$log"
    fail 98 "$tool found errors, see above"
done
grep -aq 'Synthesis: Tested: [1-9]' "$work/output" || fail 97 'no test ran'
exit "$status"
