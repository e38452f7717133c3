#!/bin/sh
# Which lines of the servers no test has run.
#
#   usage: tests/coverage.sh FOLDER TARGET...      (`make coverage` calls this)
#
# Builds everything once more with gcc's counters, below FOLDER, makes the targets there, and asks
# gcov. With COUNTED=1 nothing is built or run: what is there is looked at once more.
#
# A line counts as run if any suite has run it, in a test's own process or in a server. What the
# table of exceptions (tests/coverage.txt) gives a reason for is listed in FOLDER/exceptions.txt, the
# rest in FOLDER/not-run.txt. The last line is "N passed, N failed": files of which every line has
# been run or has a reason, and the others; a reason that no line needs, and a suite that fails, have
# failed, too. Exit status 0 if nothing has.
set -eu

folder=$1
shift
jobs=$(getconf _NPROCESSORS_ONLN)
make="make --no-print-directory -j $jobs BUILD=$folder CC=gcc"

failed=0

run_suites() {
    $make CFLAGS='-O0 -g --coverage' all test-build >/dev/null
    find "$folder" -name '*.gcda' -exec rm {} +
    for target; do
        $make CFLAGS='-O0 -g --coverage' "$target" >"$folder/log" 2>&1 || {
            tail -n 30 "$folder/log"
            echo "coverage: $target failed; what follows is not to be trusted"
            failed=$((failed + 1))
        }
    done
}

# FILE:LINE:COUNT:FUNCTION:TEXT of each line that has code, the sums of all objects made of a file.
counted_lines() {
    find "$folder"/obj "$folder"/obj-points -path '*/tests/*' -prune -o -name '*.gcno' \
        -exec gcov --stdout --relative-only {} + 2>/dev/null |
        awk '{ colon = index($0, ":"); count = substr($0, 1, colon - 1); gsub(/[ *]/, "", count)
               rest = substr($0, colon + 1); colon = index(rest, ":")
               line = substr(rest, 1, colon - 1) + 0; text = substr(rest, colon + 1) }
             line == 0 { if (sub(/^Source:/, "", text)) file = text; next }
             text ~ /^[a-z_].*[a-z0-9_][(]/ { begin = text; sub(/[(].*/, "", begin)
                                             function_name = begin; sub(/.*[^a-z0-9_]/, "", function_name) }
             count == "-" || file ~ /^\// { next }
             { key = file ":" line; texts[key] = function_name ":" text
               runs[key] += count ~ /^[0-9]/ ? count : 0 }
             END { for (key in texts) print key ":" runs[key] ":" texts[key] }' |
        sort -t : -k 1,1 -k 2,2n
}

mkdir -p "$folder"
[ "${COUNTED:-}" ] || run_suites "$@"
counted_lines >"$folder/lines"

awk -v folder="$folder" -v failed="$failed" '
    FILENAME ~ /coverage.txt$/ {
        if ($0 ~ /^#/ || NF == 0) next
        if (split($0, part, /  +/) != 4) { print "coverage.txt:" FNR ": not four columns"; failed++ }
        known++
        files[known] = part[1]; functions[known] = part[2]; whats[known] = part[3]
        whys[known] = part[4]
        next
    }
    {
        split($0, part, ":")
        file = part[1]; line = part[2]; text = $0
        sub(/^[^:]*:[^:]*:[^:]*:[^:]*:/, "", text)
        all[file]++
        if (part[3] > 0) { run[file]++; next }
        for (i = 1; i <= known; i++)
            if (file ~ "^" files[i] "$" && part[4] ~ "^(" functions[i] ")$" && index(text, whats[i])) {
                used[i]++; excepted[file]++
                print file ":" line ":" text "   <- " whys[i] >(folder "/exceptions.txt")
                next
            }
        missing[file]++
        print file ":" line ": " part[4] ":" text >(folder "/not-run.txt")
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
        close(folder "/not-run.txt")
        while ((getline line <(folder "/not-run.txt")) > 0) print "not run, and no reason: " line
        printf "%.1f %% of %d lines; %d not run and without a reason\n", 100 * ran / total, total, bare
        for (i = 1; i <= known; i++)
            if (!used[i] && whys[i] !~ /^now and then:/) {
                print "no line needs this reason: " files[i] "  " functions[i] "  " whats[i]
                failed++
            }
        printf "%d passed, %d failed\n", passed, failed
        exit failed > 0
    }' tests/coverage.txt "$folder/lines"
