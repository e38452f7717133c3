#!/bin/sh
# Shows what changes from one stage to another: the lesson of the later one.
#
#   usage: docs/stage_diff.sh FROM TO        (two folders; `make diff FROM=1 TO=2` calls this)
#
# First a line for each file, then the changes in the form of git diff: the function they are in
# stands in the head of each hunk, a file that only changed its name is found as such, and the
# README.md comes last. Works on copies outside any repository, so that neither one's settings nor
# its ignored files matter. Without git the plain diff has to do, which finds no new names.
set -u

from=$(basename "$1") to=$(basename "$2")
work=$(mktemp -d "${TMPDIR:-/tmp}/stage_diff.XXXXXX") || exit 2
trap 'rm -rf "$work"' EXIT
trap 'exit 130' INT TERM

mkdir -p "$work/readme/$from" "$work/readme/$to"
cp -R "$1" "$work" && cp -R "$2" "$work" || exit 2
for stage in "$from" "$to"; do
    [ ! -e "$work/$stage/README.md" ] || mv "$work/$stage/README.md" "$work/readme/$stage"
done

changes() { # FOLDER [options]: what git diff says of the two stages below FOLDER
    (
        cd "$1" && shift || exit 2
        printf '*.[ch] diff=cpp\n*.md diff=markdown\n' >"$work/attributes"
        GIT_CONFIG_NOSYSTEM=1 GIT_CONFIG_GLOBAL=/dev/null git --no-pager \
            -c core.attributesFile="$work/attributes" \
            diff --no-index --no-prefix -M "$@" -- "$from" "$to"
        [ $? -le 1 ] # 1: they differ
    )
}

# A line for each file that differs, from "added<TAB>removed<TAB>", old name and new name.
differing() { # FOLDER
    changes "$1" --numstat -z | tr '\0' '\n' | awk '
        function base(path) { sub(/^[^\/]*\//, "", path); return path }
        NR % 3 == 1 { split($0, lines, "\t") }
        NR % 3 == 2 { old = $0 }
        NR % 3 == 0 {
            name = base($0)
            counts = sprintf("+%s -%s", lines[1], lines[2])
            if (old == "/dev/null") { what = "added"; counts = "+" lines[1] }
            else if ($0 == "/dev/null") { what = "removed"; name = base(old); counts = "-" lines[2] }
            else if (base(old) != name) { what = "renamed"; name = base(old) " -> " name }
            else what = "changed"
            printf "  %-9s  %-40s %s\n", what, name, counts
        }'
}

unchanged() { # FOLDER
    (cd "$1/$from" && find . -type f) | sed 's|^\./||' | while read -r file; do
        ! cmp -s "$1/$from/$file" "$1/$to/$file" || printf '  %-9s  %s\n' unchanged "$file"
    done
}

echo "$from -> $to"
if command -v git >/dev/null; then
    for folder in "$work" "$work/readme"; do
        { differing "$folder"; unchanged "$folder"; } | LC_ALL=C sort -k 2
    done
    echo
    changes "$work" && changes "$work/readme"
else
    cd "$work" && diff -qr "$from" "$to" | sed 's/^/  /'
    echo
    for folder in "$work" "$work/readme"; do
        (cd "$folder" && diff -ruNp "$from" "$to")
    done
    true
fi
