#!/bin/sh
# Tests the page of traces in a browser without a screen: it loads without a complaint, and what one
# does with keys and buttons has its effect.
#
#   usage: tests/trace/page_test.sh TRACE.json
#
# The page gets one script more, which uses it as a reader would and writes what it found into the
# document. Skipped where there is no Chromium.
set -u
cd "$(dirname "$0")/../.." || exit 2

browser=
for name in chromium chromium-browser google-chrome; do
    [ -n "$browser" ] || browser=$(command -v $name || true)
done
if [ -z "$browser" ]; then
    echo 'skipped: page: chromium is not installed'
    echo '0 passed, 0 failed, 1 skipped'
    exit 0
fi

work=$(mktemp -d "${TMPDIR:-/tmp}/page.XXXXXX") || exit 2
trap 'rm -rf "$work"' EXIT
trap 'exit 130' INT TERM

docs/trace/page.sh 'A test' "$@" | sed '/^<\/body>$/,$d' >"$work/page.html"
cat tests/trace/page_test.html >>"$work/page.html"

failed=0
for size in 1280,900 360,740; do
    timeout 90 "$browser" --headless=new --no-sandbox --disable-gpu --user-data-dir="$work/profile" \
        --enable-logging=stderr --window-size=$size --virtual-time-budget=5000 --dump-dom \
        "file://$work/page.html" >"$work/dom" 2>"$work/log"
    sed -n 's/^PAGE: //p' "$work/dom" >"$work/found-$size"
    grep 'CONSOLE' "$work/log" && failed=$((failed + 1))
    if ! grep -qx 'the end' "$work/found-$size"; then
        echo "page: at $size the script did not come to its end"
        failed=$((failed + 1))
    fi
done
grep -h '^FAILED' "$work"/found-* && failed=$((failed + $(cat "$work"/found-* | grep -c '^FAILED')))
echo "$(cat "$work"/found-* | grep -c '^ok') passed, $failed failed"
[ "$failed" -eq 0 ]
