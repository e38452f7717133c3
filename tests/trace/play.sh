#!/bin/sh
# Has a server record itself while the clients of scenario.c talk to it.
#
#   usage: [SCENE=knock] tests/trace/play.sh SCENARIO SERVER TRACE.json [SERVER_OPTION...]
set -u

scenario=$1 server=$2 trace=$3
shift 3

work=$(mktemp -d "${TMPDIR:-/tmp}/play.XXXXXX") || exit 2
trap 'rm -rf "$work"' EXIT
trap 'exit 130' INT TERM
mkfifo "$work/out"

# One message in a thousand, which is the first one, blocks its thread: something to see. A server that
# does not come to its end is ended. In the foreground, timeout hands a signal on once and not twice.
timeout --foreground -k 10 60 "$server" --port 0 --block-ms 12 --cost-every 1000 --trace "$trace" "$@" >"$work/out" &
pid=$!
read -r line <"$work/out" || line=
port=${line##*:}
status=0
case $port in
'' | *[!0-9]*)
    echo "play: $server does not serve"
    status=1
    ;;
*) "$scenario" "$port" ${SCENE:+"$SCENE"} || status=1 ;;
esac
kill -TERM $pid 2>/dev/null
wait $pid || status=1
exit $status
