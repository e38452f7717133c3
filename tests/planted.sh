#!/bin/sh
# Whether each fault that is kept in tests/planted can still be planted. (`make test-planted` plants them,
# and takes minutes.) A fault that no longer applies has to be made again where the same is done now.
# Prints those that do not, and "N passed, N failed".
set -u
cd "$(dirname "$0")/.." || exit 2

passed=0 failed=0
for fault in tests/planted/*.patch; do
    if said=$(patch --batch --forward --dry-run -p1 <"$fault" 2>&1); then
        passed=$((passed + 1))
    else
        failed=$((failed + 1))
        printf 'planted: FAILED: %s does not apply any more\n%s\n' "$fault" "$said"
    fi
done
echo "$passed passed, $failed failed"
[ "$failed" -eq 0 ]
