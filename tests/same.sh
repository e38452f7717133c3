#!/bin/sh
# What differs between the files that stages 4 and 5 both have, because each stage is read whole, but
# that are the same idea: it is exactly what tests/same.txt lists. So a change that is made in one stage
# and forgotten in the other is noticed, and a reader of stage 5 can see what to skip.
#
#   usage: tests/same.sh [write]      (`make lint` calls this; `write` puts the list anew)
set -u
cd "$(dirname "$0")/.." || exit 2

four=$(echo stage4-*) five=$(echo stage5-*)

# < is stage 4's line, > stage 5's, without their numbers, which change with every comment.
differing() {
    for name in connector selector_guard handler_adapter handler_future_task status_change_queue; do
        for file in "$name.c" "$name.h"; do
            diff -N "$four/$file" "$five/$file" | sed -n "s/^[<>].*/$file: &/p"
        done
    done
}

if [ "${1:-}" = write ]; then
    differing >tests/same.txt
    exit
fi
differing | diff tests/same.txt - && exit
echo "same: stages 4 and 5 differ in other lines than tests/same.txt lists (<: it lists them, >: they do)."
echo "If the change belongs into both stages, make it there; if not, tests/same.sh write."
exit 1
