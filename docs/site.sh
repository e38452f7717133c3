#!/bin/sh
# Builds the site, part by part: docs/docs.mk says what depends on what, so that only what has changed is made anew.
#
#   usage: docs/site.sh pages WORK               the order of all pages, and the side bar: WORK/pages, WORK/side
#          docs/site.sh code WORK PART           Doxygen for common or a stage: WORK/raw/PART, WORK/PART.tag
#          docs/site.sh chapters WORK STAGE...   Doxygen for docs/*.md, README.md, the pages of the steps and of
#                                                changes, which docs/diff_pages.sh has put into WORK/made
#          docs/site.sh polish WORK PART         the last touch: WORK/polished/PART; PART . are the chapters
#          docs/site.sh assemble WORK FOLDER SEEN.html STAGE...
#                                                the search, copies of files, the check of all links, and then
#                                                FOLDER, the site
#
#   FOLDER/index.html                        docs/index.md
#   FOLDER/*.html                            the chapters, docs/*.md; README.md; the pages of
#                                            the steps; what changes from stage to stage and
#                                            from step to step (docs/diff_pages.sh)
#   FOLDER/common/, FOLDER/stage1-blocking/  the code, by module; a stage's main page is its README.md
#   FOLDER/seen.html                         SEEN.html, traces of all stages to step through
#   FOLDER/play/                             docs/play, a page that is played; its links lead to the chapters
#   FOLDER/files/                            copies of the other files that the texts link to
#   FOLDER/site.css, *.js                    docs/theme, whose header and footer are around every page
#
# The order is that of docs/index.md (docs/order.awk). The stages know common/ by its tag file, and the
# chapters link to all of them by name, which the Markdown filter resolves. Any warning, any complaint
# about the configuration, and any link that leads nowhere makes the whole fail. VERSION is the version that the
# pages name, and REPOSITORY where their sources can be seen on the web, if there is such a place.
#
# Somebody may be reading the site while it is built again, from a server that has FOLDER open. So it
# is built in a folder beside, and put in place at the end. If anything fails, the old site stays.
set -u

command=$1 work=$2
shift 2
TOP=$(pwd)
MADE=$TOP/$work/made # pages that a script makes
export TOP MADE
mkdir -p "$work"
failed=0

existing() { # FILE...: those that exist
    for file; do
        [ ! -e "$file" ] || printf '%s ' "$file"
    done
}

name_of() { # STAGE: "2, single reactor"
    echo "$1" | sed 's/^stage\([1-5]\)-/\1, /; s/-/ /g'
}

texts() { # all pages that are Markdown
    existing docs/index.md README.md docs/*.md stage[1-5]-*/steps/README.md stage[1-5]-*/steps/*/README.md \
        common/steps/README.md common/steps/*/README.md \
        "$MADE"/docs/remarks/*.md
}

# ---- the order, and the side bar ---------------------------------------------------------------------

pages() {
    docs/order.sh >"$work/order.new" || exit 1
    awk -v changes="$(cd "$MADE/docs/remarks" && printf '%s ' *.md)" -v made_in="$MADE" -v side="$work/side.new" \
        -f docs/names.awk -f docs/pages.awk "$work/order.new" >"$work/pages.new"
    # Every text is in the order, so that none is forgotten.
    for text in docs/*.md; do
        cut -f 4 "$work/order.new" | grep -qxF "$text" || { echo "docs: docs/index.md does not lead to $text"; exit 1; }
    done
    cut -f 4 "$work/order.new" | while read -r text; do
        [ -e "$text" ] || { echo "docs: docs/index.md leads to $text, which is not there"; exit 1; }
    done || exit 1
    # What has not changed keeps its time, and with it all that is made of it.
    for file in pages side; do
        cmp -s "$work/$file.new" "$work/$file" || cp "$work/$file.new" "$work/$file"
    done
}

# The modules of a part of the code, in the order in which its README.md names their headers.
modules() { # PART
    {
        [ ! -e "$1/README.md" ] || grep -oE '\]\((apps/)?[a-z_0-9]+\.[ch]\)' "$1/README.md" | tr -d '])('
        (cd "$1" && find . -name '*.[ch]' | sed 's|^\./||' | LC_ALL=C sort)
    } | sed 's|.*/||; s/\.[ch]$//' | awk '!seen[$0]++' | while read -r module; do
        page=$1/group__$(echo "$module" | sed 's/_/__/g').html
        # A source without a header of its own belongs to another module.
        [ ! -e "$work/raw/$page" ] || echo "<li><a data-page=\"$page\" href=\"@TOP@$page\">$module</a></li>"
    done
}

