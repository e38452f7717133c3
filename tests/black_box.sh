#!/bin/sh
# Names the sources of a folder of tests that need nothing but a server program.
#
#   usage: tests/black_box.sh FOLDER...      (tests/stage3, say; from the top)
#
# Such a source includes test helpers (support/, and headers beside it that are of the same kind)
# and headers of the system. One that includes anything of the server's, or holds its threads at
# test points, needs the server's own objects: it is not named, and neither is what depends on it.
# With them somebody else's server is graded, in whatever language it is written.
set -u

for folder; do
    awk '
        FNR == 1 { name = FILENAME; sub(/.*\//, "", name); names[++files] = name }
        /^#include "/ {
            included = $2
            gsub(/"/, "", included)
            if (included == "support/test_points.h")
                white[name]
            else if (included !~ /^support\//)
                needs[name] = needs[name] " " included
        }
        END {
            for (i = 1; i <= files; i++)
                here[names[i]]
            do {
                changed = 0
                for (i = 1; i <= files; i++) {
                    count = split(needs[names[i]], each, " ")
                    for (j = 1; j <= count; j++)
                        if (!(names[i] in white) && (!(each[j] in here) || each[j] in white)) {
                            white[names[i]]
                            changed = 1
                        }
                }
            } while (changed)
            for (i = 1; i <= files; i++)
                if (names[i] ~ /\.c$/ && !(names[i] in white))
                    print folder "/" names[i]
        }' folder="${folder%/}" "${folder%/}"/*.[ch]
done
