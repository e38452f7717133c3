#!/bin/sh
# Writes a page for each step from a stage to the next: an overview with counts, and every file that
# changes, hunk by hunk, with the chapter's remarks beside the hunks they speak of. As in `make diff`, names that a stage calls
# otherwise are mapped first.
#
#   usage: docs/diff_pages.sh FOLDER STAGE...      (docs/site.sh calls this, from the top)
#
#   FOLDER/docs/remarks/stage3.md    what comes out of docs/remarks/stage3.md and the two stages; the
#                                    Markdown filter makes the page changes3 of it
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

# The files of two stages: those of the later one in the order in which its README.md names them.
files() { # BEFORE, WITH NAMES MAPPED, AND AFTER
    {
        grep -oE '\]\([a-z_0-9]+\.[ch]\)' "$2/README.md" | tr -d ']()'
        (cd "$2" && ls ./*.[ch]) | sed 's|.*/||'
        (cd "$1" && ls ./*.[ch]) | sed 's|.*/||'
    } | awk '!seen[$0]++'
}

failed=0
before=
for stage; do
    number=${stage#stage}
    number=${number%%-*}
    remarks=docs/remarks/stage$number.md
    if [ -n "$before" ] && [ -e "$remarks" ]; then
        page=$folder/$remarks
        : >"$work/body"
        : >"$work/overview"
        mapped=$work/$number
        mkdir "$mapped"
        docs/stage_diff.sh --mapped "$mapped" "$before" "$stage" >"$work/moved" || exit 2
        for file in $(files "$mapped" "$stage"); do
            old=$mapped/$file new=$stage/$file what=changed
            was=$(awk -v file="$file" '$2 == file { print $1 }' "$work/moved")
            [ -e "$old" ] || { old=$work/empty what=added; }
            [ -e "$new" ] || { new=$work/empty what=removed; }
            diff -U 4 "$old" "$new" >"$work/diff" && what=unchanged
            awk -v name="$file" -v what=$what -v before="$before" -v after="$stage" \
                -v was="${was:-$file}" \
                -v old="$old" -v new="$new" -v remarks="$remarks" -v overview="$work/overview" \
                -f docs/diff_pages.awk "$remarks" "$work/diff" >>"$work/body" || failed=1
        done
        {
            awk '/^## / { exit } { print }' "$remarks"
            printf '\n\\htmlonly[block]\n<table class="overview">\n'
            cat "$work/overview"
            printf '</table>\n\\endhtmlonly\n\n'
            cat "$work/body"
        } >"$page"
        # Remarks on files that neither stage has.
        files "$mapped" "$stage" >"$work/files"
        strange=$(sed -n 's/^## \([^:]*\).*/\1/p' "$remarks" | grep -vxFf "$work/files")
        [ -z "$strange" ] || { echo "docs: $remarks: there is no" "$strange" >&2; failed=1; }
    fi
    before=$stage
done
exit $failed