# ---- Doxygen -----------------------------------------------------------------------------------------

# A module's page begins with what it is for, and then with what a caller calls. The rest of the layout is
# that of this version of Doxygen.
layout() {
    doxygen -l "$work/layout.all.$1" 2>/dev/null
    awk '
        /<group>/ { group = 1 }
        /<\/group>/ { group = 0 }
        group && /<memberdecl>/ { print "    <detaileddescription title=\"\"/>\n" $0 "\n      <functions title=\"\"/>"; declared = 1; next }
        group && declared && /<functions / { next }
        /<\/memberdecl>/ { declared = 0 }
        group && /<detaileddescription/ { next }
        { print }' "$work/layout.all.$1" >"$work/layout.$1"
}

run() { # NAME FOLDER MAIN_PAGE INPUT; further lines of the configuration come from standard input
    mkdir -p "$work/raw/$2" "$work/snippets"
    rm -f "$work/raw/$2"/*.*
    layout "$2"
    {
        cat docs/Doxyfile
        cat <<END
PROJECT_NAME           = "$1"
INPUT                  = $4
USE_MDFILE_AS_MAINPAGE = $3
OUTPUT_DIRECTORY       = $work/raw/$2
HTML_OUTPUT            = .
EXAMPLE_PATH           = $work/snippets $(existing tests)
GENERATE_TAGFILE       = $work/$2.tag
HTML_HEADER            = docs/theme/header.html
HTML_FOOTER            = docs/theme/footer.html
LAYOUT_FILE            = $work/layout.$2
END
        cat
    } >"$work/Doxyfile.$2"
    doxygen "$work/Doxyfile.$2" >"$work/log.$2" 2>&1
    status=$?
    if [ $status -ne 0 ] || grep -q 'warning: \|error: ' "$work/log.$2"; then
        sed "s|$TOP/$work/made/|made: |; s|$TOP/||" "$work/log.$2"
        echo "docs: Doxygen is not content with $1"
        exit 1
    fi
}

code() { # PART
    title=$1 tags=
    [ "$1" = common ] || title="Stage $(name_of "$1")" tags=$work/common.tag=../common
    run "$title" "$1" "$(existing "$1/README.md")" "$1" <<END
EXCLUDE_PATTERNS       = */$1/steps/*
TAGFILES               = $tags
END
}

chapters() { # STAGE...
    # What the chapters show of the sources: copies with markers.
    for source in common/*/*.[ch] common/apps/*/*.[ch] stage[1-5]-*/*.[ch] docs/examples/*.c docs/examples/*/*.[ch]; do
        [ -e "$source" ] || continue
        mkdir -p "$work/snippets/${source%/*}"
        awk -f docs/names.awk -f docs/snippets.awk "$source" >"$work/snippets/$source"
    done
    run 'Scalable servers, stage by stage' . docs/index.md "$(texts)" <<END
TAGFILES               = $work/common.tag=common
FILE_PATTERNS          = *.md
END
}

# ---- the last touch ----------------------------------------------------------------------------------

# The bar and the side bar of a part; @TOP@ in them is the way to the top.
bars() { # WAY_TO_THE_TOP SIDE
    sed "s|@TOP@|$1|g" "$2" >"$work/side.$part"
    sed "s|@TOP@|$1|g" docs/theme/bar.html >"$work/bar.$part"
}

# They go into a page.
framed() { # WAY_TO_THE_TOP FILE
    sed -e "s|@TOP@|$1|g" -e "/^@SIDE@$/r $work/side.$part" -e '/^@SIDE@$/d' -e "/^@BAR@$/r $work/bar.$part" -e '/^@BAR@$/d' "$2"
}

