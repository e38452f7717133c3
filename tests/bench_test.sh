#!/bin/sh
# Tests the load generator: that it notices what it should notice, and that its figures are
# plausible where one knows what they have to be.
#
#   usage: BUILD=build tests/bench_test.sh
#
# Prints what failed, what is skipped, and "N passed, N failed, N skipped" at the end.
# shellcheck disable=SC2016,SC2034 # the conditions are evaluated in check(), which reads variables
set -u

tools=$BUILD/tests
server="$BUILD/stage2-single-reactor --port 0"
faulty="$tools/faulty-server --port 0"

passed=0 failed=0 skipped=0
check() { # NAME CONDITION: the condition is a command line; it may look at $out and $status
    if eval "$2"; then
        passed=$((passed + 1))
    else
        failed=$((failed + 1))
        printf 'bench: FAILED: %s\n%s\n' "$1" "$(printf '%s\n' "$out" | sed 's/^/    /' | head -20)"
    fi
}

# The server's command line is split at spaces.
run() { # SERVER OPTION...
    command=$1
    shift
    # shellcheck disable=SC2086
    out=$(timeout 60 "$tools/load" --warm-up 0 --connections 5 --json "$@" -- $command 2>&1)
    status=$?
}

says() { # PATTERN
    printf '%s\n' "$out" | grep -q -- "$1"
}

# The number behind a name, as in: value latency_us p50, or value threads.
value() { # NAME [NAME]
    printf '%s\n' "$out" | sed -n "s/.*\"$1\": ${2:+[^\}]*\"$2\": }\([0-9.]*\).*/\1/p"
}

holds() { # ARITHMETIC
    [ "$(awk "BEGIN { print ($1) ? 1 : 0 }")" = 1 ]
}

# ---- what it notices ----------------------------------------------------------------------------

run "$faulty" --requests 500 --depth 4
check 'a server without a fault passes' '[ $status -eq 0 ] && holds "$(value replies) >= 500"'
for fault in loses-a-byte adds-a-byte swaps-two-replies duplicates-a-reply; do
    run "$faulty --fault $fault" --requests 500 --depth 4 --patience 0.5
    check "a server that $fault is noticed" '[ $status -eq 1 ] && says "byte [0-9]* of reply"'
done
run "$faulty --fault one-line-a-read" --requests 500 --depth 4 --patience 0.5
check 'a missing reply is noticed' '[ $status -eq 1 ] && says "replies are missing"'
run "timeout -s KILL 0.3 $faulty" --duration 30
check 'a server that dies is noticed' '[ $status -eq 1 ] && says "the server was killed by signal 9"'
run false
check 'a server that does not start is noticed' \
    '[ $status -eq 1 ] && says "did not say where it listens; the server has ended with 1"'
run "$BUILD/no-such-server"
check 'a server that is not there is noticed' '[ $status -eq 1 ] && says "cannot run"'
out=$("$tools/load" 2>&1)
status=$?
check 'no server is bad usage' '[ $status -eq 2 ] && says "needs a server"'

# ---- whether its figures are plausible ----------------------------------------------------------

run "$server --work-us 300" --requests 400
check 'CPU time is what the work costs, and little more' \
    'holds "$(value cpu_us_per_reply) >= 300 && $(value cpu_us_per_reply) < 600"'
run "$server --block-ms 20" --requests 20 --connections 1
check 'waiting is no CPU time' 'holds "$(value cpu_us_per_reply) < 2000"'
check 'a latency is not less than what a message takes' 'holds "$(value latency_us p50) >= 20000"'
check 'the quantiles are in order' \
    'holds "$(value latency_us p50) <= $(value latency_us p99) &&
        $(value latency_us p99) <= $(value latency_us most)"'

# Fifty messages a second are served and twice as many are due, so most are late before they are
# sent; who counts from the sending sees nothing of it.
run "$server --block-ms 20" --duration 0.6 --rate 100 --connections 1
check 'the open loop counts from when a message was due' \
    'holds "$(value latency_us p90) > 3 * $(value from_sending_us p50)"'
run "$server" --duration 0.5 --rate 1000
check 'the open loop keeps its rate' \
    'holds "$(value replies_per_second) > 800 && $(value replies_per_second) < 1200"'

run "$BUILD/stage1-blocking --port 0" --requests 10 --idle 20
check 'threads are counted, those of idle clients too' '[ "$(value threads)" -eq 26 ]'
check 'a thread has memory' 'holds "$(value bytes_per_connection) > 4096"'
run "$BUILD/stage1-blocking --port 0" --visits --connections 30 --duration 0.1
check 'visitors are there at the same time, come again, and each says a message' \
    '[ $status -eq 0 ] && [ "$(value threads)" -eq 31 ] && [ "$(value replies)" -ge 30 ] && [ $(($(value replies) % 30)) -eq 0 ]'
