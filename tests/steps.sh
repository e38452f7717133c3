#!/bin/sh
# The steps that lead to each stage: what there is, laid out, compared, measured and tested.
#
#   usage: tests/steps.sh COMMAND ...        (tests/steps.mk calls this, from the top)
#
#   numbers              the numbers of the steps that lead to stages, in order, one a line
#   core                 those of the core's steps, C.1 and so on
#   map                  which file of the core stands, is new, or is stood in for, in which of these
#   names                "1.1 one-client, 1.2 ...", for messages
#   folder STEP          its folder
#   before STEP          the step before, name STEP: what its program calls itself
#   field STEP NAME      what its file `step` says
#   lost STEP            for each earlier step whose tests do not pass here, its number, the number of
#                        the step where they pass again, or -, and its name
#   stage-steps          the steps that are stages themselves
#   sanitized            the programs that are wanted with a sanitizer beside the others
#   sources [STEP]       the sources of its program, or a stage's; of all steps, with STEP: in front of each
#   lay-out STEP FOLDER  makes links to them in FOLDER
#   compile FOLDER COMMAND...
#                        compiles what was laid out there, but for what another step beside it has compiled
#   run PROGRAM...       runs a program for make, which has nothing to complain of when somebody stops it
#   diff FROM TO [PARTS] what changes between two steps or stages; in parts (docs/stage_diff.sh)
#   new_lines STEP       how many lines of code are not in the step before
#   list                 a line for each step; wants CC, OUT, SANITIZE, LIBRARIES and all steps built
#   linked STEP_OR_STAGE the files of common/ that it links with echo alone, behind their lines of code; wants the same
#   pages [check]        puts the code that pages and chapters show into them anew, or checks that it is there
#   test STEP...         runs the tests of steps; wants the same, and OUT/tests/steps
#   check STEP...        that these steps are small, and that all pages show the code that there is
#   test-each STEP       the same for one of several steps, without what is asked only of one
#   exercise STEP SERVER runs the tests of the exercise on its page on another program
#   grade STEP SERVER [PATTERN]
#                        runs those of a step, and of those that it keeps, on another program; or some of them
#   grade-races STEP SERVER [PATTERN]
#                        the same for one that was built with ThreadSanitizer
#
# A step is a folder stageN-*/steps/N.M-name, or common/steps/C.M-name for the core's, with its sources, its page README.md, and a file `step`:
#
#   kind: fails, then holds    its own tests, or the commands of its page, fail at the step before, and
#                              not here; cost: it counts something; shape: the same tests pass
#   idea: ...                  one line
#   before: 1.2                the step before, if that is not the one above it in the list
#   keeps: 1.2 1.3             older steps whose tests pass here, too
#   from: stage5 acceptor.c    takes these files from that stage, or step
#   shares: 2.7 (or stage2)    takes all other files that it does not have itself from there
#   omits: a.c b.c             but for these
#   gives: a.c                 its lab begins with these files of its folder, too
#   renames: old=new=variable  files, structs and variables of the step before have other names here;
#                              a line counts as new only if more than a name is
#   loses: by chance           its program waits forever now and then, so what it has lost of the older
#                              steps cannot be listed
#   exercise: other answers    the solution of its exercise does not answer as the step does, so it
#                              need not pass the tests of steps
#   sanitizer: address         its tests need programs with that sanitizer
#   threads: yes               its lab is graded under ThreadSanitizer, too
#
# A step that shares a stage's files and has no source of its own is that stage. exercise.patch is our
# solution of the exercise on the page, if it has tests.
set -u

fail() {
    echo "steps: $1" >&2
    exit 2
}

numbers() {
    printf '%s\n' stage[1-5]-*/steps/[1-5].*-*/step | sed '/[*]/d; s|.*/steps/||; s/-.*//' | sort -t . -k 1,1n -k 2,2n
}

folder() { # STEP
    for folder in stage[1-5]-*/steps/"$1"-* common/steps/"$1"-*; do
        [ -e "$folder/step" ] && echo "$folder" && return
    done
    fail "STEP=$1: no such step; there are: $(names)"
}

core() {
    printf '%s\n' common/steps/C.*-*/step | sed '/[*]/d; s|.*/steps/||; s/-.*//' | sort -t . -k 2,2n
}

# The order in which the course is read, which docs/index.md says.
in_order() {
    docs/order.sh | sed -nE 's|.*[[:space:]][^[:space:]]*steps/([1-5C]\.[0-9]+)-[^/]*/README.md[[:space:]].*|\1|p'
}

names() {
    for number in $(in_order); do
        basename "$(folder "$number")" | sed 's/-/ /; s/$/,/'
    done | tr '\n' ' ' | sed 's/, $//'
}

field() { # STEP NAME: what the step's file says
    sed -n "s/^$2: *//p" "$(folder "$1")/step"
}

stage_folder() { # stageN, or N
    for stage in stage"${1#stage}"-*/; do
        [ -e "$stage/main.c" ] && echo "${stage%/}" && return
    done
    fail "no such stage: $1"
}

