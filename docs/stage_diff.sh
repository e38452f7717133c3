#!/bin/sh
# Shows what changes from one stage to another: the lesson of the later one.
#
#   usage: docs/stage_diff.sh FROM TO        (two folders; `make diff FROM=1 TO=2` calls this)
#          docs/stage_diff.sh FROM TO PARTS  puts what it compares into PARTS/old and PARTS/new and the
#                                            changes into PARTS/diff, and prints which files have other
#                                            names in PARTS/old than in FROM
#
# First a line for each file, then the changes in the form of git diff: the function they are in
# stands in the head of each hunk, a file that only changed its name is found as such, and the
# README.md comes last. Works on copies outside any repository, so that neither one's settings nor
# its ignored files matter. Without git the plain diff has to do, which finds no new names, and counts nothing.
#
# From one stage to the next, each line also says how many changed lines of the file teach, and below them
# stands their share of all (docs/diff_lesson.awk).
#
# From a stage, or its steps, to a later one the names in docs/renames are mapped first, in the copy of
# FROM: files, and in the sources whatever has such a name or begins with it, but for members of structs
# that only begin with it. A word of a comment is a name if it is a file's or a struct's, or has an
# underscore; "the handler" stays. So does the README.md. The patch leads from that copy to TO.
set -u

docs=$(cd "$(dirname "$0")" && pwd)
list=$docs/../tests/not_lesson.txt
from=$(basename "$1") to=$(basename "$2")
work=$(mktemp -d "${TMPDIR:-/tmp}/stage_diff.XXXXXX") || exit 2
trap 'rm -rf "$work"' EXIT
trap 'exit 130' INT TERM

mkdir -p "$work/readme/$from" "$work/readme/$to"
cp -R "$1" "$work" && cp -R "$2" "$work" || exit 2
rm -rf "$work/$from/steps" "$work/$to/steps" # they have differences of their own
for stage in "$from" "$to"; do
    [ ! -e "$work/$stage/README.md" ] || mv "$work/$stage/README.md" "$work/readme/$stage"
done

# The renames from one stage to a later one: "before in-that-stage as-a-variable", a line for each.
renames() {
    awk -v from="$from" -v to="$to" '
        function number(name) { return sub(/^(stage|step)/, "", name) && name ~ /^[0-9][-.]/ ? substr(name, 1, 1) : 0 }
        !/^#/ && number(from) && number(from) < $1 && $1 <= number(to) { print $2, $3, $4 }
    ' "$docs/renames"
}

# A source with the names that it would have in the later stage.
with_new_names() { # FILE
    awk '
        FNR == NR { type[$1] = $2; variable[$1] = $3; next }
        {
            out = ""
            line = $0
            while (match(line, /[A-Za-z_][A-Za-z_0-9]*/)) {
                between = substr(line, 1, RSTART - 1)
                word = substr(line, RSTART, RLENGTH)
                line = substr(line, RSTART + RLENGTH)
                notice_comments(between)
                out = out between
                out = out mapped(word, out ~ /struct $/ || line ~ /^\.[ch]([^a-z]|$)/, out ~ /(->|[a-z]\.)$/)
            }
            notice_comments(line)
            print out line
        }
        function notice_comments(text,    at) {
            while (at = index(text, comment ? "*/" : "/*")) {
                comment = !comment
                text = substr(text, at + 2)
            }
        }
        function mapped(word, is_type, is_member,    old) {
            if (word in type)
                return is_type ? type[word] : comment ? word : variable[word]
            if (is_member)
                return word
            for (old in type) {
                if (index(word, old "_") == 1)
                    return type[old] substr(word, length(old) + 1)
                if (index(word, toupper(old) "_") == 1)
                    return toupper(type[old]) substr(word, length(old) + 1)
            }
            return word
        }' "$work/renames" "$1"
}

