#!/bin/sh
# Looks for mistakes with the tools that are there, and says in one line which are not.
#
#   usage: LANGUAGE='-std=...' tests/lint.sh SOURCE.c...       (`make lint` calls this)
#
#   clang       that each lock is held where the attributes of common/lock.h ask for it; the newest
#               clang there is, because only from 22 on does it check the fields too (for a lock in
#               a struct of its own it cannot say in C whose it is; that it is held has to do)
#   clang-tidy  what .clang-tidy lists
#   cppcheck    a second opinion
#   and the scripts are read by shellcheck
#
# The tests are left out: Criterion's macros are more than these tools can follow.
set -u

failed=0 skipped=
export LANGUAGE

# check NAME TOOL COMMAND FILE...: runs the command, which finds some of the files as "$@", until
# all files had their turn, on all processors.
check() {
    name=$1 tool=$2 command=$3
    shift 3
    if ! command -v "$tool" >/dev/null; then
        skipped="$skipped${skipped:+, }$name"
        return
    fi
    echo "lint: $name ($("$tool" --version | sed -n 's/.*ersion:* \([0-9][0-9.]*\).*/\1/p;s/^Cppcheck //p' | head -1))"
    printf '%s\n' "$@" |
        TOOL=$tool xargs -n 4 -P "$(getconf _NPROCESSORS_ONLN)" sh -c "$command" lint || failed=1
}

newest_clang() {
    version=40
    while [ "$version" -gt 14 ] && ! command -v "clang-$version" >/dev/null; do
        version=$((version - 1))
    done
    command -v "clang-$version" || echo clang
}

scripts() {
    find .ci/run docs tests -name run -o -name '*.sh'
}

# shellcheck disable=SC2046 # no name of a script has a space in it
# shellcheck disable=SC2016 # the commands are for the shells that xargs starts
{
    check 'thread safety' "$(newest_clang)" \
        '$TOOL $LANGUAGE -fsyntax-only -Wthread-safety -Wno-thread-safety-precise -Werror "$@"' "$@"
    check clang-tidy clang-tidy '$TOOL --quiet "$@" -- $LANGUAGE 2>/dev/null' "$@"
    check cppcheck cppcheck \
        '$TOOL --quiet --error-exitcode=1 --std=c11 -I. -D__linux__ --inline-suppr \
            --enable=warning,performance,portability "$@"' "$@"
    check shellcheck shellcheck '$TOOL "$@"' $(scripts)
}

[ -z "$skipped" ] || echo "lint: skipped, because it is not installed: $skipped"
exit "$failed"
