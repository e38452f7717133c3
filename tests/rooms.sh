#!/bin/sh
# Shows that each room of common/ uses only the rooms named above it, and that common/ knows no
# stage: an include that points downwards is printed, and fails. The core's steps in common/steps are
# no room: they may use all, and nobody uses them.
#
#   usage: tests/rooms.sh        (`make lint` calls this)
set -u
cd "$(dirname "$0")/.." || exit 2

# shellcheck disable=SC2016 # the dollars are awk's
find common -name '*.[ch]' ! -path 'common/steps/*' | LC_ALL=C sort | xargs awk '
    BEGIN {
        rooms = split("base bytes events workers server apps", order, " ")
        for (i = 1; i <= rooms; i++)
            floor[order[i]] = i
    }
    FNR == 1 {
        split(FILENAME, path, "/")
        here = path[2]
        if (!(here in floor))
            complain("stands in no room")
    }
    function complain(what) { print FILENAME ": " what; failed = 1 }
    /^#include "/ {
        name = $2
        gsub(/"/, "", name)
        split(name, path, "/")
        if (path[1] != "common")
            complain("says " name " and not common/...")
        else if (!(path[2] in floor) || floor[path[2]] > floor[here])
            complain("uses " name ", which stands below it")
    }
    END { exit failed }'
