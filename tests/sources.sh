#!/usr/bin/env bash
# Tests what the pages say about the sources of the course.
#
#   usage: tests/sources.sh
#
# - docs/documents.md has a row for each document: the list of its titles, and the part of
#   docs/sources.md that goes through it. Each title of the list has a row there, in the list's order, and
#   no row has another title.
# - What a page cites as a slide or a section is one: the names in quotes in its "sources" row, and in the
#   "Source." of an erratum.
# - In docs/errata.md each entry has its row in the table and the other way round, and an entry "program"
#   has a program below docs/examples/errata, which its text links.
# - Those programs, compiled without a warning, show what the page says. Each prints what it sees and ends
#   with status 0 if that is it. Without a JDK they are skipped, and counted.
#
# Prints what failed, and "N passed, N failed" at the end, with ", N skipped" if there is no JDK.
set -u
cd "$(dirname "$0")/.." || exit 2

ROWS=docs/sources.md
ERRATA=docs/errata.md
PROGRAMS=docs/examples/errata
DEADLINE=60 # seconds for a program

work=$(mktemp -d "${TMPDIR:-/tmp}/sources.XXXXXX") || exit 2
trap 'kill $(jobs -p) 2>/dev/null; wait; rm -rf "$work"' EXIT
trap 'exit 130' INT TERM

passed=0 failed=0 skipped=0
pass() {
    passed=$((passed + 1))
}

fail() { # WHAT
    failed=$((failed + 1))
    printf 'sources: FAILED: %s\n' "$1"
}

# ---- titles -------------------------------------------------------------------------------------

titles() { # LIST
    grep -v '^#' "$1" | cut -f 1
}

# The first cells below a heading, each once for rows that follow each other; not those below a deeper heading.
cells() { # ANCHOR
    awk -v anchor="$1" '
        /^#+ / { title = tolower($0); sub(/^#+ +/, "", title); gsub(/[^a-z0-9 _-]/, "", title)
                 gsub(/ /, "-", title); inside = title == anchor; next }
        inside && /^\| / { cell = $0; sub(/^\| /, "", cell); sub(/ \|.*/, "", cell)
                           if (cell !~ /^(slide|section|---)$/ && cell != last) print cell
                           last = cell }' "$ROWS"
}

# The rows of the table of documents: a link to the part of the page, and a link to the list.
check_titles() {
    local anchor list documents=0
    while IFS=$'\t' read -r anchor list; do
        documents=$((documents + 1))
        titles "docs/sources/$list" >"$work/titles" || fail "docs/documents.md names $list, which is not there"
        cells "$anchor" >"$work/cells"
        if [ -s "$work/titles" ] && diff "$work/titles" "$work/cells" >"$work/differences"; then
            passed=$((passed + $(wc -l <"$work/titles")))
        else
            fail "$ROWS#$anchor has not the titles of docs/sources/$list (<), in their order"
            sed 's/^/    /' "$work/differences"
        fi
    done < <(sed -nE 's/^\| .*\]\(sources\.md#([^)]*)\).*\]\(sources\/([^)]*\.txt)\).*\|[^|]*[^| ][^|]*\|[^|]*[^| ][^|]*\|$/\1\t\2/p' \
        docs/documents.md)
    if [ "$documents" -eq 5 ]; then pass; else fail "docs/documents.md: $documents whole rows, expected 5"; fi
}

# ---- citations ----------------------------------------------------------------------------------

# What stands in quotes on the lines that name sources. The titles of the documents are in the lists.
cited() {
    awk '/^\| sources? \|/ { print FILENAME "\t" $0 }
         /^\*\*Source\.\*\*/ || /^Sources: / { inside = 1 }
         inside && /^$/ { inside = 0 }
         inside { text = text " " $0 }
         !inside && text != "" { print FILENAME "\t" text; text = "" }' \
        docs/*.md stage[1-5]-*/README.md stage[1-5]-*/steps/*/README.md |
        awk -F '\t' '{ n = split($2, parts, "\""); for (i = 2; i <= n; i += 2) print $1 "\t" parts[i] }' | sort -u
}

