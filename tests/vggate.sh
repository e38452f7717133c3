#!/bin/sh
# Runs one Criterion binary under valgrind and fails if valgrind found anything.
#
#   usage: [BUDGET=seconds] tests/vggate.sh memcheck|helgrind|drd BINARY [criterion options]
#
# Why: valgrind's --error-exitcode is lost inside Criterion's processes, as in gate.sh, so the
# errors are counted in the logs. About 0.7 seconds a test, so choose the tests:
# --filter 'suite/*'. A test's own time limit has to be 20 seconds or more here.
set -u

tool=$1
shift
here=$(cd "$(dirname "$0")" && pwd)
work=$(mktemp -d "${TMPDIR:-/tmp}/vggate.XXXXXX") || exit 2
trap 'rm -rf "$work"' EXIT
trap 'exit 130' INT TERM

leaks=
if [ "$tool" = memcheck ]; then
    leaks='--leak-check=full --show-leak-kinds=definite --errors-for-leak-kinds=definite'
fi

{
    # shellcheck disable=SC2086 # $leaks is several words or none
    timeout --foreground -k 5 "${BUDGET:-600}" \
        valgrind --tool="$tool" --trace-children=yes $leaks \
        --suppressions="$here/valgrind.supp" --log-file="$work/log.%p" "$@"
    echo $? >"$work/status"
} 2>&1 </dev/null | tee "$work/output"
status=$(cat "$work/status")

fail() { # STATUS MESSAGE
    echo "vggate: $2"
    [ "$status" -ne 0 ] || status=$1
}

for log in "$work"/log.*; do
    grep -q 'ERROR SUMMARY: [1-9]' "$log" || continue
    head -c 20000 "$log"
    fail 98 "$tool found errors, see above"
done
grep -aq 'Synthesis: Tested: [1-9]' "$work/output" || fail 97 'no test ran'
exit "$status"
