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
    shift
    set -- "$@" "${folder%/}"/*.[ch]
done
awk '
    FNR == 1 {
        files[++count] = FILENAME
        folder = FILENAME
        sub(/[^\/]*$/, "", folder)
        here[FILENAME]
    }
    /^#include "/ {
        included = $2
        gsub(/"/, "", included)
        if (included == "support/test_points.h")
            white[FILENAME]
        else if (included !~ /^support\//)
            needs[FILENAME] = needs[FILENAME] " " folder included
    }
    END {
        do {
            changed = 0
            for (i = 1; i <= count; i++) {
                needed = split(needs[files[i]], each, " ")
                for (j = 1; j <= needed; j++)
                    if (!(files[i] in white) && (!(each[j] in here) || each[j] in white)) {
                        white[files[i]]
                        changed = 1
                    }
            }
        } while (changed)
        for (i = 1; i <= count; i++)
            if (files[i] ~ /\.c$/ && !(files[i] in white))
                print files[i]
    }' "$@"
