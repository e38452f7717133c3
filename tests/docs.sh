#!/usr/bin/env bash
# Tests what the documents say: README.md, those of the stages, the pages of the steps, the
# chapters in docs/, and those for contributors in .github/.
#
#   usage: [BUILD=folder] [JOBS=N] tests/docs.sh [DOCUMENT...]        (all of them, if none is named)
#
# - All of them are run in the order of the sittings (docs/sittings.sh), and then the others. So many blocks
#   at a time as JOBS says; with JOBS=1 as a reader does it: one after the other, in one tree, in which at first
#   there is only what `make` alone builds.
# - What a block fenced as `console` shows is what happens. Its lines that begin with `$ ` are
#   commands (`> ` continues one), the others are the output that follows. `...` stands for
#   anything, also for several lines.
# - What a block starts is there after `make` alone, or the page has built it before: blocks run in a copy
#   of the tree that has nothing else in build/, but for those that make more than a step's program.
# - A block that builds servers with APP= has a copy of the tree for itself, because other blocks run
#   the servers without that.
# - A block that looks into a process with strace, gdb, perf or ss is skipped where that tool is missing, or
#   may not look; and so is one that needs redis or HAProxy, where these are missing.
# - What a block fenced as `sh` shows is not run; its `make` commands are at least targets.
# - A relative link leads to a file that exists, and to a heading that exists in it. A line that shows a function
#   or a struct, by a link such as [reactor.c: reactor_run](...), names one that is defined there.
# - A page that has a source of its name below docs/examples shows statements of that source, and it
#   compiles.
# - A row of a table in docs/sources.md names a test, or says why there is none.
# - What a step says of real servers leads to their cards (docs/cards.md).
# - A remark in docs/remarks is about something that changes. The pages of changes count the lines that
#   make diff and make steps count.
# - No experiment stands twice: no two blocks have the same commands. (A page of a step runs the same
#   ones on two programs.) No two blocks write the same file below build/.
# - The main line is no longer than tests/words.sh allows, and so is each page of a step.
# - A test that is named as `suite/test` exists, and a name with an underscore is in the sources. A
#   stage's README.md names all files of the stage.
#
# Each block is run by a bash of its own, in the top folder, with the servers of BUILD. A command
# has some seconds to produce its output, so that a server started with & can take its time; what
# comes later counts for the next command. What a block leaves running is ended with it. Servers
# listen on the ports that the documents name, and a block ends what it has begun. Where that can be had, each block has a network of
# its own, and several run at a time; elsewhere one follows the other, and a port in use makes a
# block fail, and says so.
#
# A machine can be busy: leave half a second or more between things that have to come in an order,
# and compare times by their first digit only. What a server's log says then of a handler that holds its thread
# may come where a page does not show it. A block that shows something else is run once more at
# the end, with nothing beside it: many of them are experiments about time.
#
# Prints what failed, and "N passed, N failed" at the end, with ", N skipped" if any block was.
set -u
cd "$(dirname "$0")/.." || exit 2
unset MAKEFLAGS MAKELEVEL MFLAGS

DEADLINE=${DEADLINE:-30} # seconds for a command's output
BLOCK_BUDGET=90          # seconds for a block

tests/need.sh netcat 'nc -h 2>&1 | grep -q -- -N' netcat-openbsd -- curl 'command -v curl' curl || exit 1

# Most blocks wait more than they work.
own_network=() jobs=1
if unshare -rn ip link set lo up 2>/dev/null; then
    own_network=(unshare -rn sh -c 'ip link set lo up && exec "$@"' docs) jobs=${JOBS:-6}
fi
strict=
[ "${JOBS:-}" != 1 ] || strict=1

work=$(mktemp -d "${TMPDIR:-/tmp}/docs.XXXXXX") || exit 2
trap 'kill $(jobs -p) 2>/dev/null; wait; rm -rf "$work"' EXIT
trap 'exit 130' INT TERM

