#!/bin/sh
# Tests tests/docs.sh with pages that are wrong: it has to say so, to come to an end, and to leave nothing
# behind.
#
#   usage: BUILD=build tests/docs_test.sh        (from the top; wants the servers)
#
# Prints what failed, and "N passed, N failed" at the end, with ", N skipped" if anything was.
# shellcheck disable=SC2016,SC2034 # the conditions are evaluated in check(), which reads variables
set -u
# shellcheck source=tests/processes.sh
. tests/processes.sh

work=$(mktemp -d "${TMPDIR:-/tmp}/docs_test.XXXXXX") || exit 2
trap 'rm -rf "$work"' EXIT
trap 'exit 130' INT TERM
export DEADLINE=2

passed=0 failed=0 skips=
check() { # WHAT CONDITION
    if eval "$2"; then
        passed=$((passed + 1))
    else
        failed=$((failed + 1))
        printf 'docs tool: FAILED: %s\n%s\n' "$1" "$(printf '%s\n' "$out" | sed 's/^/    /')"
    fi
}

says() { # TEXT
    printf '%s\n' "$out" | grep -qF -- "$1"
}

# A page of one block, whose lines are in standard input.
page() { # NAME
    { echo "# $1" && echo '```console' && cat && echo '```'; } >"$work/$1.md"
}

docs() { # PAGES [COMMAND THAT RUNS IT...]
    # shellcheck disable=SC2086 # one word for each page
    pages=$(printf "$work/%s.md " $1)
    shift
    started=$(date +%s)
    # shellcheck disable=SC2086 # one word or more
    out=$(timeout -k 5 60 "$@" tests/docs.sh $pages 2>&1)
    status=$?
    took=$(($(date +%s) - started))
}

page right <<'END'
$ build/stage1-blocking --help | head -n 1 | cut -c -5; echo two
...
two
END
page busy <<'END'
$ printf '%s\n' 'stage2: warn: [main] event=handler_slow for_ms=1001' one 'stage2: warn: [main] event=handler_back for_ms=1002' two
one
two
$ printf '%s\n' 'stage2: warn: [main] event=handler_slow for_ms=1001' three
... event=handler_slow ...
three
END
page other <<'END'
$ printf '%s\n' 'stage2: warn: [main] event=pool_full' one
one
END
page wrong <<'END'
$ echo one
two
END
page unbuilt <<'END'
$ make build/steps/1.1/step1.1
...
$ ls build/steps/1.2/step1.2
build/steps/1.2/step1.2
END
page netcat <<'END'
$ nc -z 127.0.0.1 7999 || echo nobody
nobody
END
echo 'int none_yet(void)' >"$work/none.c"
printf '# shows\n\n[none.c: none_yet](none.c)\n' >"$work/shows.md"
# What stays has this in its command line.
stays="sleep 3$$.25"
page stopped <<END
$ $stays & kill -STOP \$!
$ bash -c "trap '' TERM; exec $stays" &
$ sleep 0.2; echo two
two
END

page leaves <<'END'
$ sleep 1; echo one >build/left; make -n >/dev/null
END
page finds <<'END'
$ ls build/stage1-blocking build/libcommon.a; ls build/steps; cat build/left
build/libcommon.a
build/stage1-blocking
ls: cannot access 'build/steps': No such file or directory
one
END

docs 'leaves finds' env JOBS=1
check 'with one job, one block after the other runs in one tree, with what make alone builds' '[ $status -eq 0 ]'
docs right
check 'what is right passes' '[ $status -eq 0 ] && says ", 0 failed"'
docs busy
check 'what the log says of a busy machine may come, and may be shown' '[ $status -eq 0 ] && says ", 0 failed"'
docs other
check 'what else it says may not' '[ $status -eq 1 ]'
docs 'wrong unbuilt netcat shows'
check 'what is wrong fails' '[ $status -eq 1 ] && says "wrong.md:2: what is shown is not what happens"'
check 'a program that the page has not built is not there' \
    'says "unbuilt.md:5: uses build/steps/1.2, which no command before it on this page has built" &&
    says "ls: cannot access" && ! says "build/steps/1.1,"'
check 'nc -z is to be silent everywhere' 'says "netcat.md:3: \`nc -z\` prints a line"'
check 'what a page shows is defined there' 'says "shows none_yet, which none.c does not define"'

docs stopped
check 'what a block has stopped ends with it' '[ $status -eq 1 ] && [ $took -lt 50 ] && ! runs_command "$stays"'
# Where process 1 is of the same session, as in a container, the kernel does not wake what is stopped.
container='setsid -w unshare --pid --fork --kill-child'
$container true 2>/dev/null || container="$container -r"
if $container true 2>/dev/null; then
    # shellcheck disable=SC2086 # several words
    docs stopped $container
    check 'in a container, too' '[ $status -eq 1 ] && [ $took -lt 50 ]'
else
    echo 'skipped: docs tool/stopped_in_a_container: process namespaces are not permitted here'
    skips=', 1 skipped'
fi

echo "$passed passed, $failed failed$skips"
[ "$failed" -eq 0 ]
