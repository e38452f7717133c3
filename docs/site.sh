#!/bin/sh
# Builds the site: one Doxygen run for common/, one for each stage, one for the chapters.
#
#   usage: docs/site.sh FOLDER STAGE...      (`make docs` calls this, from the top)
#
#   FOLDER/index.html                        README.md, or docs/index.md if there is one
#   FOLDER/*.html                            the chapters, docs/*.md
#   FOLDER/common/, FOLDER/stage1-blocking/  the code; a stage's main page is its README.md
#   FOLDER/files/                            copies of the other files that the texts link to
#
# The stages know common/ by its tag file, and the chapters link to all of them by name, which the
# Markdown filter resolves. Any warning, any complaint about the configuration, and any link that
# leads nowhere makes the whole fail.
set -u

site=$1
shift
TOP=$(pwd)
export TOP
work=$(mktemp -d "${TMPDIR:-/tmp}/site.XXXXXX") || exit 2
trap 'rm -rf "$work"' EXIT
trap 'exit 130' INT TERM
rm -rf "$site"
mkdir -p "$site"

existing() { # FILE...: those that exist
    for file; do
        [ ! -e "$file" ] || printf '%s ' "$file"
    done
}

# Writes the layout of the next run: Doxygen's own menu, and a line for each part of the course.
layout() { # WAY TO THE TOP, STAGE...
    top=$1
    shift
    {
        [ -z "$top" ] || echo "<tab type=\"user\" url=\"${top}index.html\" title=\"The course\"/>"
        for part in "$@" common; do
            echo "<tab type=\"user\" url=\"$top$part/index.html\" title=\"$part\"/>"
        done
    } >"$work/tabs"
    sed "/<tab type=\"mainpage\"/r $work/tabs" "$work/layout.default" >"$work/layout.xml"
}

failed=0
run() { # NAME FOLDER MAIN_PAGE INPUT; further lines of the configuration come from standard input
    mkdir -p "$site/$2"
    {
        cat docs/Doxyfile
        cat <<END
PROJECT_NAME           = "$1"
INPUT                  = $4
USE_MDFILE_AS_MAINPAGE = $3
OUTPUT_DIRECTORY       = $site/$2
HTML_OUTPUT            = .
LAYOUT_FILE            = $work/layout.xml
EXAMPLE_PATH           = $work/snippets $(existing tests)
END
        cat
    } >"$work/Doxyfile"
    doxygen "$work/Doxyfile" >"$work/log" 2>&1
    status=$?
    if [ $status -ne 0 ] || grep -q 'warning: \|error: ' "$work/log"; then
        sed "s|$TOP/||" "$work/log"
        echo "docs: Doxygen is not content with $1"
        failed=1
    fi
}

doxygen -l "$work/layout.default" >/dev/null

# What the chapters show of the sources: copies with markers.
for source in common/*.[ch] common/apps/*.[ch] stage[1-5]-*/*.[ch]; do
    [ -e "$source" ] || continue
    mkdir -p "$work/snippets/$(dirname "$source")"
    awk -f docs/snippets.awk "$source" >"$work/snippets/$source"
done

layout ../ "$@"
run common common "$(existing common/README.md)" common <<END
GENERATE_TAGFILE       = $work/common.tag
END
for stage; do
    run "$stage" "$stage" "$(existing "$stage/README.md")" "$stage" <<END
TAGFILES               = $work/common.tag=../common
END
done

main=$(existing docs/index.md README.md)
main=${main%% *}
layout '' "$@"
run 'Scalable servers, stage by stage' . "$main" "$main $(existing docs)" <<END
TAGFILES               = $work/common.tag=common
FILE_PATTERNS          = *.md
END

# Every link that leads into the site, as PAGE<TAB>FILE<TAB>#FRAGMENT.
links() {
    (cd "$site" && find . -name '*.html' -exec grep -oE '(href|src)="[^"]*"' {} +) |
        sed -E 's|^\./||; s/:(href|src)="/\t/; s/"$//' | sort -u |
        awk -F '\t' -v OFS='\t' '
            $2 == "" || $2 ~ /^([a-z]+:|\/\/)/ { next }
            {
                page = target = $1
                fragment = ""
                if (match($2, /#.*/)) {
                    fragment = substr($2, RSTART)
                    $2 = substr($2, 1, RSTART - 1)
                }
                if ($2 != "") {
                    sub(/[^\/]*$/, "", target)
                    target = target $2
                    while (sub(/[^\/]+\/\.\.\//, "", target))
                        ;
                }
                print page, target, fragment
            }' | sort -u
}

links >"$work/links"
cut -f 2 "$work/links" | sort -u | sed -n 's|^files/||p' | while read -r copy; do
    file=${copy%.txt}
    [ -f "$file" ] || continue
    mkdir -p "$(dirname "$site/files/$copy")"
    cp "$file" "$site/files/$copy"
done
cut -f 2 "$work/links" | sort -u | while read -r file; do
    [ -e "$site/$file" ] || echo "$file"
done >"$work/missing"
(cd "$site" && find . -name '*.html' -exec grep -oE '(id|name)="[^"]*"' {} +) |
    sed -E 's|^\./||; s/:(id|name)="/\t#/; s/"$//' >"$work/anchors"
awk -F '\t' '
    FILENAME ~ /missing$/ { missing[$1]; next }
    FILENAME ~ /anchors$/ { anchor[$1 $2]; next }
    $2 in missing { print "docs: " $1 " links to " $2 ", which is not there"; next }
    $3 != "" && $3 != "#" && $2 ~ /\.html$/ && !(($2 $3) in anchor) {
        print "docs: " $1 " links to " $2 $3 ", which is not there"
    }' "$work/missing" "$work/anchors" "$work/links" >"$work/broken"
if [ -s "$work/broken" ]; then
    cat "$work/broken"
    failed=1
fi
[ "$failed" -eq 0 ] && echo "docs: $site/index.html"