is_stage() { # STEP
    case $(field "$1" shares) in
    stage[1-5]) ! ls "$(folder "$1")"/*.c >/dev/null 2>&1 ;;
    *) false ;;
    esac
}

stage_steps() {
    grep -l '^shares: stage[1-5]$' stage[1-5]-*/steps/*/step 2>/dev/null | while read -r file; do
        folder=${file%/step}
        set -- "$folder"/*.c
        [ -e "$1" ] || { folder=${folder##*/} && echo "${folder%%-*}"; }
    done
}

before() { # STEP: the one before; nothing for the first
    named=$(field "$1" before)
    [ -n "$named" ] && echo "$named" && return
    case $1 in C.*) core ;; *) numbers ;; esac |
        awk -v step="$1" '$0 == step { print last; exit } { last = $0 }'
}

# The name by which the program of a step calls itself, and where it is.
name() { # STEP_OR_STAGE
    case $1 in
    [1-5]) stage_folder "$1" ;;
    *) if is_stage "$1"; then stage_folder "$(field "$1" shares)"; else echo "step$1"; fi ;;
    esac
}

program() { # STEP OUT
    if is_stage "$1"; then echo "$2/$(name "$1")"; else echo "$2/steps/$1/step$1"; fi
}

# The sources of all steps, as "STEP:FILE", a line each. A step's own files come first, then those that it
# names, so that they win over the others. In one process, because make asks for them each time it runs.
sources_of_all() {
    {
        grep -s '' /dev/null stage[1-5]-*/steps/[1-5].*-*/step common/steps/C.*-*/step
        printf '%s\n' stage[1-5]-*/*.[ch] stage[1-5]-*/steps/[1-5].*-*/*.[ch] common/steps/C.*-*/*.[ch]
    } | awk '
        function all_of(step,   each, i, count, files, name, folder, found) {
            found = files_in[folders[step]]
            for (each = 1; each <= takes[step]; each++) {
                count = split(taken[step, each], files, " ")
                folder = files[1] ~ /^stage/ ? stages[files[1]] : folders[files[1]]
                for (i = 2; i <= count; i++) {
                    name = folder "/" files[i]
                    if (!(name in known)) {
                        print "steps: step " step " takes " files[i] ", which is not there" >"/dev/stderr"
                        exit 2
                    }
                    found = found " " name
                }
            }
            if (shared[step] ~ /^stage/)
                return found " " files_in[stages[shared[step]]]
            return shared[step] == "" ? found : found " " all_of(shared[step])
        }
        /\/step:/ {
            folder = $0
            sub(/\/step:.*/, "", folder)
            step = folder
            sub(/.*\//, "", step)
            sub(/-.*/, "", step)
            folders[step] = folder
            field = value = substr($0, length(folder) + 7)
            sub(/:.*/, "", field)
            sub(/[^:]*: */, "", value)
            if (field == "from")
                taken[step, ++takes[step]] = value
            else if (field == "shares")
                shared[step] = value
            else if (field == "omits")
                omits[step] = value
            next
        }
        !/\*/ {
            folder = $0
            sub(/\/[^\/]*$/, "", folder)
            files_in[folder] = files_in[folder] " " $0
            known[$0]
            if (folder !~ /\//)
                stages[substr(folder, 1, 6)] = folder
        }
        END {
            for (step in folders) {
                count = split(all_of(step), files, " ")
                for (i = 1; i <= count; i++) {
                    name = files[i]
                    sub(/.*\//, "", name)
                    if (!((step, name) in seen) && !index(" " omits[step] " ", " " name " "))
                        print step ":" files[i]
                    seen[step, name]
                }
            }
        }'
}

sources() { # [STEP_OR_STAGE]
    case ${1:-} in
    '') sources_of_all ;;
    *.*) folder "$1" >/dev/null && sources_of_all | sed -n "s/^$1://p" ;;
    *) stage=$(stage_folder "$1") && ls "$stage"/*.[ch] ;;
    esac || exit 2
}

lay_out() { # STEP FOLDER
    mkdir -p "$2" && rm -f "$2"/*.[chod]
    sources "$1" | while read -r file; do
        ln -s "$PWD/$file" "$2" || exit 2
    done
}

# Most files stand in several steps, and are compiled in the first that finds no object of the same source and the
# same headers. One that is being compiled has another name until it is whole.
compile() { # FOLDER COMMAND...
    folder=$1
    shift
    for source in "$folder"/*.c; do
        name=${source##*/} name=${name%.c}
        for other in "${folder%/*}"/*/"$name.o"; do
            if has_compiled_the_same "${other%/*}" "$name"; then
                ln "$other" "$folder" && ln "${other%.o}.part.d" "$folder/$name.d" && continue 2
            fi 2>/dev/null
        done
        "$@" -c -o "$folder/$name.part.o" "$source" && mv "$folder/$name.part.o" "$folder/$name.o" || exit
    done
}

# shellcheck disable=SC3013 # -ef and -nt are in POSIX since 2024
has_compiled_the_same() { # OTHER_FOLDER NAME
    { [ "$1/$2.c" -ef "$folder/$2.c" ] && [ -e "$1/$2.part.d" ]; } || return
    used=$(sed 's/^.*\.o://; s/\\$//; /:$/d' "$1/$2.part.d" 2>/dev/null) || return
    for file in "${folder%/*/*}/flags" $used; do
        case $file in
        "$1"/*) [ "$file" -ef "$folder/${file##*/}" ] || return ;;
        esac
        [ "$1/$2.o" -nt "$file" ] || return
    done
}

