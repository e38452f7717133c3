#!/bin/sh
# Shows that the conformance suite can fail: plants each fault of the faulty server in turn, runs the tests
# that its table names, and demands that every one of them fails. Without a fault all tests have to pass.
#
#   FAULTY_SERVER=build/tests/faulty-server CONFORMANCE=build/tests/conformance tests/faulty/run.sh [FAULT...]
#
# One line for each fault, and how many were caught. Exit status 0 if every one was. Faults are tried JOBS at
# a time (8): nearly all of the time is spent waiting for what does not come, and for that reason waits are
# cut to DEADLINE_MS (1500) while a fault is planted.
set -u

: "${FAULTY_SERVER:?the path of the faulty server}" "${CONFORMANCE:?the path of the conformance suite}"
SERVER=$FAULTY_SERVER
export SERVER FAULTY_SERVER CONFORMANCE
DEADLINE_MS=${DEADLINE_MS:-1500}
export DEADLINE_MS

# One fault: run.sh --fault NAME "suite/test suite/test"
if [ "${1-}" = --fault ]; then
    name=$2
    log=$(mktemp) || exit 1
    trap 'rm -f "$log"' EXIT
    FAULT=$name TEST_DEADLINE_MS=$DEADLINE_MS timeout -k 5 60 \
        "$CONFORMANCE" --filter "@($(echo "$3" | tr ' ' '|'))" >"$log" 2>&1
    missed=
    for test in $3; do
        grep -aq "^\[FAIL\] ${test%%/*}::${test#*/}: " "$log" || missed="$missed $test"
    done
    if [ -z "$missed" ]; then
        printf 'caught  %-32s %s\n' "$name" "$3"
        exit 0
    fi
    printf 'MISSED  %-32s passed, or did not run:%s\n' "$name" "$missed"
    sed 's/^/        | /' "$log" | tail -n 20
    exit 1
fi

# Tab between name and tests; what is asked for, or all.
faults() {
    for fault in "$@"; do
        "$FAULTY_SERVER" --list-faults | awk -F '\t' -v name="$fault" '$1 == name { print $1 "\t" $2 }'
    done
    [ $# -gt 0 ] || "$FAULTY_SERVER" --list-faults | awk -F '\t' '{ print $1 "\t" $2 }'
}

unset FAULT
list=$(faults "$@")
count=$(printf '%s\n' "$list" | grep -c .)
if [ "$count" -eq 0 ] || { [ $# -gt 0 ] && [ "$count" -ne $# ]; }; then
    echo "no such fault; $FAULTY_SERVER --list-faults lists them" >&2
    exit 2
fi

report=$(mktemp) || exit 1
trap 'rm -f "$report"' EXIT
status=0 passes=0 fails=0
if [ $# -eq 0 ]; then
    # It has one thread, so a stop of it is not bounded while that hangs.
    if "$CONFORMANCE" --filter '!(*/red_*|shutdown/case_39_a_log_that_nobody_reads_*)' >"$report" 2>&1; then
        printf 'passes  %-32s %s\n' 'without a fault' \
            "$(grep -a 'Synthesis: Tested: [1-9]' "$report" | tr -s ' ' | cut -d ' ' -f 2-4)"
        passes=1
    else
        printf 'FAILS   %-32s\n' 'without a fault'
        cat "$report"
        status=1 fails=1
    fi
fi

printf '%s\n' "$list" | awk -F '\t' '{ printf "%s%c%s%c", $1, 0, $2, 0 }' |
    xargs -0 -n 2 -P "${JOBS:-8}" "$0" --fault >"$report" || status=1
cat "$report"
caught=$(grep -c '^caught' "$report")
echo "$((caught + passes)) passed, $((count - caught + fails)) failed"
exit $status
