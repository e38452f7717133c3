#!/bin/sh
# Runs test suites one after the other, all of them whatever happens, and sums up.
#
#   usage: tests/run.sh NAME=COMMAND...
#
# Before each it says which of how many suites it is. The suites do not share the machine with each other,
# because some of their tests measure time. A suite is counted by Criterion's "Synthesis" lines or, where it
# prints one, by its own closing line "N passed, N failed", with ", N skipped" if it had to leave something out.
# Each test that is skipped has a line "skipped: TEST: REASON" (tests/gate.sh prints it for Criterion), which is
# repeated in the summary. So is "expected to fail: TEST: REASON", whose test counts neither as passed nor
# as failed. A suite that ends badly has failed at least once, and so has one that neither counts nor skips any
# test. The summary says how many seconds a suite took, and how many of a processor. The last line printed is
# the sum, "N passed, N failed", and ", N skipped" if anything was; the exit status is 0 only if nothing failed.
set -u

work=$(mktemp -d "${TMPDIR:-/tmp}/run.XXXXXX") || exit 2
trap 'rm -rf "$work"' EXIT
trap 'exit 130' INT TERM

# Prints "PASSED FAILED SKIPPED" for the output of one suite.
count() {
    awk '/Synthesis: Tested: / { gsub(/[^0-9]+/, " "); passed += $2; failed += $3 }
         /^[0-9]+ passed, [0-9]+ failed(, [0-9]+ skipped)?$/ { closing = $1 " " $3 " " $5 + 0 }
         /^skipped: / { skipped++ }
         /^expected to fail: / { failed-- }
         END { print closing ? closing : passed + 0 " " failed + 0 " " skipped + 0 }' "$1"
}

# Prints the names of what failed, as far as the output of a suite tells them.
blame() {
    sed -nE -e 's/^\[FAIL\] ([^ ]*): .*/      failed: \1/p' \
        -e 's/^([a-z]+: FAILED:|FAILED|FAILS) +/      failed: /p' -e 's/^gate: /      gate: /p' "$1" | head -n 20
}

all_passed=0 all_failed=0 all_skipped=0 nth=0
for suite; do
    name=${suite%%=*} command=${suite#*=} nth=$((nth + 1))
    printf '== %s (%d of %d)\n' "$name" $nth $#
    started=$(date +%s)
    { sh -c "$command"; echo $? >"$work/status"; times >"$work/times"; } 2>&1 | tee "$work/output"
    read -r status <"$work/status"
    read -r passed failed skipped <<END
$(count "$work/output")
END
    note=
    [ "$skipped" -eq 0 ] || note=", $skipped skipped"
    if [ "$failed" -eq 0 ] && [ "$status" -ne 0 ]; then
        failed=1 note=", exit status $status"
    elif [ $((passed + failed + skipped)) -eq 0 ] && [ -z "${CRITERION_TEST_PATTERN:-}" ]; then
        failed=1 note=', no test ran'
    fi
    printf '   %-22s %4d passed, %d failed, %d s, %d of a processor%s\n' "$name" "$passed" "$failed" \
        $(($(date +%s) - started)) \
        "$(awk -F '[ms ]+' 'END { print int(60 * ($1 + $3) + $2 + $4) }' "$work/times")" "$note" >>"$work/summary"
    [ "$failed" -eq 0 ] || blame "$work/output" >>"$work/summary"
    sed -n 's/^skipped: /      &/p; s/^expected to fail: /      &/p' "$work/output" >>"$work/summary"
    all_passed=$((all_passed + passed)) all_failed=$((all_failed + failed))
    all_skipped=$((all_skipped + skipped))
done

if [ $((all_passed + all_failed + all_skipped)) -eq 0 ]; then
    echo 'run: no test ran'
    all_failed=1
fi
echo '== summary'
[ ! -e "$work/summary" ] || cat "$work/summary"
skips=
[ "$all_skipped" -eq 0 ] || skips=", $all_skipped skipped"
echo "$all_passed passed, $all_failed failed$skips"
[ "$all_failed" -eq 0 ]
