#!/bin/sh
# Builds the site: one Doxygen run for common/, one for each stage, one for the chapters.
#
#   usage: docs/site.sh FOLDER SEEN.html STAGE...      (`make docs` calls this, from the top)
#
#   FOLDER/index.html                        docs/index.md
#   FOLDER/*.html                            the chapters, docs/*.md; README.md; the pages of
#                                            the steps; what changes from stage to stage and
#                                            from step to step (docs/diff_pages.sh)
#   FOLDER/common/, FOLDER/stage1-blocking/  the code, by module; a stage's main page is its README.md
#   FOLDER/seen.html                         SEEN.html, traces of all stages to step through
#   FOLDER/play/                             docs/play, a page that is played; its links lead to the chapters
#   FOLDER/files/                            copies of the other files that the texts link to
#   FOLDER/site.css, search.js, copy.js      docs/theme, whose header and footer are around every page
#
# The order of the chapters is that of docs/chapters. The stages know common/ by its tag file, and the
# chapters link to all of them by name, which the Markdown filter resolves. Any warning, any complaint
# about the configuration, and any link that leads nowhere makes the whole fail.
#
# Somebody may be reading the site while it is built again, from a server that has FOLDER open. So it
# is built in a folder beside, and put in place at the end. If anything fails, the old site stays.
set -u

final=$1
site=$1.new
seen=$2
shift 2
TOP=$(pwd)
work=$(mktemp -d "${TMPDIR:-/tmp}/site.XXXXXX") || exit 2
trap 'rm -rf "$work" "$site"' EXIT
trap 'exit 130' INT TERM
MADE=$work/made # pages that a script makes
export TOP MADE
rm -rf "$site"
mkdir -p "$site" "$MADE"

existing() { # FILE...: those that exist
    for file; do
        [ ! -e "$file" ] || printf '%s ' "$file"
    done
}

title_of() { # FILE.md: its first heading, without the part before a colon if there is another
    sed -n '/^# /{s/^# //;p;q;}' "$1"
}

name_of() { # STAGE: "2, single reactor"
    echo "$1" | sed 's/^stage\([1-5]\)-/\1, /; s/-/ /g'
}

failed=0

# ---- the pages of changes ----------------------------------------------------------------------------

docs/diff_pages.sh "$MADE" "$@" || failed=1

# ---- the side bar ------------------------------------------------------------------------------------

# A line of the side bar. polish.awk looks for the page's own and takes the attribute away.
entry() { # PAGE TITLE
    echo "<li><a data-page=\"$1\" href=\"@TOP@$1\">$2</a></li>"
}