# A step is lost where its tests do not pass any more, and found where they do again. One without tests
# cannot be lost.
lost() { # STEP
    { numbers; grep -ho '^Test(step[1-5]_[0-9]*' tests/steps/*.c; grep '' stage[1-5]-*/steps/*/step /dev/null; } |
        awk -v step="$1" '
        /^[1-5]\.[0-9]+$/ { order[++count] = $0; next }
        sub(/^Test\(step/, "") { sub(/_/, "."); tested[$0]; next }
        {
            folder = said = $0
            sub(/\/step:.*/, "", folder)
            sub(/.*\//, "", folder)
            number = name = folder
            sub(/-.*/, "", number)
            sub(/^[^-]*-/, "", name)
            gsub(/-/, " ", name)
            names[number] = name
            if (sub(/^[^:]*:keeps: */, " ", said))
                keeps[number] = said " "
        }
        END {
            for (from = 1; from <= count && order[from] != step; from++)
                ;
            for (i = 1; i < from; i++) {
                for (j = from; j <= count && !index(keeps[order[j]], " " order[i] " "); j++)
                    ;
                if (j != from && order[i] in tested)
                    print order[i], (j > count ? "-" : order[j]), names[order[i]]
            }
        }'
}

# ---- comparing ----------------------------------------------------------------------------------

# Copies of the files of a step or a stage, in a folder of the step's name; prints that name.
copy() { # STEP_OR_STAGE FOLDER
    files=$(sources "$1") && copied=$(name "$1") || exit 2
    mkdir -p "$2/$copied"
    # shellcheck disable=SC2086 # names of sources have no spaces
    cp $files "$2/$copied" && echo "$copied"
}

compare() { # FROM TO [PARTS]
    from=$(copy "$1" "$work") && to=$(copy "$2" "$work") || exit 2
    shift 2
    docs/stage_diff.sh "$work/$from" "$work/$to" "$@"
}

# ---- counting -----------------------------------------------------------------------------------

# Standard input without comments, blank lines and space at the ends of lines.
code() {
    awk '
    comment && !/\*\// || !comment && !/[^ \t]/ { next }
    !comment && quote == "" && !/\// { sub(/[ \t]+$/, ""); print; next }
    {
        out = ""
        for (i = 1; i <= length($0); i++) {
            two = substr($0, i, 2)
            one = substr($0, i, 1)
            if (comment) {
                if (two == "*/") { comment = 0; i++ }
            } else if (quote != "") {
                out = out one
                if (one == "\\") { i++; out = out substr($0, i, 1) }
                else if (one == quote) quote = ""
            } else if (two == "/*") { comment = 1; i++ }
            else if (two == "//") break
            else {
                if (one == "\"" || one == "\047") quote = one
                out = out one
            }
        }
        sub(/[ \t]+$/, "", out)
        if (out != "") print out
    }'
}

