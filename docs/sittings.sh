#!/bin/sh
# Lists the pages of the course in the order of the sittings, a line each: docs/before.md and so on. The order is
# the table in docs/index.md, which names pages by links, and steps by number: "1.1 and 1.2", "2.1 to 2.3", "from
# 1.3 on"; steps of a stage without a number are all of them.
set -eu
cd "$(dirname "$0")/.."

tests/steps.sh numbers | awk '
    NR == FNR { steps[++count] = $1; next }

    # Those from one number to another one of the same stage.
    function list_steps(from, to,    i) {
        for (i = 1; i <= count; i++)
            if (substr(steps[i], 1, 1) == substr(from, 1, 1) && steps[i] >= from && steps[i] <= to)
                print "step " steps[i]
    }

    /^\| [0-9]+ \|/ {
        split($0, cells, "|")
        rest = cells[3]
        # A link, or the numbers of steps: whatever comes first.
        while (match(rest, /\]\([^)]*\)|[1-5]\.[1-9] (to|and) [1-5]\.[1-9]|from [1-5]\.[1-9] on|step [1-5]\.[1-9]/)) {
            found = substr(rest, RSTART, RLENGTH)
            rest = substr(rest, RSTART + RLENGTH)
            if (found ~ /^\]/) {
                gsub(/^\]\((\.\.\/)?|\)$/, "", found)
                print found ~ /\// ? found : "docs/" found
                if (found ~ /steps\/README/ && match(rest, /^ of stage [1-5]/)) {
                    number = substr(rest, RLENGTH, 1)
                    list_steps(number ".1", number ".9")
                }
            } else if (found ~ /^step/) {
                list_steps(substr(found, 6), substr(found, 6))
            } else if (found ~ /^from/) {
                list_steps(substr(found, 6, 3), substr(found, 6, 1) ".9")
            } else {
                list_steps(substr(found, 1, 3), substr(found, length(found) - 2))
            }
        }
    }' - docs/index.md | while read -r page; do
    case $page in
    step*) echo "$(tests/steps.sh folder "${page#step }")/README.md" ;;
    *) echo "$page" ;;
    esac
done
