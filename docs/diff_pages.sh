#!/bin/sh
# Writes a page for what changes from stage to stage, with the chapter's remarks beside the hunks they speak
# of, and one for what changes from step to step: an overview with counts, and every file that changes, hunk
# by hunk. It is what `make diff` shows, so between stages names that are other ones there are mapped first.
#
#   usage: docs/diff_pages.sh FOLDER NUMBER...      (docs/docs.mk calls this, from the top)
#
# NUMBER is that of a step, as 2.4 or C.1, or of a stage.
#
#   FOLDER/docs/remarks/stage3.md    what comes out of docs/remarks/stage3.md and the two stages; the
#                                    Markdown filter makes the page changes3 of it
#   FOLDER/docs/remarks/step2.4.md   the same for a step, changes2_4
#
# The remarks begin with a title and an introduction; what follows is told in docs/diff_pages.awk.
# Fails if a remark speaks of something that is not there, or does not change.
set -u

folder=$1
shift
work=$(mktemp -d "${TMPDIR:-/tmp}/diff_pages.XXXXXX") || exit 2
trap 'rm -rf "$work"' EXIT
mkdir -p "$folder/docs/remarks"
: >"$work/empty"
failed=0

# The files of both sides, in the order in which the README.md of the later one's stage, or of common, names them.
files() { # NUMBER
    case $1 in C.*) readme=common/README.md ;; *) readme=$(echo stage"${1%.*}"-*/README.md) ;; esac
    (cd "$work/$1" && find old new -name '*.[ch]') | sed 's|.*/||' | LC_ALL=C sort -u >"$work/there"
    grep -oE '\]\([a-z_0-9/]+\.[ch]\)' "$readme" | tr -d ']()' | sed 's|.*/||' | grep -xFf "$work/there" |
        cat - "$work/there" | awk '!seen[$0]++'
}

sum() { # ELEMENT: the lines of all files that the overview has in it
    grep -o "<$1>[+-][0-9]*" "$work/overview" | awk '{ sub(/.*[+-]/, ""); sum += $0 } END { print sum + 0 }'
}

page() { # FROM TO REMARKS
    parts=$work/$2
    mkdir "$parts" && tests/steps.sh diff "$1" "$2" "$parts" >"$work/moved" &&
        tests/steps.sh sources "$1" >"$work/sources" && tests/steps.sh sources "$2" >"$parts/sources" || exit 2
    files "$2" >"$work/files"
    remarks=${3##*/}
    page=$folder/docs/remarks/$remarks
    : >"$work/overview"
    while read -r file; do
        old=$parts/old/$file new=$parts/new/$file diff=$parts/diff what=changed was=$file
        [ ! -s "$work/moved" ] || was=$(awk -v file="$file" '$2 == file { file = $1 } END { print file }' "$work/moved")
        [ -e "$old" ] || { old=$work/empty what=added; }
        [ -e "$new" ] || { new=$work/empty what=removed; }
        ! cmp -s "$old" "$new" || what=unchanged diff=$work/empty
        awk -v name="$file" -v what=$what -v was="$was" -v old="$old" -v new="$new" -v sources_before="$work/sources" \
            -v sources_after="$parts/sources" -v remarks="docs/remarks/$remarks" -v overview="$work/overview" \
            -f docs/names.awk -f docs/diff_pages.awk "$3" "$diff" || failed=1
    done <"$work/files" >"$work/body"
    {
        awk '/^## / { exit } { print }' "$3"
        printf '\n\\htmlonly[block]\n<table class="overview">\n'
        grep '^<tr' "$work/overview"
        echo "<tr><td>in all</td><td></td><td><ins>+$(sum ins)</ins> <del>-$(sum del)</del></td><td></td></tr>"
        echo '</table>'
        ! grep -q '^<a' "$work/overview" ||
            echo "<p>Unchanged: $(grep '^<a' "$work/overview" | sed 's/$/,/; $s/,$/./')</p>"
        printf '\\endhtmlonly\n\n'
        cat "$work/body"
    } >"$page"
    # Remarks on files that neither side has.
    strange=$(sed -n 's/^## \([^:]*\).*/\1/p' "$3" | grep -vxFf "$work/files")
    [ -z "$strange" ] || { echo "docs: $3: there is no" "$strange" >&2; failed=1; }
}

# What the page of a step begins with.
# shellcheck disable=SC2016 # no command is meant
introduction() { # FROM TO
    idea=$(tests/steps.sh field "$2" idea | awk '{ print toupper(substr($0, 1, 1)) substr($0, 2) "." }')
    names=$(tests/steps.sh field "$2" renames | sed 's/\([^= ]*\)=\([^=]*\)=[^ ]*/`\1` is called `\2`/g; s/` `/`, `/g')
    main=$(tests/steps.sh sources "$2" | grep -E '/(main|server)\.c$')
    cat <<END
# Changes: from $1 to $2

$idea

New lines of code, as \`make steps\` counts them, without comments: $(tests/steps.sh new_lines "$2").
${names:+They are those in which more than a name changes: $names here. }The program begins in
[$(basename "$main")](../../$main). \`make diff FROM=$1 TO=$2\` shows the same in a terminal.
END
}

for number; do
    case $number in
    *.*)
        before=$(tests/steps.sh before "$number")
        introduction "$before" "$number" >"$work/step$number.md"
        page "$before" "$number" "$work/step$number.md"
        ;;
    *) page $((number - 1)) "$number" "docs/remarks/stage$number.md" ;;
    esac
done
exit $failed