# The code of the file of the step before that has become this one, with the names of today.
code_before() { # FILE RENAMES SOURCE_BEFORE...
    script='' base=${1##*/}
    for rename in $2; do
        was=${rename%%=*} variable=${rename##*=} is=${rename#*=}
        is=${is%=*}
        script="$script;s/\\b${was}_/${is}_/g;s/\\bstruct $was\\b/struct $is/g;s/\"$was\\.h\"/\"$is.h\"/"
        script="$script;s/\\b$was\\b/$variable/g"
        case $base in "$is".[ch]) base=$was${base#"$is"} ;; esac
    done
    shift 2
    for other; do
        [ "${other##*/}" != "$base" ] || code <"$other" | sed "$script"
    done
}

# A step is small, and the tests of nearly all show something that fails at the step before.
LINES_MAX=300
SHAPES_MAX=6

# And not more than so many steps follow each other, in the order of reading, without a client that sees a difference.
UNSEEN_MAX=3

# How many lines of the step's code are not in the step before. A file that both share has none.
new_lines() { # STEP
    old=$(before "$1")
    renames=$(field "$1" renames)
    old_sources=
    [ -z "$old" ] || old_sources=$(sources "$old")
    for file in $(sources "$1"); do
        case "
$old_sources
" in *"
$file
"*) [ -n "$renames" ] || continue ;; esac
        # shellcheck disable=SC2086 # names of sources have no spaces
        code_before "$file" "$renames" $old_sources >"$work/old"
        code <"$file" | diff "$work/old" - | grep -c '^>'
    done | awk '{ sum += $1 } END { print sum + 0 }'
}

# The files of common/ that a program consists of, by what the linker takes and what that includes.
linked() { # STEP [OBJECT]
    # shellcheck disable=SC2046,SC2086 # lists of files
    grep -q '"common/' $(sources "$1") || return 0
    objects=$OUT/obj/$(name "$1")
    [ -d "$objects" ] || objects=$OUT/steps/$1
    # shellcheck disable=SC2086 # CC may be several words
    ${CC:-cc} ${SANITIZE:-} -pthread -o "$work/program" "$objects"/*.o ${2:+"$2"} "$OUT/libcommon.a" \
        ${LIBRARIES:-} -Wl,-S -Wl,-Map="$work/map" || exit 2
    grep -oE 'libcommon\.a\([a-z_0-9]+\.o' "$work/map" | sed 's|.*(|/|; s/\.o$/.c/' | sort -u >"$work/taken"
    find common -name '*.c' ! -path 'common/steps/*' |
        awk 'FILENAME != "-" { taken[$0]; next } { name = $0; sub(/.*\//, "/", name) } name in taken' \
            "$work/taken" - | sort >"$work/members"
    {
        cat "$work/members"
        sed "s|^|$OUT/obj/|; s/\.c$/.d/" "$work/members" | xargs cat "$objects"/*.d |
            tr ' ' '\n' | grep -o '^common/[^:]*\.h'
    } | sort -u
}

# Files of common/ that the steps link and none shows, as none shows the C library; and how many lines of
# code they may have.
GIVEN=tests/given.txt
GIVEN_MAX=2000

# "FILE until STEP: ..." is given to earlier steps only.
given() { # [PASSED]: but for those that a step in the file PASSED shows
    awk 'FILENAME == ARGV[1] && ARGC > 2 { passed[$1 ":"]; next } !/^#/ && !($2 == "until" && $3 in passed) { print $1 }' \
        ${1:+"$1"} $GIVEN
}

given_lines() {
    given | while read -r file; do
        code <"$file" || exit 2
    done | wc -l
}

# How many lines of code a step is the first to link, but for those that are given; all of its files are
# known from now on. What only the other applications link no step has shown, so with echo alone it is new
# still: each way of linking knows what it has linked itself, and all know what echo does.
first_linked() { # STEP echo|all [OBJECT]
    number=$1 way=$2
    shift 2
    echo "$number" >>"$work/passed"
    given "$work/passed" >"$work/given"
    linked "$number" "$@" | grep -vxFf "$work/given" >"$work/linked"
    grep -vxFf "$work/known.$way" "$work/linked" | while read -r file; do
        code <"$file"
    done | wc -l
    for known in "$work"/known.*; do
        if [ "$way" != all ] || [ "$known" != "$work/known.echo" ]; then
            cat "$work/linked" >>"$known"
        fi
    done
}

# Stands in for what has a folder in common/apps, all applications but echo, in a program that is only
# linked. A folder has an application or a service of a chain. A step's own small one counts instead.
without_applications() {
    for folder in common/apps/*/; do
        name=$(basename "$folder")
        [ ! -d "$folder" ] || [ "$name" = echo ] ||
            printf '%s\n' "${name}_application" "${name}_service"
    done >"$work/others"
    sed 's/.*/extern const char &; __attribute__((weak)) const char & = 0;/' "$work/others" |
        ${CC:-cc} -x c -c -o "$work/without.o" -
}

linked_with_echo() { # STEP_OR_STAGE
    without_applications && linked "$1" "$work/without.o" | while read -r file; do
        echo "$(code <"$file" | wc -l) $file"
    done
}

list() {
    without_applications || exit 2
    printf '%-5s %-18s %13s  %-17s %s\n' step name 'new lines' kind idea
    : >"$work/known.echo"
    : >"$work/known.all"
    for number in $(in_order); do
        counts=$(new_lines "$number")
        common=$(first_linked "$number" echo "$work/without.o")
        others=0
        # shellcheck disable=SC2046 # a list of files
        ! grep -qFf "$work/others" $(sources "$number") || others=$(first_linked "$number" all)
        [ "$common" -eq 0 ] || counts="$counts + $((common))"
        [ "$others" -eq 0 ] || counts="$counts ($((others)))"
        short=$(basename "$(folder "$number")")
        printf '%-5s %-18s %13s  %-17s %s\n' "$number" "${short#*-}" "$counts" \
            "$(field "$number" kind)" "$(field "$number" idea)"
    done
    echo 'New lines: code that is not in the step before; + that of common/ which it is the first to link'
    echo 'with echo alone; in brackets what its other applications add. Not counted are the' "$(given_lines)"
    echo "lines that are given ($GIVEN)."
}

# ---- pages --------------------------------------------------------------------------------------

# A page says what it shows in front of a block of C: <!-- server.c: client_run --> a function or a
# struct with the comment above it, <!-- server.c --> the whole file. A chapter says it by a line that
# is nothing but a link, [reactor.c: reactor_run](../stage2-single-reactor/reactor.c), which the site
# needs, too (docs/filter_markdown.awk).
refreshed() { # PAGE
    sources=
    case $1 in
    */steps/*) sources=$(sources "$(basename "$(dirname "$1")" | sed 's/-.*//')" | tr '\n' ' ') ;;
    esac
    awk -v sources="$sources" -v page="$1" -v folder="$(dirname "$1")" '
        function complain(what) { print page ":" FNR ": " what >"/dev/stderr"; bad = 1 }
        function place(file,    n, i, all) {
            n = split(sources, all, " ")
            for (i = 1; i <= n; i++)
                if (all[i] ~ "/" file "$")
                    return all[i]
            return file
        }
        function is_definition(text, n, i) {
            while (i < n && text[i] !~ /[;{]$/)
                i++
            return text[i] ~ /\{$/
        }
        function begins(text, name) {
            return name ~ / / ? text == name " {" : text ~ "^[a-z].*[ *]" name "($|[^a-z_0-9])"
        }
        function show(file, name,    line, n, i, j, text) {
            while ((getline line <file) > 0)
                text[++n] = line
            close(file)
            if (n == 0) { complain("there is no " file); return }
            if (name == "") {
                for (i = 1; i <= n; i++) print text[i]
                return
            }
            for (i = 1; i <= n; i++)
                if (begins(text[i], name) && is_definition(text, n, i))
                    break
            if (i > n) { complain(file " defines no " name); return }
            j = i
            if (text[i - 1] ~ /\*\/$/)
                for (j = i - 1; j > 1 && text[j] !~ /^\/\*/; j--)
                    ;
            for (; j <= n; j++) {
                print text[j]
                if (j >= i && text[j] ~ /^\}/)
                    break
            }
        }
        /^<!-- [a-z_0-9]+\.[ch](: [a-z_0-9]+)? -->$/ {
            print
            file = $2
            name = ""
            if (sub(/:$/, "", file))
                name = $3
            if ((getline) <= 0 || $0 != "```c") { complain("no block of C follows"); exit }
            print
            show(place(file), name)
            while ((getline) > 0 && $0 != "```")
                ;
            print "```"
            next
        }
        /^\[[^]:]*: [^]]*\]\([^() ]*\.[ch]\)$/ {
            print
            name = file = $0
            sub(/^\[[^:]*: /, "", name)
            sub(/\].*/, "", name)
            sub(/.*\]\(/, "", file)
            sub(/\)$/, "", file)
            linked = 1
            next
        }
        linked && /^```c$/ {
            print
            show(folder "/" file, name)
            while ((getline) > 0 && $0 != "```")
                ;
            print "```"
            linked = 0
            next
        }
        $0 != "" { linked = 0 }
        /^```c$/ { complain("a block of C that names no source") }
        { print }
        END { exit bad }' "$1"
}

# The map of the core's files, for the page that has the table of its steps: a row for each file that the table shows, a
# column for each step. Which stand-ins a step has is told by its sources.
MAP=common/steps/README.md

map() {
    sources_of_all | grep '^C\.' | cat - $MAP | awk '
        /^C\.[0-9]+:/ {
            split($0, part, ":")
            sub(/.*\//, "", part[2])
            sub(/segments\.c/, "buffer_factory_small.c", part[2])
            if (sub(/_small\.c$/, "", part[2]))
                stands_in[part[1], part[2]]
            next
        }
        /^\| \[C\.[0-9]/ {
            step = $2
            sub(/^\[/, "", step)
            steps[++count] = step
            split($0, column, " [|] ")
            while (match(column[2], /\]\([^)]*\)/)) {
                file = substr(column[2], RSTART + 2, RLENGTH - 3)
                column[2] = substr(column[2], RSTART + RLENGTH)
                sub(/^\.\.\//, "", file)
                kind = file ~ /\.c$/ ? "c" : "h"
                sub(/\.[ch]$/, "", file)
                if (!(file in seen)) {
                    seen[file]
                    rows[++files] = file
                }
                shown[file, kind] = count
            }
        }
        function mark(file, i,    base, at) {
            base = file
            sub(/.*\//, "", base)
            at = (file, "c") in shown ? shown[file, "c"] : shown[file, "h"]
            if (at <= i)
                return at == i ? "+" : "#"
            if ((steps[i], base) in stands_in || base ~ /^connection_/ && (file, "c") in shown && (steps[i], "connection") in stands_in)
                return "s"
            return (file, "h") in shown && shown[file, "h"] <= i ? "h" : "."
        }
        END {
            printf "%-26s", "C."
            for (i = 1; i <= count; i++)
                printf "%3s", substr(steps[i], 3)
            print ""
            for (row = 1; row <= files; row++) {
                printf "%-26s", rows[row]
                for (i = 1; i <= count; i++)
                    printf "%3s", mark(rows[row], i)
                print ""
            }
        }'
}

with_map() { # PAGE
    map >"$work/map"
    awk -v map="$work/map" '
        { print }
        /^<!-- map -->$/ {
            while ((getline) > 0 && $0 != "```text")
                print
            print
            while ((getline line <map) > 0)
                print line
            while ((getline) > 0 && $0 != "```")
                ;
            print
        }' "$1"
}

