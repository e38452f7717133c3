#!/bin/sh
# Has a server record itself while the clients of scenario.c talk to it, and adds what these saw.
#
#   usage: [SCENE=knock] [BEST_OF=N] tests/trace/play.sh SCENARIO SERVER TRACE.json [SERVER_OPTION...]
#
# BEST_OF plays more than once, and keeps the trace in which the clients waited least: what else the machine did
# is no part of the picture.
set -u

scenario=$1 server=$2 trace=$3
shift 3

work=$(mktemp -d "${TMPDIR:-/tmp}/play.XXXXXX") || exit 2
trap 'rm -rf "$work"' EXIT
trap 'exit 130' INT TERM
mkfifo "$work/out"

# One message in a thousand, which is the first one, blocks its thread: something to see. A server that
# does not come to its end is ended. In the foreground, timeout hands a signal on once and not twice.
play() { # SERVER_OPTION...
    timeout --foreground -k 10 60 "$server" --port 0 --block-ms 12 --cost-every 1000 --trace "$work/trace" "$@" >"$work/out" &
    pid=$!
    read -r line <"$work/out" || line=
    port=${line##*:}
    status=0
    case $port in
    '' | *[!0-9]*)
        echo "play: $server does not serve"
        status=1
        ;;
    *) "$scenario" "$port" ${SCENE:+"$SCENE"} >"$work/clients" || status=1 ;;
    esac
    kill -TERM $pid 2>/dev/null
    wait $pid || status=1
    return $status
}

# What the clients saw, by the clock of the server's trace, before the last line but one. Says how many
# nanoseconds they waited.
with_clients() {
    awk -v result="$work/both" '
        FILENAME ~ /clients$/ {
            match($0, /"ts":[0-9]+/)
            before[++clients] = substr($0, 1, RSTART + 4)
            ns[clients] = substr($0, RSTART + 5, RLENGTH - 5)
            behind[clients] = substr($0, RSTART + RLENGTH)
            waited += /"ph":"E"/ ? ns[clients] : -ns[clients]
            next
        }
        match($0, /"begin_ns":[0-9]+/) { begin = substr($0, RSTART + 11, RLENGTH - 11) }
        /"process_name"/ {
            for (i = 1; i <= clients; i++)
                printf "%s%.3f%s\n", before[i], (ns[i] - begin) / 1000, behind[i] >result
        }
        { print >result }
        END { printf "%d\n", waited }' "$work/clients" "$work/trace"
}

least=
for _ in $(seq "${BEST_OF:-1}"); do
    if ! play "$@" || ! waited=$(with_clients); then
        exit 1
    fi
    if [ -z "$least" ] || [ "$waited" -lt "$least" ]; then
        least=$waited
        cp "$work/both" "$trace" || exit 1
    fi
done
