#!/bin/sh
# Prints the order of the course, out of docs/index.md: what docs/order.awk says, for the steps that there are.
#
#   usage: docs/order.sh       (docs/site.sh and docs/sittings.sh call this, from the top)
set -eu

steps=$(printf '%s\n' stage[1-5]-*/steps/[1-5].*-*/step common/steps/C.*-*/step |
    sed '/[*]/d; s|/step$||; s|.*/steps/\([0-9C.]*\)-.*|\1=&|' |
    sort -t . -k 1,1n -k 2,2n | tr '\n' ' ')
exec awk -v steps="$steps" -f docs/order.awk docs/index.md