whole=
[ $# -gt 0 ] || whole=1
# shellcheck disable=SC2046 # a list of documents
[ $# -gt 0 ] || set -- README.md $(docs/sittings.sh) common/README.md stage[1-5]-*/README.md \
    stage[1-5]-*/steps/*/README.md common/steps/*/README.md docs/*.md docs/remarks/*.md .github/*.md
documents=()
declare -A is_listed
for document; do
    if [ -f "$document" ] && [ -z "${is_listed[$document]:-}" ]; then
        is_listed[$document]=1
        documents+=("$document")
    fi
done

# The documents say build/. For another folder there is a copy of the tree in which it has that name.
top=.
if [ "${BUILD:-build}" != build ]; then
    top=$work/top
    mkdir "$top"
    for entry in *; do
        [ "$entry" = build ] || cp -a "$entry" "$top"
    done
    ln -s "$(cd "$BUILD" && pwd)" "$top/build"
fi

passed=0 failed=0 skipped=0
pass() {
    passed=$((passed + 1))
}

fail() { # WHERE WHAT
    failed=$((failed + 1))
    printf 'docs: FAILED: %s: %s\n' "$1" "$2"
}

# ---- commands -----------------------------------------------------------------------------------

# Splits the console blocks of the documents into files: N/where, and N/1.command, N/1.expected, ...
split_blocks() { # FOLDER DOCUMENT...
    local folder=$1
    shift
    mkdir -p "$folder"
    awk -v folder="$folder" '
        /^```console$/ { n++; k = 0; inside = 1
                         system("mkdir " folder "/" n)
                         print FILENAME ":" FNR >(folder "/" n "/where"); next }
        /^```/ { inside = 0 }
        !inside { next }
        /^\$ / { k++; command = folder "/" n "/" k ".command"; output = folder "/" n "/" k ".expected"
                 print substr($0, 3) >command; printf "" >output; continues = 1; next }
        /^> / && continues { print substr($0, 3) >command; next }
        k == 0 { print FILENAME ":" FNR ": a block begins with a command" >"/dev/stderr"; next }
        { continues = 0; print >output }' "$@"
}

# What runs one block: a script for a bash of its own. Leaves a file "mismatch", or else "seen", the
# output that is accounted for. Nobody ever writes into NEVER, a fifo.
mkfifo "$work/never"
cat >"$work/run_block" <<'END_OF_SCRIPT'
folder=$1 deadline=$2 never=$3
exec </dev/null >"$folder/output" 2>&1
seen=0 # how much of the output belongs to the commands before

# This waits more often than anything else here, so it begins no process.
read_output() { # into $all
    local pieces
    mapfile -d '' pieces <"$folder/output"
    printf -v all %s "${pieces[@]}"
}

matches() { # the output, of the pattern
    local output
    read_output
    output=${all:seen}
    output=${output%"${output##*[!$'\n']}"}
    case $output in
    $pattern) return 0 ;;
    *' event=handler_'*) ;;
    *) return 1 ;;
    esac
    case $(grep -Ev ' event=handler_(slow|back) ' <<<"$output") in
    $pattern) return 0 ;;
    *) return 1 ;;
    esac
}

for ((k = 1; ; k++)); do
    [ -e "$folder/$k.command" ] || break
    # The characters that a shell pattern gives a meaning to are to mean themselves.
    pattern=$(sed 's/[][*?\\]/\\&/g; s/\.\.\./*/g' "$folder/$k.expected")
    command=$(<"$folder/$k.command")
    # At a prompt a shell forgets the jobs that are done; otherwise, now and then, what a wait has seen
    # end keeps its number, and the next server is not job 1.
    jobs >/dev/null
    eval "$command"
    end=$((SECONDS + deadline))
    until matches; do
        if [ $SECONDS -ge $end ]; then
            {
                printf '$ %s\n' "$command"
                echo '--- expected'
                cat "$folder/$k.expected"
                echo '--- seen'
                printf %s "${all:seen}"
            } >"$folder/mismatch"
            exit 1
        fi
        read -rt 0.02 <>"$never"
    done
    read_output
    seen=${#all}
done
printf %s "$all" >"$folder/seen"
END_OF_SCRIPT

# A copy of the tree with what is built of the servers.
copy_tree() { # TO
    local entry
    mkdir -p "$1/build"
    for entry in "$top"/*; do
        [ "${entry##*/}" = build ] || cp -a "$entry" "$1"
    done
    (cd "$top/build" && find flags libcommon.a obj/common stage[1-5]-* \
        obj/stage[1-5]-* ! -type d 2>/dev/null) >"$work/built"
    tar -C "$top/build" --format=posix -cf - -T "$work/built" | tar -C "$1/build" -xf -
}

# Whether the tool is there and can be used on a process of one's own.
tool_works() { # TOOL
    case $1 in
    strace) strace -o /dev/null true ;;
    gdb) sleep 60 & gdb -batch -p $! -ex 'info threads' | grep '^\*'; local found=$?; kill $!; return $found ;;
    perf) perf record -q -o /dev/null true ;;
    ss) ss -tn ;;
    redis-server) redis-server --version ;;
    haproxy) PATH=$PATH:/usr/sbin haproxy -v ;;
    esac >/dev/null 2>&1
}