check_citations() {
    local page name
    { titles docs/sources/hitchens-2008.txt; titles docs/sources/hitchens-2006.txt; titles docs/sources/roth.txt
      titles docs/sources/lea.txt; echo 'Architect a scalable, multiplexed Java Server'
      echo 'How to Build a Scalable Multiplexed Server With NIO'; } >"$work/known"
    while IFS=$'\t' read -r page name; do
        if grep -qxF -- "$name" "$work/known"; then pass; else fail "$page cites \"$name\": no source has such a title"; fi
    done < <(cited)
}

# ---- errata -------------------------------------------------------------------------------------

check_errata() {
    local number found program section
    sed -nE 's/^\| \[([0-9]+)\]\(#[^|]*\| [^|]*\| [^|]*\| ([^|]*) \|.*/\1\t\2/p' "$ERRATA" >"$work/table"
    if sed -nE 's/^## ([0-9]+)\. .*/\1/p' "$ERRATA" | diff - <(cut -f 1 "$work/table") >"$work/differences"; then
        pass
    else
        fail "$ERRATA: the table has other numbers than the headings: $(cat "$work/differences")"
    fi
    while IFS=$'\t' read -r number found; do
        program=Erratum$(printf %02d "$number").java
        section=$(awk -v number="$number" '/^## / { inside = $2 == number "." } inside' "$ERRATA")
        case $found in
        *program)
            if [ -f "$PROGRAMS/$program" ] && [[ $section == *"(examples/errata/$program), on JDK "[0-9]* ]]; then
                pass
            else
                fail "$ERRATA: number $number is to have a program, $program, and to say on which JDK it ran"
            fi
            ;;
        'published code' | reading)
            if [ ! -f "$PROGRAMS/$program" ]; then pass; else fail "$ERRATA: number $number has a program"; fi
            ;;
        *) fail "$ERRATA: number $number was found by $found" ;;
        esac
    done <"$work/table"
    for program in "$PROGRAMS"/*.java; do # each is linked, or used by others
        program=${program##*/}
        if grep -qF "examples/errata/$program" "$ERRATA" || grep -qlw "${program%.java}" "$PROGRAMS"/Erratum*.java; then
            pass
        else
            fail "$ERRATA does not link $program, and no program uses it"
        fi
    done
}

# ---- programs -----------------------------------------------------------------------------------

# Leaves the output of a program, and its status.
run_program() { # NAME
    timeout "$DEADLINE" java -Xmx256m -XX:TieredStopAtLevel=1 -cp "$work/classes" "$1" >"$work/$1.output" 2>&1
    echo $? >"$work/$1.status"
}

# They mostly wait, so several run at a time.
run_programs() {
    local name running=0
    local -a names=()
    for name in "$PROGRAMS"/Erratum*.java "$PROGRAMS/NotCompiled.java"; do
        name=${name##*/}
        names+=("${name%.java}")
    done
    if ! command -v javac >/dev/null || ! command -v java >/dev/null; then
        skipped=${#names[@]}
        echo "skipped: sources, ${#names[@]} programs in Java: default-jdk-headless is not installed"
        return
    fi
    if ! javac -encoding UTF-8 -Xlint:all -Werror -d "$work/classes" "$PROGRAMS"/*.java 2>"$work/error"; then
        fail "$PROGRAMS: $(cat "$work/error")"
        return
    fi
    for name in "${names[@]}"; do
        if [ "$running" -ge 3 ]; then
            wait -n
            running=$((running - 1))
        fi
        run_program "$name" &
        running=$((running + 1))
    done
    wait
    for name in "${names[@]}"; do
        sed "s/^/$name: /" "$work/$name.output"
        if [ "$(cat "$work/$name.status")" -eq 0 ]; then pass; else fail "$name: status $(cat "$work/$name.status")"; fi
    done
}

check_titles
check_citations
check_errata
run_programs

skips=
[ "$skipped" -eq 0 ] || skips=", $skipped skipped"
echo "$passed passed, $failed failed$skips"
[ "$failed" -eq 0 ] && [ "$passed" -gt 0 ]