pages() { # [check]
    bad=0
    if [ -e $MAP ]; then
        with_map $MAP >"$work/page"
        if cmp -s "$work/page" $MAP; then
            :
        elif [ "${1:-}" = check ]; then
            echo "steps: FAILED: $MAP: its map shows other files than there are: make step-pages"
            bad=1
        else
            cp "$work/page" $MAP && echo "  PAGE    $MAP"
        fi
    fi
    for page in stage[1-5]-*/steps/*/README.md stage[1-5]-*/steps/*/hints.md common/steps/*/README.md docs/*.md; do
        [ -e "$page" ] || continue
        if ! refreshed "$page" >"$work/page"; then
            bad=1
        elif ! cmp -s "$work/page" "$page"; then
            if [ "${1:-}" = check ]; then
                echo "steps: FAILED: $page shows other code than its sources: make step-pages"
                diff "$page" "$work/page" | head -20
                bad=1
            else
                cp "$work/page" "$page" && echo "  PAGE    $page"
            fi
        fi
        if grep -qs 'Left out on purpose' "${page%/*}"/*.c && [ "${page##*/}" = README.md ] &&
            ! grep -q '^| left out on purpose |' "$page"; then
            echo "steps: FAILED: $page does not say what its program leaves out on purpose"
            bad=1
        fi
    done
    return $bad
}