# Leaves, in the folder of each block whose tools cannot be used here, a file "lacks" with such a tool.
find_lacking() { # FOLDER OF ALL BLOCKS
    local tool file
    for tool in strace gdb perf ss redis-server haproxy; do
        grep -lE "(^|[^[:alnum:]-])$tool( (-|record)|\$)" "$1"/*/*.command >"$work/using" || continue
        ! tool_works "$tool" || continue
        while read -r file; do
            echo "$tool" >"${file%/*}/lacks"
        done <"$work/using"
    done
}

# Leaves a file "makes" in the folder of each block that makes more than the program of a step, or "with_app"
# if that is a server with an application.
find_makers() { # FOLDER OF ALL BLOCKS
    awk '
        function mark(name) { sub(/[^\/]*$/, name, folder); printf "" >folder; close(folder) }
        { folder = FILENAME }
        /make.* APP=/ { mark("with_app"); next }
        { sub(/make (run STEP=|build\/steps\/)/, "") }
        /(^|[^A-Za-z0-9_])make([^A-Za-z0-9_]|$)/ { mark("makes") }' "$1"/*/*.command
}

# Runs one block. timeout makes a process group of all that the block starts.
run_block() { # FOLDER
    [ ! -e "$1/lacks" ] || return
    if [ -e "$1/with_app" ]; then
        cd "$work/with_app" || exit
    elif [ -z "$strict" ] && [ -e "$1/makes" ]; then
        cd "$top" || exit
    else
        cd "$work/fresh" || exit
    fi
    timeout -k 2 "$BLOCK_BUDGET" "${own_network[@]}" bash "$work/run_block" "$1" "$DEADLINE" "$work/never" &
    local group=$!
    trap 'end_group "$group"; exit 1' TERM
    wait "$group" 2>/dev/null
    end_group "$group"
}

# Ends what a block left running, within a second or two. What is stopped does not die of a SIGTERM before
# it goes on, and what ignores one not at all.
end_group() { # GROUP
    local tries
    for ((tries = 0; tries < 100; tries++)); do
        if [ "$tries" -lt 50 ]; then kill -- "-$1"; else kill -KILL -- "-$1"; fi || return 0
        kill -CONT -- "-$1"
        sleep 0.02
    done 2>/dev/null
}

# Whether the block showed what happened, and nothing else did.
is_right() { # FOLDER
    [ ! -e "$1/mismatch" ] && [ -e "$1/seen" ] && cmp -s "$1/output" "$1/seen"
}

judge_block() { # FOLDER
    local where
    where=$(<"$1/where")
    if [ -e "$1/lacks" ]; then
        skipped=$((skipped + 1))
        echo "skipped: documents, $where: $(cat "$1/lacks") is missing, or may not look at a process"
    elif [ -e "$1/mismatch" ]; then
        fail "$where" 'what is shown is not what happens'
        sed 's/^/    /' "$1/mismatch"
    elif [ ! -e "$1/seen" ]; then
        fail "$where" "took longer than $BLOCK_BUDGET seconds"
    elif ! is_right "$1"; then
        fail "$where" 'more comes than is shown'
        tail -c "+$(($(wc -c <"$1/seen") + 1))" "$1/output" | sed 's/^/    /'
    else
        pass
    fi
}

# Runs the blocks whose numbers come from standard input, so many at a time.
run_some() { # HOW_MANY
    local n running=0
    while read -r n; do
        if [ "$running" -ge "$1" ]; then
            wait -n
            running=$((running - 1))
        fi
        run_block "$work/blocks/$n" &
        running=$((running + 1))
    done
    wait
}

