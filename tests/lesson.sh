#!/bin/sh
# How much of each stage is its lesson: its lines of code without comments, blank lines and includes,
# those that tests/not_lesson.txt does not name, and their share. And how many of the lines that `make diff`
# shows from a stage to the next teach, which docs/stage_diff.sh counts with the same list.
#
#   usage: tests/lesson.sh       (`make lint` calls this)
#
# The aim is nine tenths of a stage, and two thirds of what changes. Fails if a name in that list is no
# function, struct or variable of its stage, or changes nothing, or if less than 80 % of a stage are lesson.
# Of what changes, a difference may not teach less than it does today: the threads of stage 1 go away in
# stage 2, and stage 4 writes its dispatcher anew, so these two miss the aim.
set -u
cd "$(dirname "$0")/.." || exit 2

failed=0
# shellcheck disable=SC2016 # the dollars are awk's
awk -v least=80 '
    FILENAME == "tests/not_lesson.txt" {
        if (/^stage/) {
            stage = substr($1, 1, length($1) - 1)
            for (i = 2; i <= NF; i++)
                excused[stage, $i] = 1
        }
        next
    }
    FNR == 1 { split(FILENAME, path, "/"); inside = comment = 0 }

    # Takes comments out of a line.
    {
        code = $0
        if (comment && !sub(/^.*\*\//, "", code))
            next
        gsub(/\/\*([^*]|\*[^\/])*\*\//, "", code)
        comment = sub(/\/\*.*/, "", code)
    }
    code !~ /[^ \t]/ || code ~ /^#/ { next }

    # What begins at the left margin is a definition, up to the brace or semicolon that ends it.
    !inside { inside = 1; text = ""; lines = 0 }
    { lines++; text = text code "\n" }
    code ~ /^}/ || (code ~ /;[ \t]*$/ && text !~ /{/) {
        inside = 0
        name = text
        sub(/[({=;].*/, "", name)
        gsub(/[ \n]+$/, "", name)
        sub(/.*[ *]/, "", name)
        all[path[1]] += lines
        if ((path[1], name) in excused) {
            found[path[1], name] = 1
            apart[path[1]] += lines
        }
    }

    END {
        for (number = 1; number <= 5; number++)
            for (stage in all)
                if (stage ~ "^stage" number) {
                    lesson = all[stage] - apart[stage]
                    share = 100 * lesson / all[stage]
                    printf "%-22s %4d lines, %4d of them lesson: %d %%\n", stage, all[stage], lesson, share
                    failed = failed || share < least
                }
        for (entry in excused)
            if (!(entry in found)) {
                split(entry, parts, SUBSEP)
                print "tests/not_lesson.txt: " parts[1] " has no " parts[2]
                failed = 1
            }
        exit failed
    }' tests/not_lesson.txt stage[1-5]-*/*.[ch] || failed=1

for aim in 2:45 3:77 4:62 5:67; do
    number=${aim%:*}
    docs/stage_diff.sh stage"$((number - 1))"-* stage"$number"-* 2>&1 |
        awk -v least="${aim#*:}" -v between="from stage $((number - 1)) to $number" '
            /^tests\/not_lesson.txt/ { print; stale = 1 }
            / teach: [0-9]+ %$/ { print between ": " $0; share = $(NF - 1) }
            END { exit stale || share < least }' || failed=1
done
exit $failed
