#!/bin/sh
# Puts the files of one folder in the place of those in another, which somebody may be reading.
#
#   usage: docs/put_in_place.sh NEW OLD      (docs/site.sh calls this)
#
# OLD stays the same folder, which a server may have open, and each file in it is the old one or the
# new one at any moment, because rename(2) leaves nothing in between: NEW and OLD have to be on the
# same file system. A file of the same content keeps its time, so that a browser need not fetch it
# again. Files that are not in NEW are removed. NEW is taken apart.
set -eu

new=$1 old=$2
[ -e "$old" ] || exec mv "$new" "$old"
list=$(mktemp "${TMPDIR:-/tmp}/files.XXXXXX")
trap 'rm -f "$list"' EXIT
trap 'exit 130' INT TERM

(cd "$new" && find . -type d) | while read -r folder; do
    mkdir -p "$old/$folder"
done
(cd "$new" && find . -type f) | LC_ALL=C sort >"$list"
while read -r file; do
    cmp -s "$new/$file" "$old/$file" || mv -f "$new/$file" "$old/$file"
done <"$list"
(cd "$old" && find . -type f) | LC_ALL=C sort | LC_ALL=C comm -13 "$list" - | while read -r file; do
    rm "$old/$file"
done