# ---- testing ------------------------------------------------------------------------------------

# What Criterion prints about tests that it does not run, or has not run yet.
boring='^\[(SKIP|RUN |====\] Running)'

passed=0 failed=0
pass() {
    passed=$((passed + 1))
}

blame() { # STEP WHAT [FILE]
    failed=$((failed + 1))
    echo "steps: FAILED: $1: $2"
    [ $# -lt 3 ] || grep -vE "$boring|^\[PASS\]" "$3" | sed 's/^/    /' | head -30
}

# Where the programs are that a step's own tests want: those of OUT, if they have the sanitizer.
out_for() { # STEP
    sanitizer=$(field "$1" sanitizer)
    case ",${SANITIZER:-}," in
    *",$sanitizer,"*) echo "$OUT" ;;
    *) echo "$OUT${sanitizer:+/$sanitizer}" ;;
    esac
}

sanitized() {
    OUT=.
    grep -ls '^sanitizer: ' stage[1-5]-*/steps/*/step | sed 's|.*/steps/||; s/-.*//' | sort -t . -k 1,1n -k 2,2n |
        while read -r number; do
            for each in "$(before "$number")" "$number"; do
                [ "$(out_for "$number")" = . ] || program "$each" "$(out_for "$number")"
            done
        done | sed 's|^./||'
}

# Runs tests on a program; what they say goes to $work/output.
run_tests() { # STEP_OF_PROGRAM OUT PATTERN
    test_program "$(program "$1" "$2")" "$(name "$1")" "$3"
}

# A test that should fail waits less before it says so: PATIENCE_MS. ThreadSanitizer would let threads
# run on for a second after exit(), and answer what they should not; and what it reports ends the program
# at once, because a bare step is ended by a signal and would not pass that on as its exit status.
test_program() { # PROGRAM NAME PATTERN [PATIENCE_MS]
    # shellcheck disable=SC2086 # FIXED is two words or none
    SERVER=$1 SERVER_NAME=$2 CRITERION_TEST_PATTERN=$3 CRITERION_VERBOSITY_LEVEL=1 \
        CRITERION_JOBS="${CRITERION_JOBS:-4}" STEP_PATIENCE_MS=${4:-} ASAN_OPTIONS="exitcode=99:${ASAN_OPTIONS:-}" \
        TSAN_OPTIONS="atexit_sleep_ms=0:halt_on_error=1:${TSAN_OPTIONS:-}" timeout --foreground -k 5 120 ${FIXED:-} "$OUT/tests/steps" >"$work/output" 2>&1
}

suite() { # STEP
    echo "step$1" | tr . _
}

pattern() { # STEP...: all tests of these
    suites=
    for each; do
        suites="$suites${suites:+|}$(suite "$each")"
    done
    echo "@($suites)/*"
}

tests_of() { # SUITE
    grep -ho "^Test($1, [a-z_0-9]*" tests/steps/*.c | sed 's/.*, //'
}

# The tests of these steps pass on the program.
expect_pass() { # STEP OUT STEP_WITH_TESTS...
    tested=$1 out=$2
    shift 2
    [ $# -gt 0 ] || return 0
    if run_tests "$tested" "$out" "$(pattern "$@")" &&
        grep -q 'Synthesis: Tested: [1-9]' "$work/output"; then
        passed=$((passed + $(sed -n 's/.*Synthesis: Tested: \([0-9]*\).*/\1/p' "$work/output")))
    else
        blame "$tested" "the tests of $* do not pass" "$work/output"
    fi
}

# Each of its own tests fails on the program of the step before, because of its verdict.
expect_verdict() { # STEP
    old=$(before "$1")
    expect_verdicts "$1" "$(suite "$1")" "$(program "$old" "$(out_for "$1")")" "$(name "$old")"
}

expect_verdicts() { # STEP SUITE PROGRAM NAME
    for test in $(tests_of "$2"); do
        case $test in holds_*) continue ;; keeps_*) patience= ;; *) patience=2000 ;; esac
        test_program "$3" "$4" "$2/$test" "$patience" && status=0 || status=$?
        case $test in
        keeps_*)
            if [ "$status" -eq 0 ]; then
                pass
            else
                blame "$1" "$test does not pass on $4" "$work/output"
            fi
            ;;
        *)
            if [ "$status" -ne 0 ] && grep -q 'verdict: ' "$work/output" &&
                ! grep -qE 'CRASH|Timed out|Unexpected signal' "$work/output"; then
                pass
                [ -z "${only:-}" ] || echo "$4 fails, as it should: $2/$test: $(
                    sed -n 's/.*verdict: //p' "$work/output" | head -n 1)"
            else
                blame "$1" "$test has no verdict on $4 (status $status)" "$work/output"
            fi
            ;;
        esac
    done
}