polish() { # PART
    part=$1 to=$work/polished/$1 top=../
    [ "$part" != . ] || top=
    mkdir -p "$to"
    rm -f "$to"/*.*
    {
        if [ "$part" != . ]; then
            echo "<div class=\"modules\"><p class=\"part\">Modules of $part</p><ul>"
            modules "$part"
            echo '</ul></div>'
        fi
        cat "$work/side"
    } >"$work/whole.$part"
    bars "$top" "$work/whole.$part"
    # Doxygen's own theme, and its lists of all there is, stay behind: the side bar and the search take their
    # place. Which lists and pictures there are differs from version to version.
    for html in "$work/raw/$part"/*.html; do
        page=${html##*/}
        case $page in
        dir_*.html | files.html | annotated.html | classes.html | functions*.html | globals*.html | modules.html | \
            topics.html | pages.html) continue ;;
        esac
        [ "$part" = . ] || page=$part/$page
        framed "$top" "$html" |
            awk -v page="$page" -v top="$top" -v pages="$work/pages" -v site="$work/raw" -v version="$VERSION" \
                -v repository="${REPOSITORY-}" -f docs/names.awk -f docs/polish.awk >"$to/${page##*/}" || exit 1
    done
    find "$work/raw/$part" -maxdepth 1 -name '*.svg' ! -name 'doxygen.svg' ! -name 'doc.svg' ! -name 'docd.svg' \
        ! -name 'folder*.svg' ! -name 'plus*.svg' ! -name 'minus*.svg' -exec cp {} "$to" \;
    links_of "$to" "$([ "$part" = . ] || echo "$part/")" >"$work/links.$part"
}

# ---- links -------------------------------------------------------------------------------------------

# What the pages of a folder have: "link" PAGE FILE #FRAGMENT, or "name" PAGE #FRAGMENT, with tabs between.
links_of() { # FOLDER PREFIX
    (cd "$1" && grep -oE '(href|src|id|name)="[^"]*"' ./*.html) |
        sed -E 's|^\./||; s/:(href|src)="/\tlink\t/; s/:(id|name)="/\tname\t#/; s/"$//' | LC_ALL=C sort -u |
        awk -F '\t' -v OFS='\t' -v prefix="$2" '
            { page = prefix $1 }
            $2 == "name" { print "name", page, $3; next }
            $3 == "" || $3 ~ /^([a-z]+:|\/\/)/ { next }
            {
                target = page
                fragment = ""
                if (match($3, /#.*/)) {
                    fragment = substr($3, RSTART)
                    $3 = substr($3, 1, RSTART - 1)
                }
                if ($3 != "") {
                    sub(/[^\/]*$/, "", target)
                    target = target $3
                    while (sub(/[^\/]+\/\.\.\//, "", target))
                        ;
                }
                print "link", page, target, fragment
            }'
}

# ---- the site ----------------------------------------------------------------------------------------

# Pages that are no text of Doxygen's: they have a line @FRAME@ where the bar and the side bar belong, and @AROUND@
# where those to the page before it and behind it do.
alone() { # ADDRESS WAY_TO_THE_TOP FILE
    part=alone
    bars "$2" "$work/side"
    awk -F '\t' -v page="$1" -v top="$2" '
        { title[$1] = $2 }
        $1 == page { before = $4; after = $5 }
        END {
            print "<nav class=\"around\" aria-label=\"Before and after\">" \
                "<a class=\"before\" href=\"" top before "\"><small>Before</small>" title[before] "</a>" \
                "<a class=\"after\" href=\"" top after "\"><small>Next</small>" title[after] "</a></nav>"
        }' "$work/pages" >"$work/around.alone"
    sed -e "/^@FRAME@$/r docs/theme/frame.html" -e '/^@FRAME@$/d' \
        -e "/^@AROUND@$/r $work/around.alone" -e '/^@AROUND@$/d' "$3" >"$work/page.alone"
    framed "$2" "$work/page.alone" | awk -v page="$1" -v top="$2" -f docs/theme/alone.awk
}