# Builds the programs that blocks make of steps, and those that hang, so that blocks need not build them one
# after the other; and lays out a tree in which there are only these, and what `make` alone builds.
make_fresh() {
    local made
    if [ -n "$strict" ]; then
        copy_tree "$work/fresh"
        return
    fi
    grep -ohE 'make run STEP=[0-9C.]+|make build/steps/[0-9C.]+' "$work"/blocks/*/*.command |
        sed 's/.*[=/]\(.*\)/build\/steps\/\1/' | sort -u >"$work/made"
    # shellcheck disable=SC2046 # a list of programs
    [ ! -s "$work/made" ] || (cd "$top" && make $(sed 's/.*\/\(.*\)/&\/step\1/' "$work/made") >/dev/null)
    ! grep -q 'make hang' "$work"/blocks/*/*.command || (cd "$top" && make hang && echo build/hang >>"$work/made") >/dev/null
    copy_tree "$work/fresh"
    while read -r made; do
        mkdir -p "$work/fresh/${made%/*}" && cp -a "$top/$made" "$work/fresh/${made%/*}"
    done <"$work/made"
}

# Runs all blocks. In each tree one make at a time: two would build the same things.
run_blocks() { # DOCUMENT...
    local n
    split_blocks "$work/blocks" "$@"
    [ -e "$work/blocks/1" ] || return 0
    (cd "$work/blocks" && printf '%s\n' * | sort -n) >"$work/all"
    find_lacking "$work/blocks"
    find_makers "$work/blocks"
    make_fresh
    touch "$work/make_app" "$work/with_make" "$work/others"
    while read -r n; do
        if [ -e "$work/blocks/$n/with_app" ]; then
            echo "$n" >>"$work/make_app"
        elif [ -z "$strict" ] && [ -e "$work/blocks/$n/makes" ]; then
            echo "$n" >>"$work/with_make"
        else
            echo "$n" >>"$work/others"
        fi
    done <"$work/all"
    [ ! -s "$work/make_app" ] || copy_tree "$work/with_app"
    run_some 1 <"$work/make_app" &
    [ "$jobs" -gt 1 ] || wait
    run_some 1 <"$work/with_make" &
    [ "$jobs" -gt 1 ] || wait
    run_some "$jobs" <"$work/others"
    wait
    # What depends on time may have failed because of the others: once more, alone.
    while read -r n; do
        [ -e "$work/blocks/$n/lacks" ] || is_right "$work/blocks/$n" && continue
        rm -f "$work/blocks/$n"/{mismatch,seen,output}
        run_block "$work/blocks/$n" &
        wait $!
    done <"$work/all"
}

judge_blocks() {
    local n
    [ -e "$work/all" ] || return 0
    while read -r n; do
        judge_block "$work/blocks/$n"
    done <"$work/all"
}

# The make commands of blocks that are not run, as DOCUMENT and ARGUMENTS. Any server will do.
make_commands() { # DOCUMENT...
    awk '/^```/ { inside = !inside && $0 == "```sh"; next }
         inside && /^make/ { sub(/ *#.*/, ""); sub(/^make */, ""); gsub(/ SERVER=(\047[^\047]*\047|[^ ]*)/, "")
                             print FILENAME "\t" $0 }' "$@"
}

knows() { # ARGUMENT...: does make, without making it?
    (cd "$top" && make -n "$@") >/dev/null 2>"$work/error"
}

# Those that are only goals are asked for in one make, and each in its own only if that fails.
check_make_commands() { # DOCUMENT...
    local document arguments all=
    make_commands "$@" >"$work/make_commands"
    [ -s "$work/make_commands" ] || return 0
    # shellcheck disable=SC2046 # a list of goals
    ! knows $(cut -f 2 "$work/make_commands" | grep -v = | sort -u) || all=known
    while IFS=$'\t' read -r document arguments; do
        case $all$arguments in
        known*=*) ;;
        known*) pass; continue ;;
        esac
        # shellcheck disable=SC2086 # several words
        if knows $arguments; then
            pass
        else
            fail "$document" "\`make $arguments\`: $(tail -1 "$work/error")"
        fi
    done <"$work/make_commands"
}

