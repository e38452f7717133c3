#!/bin/sh
# Runs tests/play/explore.js with node, or says that it is skipped because there is none.
set -u
cd "$(dirname "$0")/../.." || exit 2

if ! command -v node >/dev/null; then
    echo 'skipped: play: nodejs is not installed; on Debian and Ubuntu: apt-get install nodejs'
    echo '0 passed, 0 failed, 1 skipped'
    exit 0
fi
exec node tests/play/explore.js
