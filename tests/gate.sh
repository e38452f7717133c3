#!/bin/sh
# Runs one Criterion binary and fails for everything that Criterion 2.4 lets pass.
#
#   usage: [BUDGET=seconds] tests/gate.sh BINARY [criterion options]
#
# Why: Criterion forgets what a test's process does after the body of the test has returned, so
# leaks, and the reports of servers that a test started, leave its exit status at 0. It is also
# content when no test ran at all. Here each of these is fatal:
#
#   96  Criterion itself complained, for instance of a crash while a test was torn down
#   97  no test ran (unless CRITERION_TEST_PATTERN chose among them)
#   98  a sanitizer wrote a report, in a test or in a program that a test started
#   99  what a program under a sanitizer exits with after its report
#  124  the tests took longer than BUDGET seconds (137 if they had to be killed)
#
# Any other status is Criterion's own. With SANITIZER set, address randomisation is switched off
# where that is possible: on kernels that randomise many bits, sanitized programs do not start
# reliably otherwise. timeout keeps the tests in the foreground because Criterion makes a process
# group of its own, which Ctrl-C would miss.
#
# Most tests wait more than they work, so there are more of them at a time than processors.
#
# A test whose own .timeout is shorter than its suite's leaks in Criterion's runner, which is
# reported like any other leak under SANITIZER=address. Give it a suite of its own instead.
set -u

work=$(mktemp -d "${TMPDIR:-/tmp}/gate.XXXXXX") || exit 2
trap 'rm -rf "$work"' EXIT
trap 'exit 130' INT TERM

export CRITERION_JOBS="${CRITERION_JOBS:-$((2 * $(getconf _NPROCESSORS_ONLN)))}"

fixed=
if [ -n "${SANITIZER:-}" ] && setarch -R true 2>/dev/null; then
    fixed='setarch -R'
fi

common="log_path=$work/report:exitcode=99"
export ASAN_OPTIONS="$common:detect_leaks=1:${ASAN_OPTIONS:-}"
export UBSAN_OPTIONS="$common:print_stacktrace=1:halt_on_error=1:${UBSAN_OPTIONS:-}"
export TSAN_OPTIONS="$common:halt_on_error=1:second_deadlock_stack=1:${TSAN_OPTIONS:-}"
unset CRITERION_ALWAYS_SUCCEED

{
    # shellcheck disable=SC2086 # $fixed is two words or none
    timeout --foreground -k 5 "${BUDGET:-300}" $fixed "$@"
    echo $? >"$work/status"
} 2>&1 </dev/null | tee "$work/output"
status=$(cat "$work/status")

fail() { # STATUS MESSAGE
    echo "gate: $2"
    [ "$status" -ne 0 ] || status=$1
}

[ "$status" -ne 124 ] || echo "gate: stopped after ${BUDGET:-300} seconds"
for report in "$work"/report.*; do
    [ -s "$report" ] || continue
    head -c 20000 "$report"
    fail 98 "a sanitizer's report, see above"
done
if [ -z "${CRITERION_TEST_PATTERN:-}" ] &&
    ! grep -aq 'Synthesis: Tested: [1-9]' "$work/output"; then
    fail 97 'no test ran'
fi
if grep -aq '^\[ERR \]\|Warning! The test' "$work/output"; then
    fail 96 'Criterion complained, see above'
fi
exit "$status"