# Our solution of the exercise passes its tests, and those of the step; the step's own program does not.
expect_exercise() { # STEP
    solution=$(folder "$1")/exercise.patch
    exercise=exercise$(echo "$1" | tr . _)
    [ -e "$solution" ] || return 0
    rm -rf "$work/exercise"
    in=$work/exercise/$(copy "$1" "$work/exercise")
    sanitizer=$(field "$1" sanitizer)
    flags=${sanitizer:+-fsanitize=$sanitizer}
    flags=${flags:-${SANITIZE:-}} # two sanitizers may be one too many
    library=
    ! grep -q '"common/' "$in"/*.c || library="$OUT/libcommon.a ${LIBRARIES:-}"
    # shellcheck disable=SC2086 # CC may be several words
    if ! patch -s -p 1 -d "$in" <"$solution" >"$work/output" 2>&1 ||
        ! ${CC:-cc} $flags ${flags:+-g1} -std=c11 -D_GNU_SOURCE -Wall -Wextra \
            -Wpedantic -Wshadow -Wconversion -Werror -pthread -I. -o "$in/server" "$in"/*.c $library \
            >>"$work/output" 2>&1; then
        blame "$1" "the solution of its exercise does not build" "$work/output"
        return
    fi
    # shellcheck disable=SC2046 # a list of numbers
    wanted=$([ -n "$(field "$1" exercise)" ] || pattern "$1" $(field "$1" keeps))
    if test_program "$in/server" "$(name "$1")" "@($exercise/*${wanted:+|$wanted})" &&
        grep -q 'Synthesis: Tested: [1-9]' "$work/output"; then
        pass
    else
        blame "$1" "the solution of its exercise does not pass" "$work/output"
    fi
    [ -z "${SANITIZER:-}" ] || return 0
    expect_verdicts "$1" "$exercise" "$(program "$1" "$OUT")" "$(name "$1")"
}

# What `make diff` prints, put on the files of the step before, with the names of today, makes the files of
# this one.
expect_diff() { # STEP
    old=$(before "$1")
    rm -rf "$work/a"
    mkdir "$work/a"
    compare "$old" "$1" "$work/a" >/dev/null
    docs/stage_diff.sh "$work/$from" "$work/$to" >"$work/output"
    if patch -s -E -p 1 -d "$work/a/old" <"$work/output" >"$work/error" 2>&1 &&
        diff -r "$work/a/old" "$work/$to" >>"$work/error"; then
        pass
    else
        blame "$1" "make diff FROM=$old TO=$1 is no patch that leads there" "$work/error"
    fi
}

# What a step is the first to link of common/ counts, too, as it is shown with it. Of the core's steps most are
# shapes.
expect_small_steps() { # STEP...
    shapes=0 unseen=0 most=0
    : >"$work/known.echo"
    without_applications || exit 2
    for number; do
        lines=$(new_lines "$number")
        lines=$((lines + $(first_linked "$number" echo "$work/without.o")))
        strange=$(grep '^common/apps/[^/]*/' "$work/linked" | grep -v '^common/apps/echo/')
        if [ -z "$strange" ]; then pass; else blame "$number" "with echo alone it links $(echo "$strange" | tr '\n' ' ')"; fi
        case $number.$(field "$number" kind) in
        C.*) ;;
        *.cost | *.shape) shapes=$((shapes + 1)) ;;
        esac
        case $(field "$number" kind) in
        fails*) unseen=0 ;;
        *) unseen=$((unseen + 1)) ;;
        esac
        [ $unseen -le $most ] || most=$unseen
        if [ "$lines" -le $LINES_MAX ]; then pass; else blame "$number" "$lines new lines, more than $LINES_MAX"; fi
    done
    lines=$(given_lines)
    if [ "$lines" -le $GIVEN_MAX ]; then pass; else blame "$GIVEN" "$lines lines are given, more than $GIVEN_MAX"; fi
    if [ $shapes -le $SHAPES_MAX ]; then pass; else blame "$*" "$shapes steps do not fail, then hold"; fi
    if [ $most -le $UNSEEN_MAX ]; then pass; else blame "$*" "$most steps in a row show no client a difference"; fi
}

# Under a sanitizer only what may make it report something: programs whose tests pass, and those whose
# tests fail because it reports something.
test_one() { # STEP
    # shellcheck disable=SC2046 # a list of numbers
    if [ "$(out_for "$1")" = "$OUT" ]; then
        expect_pass "$1" "$OUT" "$1" $(field "$1" keeps)
    else
        expect_pass "$1" "$(out_for "$1")" "$1"
        expect_pass "$1" "$OUT" $(field "$1" keeps)
    fi
    expect_exercise "$1"
    [ -n "$(before "$1")" ] || return 0
    [ -z "${SANITIZER:-}" ] || [ -n "$(field "$1" sanitizer)" ] || return 0
    [ "$(field "$1" kind)" = shape ] || expect_verdict "$1"
    [ -n "${SANITIZER:-}" ] || expect_diff "$1"
}

