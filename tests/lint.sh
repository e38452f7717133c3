#!/bin/sh
# Looks for mistakes with the tools that are there, and says of the others that they are skipped.
#
#   usage: LANGUAGE='-std=...' WARNINGS='-W...' tests/lint.sh SOURCE.c...       (`make lint` calls this)
#
#   clang       WARNINGS, and that each lock is held where the attributes of common/base/lock.h ask for
#               it, and none is held where an application is called. Takes the newest clang, because only
#               22 and later check fields and NO_LOCK_HELD. (In C it cannot say whose lock a field's is,
#               so any object's lock of that name will do.) tests/lint_mistakes.c shows that it works.
#   clang-tidy  what .clang-tidy lists, by the newest: 22 leaves the system's headers alone, and takes a third of the
#               time of 14; its analyzer, which takes most of the time, only if ANALYZER is set, as
#               `make analyze` does, and then of the clang-tidy that is the system's
#   cppcheck    a second opinion
#   rooms       each room of common/ uses only those above it (tests/rooms.sh)
#   same        what differs between files that stages 4 and 5 both have (tests/same.sh)
#   lesson      how much of each stage is its lesson, and that its list is true (tests/lesson.sh)
#   log         each line of the log begins with what has happened, event=...
#   and the scripts are read by shellcheck
#
# If APP is set, it is an application of somebody's, which is the only source, and the last five are left out.
#
# The tests are left out: Criterion's macros are more than these tools can follow.
set -u

failed=0
export LANGUAGE WARNINGS
CHECKS=
[ -n "${ANALYZER:-}" ] || CHECKS='--checks=-clang-analyzer-*'
export CHECKS

# check NAME TOOL COMMAND FILE...: runs the command, which finds some of the files as "$@", until
# all files had their turn, on all processors.
check() {
    name=$1 tool=$2 command=$3
    shift 3
    if ! command -v "$tool" >/dev/null; then
        echo "skipped: lint: $tool is not installed"
        return
    fi
    echo "lint: $name ($("$tool" --version | sed -n 's/.*ersion:* \([0-9][0-9.]*\).*/\1/p;s/^Cppcheck //p' | head -1))"
    printf '%s\n' "$@" |
        TOOL=$tool xargs -n 16 -P "$(getconf _NPROCESSORS_ONLN)" sh -c "$command" lint || failed=1
}

newest() { # clang|clang-tidy
    version=40
    while [ "$version" -gt 14 ] && ! command -v "$1-$version" >/dev/null; do
        version=$((version - 1))
    done
    command -v "$1-$version" || echo "$1"
}
clang=$(newest clang)
tidy='clang-tidy'
[ -n "${ANALYZER:-}" ] || tidy=$(newest clang-tidy)

# The version that a clang gives itself.
major() {
    echo __clang_major__ | "$1" -E -P - 2>/dev/null || echo 0
}

scripts() {
    find .ci/run docs tests -name run -o -name '*.sh'
}

# shellcheck disable=SC2046 # no name of a script has a space in it
# shellcheck disable=SC2016 # the commands are for the shells that xargs starts
{
    check 'thread safety' "$clang" \
        '$TOOL $LANGUAGE $WARNINGS -fsyntax-only -Wthread-safety -Wno-thread-safety-precise -Werror "$@"' "$@"
    if [ "$(major "$clang")" -ge 22 ]; then
        check 'mistakes with locks' "$clang" \
            '$TOOL $LANGUAGE -fsyntax-only -Wthread-safety -Wno-thread-safety-precise \
                -Xclang -verify "$@"' tests/lint_mistakes.c
    else
        echo 'skipped: lint: clang-22 is not installed'
    fi
    check clang-tidy "$tidy" \
        '$TOOL --quiet --config-file=.clang-tidy $CHECKS "$@" -- $LANGUAGE 2>/dev/null' "$@"
    check cppcheck cppcheck \
        '$TOOL --quiet --error-exitcode=1 --std=c11 -I. -D__linux__ --inline-suppr \
            --enable=warning,performance,portability "$@"' "$@"
    [ -n "${APP:-}" ] || check shellcheck shellcheck '$TOOL -x "$@"' $(scripts)
}
[ -z "${APP:-}" ] || exit "$failed"

# The first text of a call of the log, wherever it stands.
echo 'lint: log'
awk '
    FNR == 1 { calls = 0 }
    /(^|[^_a-z])log_(write|limited)\(/ { calls = 1 }
    calls && match($0, /"[^"]*/) {
        calls = 0
        if (substr($0, RSTART + 1, 6) != "event=") {
            print FILENAME ":" FNR ": a line of the log that does not begin with event="
            found = 1
        }
    }
    END { exit found }' "$@" || failed=1

echo 'lint: rooms, and what is lesson'
tests/rooms.sh || failed=1
tests/same.sh || failed=1
tests/lesson.sh || failed=1

exit "$failed"
