#!/bin/sh
# Lists the pages of the sittings in their order, a line each: docs/before.md and so on (docs/order.awk).
set -eu
cd "$(dirname "$0")/.."

docs/order.sh | awk -F '\t' '$2 != "-" { print $4 }'