# What belongs to a chapter on a stage: changes, code.
beside() { # NUMBER
    stage=$(existing "stage$1"-*/main.c)
    stage=${stage%%/*}
    [ -n "$stage" ] || return 0
    echo '<li class="beside">'
    for page in "steps$1.html:steps" "changes$1.html:changes" "$stage/index.html:code"; do
        case $page in
        steps*) [ -e "$stage/steps/README.md" ] || continue ;;
        changes*) [ -e "$MADE/docs/remarks/stage$1.md" ] || continue ;;
        esac
        echo "<a data-page=\"${page%:*}\" href=\"@TOP@${page%:*}\">${page#*:}</a>"
    done
    echo '</li>'
}

# The chapters; and $work/around, what comes before and after what.
chapters() {
    printf 'index.html\tThe course\n' >"$work/around"
    echo '<ul>'
    entry index.html 'The course'
    heading=
    while read -r line; do
        case $line in
        \#*) ;;
        *.md)
            [ -e "docs/$line" ] || continue
            [ -z "$heading" ] || echo "</ul><p class=\"part\">$heading</p><ul>"
            heading=
            page=${line%.md}.html
            title=$(title_of "docs/$line")
            printf '%s\t%s\n' "$page" "$title" >>"$work/around"
            entry "$page" "$title"
            case $line in stage[1-5].md) beside "$(echo "$line" | tr -dc 0-9)" ;; esac
            ;;
        *) heading=$line ;;
        esac
    done <docs/chapters
    echo '</ul><p class="part">Code</p><ul>'
    entry readme.html 'The repository'
    entry common/index.html common
    for each in $stages; do
        entry "$each/index.html" "stage $(name_of "$each")"
    done
    echo '</ul>'
}

# The modules of a part of the code, in the order in which its README.md names their headers.
modules() { # PART
    {
        [ ! -e "$1/README.md" ] || grep -oE '\]\((apps/)?[a-z_0-9]+\.[ch]\)' "$1/README.md" | tr -d '])('
        (cd "$1" && find . -name '*.[ch]' | sed 's|^\./||' | LC_ALL=C sort)
    } | sed 's|.*/||; s/\.[ch]$//' | awk '!seen[$0]++' | while read -r module; do
        file=$(echo "$module" | sed 's/_/__/g')
        # A source without a header of its own belongs to another module.
        [ ! -e "$site/$1/group__$file.html" ] || entry "$1/group__$file.html" "$module"
    done
}

stages=$*
chapters >"$work/chapters"
{
    for kind in stage step; do
        echo
        for text in $(existing "$MADE"/docs/remarks/$kind*.md); do
            printf '%s\t%s\n' "$(basename "$text" .md | sed "s/$kind/changes/; y/./_/").html" "$(title_of "$text")"
        done
    done
    echo
    for stage; do
        for text in $(existing "$stage/steps/README.md" "$stage"/steps/*/README.md); do
            case $text in
            */steps/README.md) page=steps$(echo "$stage" | tr -dc 0-9) ;;
            *) page=${text#*/steps/} page=step$(echo "${page%%-*}" | tr . _) ;;
            esac
            printf '%s.html\t%s\n' "$page" "$(title_of "$text")"
        done
    done
} >>"$work/around"
sed 's/@TOP@/..\//g' "$work/chapters" >"$work/chapters.below"

# ---- Doxygen -----------------------------------------------------------------------------------------

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
EXAMPLE_PATH           = $work/snippets $(existing tests)
GENERATE_TAGFILE       = $work/$2.tag
HTML_HEADER            = docs/theme/header.html
HTML_FOOTER            = docs/theme/footer.html
END
        cat
    } >"$work/Doxyfile.$2"
    doxygen "$work/Doxyfile.$2" >"$work/log.$2" 2>&1
    status=$?
    if [ $status -ne 0 ] || grep -q 'warning: \|error: ' "$work/log.$2"; then
        sed "s|$TOP/||; s|$MADE/|made: |" "$work/log.$2"
        echo "docs: Doxygen is not content with $1"
        failed=1
    fi
}

# What the chapters show of the sources: copies with markers.
for source in common/*/*.[ch] common/apps/*/*.[ch] stage[1-5]-*/*.[ch] docs/examples/*/*.[ch]; do
    [ -e "$source" ] || continue
    mkdir -p "$work/snippets/$(dirname "$source")"
    awk -f docs/names.awk -f docs/snippets.awk "$source" >"$work/snippets/$source"
done

run common common "$(existing common/README.md)" common </dev/null
for stage; do
    run "Stage $(name_of "$stage")" "$stage" "$(existing "$stage/README.md")" "$stage" <<END
