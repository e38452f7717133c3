#!/bin/sh
# Runs a suite of stage 2 with the server on a ring, or says why it cannot run here.
#
#   usage: SERVER=path tests/proactor.sh SUITE
#
# A kernel without such a ring, or a sandbox that forbids it, is no fault of the server, so all of it
# is skipped then, and counted once.
set -u

skip() {
    echo "skipped: proactor: $1"
    echo '0 passed, 0 failed, 1 skipped'
    exit 0
}

[ -n "$SERVER" ] || skip 'the headers of this system know no io_uring with buffers'

# It says on its first line where it listens, or else why it does not start.
work=$(mktemp -d "${TMPDIR:-/tmp}/proactor.XXXXXX") || exit 2
trap 'rm -rf "$work"' EXIT
mkfifo "$work/out" || exit 2
"$SERVER" --port 0 >"$work/out" 2>"$work/error" &
server=$!
read -r ready <"$work/out" || ready=
kill "$server" 2>/dev/null
wait "$server"
error=$(cat "$work/error")
rm -rf "$work"
case $ready$error in
*'cannot open a ring: '*) skip "${error##*reason=}" ;;
esac

export SERVER
exec tests/gate.sh "$1"