run "$faulty --fault loses-a-byte" --visits --connections 50 --patience 0.5
check 'a visitor with a wrong reply is noticed' '[ $status -eq 1 ] && says "byte [0-9]* of reply"'
run "$server" --visits --depth 2
check 'a visitor has one message' '[ $status -eq 2 ] && says "--visits needs echo"'
run "$tools/raw_epoll --to-all" --requests 400 --traffic chat
check 'a line to all comes to all others' '[ $status -eq 0 ] && [ "$(value replies)" -ge 400 ]'
run "$tools/raw_epoll" --requests 400 --traffic chat --patience 0.3
check 'a line that does not come to all is noticed' '[ $status -eq 1 ]'
run "$tools/raw_uring" --requests 2000 --connections 20 --size 300
if says 'raw-uring: io_uring_setup'; then
    echo "skipped: bench/raw_uring: $(printf '%s\n' "$out" | grep io_uring_setup)"
    skipped=$((skipped + 1))
else
    check 'the floor on io_uring answers' '[ $status -eq 0 ] && [ "$(value replies)" -ge 2000 ]'
fi

# One worker, room for one to wait, 20 ms a message: of a hundred a second it takes half.
full="$BUILD/stage4-framework --port 0 --workers 1 --queue bounded:1 --block-ms 20"
run "$full" --duration 0.6 --rate 100 --depth 1024 --within 10000
check 'under overload a message is in time or refused' '[ $status -eq 0 ] && holds "$(value in_time) >= 5 &&
    $(value refused) >= 5 && ($(value in_time) + $(value refused) - $(value offered)) ^ 2 <= 4"'
run "$full --saturation discard" --duration 0.6 --rate 100 --depth 1024 --within 300
check 'a message that is dropped is neither' \
    '[ $status -eq 0 ] && holds "$(value in_time) < $(value offered) - 5 && $(value refused) == 0"'
run "$server --block-ms 20" --duration 0.4 --rate 100 --depth 64 --within 1
check 'a late reply is not in time' '[ $status -eq 0 ] && [ "$(value in_time)" -eq 0 ]'
run "$faulty --fault swaps-two-replies" --rate 2000 --depth 64 --connections 1 --within 100
check 'under overload, too, a wrong reply is noticed' '[ $status -eq 1 ] && says "neither a reply nor a refusal"'
run "$server" --within 50
check 'a closed loop knows no time' '[ $status -eq 2 ] && says "needs echo, --rate"'

out=$("$tools/file_ways")
status=$?
check 'a byte that was cut off is no byte' '[ $status -eq 0 ] && says "\"read\", \"ends\": \"returns 0\"" &&
    says "\"sendfile\", \"ends\": \"returns 0\"" && says "from the map\", \"ends\": \"EFAULT\"" &&
    says "a look at the map\", \"ends\": \"SIGBUS\""'

work=$(mktemp -d "${TMPDIR:-/tmp}/bench_test.XXXXXX") || exit 2
trap 'rm -rf "$work"' EXIT
echo 'one two three' >"$work/right"
echo 'one two thred' >"$work/wrong"
http="$BUILD/stage4-framework --port 0 --app http --root $work"
run "$http" --requests 200 --traffic http --depth 4 --path /right --body "$work/right"
check 'http: the right body passes' '[ $status -eq 0 ] && [ "$(value replies)" -ge 200 ]'
run "$http" --requests 200 --traffic http --path /right --body "$work/wrong"
check 'http: a wrong byte is noticed' '[ $status -eq 1 ] && says "byte 12 of reply 0"'
run "$http" --requests 200 --traffic http --path /nowhere
check 'http: a reply that is not 200 is noticed' '[ $status -eq 1 ] && says "is not 200"'

# ---- what is said about figures -----------------------------------------------------------------

out=$(python3 -B tests/bench/sayings_test.py 2>&1)
status=$?
check 'what make demo says is what its figures show' '[ $status -eq 0 ] && says "^OK"'
out=$(python3 -B tests/bench/tools_test.py 2>&1)
status=$?
check 'pictures and verdicts are what the figures show' '[ $status -eq 0 ] && says "^OK"'

skips=
[ "$skipped" -eq 0 ] || skips=", $skipped skipped"
echo "$passed passed, $failed failed$skips"
[ "$failed" -eq 0 ]