# Two blocks with the same commands are one experiment that stands twice.
check_repeated() {
    local block
    [ -e "$work/all" ] || return 0
    awk '{ folder = FILENAME
           sub(/[^\/]*$/, "", folder)
           commands[folder] = commands[folder] $0 "\n" }
         END { for (folder in commands) {
                   getline where <(folder "where")
                   close(folder "where")
                   if (commands[folder] in first) print first[commands[folder]] " and " where
                   first[commands[folder]] = where } }' "$work"/blocks/*/*.command >"$work/repeated"
    while IFS= read -r block; do
        fail "$block" 'type the same commands'
    done <"$work/repeated"
}

# Blocks run side by side, so a file that two of them write is spoilt. (Those that build with APP= do not.)
# shellcheck disable=SC2016 # an awk program
check_files_written() {
    local block
    [ -e "$work/all" ] || return 0
    for block in "$work"/blocks/*/; do
        [ -e "$block/with_app" ] || printf '%s\n' "$block"*.command
    done | xargs awk '
        { folder = FILENAME; sub(/[^\/]*$/, "", folder)
          for (line = $0; match(line, />build\/[^ ;)&|]+/); line = substr(line, RSTART + RLENGTH)) {
              file = substr(line, RSTART, RLENGTH)
              if (!(file in writer)) writer[file] = folder
              if (writer[file] == folder) continue
              getline one <(writer[file] "where"); getline other <(folder "where")
              close(writer[file] "where"); close(folder "where")
              print one " and " other } }' >"$work/shared"
    while IFS= read -r block; do
        fail "$block" 'write the same file'
    done <"$work/shared"
}

# Each step and each stage's chapter is in a sitting.
check_sittings() {
    docs/sittings.sh | sort >"$work/sittings"
    check_listed docs/index.md "$work/sittings" 'has no sitting for' \
        < <(ls stage[1-5]-*/steps/*/README.md stage[1-5]-*/README.md docs/stage[1-5].md)
}

check_length() {
    if tests/words.sh >"$work/words"; then
        pass
    else
        fail docs "$(grep 'at most' "$work/words"); see tests/words.sh"
    fi
}

