#!/bin/sh
# Checks docs/threads.md, who may call what from which thread and with which lock, against the
# sources of stage 4 and of what it uses from common/.
#
#   usage: tests/threads_table.sh            compares
#          tests/threads_table.sh --print    prints the rows as they should be
#
# Every row of every table in the document is one that threads_table.awk has found in the sources,
# and every row it finds is there once. Locks have an order without a circle, and none is held while
# the application is called. Prints what differs, and "N passed, N failed" at the end.
set -u
cd "$(dirname "$0")/.." || exit 2

DOCUMENT=docs/threads.md

work=$(mktemp -d "${TMPDIR:-/tmp}/threads.XXXXXX") || exit 2
trap 'rm -rf "$work"' EXIT
trap 'exit 130' INT TERM

# Of these the document lists each function; of the others what their headers say as a whole.
listed='stage4-framework/[a-z_]*|common/(channel_facade|selector|future_task)'

# The selector for kqueue(2) has the same functions as those of this system.
set -- "${1:-}" stage4-framework/*.c
for source in common/*.c; do
    case $source in *kqueue*) ;; *) set -- "$@" "$source" ;; esac
done
print=$1
shift

awk -f tests/threads_table.awk stage4-framework/*.h common/channel_facade.h common/selector.h \
    common/future_task.h common/executor.h common/output_queue.h common/admission.h \
    common/buffer_factory.h "$@" >"$work/found"
sed -nE "s#^FUNCTION ($listed)\\.h ##p; s/^(RULE|FIELD|ORDER) //p" "$work/found" >"$work/expected"

if [ "$print" = --print ]; then
    sed -nE "s#^FUNCTION (($listed)\\.h) #\\1 #p; /^(RULE|FIELD|ORDER|WRONG) /p" "$work/found"
    exit
fi

# The rows of all tables, without what stands above the line of hyphens.
awk '/^\|/ { if (!inside) { inside = 1; skip = 2 } if (skip-- > 0) next; print; next }
     { inside = 0 }' "$DOCUMENT" >"$work/shown"

passed=0 failed=0
fail() {
    failed=$((failed + 1))
    printf 'threads: FAILED: %s\n' "$1"
}

while IFS= read -r row; do
    case $(grep -cxF -- "$row" "$work/shown") in
    1) passed=$((passed + 1)) ;;
    0) fail "the sources say, and $DOCUMENT does not: $row" ;;
    *) fail "$DOCUMENT says more than once: $row" ;;
    esac
done <"$work/expected"
while IFS= read -r row; do
    grep -qxF -- "$row" "$work/expected" || fail "$DOCUMENT says, and the sources do not: $row"
done <"$work/shown"
sed -n 's/^WRONG //p' "$work/found" >"$work/wrong"
while IFS= read -r wrong; do
    fail "$wrong"
done <"$work/wrong"
[ -s "$work/expected" ] || fail 'nothing was found in the sources'

echo "$passed passed, $failed failed"
[ "$failed" -eq 0 ]
