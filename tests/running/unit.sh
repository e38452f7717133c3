#!/bin/sh
# Checks the service manager's unit that docs/running.md shows, as somebody would install it.
#
#   usage: tests/running/unit.sh SERVER
#
# systemd-analyze has no complaint about it, and the server takes its options. Without systemd-analyze the check is skipped,
# and counted.
set -u

if ! command -v systemd-analyze >/dev/null; then
    echo 'skipped: unit/is_one_that_systemd_takes: systemd-analyze is not installed (package systemd)'
    echo '0 passed, 0 failed, 1 skipped'
    exit 0
fi

work=$(mktemp -d "${TMPDIR:-/tmp}/unit.XXXXXX") || exit 2
trap 'rm -rf "$work"' EXIT
passed=0 failed=0

# Each file begins with a line `# NAME`; its program is the one that was built.
awk -v work="$work" -v server="$(realpath "$1")" '
    /^# lines\.(socket|service)$/ { file = work "/" $2 }
    /^```/ { file = "" }
    file != "" { sub(/\/usr\/local\/bin\/stage5-multireactor/, server); print >file }' docs/running.md

expect() { # WHAT COMMAND...
    what=$1
    shift
    if "$@" >"$work/said" 2>&1 && [ ! -s "$work/said" ]; then
        passed=$((passed + 1))
    else
        failed=$((failed + 1))
        echo "unit: FAILED: unit/$what: $(cat "$work/said")"
    fi
}

# It also says what it finds in the machine's own units, which is none of ours.
# shellcheck disable=SC2016 # for that shell
expect is_one_that_systemd_takes sh -c '! systemd-analyze verify "$1/lines.socket" "$1/lines.service" 2>&1 |
    grep -F "lines."' sh "$work"
# shellcheck disable=SC2016 # for that shell
expect has_options_that_the_server_takes sh -c '"$1" --help >/dev/null &&
    $(sed -n "s/^ExecStart=//p" "$2") --help >/dev/null' sh "$1" "$work/lines.service"
echo "$passed passed, $failed failed"
[ $failed -eq 0 ]
