#!/bin/sh
# Which lines of the servers no test has run.
#
#   usage: tests/coverage.sh FOLDER TARGET...      (`make coverage` calls this)
#
# Builds everything once more with gcc's counters, below FOLDER, makes the targets there, and asks
# gcov.
# A line counts as run if any suite has run it, in a test's own process or in a server. What the
# table of exceptions (tests/coverage.txt) gives a reason for is listed apart; FOLDER/not-run.txt has
# the rest, and FOLDER/exceptions.txt those. The last line is "N passed, N failed": files of which every
# line has been run or has a reason, and the others.
set -eu

folder=$1
shift
jobs=$(getconf _NPROCESSORS_ONLN)
make="make --no-print-directory -j $jobs BUILD=$folder CC=gcc"

run_suites() {
    $make CFLAGS='-O0 -g --coverage' all test-build >/dev/null
    find "$folder" -name '*.gcda' -exec rm {} +
    for target; do
        $make CFLAGS='-O0 -g --coverage' "$target" >"$folder/log" 2>&1 || {
            tail -n 30 "$folder/log"
            echo "coverage: $target failed; what follows is not to be trusted"
        }
    done
}

# FILE:LINE:COUNT:TEXT of each line that has code, the sums of all objects made of a file.
counted_lines() {
    find "$folder"/obj "$folder"/obj-points -path '*/tests/*' -prune -o -name '*.gcno' \
        -exec gcov --stdout --relative-only {} + 2>/dev/null |
        awk '{ colon = index($0, ":"); count = substr($0, 1, colon - 1); gsub(/[ *]/, "", count)
               rest = substr($0, colon + 1); colon = index(rest, ":")
               line = substr(rest, 1, colon - 1) + 0; text = substr(rest, colon + 1) }
             line == 0 { if (sub(/^Source:/, "", text)) file = text; next }
             count == "-" || file ~ /^\// { next }
             { key = file ":" line; texts[key] = text
               runs[key] += count ~ /^[0-9]/ ? count : 0 }
             END { for (key in texts) print key ":" runs[key] ":" texts[key] }' |
        sort -t : -k 1,1 -k 2,2n
}

mkdir -p "$folder"
[ "${COUNTED:-}" ] || run_suites "$@"
counted_lines >"$folder/lines"

awk -v folder="$folder" '
    FILENAME ~ /coverage.txt$/ {
        if ($0 ~ /^#/ || NF == 0) next
        split($0, part, /  +/)
        reasons[++known] = part[1]; whats[known] = part[2]; whys[known] = part[3]
        next
    }
    {
        split($0, part, ":")
        file = part[1]; line = part[2]; text = $0
        sub(/^[^:]*:[^:]*:[^:]*:/, "", text)
        all[file]++
        if (part[3] > 0) { run[file]++; next }
        for (i = 1; i <= known; i++)
            if (file ~ reasons[i] && index(text, whats[i])) {
                used[i]++; excepted[file]++
                print file ":" line ":" text "   <- " whys[i] >(folder "/exceptions.txt")
                next
            }
        missing[file]++
        print file ":" line ":" text >(folder "/not-run.txt")
    }
    BEGIN { printf "" >(folder "/not-run.txt"); printf "" >(folder "/exceptions.txt") }
    END {
        for (file in all) {
            printf "%6.1f %% of %4d lines, %3d with a reason, %3d without: %s\n",
                100 * run[file] / all[file], all[file], excepted[file], missing[file], file | "sort -k 1,1n -k 11"
            total += all[file]; ran += run[file]; bare += missing[file]
            missing[file] ? failed++ : passed++
        }
        close("sort -k 1,1n -k 11")
        printf "%.1f %% of %d lines; %d not run and without a reason: %s/not-run.txt\n",
            100 * ran / total, total, bare, folder
        for (i = 1; i <= known; i++)
            if (!used[i]) print "no line needs this reason: " reasons[i] "  " whats[i]
        printf "%d passed, %d failed\n", passed, failed
    }' tests/coverage.txt "$folder/lines"