EXCLUDE_PATTERNS       = */$stage/steps/*
TAGFILES               = $work/common.tag=../common
END
done
run 'Scalable servers, stage by stage' . docs/index.md "README.md $(existing docs/*.md \
    stage[1-5]-*/steps/README.md stage[1-5]-*/steps/*/README.md "$MADE"/docs/remarks/*.md)" <<END
TAGFILES               = $work/common.tag=common
FILE_PATTERNS          = *.md
END

# ---- the last touch ----------------------------------------------------------------------------------

polish() { # FOLDER WAY_TO_THE_TOP
    {
        if [ "$1" != . ]; then
            echo "<p class=\"part here\">$1</p><ul class=\"modules\">"
            modules "$1"
            echo '</ul>'
        fi
        cat "$work/chapters"
    } | sed "s|@TOP@|$2|g" >"$work/side"
    for html in "$site/$1"/*.html; do
        page=${html#"$site/$1"/}
        [ "$1" = . ] || page=$1/$page
        sed -e "/^@SIDE@$/r $work/side" -e '/^@SIDE@$/d' -e "s|@TOP@|$2|g" "$html" |
            awk -v page="$page" -v around="$work/around" -v site="$site" -f docs/names.awk \
                -f docs/polish.awk >"$work/polished" || failed=1
        cp "$work/polished" "$html"
    done
    # Doxygen's own theme, and its lists of all there is: the side bar and the search take their
    # place. Which lists and pictures there are differs from version to version.
    (cd "$site/$1" && rm -f ./*.png doxygen.svg doc.svg docd.svg folder*.svg plus*.svg minus*.svg \
        doxygen.css tabs.css ./*.js dir_*.html files.html annotated.html classes.html functions*.html \
        globals*.html modules.html topics.html pages.html)
}

polish . ''
for part in common "$@"; do
    polish "$part" ../
done
cp docs/theme/site.css docs/theme/search.js docs/theme/copy.js docs/theme/icon.svg "$seen" "$site"
mkdir -p "$site/play"
cp docs/play/* "$site/play"
for page in docs/play/*.html; do
    sed 's|href="\.\./\([a-z0-9]*\)\.md"|href="../\1.html"|g' "$page" >"$site/${page#docs/}"
done

# ---- what the search finds ---------------------------------------------------------------------------

# ["title","where","address","text"] for each section of a text and each thing that is defined.
{
    echo 'window.searchIndex = ['
    echo '["Play the scheduler","chapter","play/scheduler.html"," You choose which thread takes the next step:' \
        'selector guard, barrier, lost wakeup, deadlock, starvation, race. ","play,game,schedule"],'
    echo '["The stages, seen running","chapter","seen.html"," What the threads of all five stages do, to step' \
        'through: a trace with the time that each client waits. ","trace,timeline,animation"],'
    for text in docs/index.md README.md $(existing docs/*.md \
        stage[1-5]-*/steps/README.md stage[1-5]-*/steps/*/README.md "$MADE"/docs/remarks/*.md); do
        awk -f docs/names.awk -f docs/filter_markdown.awk "$text" | awk -v synonyms=docs/synonyms -f docs/search_texts.awk
    done
    for part in common "$@"; do
        awk -v part="$part" -f docs/search_tags.awk "$work/$part.tag"
    done
    echo '];'
} >"$site/search_index.js"

# ---- links -------------------------------------------------------------------------------------------

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
    [ -e "$file" ] || continue
    mkdir -p "$(dirname "$site/files/$copy")"
    if [ -d "$file" ]; then
        find "$file" -type f | LC_ALL=C sort >"$site/files/$copy"
    else
        cp "$file" "$site/files/$copy"
    fi
done
cut -f 2 "$work/links" | sort -u | while read -r file; do
    [ -e "$site/$file" ] || echo "$file"
done >"$work/missing"
(cd "$site" && find . -name '*.html' -exec grep -oE '(id|name)="[^"]*"' {} +) |
    sed -E 's|^\./||; s/:(id|name)="/\t#/; s/"$//' >"$work/anchors"
# A puzzle is chosen by its name.
sed -nE "s|^ *\['([a-z]+)', '([A-Z_]+)'.*|play/scheduler.html\t#\1-\2|p" docs/play/scheduler.js >>"$work/anchors"
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
[ "$failed" -eq 0 ] || exit 1

docs/put_in_place.sh "$site" "$final" || exit 1
echo "docs: $final/index.html"