map_names() {
    for file in "$work/$from"/*.[ch]; do
        with_new_names "$file" >"$work/mapped" && mv "$work/mapped" "$file" || exit 2
    done
    while read -r old new _; do
        for kind in c h; do
            [ ! -e "$work/$from/$old.$kind" ] || {
                mv "$work/$from/$old.$kind" "$work/$from/$new.$kind" &&
                    echo "$old.$kind $new.$kind" >>"$work/moved"
            } || exit 2
        done
    done <"$work/renames"
}

changes() { # FOLDER [options]: what git diff says of the two stages below FOLDER
    (
        cd "$1" && shift || exit 2
        printf '*.[ch] diff=cpp\n*.md diff=markdown\n' >"$work/attributes"
        if command -v git >/dev/null; then
            GIT_CONFIG_NOSYSTEM=1 GIT_CONFIG_GLOBAL=/dev/null git --no-pager \
                -c core.attributesFile="$work/attributes" \
                diff --no-index --no-prefix -M "$@" -- "$from" "$to"
        else
            diff -ruNp "$from" "$to"
        fi
        [ $? -le 1 ] # 1: they differ
    )
}

is_next_stage() {
    case $from/$to in
    stage[1-5]-*/stage[1-5]-*) [ "$(expr "$to" : 'stage\(.\)')" -eq $(($(expr "$from" : 'stage\(.\)') + 1)) ] ;;
    *) false ;;
    esac
}

# A line for each file that differs, from "added<TAB>removed<TAB>", old name and new name.
differing() { # FOLDER
    changes "$1" --numstat -z | tr '\0' '\n' | awk -v moved="$work/moved" -v lesson="$work/lesson" '
        BEGIN {
            while ((getline <moved) > 0) was[$2] = $1
            while ((getline <lesson) > 0) teaching[$1] = "  " $2 " of " $3 " teach"
        }
        function base(path) { sub(/^[^\/]*\//, "", path); return path }
        NR % 3 == 1 { split($0, lines, "\t") }
        NR % 3 == 2 { old = $0 }
        NR % 3 == 0 {
            name = base($0)
            counts = sprintf("+%s -%s", lines[1], lines[2])
            if (old == "/dev/null") { what = "added"; counts = "+" lines[1] }
            else if ($0 == "/dev/null") { what = "removed"; name = base(old); counts = "-" lines[2] }
            else if (base(old) != name) { what = "renamed"; name = base(old) " -> " name }
            else if (name in was) { what = "renamed"; name = was[name] " -> " name }
            else what = "changed"
            printf "  %-9s  %-40s %s%s\n", what, name, counts, teaching[base($0 == "/dev/null" ? old : $0)]
        }'
}

unchanged() { # FOLDER
    (cd "$1/$from" && find . -type f) | sed 's|^\./||' | while read -r file; do
        ! cmp -s "$1/$from/$file" "$1/$to/$file" || printf '  %-9s  %s\n' unchanged "$file"
    done
}

# Which of the lines that are shown teach: "NAME LESSON CHANGED" for each source. If the list is not true,
# this is said, and what changes is shown all the same.
count_lesson() {
    changes "$work" >"$work/diff"
    (
        cd "$work" || exit 2
        awk -v from="$from" -v to="$to" -f "$docs/diff_lesson.awk" "$list" "$from"/*.[ch] "$to"/*.[ch] diff
    ) >"$work/lesson"
}

summary() {
    awk '
        { lesson += $2; all += $3 }
        END { printf "%d of %d changed lines of code and comments teach: %d %%\n", lesson, all, 100 * lesson / all }
    ' "$work/lesson"
}

: >"$work/moved"
renames >"$work/renames"
if [ $# -gt 2 ]; then
    [ ! -s "$work/renames" ] || map_names
    cp -R "$work/$from" "$3/old" && cp -R "$work/$to" "$3/new" && cat "$work/moved" &&
        changes "$work" -U4 --no-renames >"$3/diff"
    exit
fi
echo "$from -> $to"
if [ -s "$work/renames" ]; then
    map_names
    awk -v from="$from" '
        { names = names (NR > 1 ? ", " : "") $1 " to " $2 ($2 == $3 ? "" : " (variables: " $3 ")") }
        END { print "Names in " from " are mapped first: " names "." }' "$work/renames"
fi
: >"$work/lesson"
if command -v git >/dev/null; then
    ! is_next_stage || count_lesson
    for folder in "$work" "$work/readme"; do
        { differing "$folder"; unchanged "$folder"; } | LC_ALL=C sort -k 2
    done
    [ ! -s "$work/lesson" ] || summary
else
    (cd "$work" && diff -qr "$from" "$to" | sed 's/^/  /')
fi
echo
changes "$work" && changes "$work/readme"
