#!/bin/sh
# Runs one Criterion binary and fails for everything that Criterion 2.4 lets pass.
#
#   usage: [BUDGET=seconds] tests/gate.sh BINARY [criterion options]
#
# Why: Criterion forgets what a test's process does after the body of the test has returned, so
# leaks, and the reports of servers that a test started, leave its exit status at 0. It is also
# content when no test ran at all. Here each of these is fatal:
#
#   95  a test passes that is marked as expected to fail
#   96  Criterion itself complained, for instance of a crash while a test was torn down
#   97  no test ran and none was skipped (unless CRITERION_TEST_PATTERN chose among them), or Criterion
#       ended before it summed up
#   98  a sanitizer wrote a report, in a test or in a program that a test started
#   99  what a program under a sanitizer exits with after its report
#  124  the tests took longer than BUDGET seconds (137 if they had to be killed)
#
# Any other status is Criterion's own. With SANITIZER set, address randomisation is switched off
# where that is possible: on kernels that randomise many bits, sanitized programs do not start
# reliably otherwise. timeout keeps the tests in the foreground because Criterion makes a process
# group of its own, which Ctrl-C would miss.
#
# Criterion does not say which tests were skipped, so this reads it in a report that Criterion writes
# to a file, and prints "skipped: SUITE/TEST: REASON" for each.
#
# A test whose name begins with red_ shows a fault that is known and not mended yet, so it is expected
# to fail: by an assertion whose message begins with "red: ", which stands for the fault itself. The
# gate prints "expected to fail: SUITE/TEST: MESSAGE" for it, and its failure is not the suite's. Any
# other failure of it, a crash, a timeout or another assertion, is one like that of any test. When it
# passes the fault is mended, and the suite fails until somebody takes the mark off.
#
# ThreadSanitizer marks its shadow as not to be dumped (and has no core dumped anyway). What it renews has no such
# mark, so that Criterion's runner would have some mappings more after each test, all of which each fork copies.
#
# Most tests wait more than they work, so eight of them run at a time for each processor, but no more than
# 32, because then the longest test decides. Under a sanitizer they work more.
#
# A test whose .timeout is shorter than that of others in the same binary leaks in Criterion's runner,
# which is reported like any other leak under SANITIZER=address. All suites of a binary have the same.
set -u

work=$(mktemp -d "${TMPDIR:-/tmp}/gate.XXXXXX") || exit 2
trap 'rm -rf "$work"' EXIT
trap 'exit 130' INT TERM

processors=$(getconf _NPROCESSORS_ONLN)
if [ -n "${SANITIZER:-}" ]; then jobs=$((2 * processors)); else jobs=$((8 * processors)); fi
export CRITERION_JOBS="${CRITERION_JOBS:-$((jobs < 32 ? jobs : 32))}"

fixed=
if [ -n "${SANITIZER:-}" ] && setarch -R true 2>/dev/null; then
    fixed='setarch -R'
fi

common="log_path=$work/report:exitcode=99"
export ASAN_OPTIONS="$common:detect_leaks=1:${ASAN_OPTIONS:-}"
export UBSAN_OPTIONS="$common:print_stacktrace=1:halt_on_error=1:${UBSAN_OPTIONS:-}"
export TSAN_OPTIONS="$common:halt_on_error=1:second_deadlock_stack=1:use_madv_dontdump=0:${TSAN_OPTIONS:-}"
unset CRITERION_ALWAYS_SUCCEED

{
    # shellcheck disable=SC2086 # $fixed is two words or none
    timeout --foreground -k 5 "${BUDGET:-600}" $fixed "$@" --tap="$work/tap"
    echo $? >"$work/status"
} 2>&1 </dev/null | tee "$work/output"
status=$(cat "$work/status")

# "expected to fail: SUITE/TEST: MESSAGE", "passes: SUITE/TEST", and "failures N", of all tests.
[ -e "$work/tap" ] || : >"$work/tap"
awk '
    function judge() {
        if (red == "") return
        if (said != "") print "expected to fail: " red ": " said
        red = said = ""
    }
    /^(not )?ok - / {
        judge()
        test = $0
        sub(/^(not )?ok - /, "", test)
        sub(/ .*/, "", test)
        sub(/::/, "/", test)
        marked = test ~ /\/red_/
        if (/^not ok/) failures++
        if (marked && /^not ok/ && !/ (timed out|unexpected signal)/) red = test
        if (marked && /^ok/ && !/ # SKIP /) print "passes: " test
    }
    red != "" && said == "" && /Assertion failed: red: / { said = $0; sub(/.*: red: /, "", said) }
    END { judge(); print "failures " failures + 0 }' "$work/tap" >"$work/red"
grep '^expected to fail: ' "$work/red"
expected=$(grep -c '^expected to fail: ' "$work/red")
if [ "$status" -eq 1 ] && [ "$expected" -gt 0 ] && grep -qx "failures $expected" "$work/red"; then
    status=0 # nothing else has failed
fi

fail() { # STATUS MESSAGE
    echo "gate: $2"
    [ "$status" -ne 0 ] || status=$1
}

# shellcheck disable=SC2013 # there is no blank in a test's name
for test in $(sed -n 's/^passes: //p' "$work/red"); do
    fail 95 "$test passes and is marked as expected to fail: take the mark off"
done
[ "$status" -ne 124 ] || echo "gate: stopped after ${BUDGET:-600} seconds"
for report in "$work"/report.*; do
    [ -s "$report" ] || continue
    head -c 20000 "$report"
    fail 98 "a sanitizer's report, see above"
done
# "test was skipped" stands behind those that CRITERION_TEST_PATTERN left out, and "for `make ...`"
# behind those that another command is for. Neither is missing here.
sed -n 's/^ok - \([^ :]*\)::\([^ ]*\) .*# SKIP \(.*\)/skipped: \1\/\2: \3/p' "$work/tap" 2>/dev/null |
    grep -v -e ': test was skipped$' -e ': for `make ' >"$work/skipped"
cat "$work/skipped"
if ! grep -aq 'Synthesis: Tested: ' "$work/output"; then
    [ "$status" -eq 124 ] || fail 97 "Criterion ended with $status before it summed up: without /proc it starts no test"
elif [ -z "${CRITERION_TEST_PATTERN:-}" ] && [ ! -s "$work/skipped" ] &&
    ! grep -aq 'Synthesis: Tested: [1-9]' "$work/output"; then
    fail 97 'no test ran'
fi
if grep -aq '^\[ERR \]\|Warning! The test' "$work/output"; then
    fail 96 'Criterion complained, see above'
fi
exit "$status"