# Who types one block after the other wants each server to be job 1. A job keeps its number until the
# shell has said that it is done, so a block ends with a wait.
# shellcheck disable=SC2016 # no command is meant
check_jobs() { # DOCUMENT
    local where
    while IFS= read -r where; do
        fail "$where" 'begins a job; to end it, `kill %1; wait`'
    done < <(awk '/^```/ { if (open) print FILENAME ":" open; open = 0; inside = $0 == "```console" }
                  inside && /^[$>] .*&( done;)?( \\)?$/ { open = FNR }
                  inside && /^[$>] .*; wait/ { open = 0 }' "$1")
}

# What a step says of real servers leads to what these do with a client.
check_card() { # DOCUMENT
    if ! grep -q '^## In a real server' "$1" || grep -q 'docs/cards\.md#' "$1"; then
        pass
    else
        fail "$1" 'says something of real servers, and has no link to docs/cards.md'
    fi
}

# A page builds what it starts, because it may be the first one that somebody types.
check_builds() { # DOCUMENT
    local where
    while IFS= read -r where; do
        fail "${where%% *}" "uses ${where#* }, which no command before it on this page has built"
    done < <(awk '
        /^```/ { inside = $0 == "```console" }
        !inside || !/^[$>] / { next }
        /make hang/ { built["hang"] = 1 }
        {
            for (line = $0; match(line, /make (run STEP=|build\/steps\/)[0-9C.]+/); line = substr(line, RSTART + RLENGTH)) {
                name = substr(line, RSTART, RLENGTH)
                sub(/.*[=\/]/, "", name)
                built["steps/" name] = 1
            }
            for (line = $0; match(line, /build\/(steps\/[0-9C.]+|hang)/); line = substr(line, RSTART + RLENGTH)) {
                name = substr(line, RSTART + 6, RLENGTH - 6)
                if (!(name in built) && !seen[name]++) print FILENAME ":" FNR " build/" name
            }
        }' "$1")
}

# Some versions of netcat say that `nc -z` has connected, and others do not.
# shellcheck disable=SC2016 # no command is meant
check_netcat() { # DOCUMENT
    local where
    while IFS= read -r where; do
        fail "$where" '`nc -z` prints a line on some systems: add 2>/dev/null'
    done < <(awk '/^```/ { inside = $0 == "```console" }
                  inside && /^[$>] .*nc -[a-z]*z/ && !/nc -[a-z]*z[^|;&]* 2>\/dev\/null/ { print FILENAME ":" FNR }' "$1")
}

# ---- links and names ----------------------------------------------------------------------------

# The document without its fenced blocks and inline code.
prose() { # DOCUMENT
    awk '/^```/ { inside = !inside; next } !inside { gsub(/`[^`]*`/, "code"); print }' "$1"
}

# The inline code of standard input, a piece a line.
prose_code() {
    awk -F '`' '/^```/ { inside = !inside; next }
                !inside { for (i = 2; i <= NF; i += 2) print $i }'
}

# The anchors that GitHub makes of headings.
anchors() { # DOCUMENT
    awk '/^```/ { inside = !inside; next }
         !inside && /^#+ / { sub(/^#+ +/, ""); $0 = tolower($0); gsub(/[^a-z0-9 _-]/, "")
                             gsub(/ /, "-"); print }' "$1"
}

declare -A has
has_anchor() { # DOCUMENT ANCHOR
    local anchor
    if [ -z "${has[$1]:-}" ]; then
        has[$1]=all
        while IFS= read -r anchor; do
            has[$1#$anchor]=1
        done < <(anchors "$1")
    fi
    [ -n "${has[$1#$2]:-}" ]
}

check_links() { # DOCUMENT
    local target path fragment folder=${1%/*}
    [ "$folder" != "$1" ] || folder=.
    while IFS= read -r target; do
        case $target in [a-z]*:*) continue ;; esac
        path=${target%%#*} fragment=''
        case $target in *'#'*) fragment=${target#*#} ;; esac
        if [ -n "$path" ]; then path=$folder/$path; else path=$1; fi
        if [ ! -e "$path" ]; then
            fail "$1" "links to $target, which is not there"
        elif [ -n "$fragment" ] && [ "${path%.md}" != "$path" ] && ! has_anchor "$path" "$fragment"; then
            fail "$1" "links to $target: there is no such heading"
        else
            pass
        fi
    done < <(prose "$1" | grep -oE '\]\([^() ]+\)' | sed 's/^](//; s/)$//')
}

# As docs/filter_markdown.awk reads such lines, and docs/site.sh finds what they name.
declare -A defines
check_shown() { # DOCUMENT
    local name path folder=${1%/*}
    [ "$folder" != "$1" ] || folder=.
    while IFS=$'\t' read -r name path; do
        [ -n "${defines[$folder/$path]:-}" ] || defines[$folder/$path]="of $path: $(
            awk -f docs/names.awk -f docs/snippets.awk "$folder/$path" 2>/dev/null | grep -oE '/\* \[[^]]*\] \*/')"
        case ${defines[$folder/$path]} in
        *"/* [$name] */"*) pass ;;
        *) fail "$1" "shows $name, which $path does not define" ;;
        esac
    done < <(sed -nE 's/^\[[^]:]*: ([^]]*)\]\(([^() ]*\.[ch])\)$/\1\t\2/p' "$1")
}

# All tests there are, as suite/test. A macro may make several of one: its
# Test(suite, name##_ending), or one with parameters: its ParameterizedTest(..., suite, name). Stage 5
# has suites of stage 4 under another name (#define), of whose WaysTests and OneClientTests it makes two.
list_tests() {
    find tests -name '*.c' -exec awk '
        FNR == 1 { split("", endings) }
        /^#define stage4_[a-z_]+ stage5_/ { other_name[$2] = $3 }
        /^#define [A-Z_]+\(name\)/ { macro = $2; sub(/\(.*/, "", macro) }
        match($0, /Test\(([a-z_ ]+\*[a-z_]+, )?[a-z0-9_]+, [a-z0-9_]+(##[a-z0-9_]+)?/) {
            test = substr($0, RSTART, RLENGTH)
            sub(/.*Test\(([a-z_ ]+\*[a-z_]+, )?/, "", test)
            sub(/, /, "/", test)
            if (sub(/\/name##/, "/", test) || sub(/\/name$/, "/", test))
                endings[macro] = endings[macro] " " test
            else {
                print test
                two_ways[test] = /^(Ways|OneClient)Test/
            }
        }
        match($0, /^[A-Z_]+\([a-z0-9_]+\)/) {
            name = substr($0, 1, RLENGTH - 1)
            macro_used = name
            sub(/\(.*/, "", macro_used)
            sub(/.*\(/, "", name)
            count = split(endings[macro_used], each, " ")
            for (i = 1; i <= count; i++) {
                test = each[i]
                sub(/\//, "/" name, test)
                print test
            }
        }
        END {
            for (test in two_ways) {
                split(test, part, "/")
                again = (part[1] in other_name ? other_name[part[1]] : part[1]) "/" part[2]
                print again
                if (two_ways[test])
                    printf "%s_in_the_dispatcher\n%s_in_a_worker\n", again, again
            }
        }' {} + | sort -u
}

# Fails for each line of standard input that is not in a sorted list, and is no folder.
check_listed() { # DOCUMENT LIST WHAT_IT_DOES
    local name
    sort -u >"$work/named"
    passed=$((passed + $(comm -12 "$work/named" "$2" | wc -l)))
    while IFS= read -r name; do
        [ -d "$name" ] || fail "$1" "$3 $name, which is not there"
    done < <(comm -23 "$work/named" "$2")
}

# shellcheck disable=SC2016 # no command is meant
check_test_names() { # DOCUMENT
    check_listed "$1" "$work/tests" 'names the test' \
        < <(grep -oE '`[a-z0-9_]+/[a-z0-9_]+`' "$1" | tr -d '`' | grep -vxF suite/test)
}

# All names in the sources.
list_names() {
    find common stage[1-5]-* tests docs Makefile -regex '.*\.\(c\|h\|sh\|awk\|py\|pml\|mk\|patch\)\|Makefile' \
        -exec cat {} + | grep -oE '[A-Za-z_][A-Za-z0-9_]*_[A-Za-z0-9_]+' | sort -u
}

# Names with an underscore are the code's own; other projects' have chapters of their own.
check_names() { # DOCUMENT
    check_listed "$1" "$work/names" 'names in code' \
        < <(sed '/^## In a real server/,$d' "$1" | prose_code |
            grep -xE '[A-Za-z_][A-Za-z0-9_]*_[A-Za-z0-9_]+(\(\))?' | tr -d '()' | grep -v '^uv_')
}

check_files_named() { # README OF A STAGE
    local file page
    page=$(<"$1")
    for file in "${1%/*}"/*.[ch]; do
        [ -e "$file" ] || continue # the page of a ladder, or of a step that is a stage
        case $page in
        *"${file##*/}"*) pass ;;
        *) fail "$1" "does not name ${file##*/}" ;;
        esac
    done
}

# The statements of a page that has its lines in a source below docs/examples are there, and it compiles.
# shellcheck disable=SC2016 # no command is meant
check_example() { # DOCUMENT
    local example line
    example=docs/examples/$(basename "$1" .md).c
    [ -f "$example" ] || return 0
    while IFS= read -r line; do
        if grep -qF -- "$line" "$example"; then
            pass
        else
            fail "$1" "shows a line that is not in $example: $line"
        fi
    done < <(grep -oE '`[^`]*;`' "$1" | tr -d '`' | sed 's/\\|/|/g')
    if "${CC:-cc}" -std=c11 -D_GNU_SOURCE -I. -Wall -Wextra -Werror -fsyntax-only "$example" 2>"$work/error"; then
        pass
    else
        fail "$example" "$(cat "$work/error")"
    fi
}

# Each row of a table names a test, or says in its last cell why there is none.
# shellcheck disable=SC2016 # no command is meant
check_rows() { # DOCUMENT
    local row
    while IFS= read -r row; do
        if grep -qE '`[a-z0-9_]+/[a-z0-9_]+`|[^ |] \|$' <<<"$row"; then
            pass
        else
            fail "$1" "has a row without a test and without a reason: $row"
        fi
    done < <(grep '^| ' "$1")
}

# The remarks on what changes from stage to stage speak of what is there and changes. Each stage and each
# step after the first has such a page, on which as many lines are new and removed as `make diff` says, in
# each file and in all; a step's page says what `make steps` counts. Above a hunk stands what it changes.
check_changes() {
    local step before page
    # shellcheck disable=SC2046 # one word for each step
    if docs/diff_pages.sh "$work/changes" 2 3 4 5 $(tests/steps.sh numbers | sed 1d) 2>"$work/error"; then
        pass
    else
        fail docs/remarks "$(cat "$work/error")"
    fi
    make -s -C "$top" steps >"$work/steps" || fail README.md 'make steps ends with an error'
    for step in 2 3 4 5 $(tests/steps.sh numbers); do
        case $step in
        *.*) before=$(tests/steps.sh before "$step") page=$work/changes/docs/remarks/step$step.md ;;
        *) before=$((step - 1)) page=$work/changes/docs/remarks/stage$step.md ;;
        esac
        [ "$step" = 1.1 ] || check_counts "$before" "$step" "$page"
    done
    page=$work/changes/docs/remarks/stage
    for page in "${page}4.md:, was handler.c<" "${page}3.md:<p>.*>handler_hand_back</a>" \
        "${page}3.md:"'^<tr.*<span class="comment">&#42;/</span></td></tr>$' "${page}3.md:added <ins>+$(cat stage3-*/selector_guard.c | wc -l)<"; do
        if grep -q -- "${page#*:}" "${page%%:*}"; then pass; else fail "${page%%:*}" "has no ${page#*:}"; fi
    done
}

# Standard input with a line for each file, NAME and counts like +12 and -3, as NAME 12 3, and one for the sum.
sorted_counts() {
    awk '{
        added = removed = 0
        for (i = 2; i <= NF; i++)
            if ($i ~ /^[+][0-9]+$/) added = $i + 0
            else if ($i ~ /^-[0-9]+$/) removed = -$i
        print $1, added, removed
        all_added += added
        all_removed += removed
    }
    END { print "all", all_added + 0, all_removed + 0 }' | sort
}

check_counts() { # FROM TO PAGE
    local lines
    case $2 in # as make diff does
    *.*) tests/steps.sh diff "$1" "$2" ;;
    *) docs/stage_diff.sh stage"$1"-* stage"$2"-* ;;
    esac >"$work/diff"
    sed -nE '1,/^$/{/README/d; s/^  (added|removed|changed|renamed) +([^ ]+ -> )?//p;}' "$work/diff" |
        sorted_counts >"$work/said"
    sed -nE '/^<tr><td><a.*<(ins|del)>/{s/<wbr.>//g; s/<[^>]*>/ /g; p;}' "$3" | sorted_counts >"$work/counted"
    if [ "$(wc -l <"$work/said")" -gt 1 ] && diff "$work/said" "$work/counted" >"$work/error"; then
        pass
    else
        fail "$3" "counts other lines than make diff FROM=$1 TO=$2 (<): $(cat "$work/error")"
    fi
    # Those of all files, and as many rows with a + or a - below them.
    for lines in "$(sed -n 's/^<tr><td>in all.*<ins>+\(.*\)<\/ins> <del>-\(.*\)<\/del>.*/\1 \2/p' "$3")" \
        "$(grep -c '^<tr class="ins">' "$3") $(grep -c '^<tr class="del">' "$3")"; do
        if grep -qx "all $lines" "$work/said"; then pass; else fail "$3" "has $lines lines, not $(grep '^all' "$work/said")"; fi
    done
    case $2 in *.*) ;; *) return ;; esac
    lines=$(awk -v step="$2" '$1 == step { print $3 }' "$work/steps")
    if grep -q "^New lines of code, .*: $lines\\.\$" "$3"; then pass; else fail "$3" "does not say that $lines lines of code are new"; fi
}

run_blocks "${documents[@]}" &
blocks=$!
list_tests >"$work/tests"
list_names >"$work/names"
check_make_commands "${documents[@]}"
for document in "${documents[@]}"; do
    check_links "$document"
    check_shown "$document"
    check_test_names "$document"
    check_jobs "$document"
    check_builds "$document"
    check_netcat "$document"
    check_example "$document"
    case $document in */sources.md) check_rows "$document" ;; esac
    case $document in stage*) check_files_named "$document" ;; esac
    case $document in */steps/*/README.md) check_card "$document" ;; esac
    case $document in */further.md | */glossary.md | */java.md) ;; *) check_names "$document" ;; esac
done
if [ -n "$whole" ]; then
    check_changes
    check_length
    check_sittings
fi
wait "$blocks"
judge_blocks
check_repeated
check_files_written

skips=
[ "$skipped" -eq 0 ] || skips=", $skipped skipped"
echo "$passed passed, $failed failed$skips"
[ "$failed" -eq 0 ] && [ "$passed" -gt 0 ]