assemble() { # FOLDER SEEN.html STAGE...
    final=$1 seen=$2 site=$1.new
    shift 2
    trap 'rm -rf "$site"' EXIT
    trap 'exit 130' INT TERM
    rm -rf "$site"
    mkdir -p "$site"
    cp -r "$work/polished/." "$site"
    cp docs/theme/*.css docs/theme/*.js docs/theme/icon.svg "$site"
    alone seen.html '' "$seen" >"$site/seen.html"
    mkdir -p "$site/play"
    cp docs/play/* "$site/play"
    for page in docs/play/*.html; do
        sed 's|href="\.\./\([a-z0-9]*\)\.md"|href="../\1.html"|g' "$page" >"$work/played"
        alone "${page#docs/}" ../ "$work/played" >"$site/${page#docs/}"
    done

    # When each text was changed last, as far as git knows.
    git log --no-renames --relative --format='@%cs' --name-only -- '*.md' 2>/dev/null |
        awk '/^@/ { date = substr($0, 2); next } $0 != "" && !seen[$0]++ { print $0 "\t" date }' >"$work/dates"
    awk -v dates="$work/dates" -v other="$VERSION_DATE" '
        BEGIN { FS = "\t"; while ((getline <dates) > 0) date[$1] = $2 }
        FNR == 1 { close(out); out = FILENAME ".dated" }
        match($0, /@DATE\([^)]*\)@/) {
            file = substr($0, RSTART + 6, RLENGTH - 8)
            $0 = substr($0, 1, RSTART - 1) (file in date ? date[file] : other) substr($0, RSTART + RLENGTH)
        }
        { print >out }' "$site"/*.html "$site"/*/index.html
    for page in "$site"/*.html.dated "$site"/*/*.html.dated; do
        mv "$page" "${page%.dated}"
    done

    # ["title","where","address","text"] for each section of a text and each thing that is defined.
    {
        echo 'window.searchIndex = ['
        echo '["Play the scheduler","chapter","play/scheduler.html"," You choose which thread takes the next step:' \
            'selector guard, barrier, lost wakeup, deadlock, starvation, race. ","play,game,schedule"],'
        echo '["The stages, seen running","chapter","seen.html"," What the threads of all five stages do, to step' \
            'through: a trace with the time that each client waits. ","trace,timeline,animation"],'
        for text in $(texts); do
            awk -f docs/names.awk -f docs/filter_markdown.awk "$text" |
                awk -v synonyms=docs/synonyms -f docs/search_texts.awk
        done
        for part in common "$@"; do
            awk -v part="$part" -f docs/search_tags.awk "$work/$part.tag"
        done
        echo '];'
    } >"$site/search_index.js"

    check_links "$@"
    [ "$failed" -eq 0 ] || exit 1
    docs/put_in_place.sh "$site" "$final" || exit 1
    echo "docs: $final/index.html"
}

# Copies the files that are linked, and says which link leads nowhere.
check_links() { # STAGE...
    links_of "$site/play" play/ >"$work/links.play"
    mkdir -p "$work/seen" && cp "$site/seen.html" "$work/seen" && links_of "$work/seen" '' >"$work/links.seen"
    parts=common
    for part in . play seen "$@"; do
        parts="$parts $part"
    done
    for part in $parts; do
        cat "$work/links.$part"
    done >"$work/links"
    awk -F '\t' '$1 == "link" && !seen[$3]++ { print $3 }' "$work/links" >"$work/targets"
    sed -n 's|^files/||p' "$work/targets" | while read -r copy; do
        file=${copy%.txt}
        [ -e "$file" ] || continue
        copy=$site/files/$copy
        mkdir -p "${copy%/*}"
        if [ -d "$file" ]; then
            find "$file" -type f | LC_ALL=C sort >"$copy"
        else
            cp "$file" "$copy"
        fi
    done
    while read -r file; do
        [ -e "$site/$file" ] || echo "$file"
    done <"$work/targets" >"$work/missing"
    # A puzzle is chosen by its name.
    sed -nE "s|^ *\\['([a-z]+)', '([A-Z_]+)'.*|name\tplay/scheduler.html\t#\1-\2|p" docs/play/scheduler.js >"$work/puzzles"
    awk -F '\t' '
        FILENAME ~ /missing$/ { missing[$1]; next }
        $1 == "name" { anchor[$2 $3]; next }
        $3 in missing { print "docs: " $2 " links to " $3 ", which is not there"; next }
        $4 != "" && $4 != "#" && $3 ~ /\.html$/ { wanted[$3 $4] = $2 }
        END {
            for (each in wanted)
                if (!(each in anchor) && each !~ /#show$/)
                    print "docs: " wanted[each] " links to " each ", which is not there"
        }' "$work/missing" "$work/puzzles" "$work/links" >"$work/broken"
    if [ -s "$work/broken" ]; then
        cat "$work/broken"
        failed=1
    fi
}

"$command" "$@"
