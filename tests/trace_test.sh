#!/bin/sh
# Tests the checker of traces, and every stage with it.
#
#   usage: [BUILD=folder] tests/trace_test.sh [STAGE...]      (paths of servers; all below BUILD)
#
# First the checker reads tests/trace/samples: the sound ones, in which it must find nothing, and
# those that break a rule each, in which it must find what their "expect" says and nothing else.
# Then every stage records a load: a small one, of which everything is kept, and a larger one, of
# which the last part is. What must not happen is in the trace of neither.
set -u
cd "$(dirname "$0")/.." || exit 2
BUILD=${BUILD:-build}

if ! command -v python3 >/dev/null; then
    echo 'skipped: trace: python3 is not installed'
    echo '0 passed, 0 failed, 1 skipped'
    exit 0
fi

work=$(mktemp -d "${TMPDIR:-/tmp}/trace.XXXXXX") || exit 2
trap 'rm -rf "$work"' EXIT
trap 'exit 130' INT TERM

passed=0 failed=0
ok() { passed=$((passed + 1)); }
fail() {
    failed=$((failed + 1))
    printf 'trace: FAILED: %s\n' "$1"
    shift
    [ $# -eq 0 ] || sed 's/^/    /' "$@"
}

# ---- the checker ---------------------------------------------------------------------------------

for sample in tests/trace/samples/*.json; do
    expected=$(sed -n '1s/.*"expect":"\(.*\)"}.*/\1/p' "$sample")
    tests/trace_check.py "$sample" >"$work/found"
    status=$?
    case $sample in
    */sound*)
        if [ $status -eq 0 ]; then ok; else fail "$sample is sound, and the checker says" "$work/found"; fi
        ;;
    *)
        # What begins and does not end may be part of the sample.
        if [ $status -eq 1 ] && [ -n "$expected" ] && grep -qF -- "$sample: $expected" "$work/found" &&
            ! grep -vF -e "$expected" -e ': ends: ' -e ' passed, ' "$work/found"; then
            ok
        else
            fail "$sample: the checker should say: $expected; it says" "$work/found"
        fi
        ;;
    esac
done
: >"$work/empty"
if tests/trace_check.py "$work/empty" | grep -qx '0 passed, 0 failed, 1 skipped'; then
    ok
else
    fail 'an empty file is passed over'
fi

# ---- the stages ----------------------------------------------------------------------------------

record() { # NAME SERVER LOAD_OPTIONS -- SERVER_OPTIONS
    name=$1 server=$2
    shift 2
    load='' options=''
    while [ "$1" != -- ]; do
        load="$load $1"
        shift
    done
    shift
    options=$*
    # shellcheck disable=SC2086 # words, on purpose
    if ! "$BUILD/tests/load" --patience 30 $load -- "$server" --port 0 --trace "$work/$name.json" \
        $options >"$work/load" 2>&1; then
        fail "$name: the load did not come to its end" "$work/load"
    elif ! tests/trace_check.py "$work/$name.json" >"$work/found"; then
        fail "$name: the checker says" "$work/found"
    elif ! grep -q '"name":"receive"' "$work/$name.json"; then
        fail "$name: nothing was recorded"
    else
        ok
    fi
    rm -f "$work/$name.json"
}

[ $# -gt 0 ] || set -- "$BUILD"/stage[1-5]-*
for server; do
    if [ ! -f "$server" ] || [ ! -x "$server" ]; then continue; fi
    stage=${server##*/}
    small='--connections 8 --warm-up 0 --requests 400'
    # shellcheck disable=SC2086
    {
        record "$stage" "$server" $small --
        record "$stage-large" "$server" --connections 40 --warm-up 0 --requests 20000 --
        case $stage in stage[345]*)
            record "$stage-poll" "$server" $small -- --selector poll --workers 4
            record "$stage-saturated" "$server" $small -- --workers 1 --queue bounded:1 \
                --saturation caller-runs
            ;;
        esac
        case $stage in stage[45]*)
            record "$stage-chat" "$server" $small --traffic chat -- --app chat
            ;;
        esac
        case $stage in stage5*)
            record "$stage-without-workers" "$server" $small -- --workers 0 --dispatchers 3
            ;;
        esac
    }
done

echo "$passed passed, $failed failed"
[ "$failed" -eq 0 ]