# The tests mostly wait, so several steps are tested at the same time; each says when it is done, and what
# they say is in order. Steps that are stages have the suites of their stage under sanitizers.
test_many() { # STEP...
    if [ -n "${SANITIZER:-}" ]; then
        # shellcheck disable=SC2046 # numbers have no spaces
        set -- $(printf '%s\n' "$@" | grep -vxF "$(stage_steps)")
    fi
    # shellcheck disable=SC2016 # these are for the shells that xargs starts
    printf '%s\n' "$@" | xargs -P $((4 * $(getconf _NPROCESSORS_ONLN))) -I '{}' \
        sh -c '"$1" test-each "$3" >"$2/said$3" 2>&1
            echo "  step $3: $(tail -n 1 "$2/said$3")"' - "$0" "$work" '{}'
    for number; do
        counts=$(tail -n 1 "$work/said$number" | grep -xE '[0-9]+ passed, [0-9]+ failed')
        if [ -n "$counts" ]; then
            sed '$d' "$work/said$number"
            passed=$((passed + ${counts%% *})) counts=${counts#*, } failed=$((failed + ${counts%% *}))
        else
            blame "$number" 'its tests did not come to an end' "$work/said$number"
        fi
    done
}

check() { # STEP...
    # shellcheck disable=SC2046 # numbers have no spaces
    expect_small_steps $(in_order | grep -xF "$(printf '%s\n' "$@")")
    if pages check; then pass; else failed=$((failed + 1)); fi
    report
}

# Somebody who tests one step may have written it, and our page shows our code.
test_steps() { # STEP...
    only=
    if [ $# -eq 1 ]; then
        only=1
        test_one "$1"
    else
        test_many "$@"
    fi
    report
}

report() {
    echo "$passed passed, $failed failed"
    [ "$failed" -eq 0 ]
}

# Grades a program that somebody else has written.
grade() { # STEP SERVER [PATTERN]
    STEP_GRADED=$(name "$1")
    export STEP_GRADED
    # shellcheck disable=SC2046 # a list of numbers
    grade_by "${3:-$(pattern "$1" $(field "$1" keeps))}" "$2"
}

# ThreadSanitizer keeps its own memory at addresses that a kernel which randomises more than 28 bits may
# have given away.
grade_races() { # STEP SERVER [PATTERN]
    bits=$(cat /proc/sys/vm/mmap_rnd_bits 2>/dev/null || echo 0)
    if setarch -R true 2>/dev/null; then
        FIXED='setarch -R'
    elif [ "$bits" -gt 28 ]; then
        echo "skipped: step $1: ThreadSanitizer cannot run here: this kernel randomises $bits bits of each address," \
            'and setarch -R, which would switch that off, is not permitted (in a container:' \
            '--security-opt seccomp=unconfined; or, as root: sysctl vm.mmap_rnd_bits=28)'
        echo '0 passed, 0 failed, 1 skipped'
        exit 0
    fi
    export TSAN_OPTIONS="log_path=$work/race:${TSAN_OPTIONS:-}"
    grade "$@"
    status=$?
    for report in "$work"/race.*; do
        [ -e "$report" ] || break
        echo "steps: FAILED: $1: ThreadSanitizer stopped the server, and the first of its reports begins:"
        head -40 "$report"
        return 1
    done
    return $status
}

exercise() { # STEP SERVER
    exercise=exercise$(echo "$1" | tr . _)
    [ -n "$(tests_of "$exercise")" ] || fail "the exercise of step $1 has no tests of its own"
    grade_by "$exercise/*" "$2"
}

grade_by() { # PATTERN SERVER
    test_program "$2" '' "$1"
    status=$?
    grep -vE "$boring" "$work/output"
    return $status
}

# `kill %1` and Ctrl-C reach all processes of make's group, and make passes on to its child what it got. For
# a server the second signal means to end at once, so the program is not in that group and gets one. And
# make complains if its child has ended before it has seen the signal itself, so the child stays a moment.
run() { # PROGRAM...
    told='' stopped=''
    # shellcheck disable=SC2046 # no word, where there is none
    $(command -v setsid) "$@" &
    trap told=1 INT TERM HUP QUIT
    trap 'kill -USR1 $!' USR1
    exec 2>/dev/null # or the shell would report how the program ended
    while wait $!; status=$?; [ "$status" -gt 128 ] && kill -0 $!; do # a signal has come
        [ -n "$told" ] || continue
        stopped=1
        kill $!
        sleep 0.5
        told=''
    done
    [ -z "$stopped" ] || [ "$status" -le 128 ] || status=0 # a bare step is killed by the signal
    exit "$status"
}

[ "$1" != run ] || "$@"

# make and other scripts ask for these many times.
command=$1
shift
case $command in
numbers | core | map | names | folder | before | field | lost | sources | sanitized | name)
    "$command" "$@"
    exit
    ;;
stage-steps) stage_steps; exit ;;
lay-out) lay_out "$@"; exit ;;
compile) compile "$@"; exit ;;
esac

work=$(mktemp -d "${TMPDIR:-/tmp}/steps.XXXXXX") || exit 2
trap 'rm -rf "$work"' EXIT
trap 'exit 130' INT TERM

case $command in
new_lines | list | pages | exercise | grade | check)
    "$command" "$@"
    ;;
linked) linked_with_echo "$@" ;;
diff) compare "$@" ;;
test) test_steps "$@" ;;
test-each) test_one "$@" ; report ;;
grade-races) grade_races "$@" ;;
*) fail "no such command: $command" ;;
esac
