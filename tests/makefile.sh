#!/bin/sh
# Tests what the Makefile promises, and the scripts that it uses, on a small tree of their own.
#
# The tree has the project's Makefile and scripts, and just enough sources: a common/ of two files,
# two stages, a test for each place. Prints what failed, and "N passed, N failed" at the end.
# shellcheck disable=SC2016,SC2034 # the conditions are evaluated in check(), which reads variables
set -u

top=$(cd "$(dirname "$0")/.." && pwd)
tree=$(mktemp -d "${TMPDIR:-/tmp}/makefile.XXXXXX") || exit 2
trap 'rm -rf "$tree"' EXIT
trap 'exit 130' INT TERM
cd "$tree" || exit 2

passed=0 failed=0
check() { # NAME CONDITION: the condition is a command line; it may look at $out and $status
    if eval "$2"; then
        passed=$((passed + 1))
    else
        failed=$((failed + 1))
        printf 'makefile: FAILED: %s\n%s\n' "$1" "$(printf '%s\n' "$out" | sed 's/^/    /' | head -20)"
    fi
}

# Runs a command as a newcomer's shell would, not as the make that runs this test.
run() {
    out=$(env -i PATH="${path:-$PATH}" HOME="$tree" LC_ALL=C "$@" 2>&1 </dev/null)
    status=$?
}

says() { # PATTERN [TEXT]
    printf '%s\n' "${2:-$out}" | grep -q -- "$1"
}

count() { # PATTERN
    printf '%s\n' "$out" | grep -c -- "$1"
}

# ---- a small project ------------------------------------------------------------------------------
echo '  a small project'

mkdir -p common/base stage1-first stage2-second tests/support tests/common tests/conformance \
    tests/stage1 tests/stage2 tests/bench docs
cp "$top/Makefile" .
cp "$top"/tests/bench/*.mk tests/bench
cp "$top"/docs/*.mk docs
cp "$top"/tests/*.sh "$top"/tests/*.mk "$top/tests/planted.py" \
    "$top"/tests/tsan_*.c "$top/tests/no_differences.c" "$top/tests/valgrind.supp" tests
cp "$top/docs/stage_diff.sh" "$top/docs/diff_lesson.awk" "$top/docs/renames" "$top/docs/put_in_place.sh" \
    "$top/docs/changelog.md" "$top"/docs/order.* docs
: >tests/not_lesson.txt

echo 'int sum(int a, int b);' >common/base/sum.h
echo '#define TEST_POINT(name) (void)name' >common/base/test_point.h
cat >common/base/sum.c <<'END'
#include "sum.h"

int sum(int a, int b)
{
    return a + b;
}
END
echo 'const int alone = 1;' | sed 's/^/extern const int alone;\n/' >common/base/alone.c
for stage in stage1-first stage2-second; do
    number=$(echo $stage | tr -dc 0-9)
    cat >$stage/handler.h <<'END'
int handler_answer(void);
END
    cat >$stage/handler.c <<END
#include "handler.h"

#include "common/base/sum.h"
#include "common/base/test_point.h"

int handler_answer(void)
{
    TEST_POINT("answers");
    return sum($number, 0);
}
END
    # Says who it is and what it was given; told to wait, it waits for a signal, and for a second one.
    cat >$stage/main.c <<END
#include "handler.h"

#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

int main(int argc, char **argv)
{
    int number;
    sigset_t set;
    sigemptyset(&set);
    sigaddset(&set, SIGINT);
    sigaddset(&set, SIGTERM);
    sigprocmask(SIG_BLOCK, &set, NULL);
    printf("$stage answers %d", handler_answer());
    for (int i = 1; i < argc; i++)
        printf(" [%s]", argv[i]);
    puts("");
    fflush(stdout);
    if (argc > 1 && strcmp(argv[1], "wait") == 0) {
        sigwait(&set, &number);
        puts("stopped");
        if (sigtimedwait(&set, NULL, &(struct timespec){.tv_sec = 1}) > 0)
            puts("told twice");
    }
    return 0;
}
END
    cat >"tests/stage$number/white_box.c" <<END
#include "handler.h"
#include "support/help.h"

#include <criterion/criterion.h>

Test(stage, answers)
{
    cr_assert_eq(handler_answer(), help($number));
}
END
done
cat >tests/stage1/black_box.c <<'END'
#include "support/help.h"

#include <criterion/criterion.h>
#include <stdlib.h>

Test(outside, serves)
{
    cr_assert_eq(system(getenv("SERVER")), 0);
}

Test(outside, cannot_yet_do_much)
{
    cr_assert(getenv("SERVER_IS_BETTER") == NULL);
}
END
printf 'one\n' >stage1-first/README.md
printf 'two\n' >stage2-second/README.md
cp stage1-first/handler.h stage1-first/gone.h
echo 'int fresh;' >stage2-second/fresh.h
echo 'int help(int a);' >tests/support/help.h
cat >tests/support/help.c <<'END'
#include "support/help.h"

int help(int a)
{
    return a;
}
END
cat >tests/common/sum_test.c <<'END'
#include "common/base/sum.h"

#include <criterion/criterion.h>

Test(sum, adds)
{
    cr_assert_eq(sum(1, 2), 3);
}
END
cat >tests/conformance/runs.c <<'END'
#include <criterion/criterion.h>
#include <stdlib.h>

Test(server, runs)
{
    cr_assert_eq(system("exec $SERVER >&2"), 0);
}
END

# ---- what is refused ------------------------------------------------------------------------------
echo '  what is refused'

run make SANITIZER=nonsense
check 'an unknown sanitizer is refused' \
    '[ $status -eq 2 ] && says "SANITIZER=nonsense: not one of address undefined thread"'
run make CRYPT=maybe
check 'an unknown CRYPT is refused' '[ $status -eq 2 ] && says "CRYPT=maybe: not one of crypt, none"'
run make run STAGE=9
check 'an unknown stage is refused' \
    '[ $status -eq 2 ] && says "STAGE=9: no such stage; there are: 1 2"'
run make diff FROM=7 TO=1
check 'an unknown FROM is refused' '[ $status -eq 2 ] && says "FROM=7: no such stage"'
run make diff FROM=1 TO=7
check 'an unknown TO is refused' '[ $status -eq 2 ] && says "TO=7: no such stage"'
run make diff FROM=1
check 'a diff without TO is refused' '[ $status -eq 2 ] && says "make diff FROM=1 TO=2"'
run make BUILD=/ clean
check 'the root is no build folder' '[ $status -eq 2 ] && says "BUILD=/: "'
run make BUILD= clean
check 'nothing is no build folder' '[ $status -eq 2 ] && says "BUILD=: "'
run make APP=no/such/count.c
check 'an application that is not there is refused' \
    '[ $status -eq 2 ] && says "APP=no/such/count.c: expected the C file of an application"'
echo 'int shout;' >sh-out.c
mkdir empty
run make APP=empty
check 'a folder without C files is no application' \
    '[ $status -eq 2 ] && says "APP=empty: expected the C file of an application, or a folder with C files"'
rmdir empty
run make APP=sh-out.c
check 'an application whose name is none in C is refused' \
    '[ $status -eq 2 ] && says "APP=sh-out.c: expected a name of small letters"'
run make test-stage1 SERVER=no/such/server
check 'a server that is not there is refused' \
    '[ $status -eq 2 ] && says "SERVER=no/such/server: no such program"'
run make test SERVER=/bin/true
check 'all suites on one server are refused' '[ $status -eq 2 ] && says "make test-stageN SERVER="'
check 'what is refused builds nothing' '[ ! -e build ]'

# ---- help -----------------------------------------------------------------------------------------
echo '  help'

run make help
check 'help succeeds' '[ $status -eq 0 ]'
check 'help has a dozen lines at most' '[ "$(printf "%s\n" "$out" | wc -l)" -le 12 ]'
check 'help names help-all' 'says "make help-all"'
run make help-all
help=$out
check 'help-all succeeds' '[ $status -eq 0 ]'
check 'help-all names what help names' 'says "make run \[STAGE" "$help"'
sed -n 's/^\.PHONY: \([a-z-]*\)$/\1/p' Makefile tests/*.mk tests/bench/*.mk docs/*.mk >targets
while read -r target; do
    check "help-all names $target" 'says "make $target[ =]" "$help"'
done <targets
check 'help-all names the tests of a stage' 'says "make test-stageN" "$help"'

# ---- building -------------------------------------------------------------------------------------
echo '  building'

# Criterion must not even be looked for: this pkg-config would tell.
mkdir bin
printf '#!/bin/sh\ntouch "%s/asked"\nexit 1\n' "$tree" >bin/pkg-config
chmod +x bin/pkg-config
path=$tree/bin:$PATH

run make -j4
check 'make builds every stage' \
    '[ $status -eq 0 ] && [ -x build/stage1-first ] && [ -x build/stage2-second ]'
check 'lines are quiet' 'says "^  CC      common/base/sum.c$" && ! says Wall'
run make
check 'what is built stays built' '[ $status -eq 0 ] && [ -z "$out" ]'
run make run
check 'run without STAGE runs the last stage' 'says "^stage2-second answers 2$"'
run make run STAGE=1 'ARGS=one "two three"'
check 'run passes the arguments on' 'says "^stage1-first answers 1 \[one\] \[two three\]$"'
check 'no test was built and Criterion not asked for' '[ ! -e build/tests ] && [ ! -e asked ]'

# timeout sends the signal to the whole group, as the terminal does for Ctrl-C.
run timeout -s INT 2 make run STAGE=1 ARGS=wait
check 'Ctrl-C reaches the server once, which ends in its own way' 'says "^stopped$" && ! says twice'

# So does a shell for `kill %1`, and make passes on what it gets. Which of make and its child sees the signal
# first is up to the kernel, so there are some of them.
groups='' numbers=$(seq 10)
for number in $numbers; do
    env -u MAKEFLAGS -u MAKELEVEL setsid make run STAGE=1 ARGS=wait >"log.$number" 2>&1 &
    groups="$groups $!"
done
for number in $numbers; do
    tries=0
    until grep -q answers "log.$number" || [ $((tries += 1)) -gt 1000 ]; do sleep 0.02; done
done
for group in $groups; do kill -- "-$group"; done
for group in $groups; do wait "$group"; done 2>/dev/null
out=$(cat log.*)
rm log.*
check 'make says nothing of a server that somebody stops' \
    '[ "$(printf "%s\n" "$out" | grep -cx stopped)" -eq 10 ] && ! says make'
check 'and the server is told once' '! says twice'

# A compiler that ends only when another one is at work, too.
cat >bin/gcc <<'END'
#!/bin/sh
case " $* " in *' -c '*) ;; *) exec /usr/bin/env PATH="${PATH#*:}" gcc "$@" ;; esac
echo >>"$HOME/at_work"
for _ in 1 2 3 4 5 6 7 8 9 10; do
    [ "$(wc -l <"$HOME/at_work")" -ge 2 ] && exec /usr/bin/env PATH="${PATH#*:}" gcc "$@"
    sleep 1
done
exit 1
END
printf '#!/bin/sh\necho 2\n' >bin/getconf
chmod +x bin/gcc bin/getconf
run make BUILD=elsewhere CC=gcc
check 'there is a compiler for each processor, without -j' '[ $status -eq 0 ]'
rm -rf bin/gcc bin/getconf elsewhere at_work

touch stage1-first/handler.h
run make
check 'a header rebuilds what includes it and nothing else' \
    'says "CC .*stage1-first/handler.c" && says "CC .*stage1-first/main.c" && [ "$(count " CC ")" -eq 2 ]'
touch common/base/sum.h
run make
check 'a header of common/ rebuilds what includes it in the stages too' \
    'says "CC .*common/base/sum.c" && says "CC .*stage2-second/handler.c" && [ "$(count " CC ")" -eq 3 ]'
rm common/base/alone.c
run make
check 'a source that is gone is gone from the library' \
    '[ $status -eq 0 ] && says "AR .*libcommon.a" && ! ar t build/libcommon.a | grep -q alone'

run make build/libstage2.a
check 'a stage is there as an archive, without its main' \
    '[ $status -eq 0 ] && ar t build/libstage2.a | grep -qx handler.o && ! ar t build/libstage2.a | grep -q main'

run make CFLAGS=-O0 V=1
check 'V=1 shows whole lines' 'says "-Wall .*-c -o build/obj/common/base/sum.o common/base/sum.c"'
check 'other flags rebuild everything' '[ "$(count " -c -o ")" -eq 5 ]'
check 'CFLAGS replaces only what is the user'"'"'s' \
    'says "-std=c11 .*-Wconversion .*-O0" && ! says "-O2"'
run make CFLAGS=-O0
check 'the same flags rebuild nothing' '[ -z "$out" ]'
run make NDEBUG=1 V=1
check 'NDEBUG=1 defines NDEBUG' 'says "-DNDEBUG" && [ "$(count " -c -o ")" -eq 5 ]'
run make
run make SANITIZER=undefined
check 'a sanitizer has a folder of its own' \
    '[ $status -eq 0 ] && [ -x build/undefined/stage1-first ] && [ -e build/undefined/obj ]'
run make
check 'a sanitizer leaves the plain build alone' '[ -z "$out" ]'
run make BUILD=elsewhere SANITIZER=undefined
check 'BUILD moves everything' '[ -x elsewhere/undefined/stage1-first ]'
run make BUILD=elsewhere clean
check 'clean removes what was built' '[ $status -eq 0 ] && [ ! -e elsewhere ] && [ -e build ]'

cp common/base/sum.c kept
echo 'static int unused;' >>common/base/sum.c
run make
check 'a warning is an error' '[ $status -ne 0 ] && says unused'
cp kept common/base/sum.c

run env LC_ALL=tr_TR.UTF-8 make BUILD=elsewhere CC='echo locale $$LC_ALL;:'
check 'nothing depends on the language of the user' 'says "^locale C$" && ! says tr_TR'
rm -rf elsewhere

cp -R stage2-second stage3-third
sed -i.old 's/stage2-second/stage3-third/' stage3-third/main.c
rm stage3-third/*.old
run make run
check 'a new stage needs no edit' 'says "^stage3-third answers 2$"'
rm -r stage3-third

# ---- steps ----------------------------------------------------------------------------------------
echo '  steps'

# One of its own, one that shares all files but one with it, and a stage; nothing is given. Their order is the course's.
: >tests/given.txt
echo '| 1 | **All:** from 2.1 on | 1 |' >docs/index.md
small=stage2-second/steps/2.1-small next=stage2-second/steps/2.2-next last=stage2-second/steps/2.3-last
back=stage2-second/steps/2.4-back renamed=stage2-second/steps/2.5-renamed
mkdir -p $small $next $last $back $renamed
printf 'kind: shape\nidea: something small\n' >$small/step
printf 'kind: shape\nidea: the same, and more\nshares: 2.1\n' >$next/step
printf 'kind: shape\nidea: the stage itself\nshares: stage2\n' >$last/step
echo 'int number(void);' >$small/number.h
printf '#include "number.h"\n\nint number(void)\n{\n    return 1; /* one */\n}\n' >$small/number.c
sed 's/1;.*/2; \/\/ two/; s/^{/{\n    \/* new *\//' $small/number.c >$next/number.c
cat >$small/main.c <<'END'
#include "number.h"

#include <stdio.h>

int main(int argc, char **argv)
{
    printf("number %d %s\n", number(), argc > 1 ? argv[1] : "");
    return 0;
}
END

# One that takes a file from the first and the rest from the second, and one with other names.
printf 'kind: shape\nidea: back again\nbefore: 2.2\nfrom: 2.1 number.c\nshares: 2.2\n' >$back/step
printf 'kind: shape\nidea: other names\nbefore: 2.2\nshares: 2.2\nomits: number.c number.h\n' >$renamed/step
echo 'renames: number=figure=figure' >>$renamed/step
for file in $next/number.c $small/number.h $small/main.c; do
    sed 's/number/figure/g' "$file" >"$renamed/$(basename "$file" | sed 's/number/figure/')"
done

rm -rf build
run make run STEP=2.1 ARGS=one
check 'a step is built and run' '[ $status -eq 0 ] && says "^number 1 one$"'
check 'a bare step is built without common/' '! says common && [ ! -e build/libcommon.a ]'
run make run STEP=2.2
check 'a step shares files with the one it names' '[ $status -eq 0 ] && says "^number 2 $"'
run make run STEP=2.3
check 'a step may be a stage' '[ $status -eq 0 ] && says "^stage2-second answers 2$"'
run make run STEP=2.9
check 'an unknown step is refused, with a list of those there are' \
    '[ $status -eq 2 ] &&
        says "STEP=2.9: no such step; there are: 2.1 small, 2.2 next, 2.3 last, 2.4 back, 2.5 renamed"'
run make run STEP=2.4
check 'a step may take a file from another one than the rest' '[ $status -eq 0 ] && says "^number 1 $"'
check 'a file that stands in several steps is compiled once' \
    '[ build/steps/2.2/main.o -ef build/steps/2.1/main.o ] &&
        [ build/steps/2.4/number.o -ef build/steps/2.1/number.o ] &&
        ! [ build/steps/2.2/number.o -ef build/steps/2.1/number.o ]'
sed -i.old 's/number %d/the &/' $small/main.c
run make run STEP=2.4
check 'and once more when it has changed' '[ $status -eq 0 ] && says "^the number 1 $"'
cp $small/number.h $next/number.h
run make run STEP=2.2
check 'and once more where it has another header' \
    '[ $status -eq 0 ] && says "^the number 2 $" && ! [ build/steps/2.2/main.o -ef build/steps/2.4/main.o ]'
rm $next/number.h && mv $small/main.c.old $small/main.c
run make run STEP=2.5
check 'a step may leave out files of those it shares' '[ $status -eq 0 ] && says "^figure 2 $"'
check 'and does not have them' '[ ! -e build/steps/2.5/number.c ] && [ -e build/steps/2.5/figure.c ]'
run make diff FROM=2.9 TO=2
check 'an unknown step is nothing to compare with' '[ $status -eq 2 ] && says "FROM=2.9: no such step"'
run make diff FROM=2.1 TO=2.2
check 'steps can be compared, shared files too' \
    '[ $status -eq 0 ] && says "^  changed *number.c *+2 -1$" && says "^  unchanged *main.c$"'
run make diff FROM=1 TO=2.1
check 'a stage can be compared with a step' \
    '[ $status -eq 0 ] && says "^stage1-first -> step2.1$" && says "^  added *number.c"'
run make steps
check 'steps have their new lines counted, without comments' \
    '[ $status -eq 0 ] && says "^2.1 *small *13 *shape *something small$" &&
        says "^2.2 *next *1 *shape"'
check 'a line in which only a name is new does not count' 'says "^2.5 *renamed *0 *shape"'
check 'and those of common/ of the first that links it' 'says "^2.3 *last *31 + 7 *shape"'
mkdir -p common/apps/more
printf 'extern const int more_application;\nconst int more_application = 1;\n' >common/apps/more/more.c
cp stage2-second/main.c kept
echo 'extern const int more_application; const int *const more = &more_application;' >>stage2-second/main.c
run make steps
check 'what its other applications bring along stands in brackets' \
    'says "^2.3 *last *32 + 7 (2) *shape"'
cp kept stage2-second/main.c
rm -r common/apps
sed -i.old 's/printf/print/' $small/main.c
run make run STEP=2.1
check 'what the compiler complains of is named' '[ $status -ne 0 ] && says "main.c"'
mv $small/main.c.old $small/main.c
run make diff FROM=1 TO=2
check 'the diff of two stages leaves their steps out' '! says steps && ! says number'
rm -r stage2-second/steps

# ---- the diff of two stages -----------------------------------------------------------------------
echo '  the diff of two stages'

run make diff FROM=1 TO=2
check 'diff succeeds' '[ $status -eq 0 ]'
check 'diff says what was added' 'says "^  added *fresh.h *+1  1 of 1 teach$"'
check 'diff says what was removed' 'says "^  removed *gone.h *-1  0 of 1 teach$"'
check 'diff counts what changed' 'says "^  changed *handler.c *+1 -1  2 of 2 teach$"'
check 'diff says what stays' 'says "^  unchanged *handler.h$"'
check 'diff shows the changes' 'says "^-    return sum(1, 0);$" && says "^+    return sum(2, 0);$"'
check 'diff shows added and removed files whole' 'says "^+int fresh;$" && says "^-int handler_answer"'
check 'diff ends with the README' '[ "$(printf "%s\n" "$out" | tail -1)" = "+two" ]'
mv stage2-second/main.c stage2-second/start.c
run docs/stage_diff.sh stage1-first stage2-second
check 'diff finds a file that only changed its name' 'says "^  renamed *main.c -> start.c"'
mv stage2-second/start.c stage2-second/main.c
check 'without a rename no name is mapped' '! says mapped'

# Each kind of change once: 2 lines of the head, 2 of taught and 2 of fresh teach.
define() { printf 'int %s(void)\n{\n    return %s;\n}\n\n' "$1" "$2"; }
{
    printf '/* The old head. */\n#include <old.h>\n\n'
    define named 1
    echo '/* It moves. */' && define moved 2
    echo '/* An old word. */' && define commented 3
    define taught 4 && define gone 5 && define same_one 6 && define same_two 7
} >stage1-first/lesson.c
{
    printf '/* The new head. */\n#include <new.h>\n\n'
    define named 10
    echo '/* A new word. */' && define commented 3
    define taught 40 && define fresh '6;
    printf("")' && define same_one 6 && define same_two 7
    echo '/* It moves. */' && define moved 2
} >stage2-second/lesson.c
printf 'int one;\nint same;\n' >stage1-first/left.c
printf 'int two;\nint same;\n' >stage2-second/left.c
printf '# a list\nevery difference: print[f]\\(\n1-2: named left.c\n' >tests/not_lesson.txt
run make diff FROM=1 TO=2
check 'diff counts the lines that teach, by what the list names and by what they are' \
    'says "^  changed *lesson.c *+.* -.*  6 of 25 teach$" && says "^  changed *left.c.*  0 of 2 teach$" &&
        says "^[0-9]* of [0-9]* changed lines .*: [0-9]* %$"'
echo '1-2: nowhere' >>tests/not_lesson.txt
run make diff FROM=1 TO=2
check 'diff says what does not change although the list names it' \
    '[ $status -eq 0 ] && says "^tests/not_lesson.txt: 1-2: nothing of nowhere changes$"'
: >tests/not_lesson.txt
rm stage?-*/lesson.c stage?-*/left.c

# The names of the later stage, but for the last line of each.
cat >stage1-first/pump.c <<'END'
/* Who pumps, pump.h says: a pump is given by pump_new(), struct pump holds it. */
#include "pump.h"
#define PUMP_H
int pump_new(struct pump *pump, struct input_pump *input, int pumps)
{
    return pump->key + pump->pump_size; /* pump */
}
int one;
END
cat >stage2-second/well_rope.c <<'END'
/* Who pumps, well_rope.h says: a pump is given by well_rope_new(), struct well_rope holds it. */
#include "well_rope.h"
#define WELL_ROPE_H
int well_rope_new(struct well_rope *rope, struct input_pump *input, int pumps)
{
    return rope->key + rope->pump_size; /* pump */
}
int two;
END
sum=$(cat stage1-first/*.c | cksum)
echo '2 pump well_rope rope' >docs/renames
run docs/stage_diff.sh stage1-first stage2-second
check 'diff says which names it maps' \
    'says "^Names in stage1-first are mapped first: pump to well_rope .variables: rope.\.$"'
check 'diff counts no line in which nothing but such a name has changed' \
    'says "^  renamed *pump.c -> well_rope.c *+1 -1  1 of 2 teach$" && says "^-int one;$" && says "^+int two;$"'
check 'diff maps a copy' '[ "$(cat stage1-first/*.c | cksum)" = "$sum" ]'
cp -R stage2-second step2.1
run docs/stage_diff.sh stage1-first step2.1
check 'diff maps names on the way to a step of the later stage, too' \
    'says "^  renamed *pump.c -> well_rope.c *+1 -1$"'
run docs/stage_diff.sh step2.1 stage2-second
check 'and none between the steps of a stage' '[ $status -eq 0 ] && ! says mapped'
rm -r step2.1
run docs/stage_diff.sh stage2-second stage1-first
check 'diff maps no name on the way back' '[ $status -eq 0 ] && ! says mapped'
echo '3 pump well_rope rope' >docs/renames
run docs/stage_diff.sh stage1-first stage2-second
check 'diff maps no name of a later stage' '[ $status -eq 0 ] && ! says mapped'
rm stage1-first/pump.c stage2-second/well_rope.c

# ---- the site, while somebody reads it ------------------------------------------------------------
echo '  the site, while somebody reads it'

mkdir -p old/part new/part new/more
echo same | tee old/same >new/same
echo same | tee old/part/same >new/part/same
echo first >old/changed
echo second >new/changed
echo gone >old/part/gone
echo fresh >new/more/fresh
touch -d '2001-01-01 00:00:00' old/same
before=$(stat -c '%i' old) time=$(stat -c '%Y' old/same)
exec 3<old/changed
run docs/put_in_place.sh new old
reader=$(cat <&3)
exec 3<&-
check 'a folder that a server has open stays the same one' \
    '[ $status -eq 0 ] && [ "$(stat -c %i old)" = "$before" ]'
check 'its files are the new ones' '[ "$(cat old/changed)" = second ] && [ "$(cat old/more/fresh)" = fresh ]'
check 'one that is being read can be read to its end' '[ "$reader" = first ]'
check 'one of the same content keeps its time' '[ "$(stat -c %Y old/same)" = "$time" ]'
check 'one that is not among the new ones goes' '[ ! -e old/part/gone ] && [ -e old/part/same ]'
rm -r old new

# ---- what is missing ------------------------------------------------------------------------------
echo '  what is missing'

run make -j4 demo BUILD=asks NEED_PYTHON='@echo no Python; false'
check 'demo asks for Python before it builds anything' \
    '[ $status -ne 0 ] && says "^no Python" && [ -z "$(find asks -name "*.o" 2>/dev/null)" ]'
rm -rf asks

# A user without rights: no apt-get that could be called, no sudo.
printf '#!/bin/sh\necho 1000\n' >bin/id
printf '#!/bin/sh\nexit 1\n' >bin/sudo
printf '#!/bin/sh\ntouch "%s/installed"\n' "$tree" >bin/apt-get
chmod +x bin/id bin/sudo bin/apt-get
run make test
check 'without Criterion and rights, test says what to install before it builds a test' \
    '[ $status -ne 0 ] && says "apt-get install libcriterion-dev pkg-config" && [ ! -e installed ] &&
     ! says "CC .*tests/"'
printf '#!/bin/sh\necho 0\n' >bin/id
run tests/need.sh 'A thing' '[ -e "$HOME/installed" ]' some-package
check 'root installs what is missing' '[ $status -eq 0 ] && [ -e installed ]'
printf '#!/bin/sh\necho 1000\n' >bin/id
run tests/need.sh one false one-package -- there true no-package -- two false two-package another
check 'all that is missing is told in one line, and nothing else' '[ $status -ne 0 ] &&
    says "missing: one, two\. .*apt-get install one-package two-package another$" && [ "$(count .)" -eq 1 ]'
path=

# ---- a release --------------------------------------------------------------------------------------
echo '  a release'

# The site is not built here (-o docs). The archive is unpacked in a repository of something else, with a version of its own.
git_in() { # FOLDER COMMAND...
    at=$1
    shift
    git -C "$at" -c user.name=a -c user.email=a@b "$@" >/dev/null 2>&1
}
mkdir packed diary
cp -R Makefile common stage1-first stage2-second tests docs packed
mkdir -p packed/build/site
echo page >packed/build/site/index.html
echo build/ >packed/.gitignore
sed 's/^## 1.*(/## 9.7 (/' "$top/docs/changelog.md" >packed/docs/changelog.md
cat >packed/stage1-first/main.c <<'END'
#include <stdio.h>

#define TEXT_OF(name) #name
#define TEXT(name) TEXT_OF(name)

int main(void)
{
    puts("version " TEXT(COURSE_VERSION));
    return 0;
}
END
for folder in packed diary; do
    echo "$folder" >"$folder/notes"
    git_in "$folder" init && git_in "$folder" add -A && git_in "$folder" commit -m "$folder"
done
git_in diary tag v5.5
echo more >packed/docs/untold.md
run make -C packed -o docs dist
check 'what is not committed is not packed, new files neither' \
    '[ $status -ne 0 ] && says "^dist: there are changes that are not committed" && [ ! -e packed/build/scalable-servers-9.7.tar.gz ]'
rm packed/docs/untold.md
run make -C packed -o docs dist
check 'a version is packed under its number' '[ $status -eq 0 ] && says "scalable-servers-9.7.tar.gz"'
tar -xzf packed/build/scalable-servers-9.7.tar.gz -C diary
check 'it has the site, and says of which commit it is' '[ -e diary/scalable-servers-9.7/site/index.html ] &&
    [ "$(cat diary/scalable-servers-9.7/tests/commit)" = "$(git -C packed rev-parse HEAD)" ]'
run make -C diary/scalable-servers-9.7 run STAGE=1
check 'unpacked in another repository, its programs have its version' '[ $status -eq 0 ] && says "^version 9.7$"'

# ---- the scripts that run tests -------------------------------------------------------------------
echo '  the scripts that run tests'

synthesis() { # TESTED PASSING FAILING
    echo "echo '[====] Synthesis: Tested: $1 | Passing: $2 | Failing: $3 | Crashing: 0'"
}

last() {
    printf '%s\n' "$out" | tail -1
}

run tests/run.sh "a=$(synthesis 3 3 0)" "b=$(synthesis 5 5 0); $(synthesis 1 1 0)" \
    "c=$(synthesis 9 0 9); echo 2 passed, 0 failed"
check 'suites are summed up, by their closing line if they have one' \
    '[ $status -eq 0 ] && [ "$(last)" = "11 passed, 0 failed" ]'
check 'each suite is announced, and how many there are' 'says "^== a (1 of 3)$" && says "^== c (3 of 3)$"'
run tests/run.sh "a=$(synthesis 3 2 1); exit 1" "b=$(synthesis 1 1 0)"
check 'a failure does not stop the suites behind it' \
    '[ $status -eq 1 ] && [ "$(last)" = "3 passed, 1 failed" ]'
run tests/run.sh "a=$(synthesis 3 3 0); exit 98"
check 'a bad exit status is a failure' '[ $status -eq 1 ] && [ "$(last)" = "3 passed, 1 failed" ]'
run tests/run.sh "a=$(synthesis 0 0 0)" "b=$(synthesis 1 1 0)"
check 'a suite without tests is a failure' \
    '[ $status -eq 1 ] && [ "$(last)" = "1 passed, 1 failed" ]'
run tests/run.sh 'a=echo skipped: a/one: no tool; echo 0 passed, 0 failed, 1 skipped' \
    'b=echo 2 passed, 0 failed'
check 'a suite may skip all of its tests' '[ $status -eq 0 ] && says "^   a  .*, 1 skipped$" &&
    says "^      skipped: a/one: no tool$" && [ "$(last)" = "2 passed, 0 failed, 1 skipped" ]'
run tests/run.sh "a=$(synthesis 3 3 0); echo skipped: a/one: no tool; echo skipped: a/two: no tool"
check 'a suite without a closing line has its skipped tests counted' \
    '[ $status -eq 0 ] && [ "$(last)" = "3 passed, 0 failed, 2 skipped" ]'
run tests/run.sh
check 'no suite is a failure' '[ $status -eq 1 ] && [ "$(last)" = "0 passed, 1 failed" ]'

run tests/gate.sh sh -c "$(synthesis 1 1 0)"
check 'the gate lets a good run pass' '[ $status -eq 0 ]'
run tests/gate.sh sh -c "$(synthesis 0 0 0)"
check 'the gate wants a test to run' '[ $status -eq 97 ] && says "no test ran"'
run tests/gate.sh sh -c 'echo "Could not read the maps of the process"; exit 1'
check 'the gate says what keeps Criterion from starting a test' \
    '[ $status -eq 1 ] && says "gate: Criterion ended with 1 before it summed up: without /proc"'
# What Criterion writes of tests that are expected to fail: red_a does, by the assertion that stands
# for the fault, red_b by another one, red_c by a crash, red_d by waiting; red_e is skipped.
not_ok() { # TEST MESSAGE
    printf 'echo "not ok - s::%s  (0.01s)"; echo "      Assertion failed: %s"; ' "$1" "$2"
}
with_tap() { # WHAT IT WRITES, THEN ITS SYNTHESIS AND STATUS
    printf '{ %s } >${0#--tap=}; %s' "$1" "$2"
}
red_a="$(not_ok red_a 'red: as slow as before')"
run tests/gate.sh sh -c "$(with_tap "$red_a" "$(synthesis 2 1 1); exit 1")"
check 'a test that is expected to fail may fail' \
    '[ $status -eq 0 ] && says "^expected to fail: s/red_a: as slow as before$"'
run tests/gate.sh sh -c "$(with_tap "$red_a $(not_ok b 'red: not marked')" "$(synthesis 2 0 2); exit 1")"
check 'another failure beside it is one' '[ $status -eq 1 ] && ! says "fail: s/b"'
run tests/gate.sh sh -c "$(with_tap "$(not_ok red_b 'it did not start')" "$(synthesis 1 0 1); exit 1")"
check 'it has to fail by the assertion that shows the fault' '[ $status -eq 1 ] && ! says "^expected"'
for how in 'red_c unexpected signal after x.c:1' 'red_d timed out (1.0s)'; do
    run tests/gate.sh sh -c \
        "$(with_tap "echo 'not ok - s::$how';" "$(synthesis 1 0 1); exit 1")"
    check "it must not fail in another way: $how" '[ $status -eq 1 ] && ! says "^expected"'
done
run tests/gate.sh sh -c "$(with_tap 'echo "ok - s::red_a  (0.00s)";' "$(synthesis 1 1 0)")"
check 'a test that is expected to fail must not pass' \
    '[ $status -eq 95 ] && says "s/red_a passes .*: take the mark off"'
run tests/gate.sh sh -c "$(with_tap 'echo "ok - s::red_e  # SKIP no tool";' "$(synthesis 0 0 0)")"
check 'it may be skipped' '[ $status -eq 0 ] && ! says "take the mark off"'
run tests/gate.sh sh -c \
    "$(with_tap "$red_a" "$(synthesis 1 0 1); p=\${ASAN_OPTIONS#log_path=}; echo leak >\${p%%:*}.1; exit 1")"
check 'a sanitizer'"'"'s report beside it is a failure' '[ $status -eq 98 ]'
run tests/run.sh "a=$(synthesis 3 2 1); echo expected to fail: s/red_a: as before" "b=$(synthesis 1 1 0)"
check 'what is expected to fail is no failure, and is told' '[ $status -eq 0 ] &&
    says "^      expected to fail: s/red_a: as before$" && [ "$(last)" = "3 passed, 0 failed" ]'
run tests/run.sh "a=$(synthesis 3 3 0); exit 95"
check 'a suite in which such a test passes has failed' '[ $status -eq 1 ] && [ "$(last)" = "3 passed, 1 failed" ]'

# What Criterion writes of a test that was skipped, and of one that was not asked for.
tap='echo "ok - s::one  # SKIP curl is not installed" >${0#--tap=};
    echo "ok - s::two  # SKIP test was skipped" >>${0#--tap=};
    echo "ok - s::two  # SKIP for \`make soak\`" >>${0#--tap=}'
run tests/gate.sh sh -c "$(synthesis 0 0 0); $tap"
check 'the gate names what is skipped, and not what another command is for' \
    '[ $status -eq 0 ] && says "^skipped: s/one: curl is not installed$" && ! says two'
run tests/gate.sh sh -c "$(synthesis 1 1 0); exit 3"
check 'the gate hands the status on' '[ $status -eq 3 ]'
run tests/gate.sh sh -c "$(synthesis 1 1 0); echo '[ERR ] something'"
check 'the gate wants Criterion to be content' '[ $status -eq 96 ]'
run env BUDGET=1 tests/gate.sh sh -c "$(synthesis 1 1 0); exec sleep 9"
check 'the gate ends what takes too long' '[ $status -eq 124 ] && says "stopped after 1 seconds"'
run tests/gate.sh sh -c "$(synthesis 1 1 0); p=\${ASAN_OPTIONS#log_path=}; echo leak >\${p%%:*}.1"
check 'the gate finds a sanitizer'"'"'s report' '[ $status -eq 98 ] && says leak'

# ---- somebody's own application -------------------------------------------------------------------
echo '  somebody'"'"'s own application'

# On the real sources, with what is built of them already.
mkdir real real/docs real/tests real/build real/build/obj mine other
cp -a "$top/Makefile" "$top/.clang-tidy" "$top/common" "$top"/stage[1-5]-* real
cp -a "$top"/tests/*.sh "$top"/tests/*.mk real/tests
cp -a "$top"/docs/*.mk "$top/docs/changelog.md" real/docs
mkdir real/tests/bench
cp -a "$top"/tests/bench/*.mk real/tests/bench
for built in flags obj/common \
    obj/stage2-single-reactor obj/stage4-framework; do
    [ ! -e "$top/build/$built" ] || cp -a "$top/build/$built" "real/build/$built"
done
cp "$top/docs/examples/count.c" mine

# Builds two of the stages.
build() { # [APP=FILE]
    run make -C real -j2 "$@" build/stage2-single-reactor build/stage4-framework
}

# What both stages answer to a line.
ask() {
    for stage in stage2-single-reactor stage4-framework; do
        mkfifo said
        timeout 20 "real/build/$stage" --app count --port 0 >said &
        exec 3<said
        read -r line <&3
        printf 'hello\n' | timeout 10 nc -N 127.0.0.1 "${line##*:}"
        kill $!
        wait $! 2>/dev/null # timeout may die of the signal itself, and a shell prints that
        exec 3<&-
        rm said
    done
}

build APP="$tree/mine/count.c"
check 'an application from another folder is built into the stages' \
    '[ $status -eq 0 ] && says "CC .*mine/count.c$"'
check 'it has twenty lines at most' '[ "$(wc -l <mine/count.c)" -le 20 ]'
out=$(ask 2>&1)
check 'both stages serve it' '[ "$out" = "$(printf "6 bytes\n6 bytes")" ]'
run real/build/stage2-single-reactor --help
check '--help names it behind those that the stage has' \
    'says "--app NAME .*what to serve: echo, http, pop3, count \[echo\]$"'
run real/build/stage4-framework --app nonsense
check 'the error for another name names it too' \
    '[ $status -eq 2 ] && says "expected one of echo, chat, http, pop3, relay, store, count, got .nonsense.$"'
build APP=../mine/count.c
check 'the same application is not built again' '[ $status -eq 0 ] && ! says " CC \| LINK "'
sed 's/ bytes/ octets/' mine/count.c >other/count.c
touch -r Makefile other/count.c
build APP=../other/count.c
build APP=../mine/count.c
build APP=../other/count.c
out=$(ask 2>&1)
check 'of two files of one name it is the one that was asked for' \
    '[ "$out" = "$(printf "6 octets\n6 octets")" ]'
rm -r other
build
check 'without APP the servers are linked without it' \
    '[ $status -eq 0 ] && [ "$(count " LINK ")" -eq 2 ]'
run real/build/stage4-framework --app count
check 'and do not know it any more' \
    '[ $status -eq 2 ] && says "expected one of echo, chat, http, pop3, relay, store, got .count.$"'

# The same in a folder of two files, with a warning in one of them.
mkdir counts
sed -e 's/count_app/counts_app/' -e 's/snprintf(text/print(text/' \
    -e 's/^static bool/int print(char *text, size_t size, const char *format, size_t number);\n\n&/' \
    mine/count.c >counts/main.c
cat >counts/print.c <<'END'
#include <stdio.h>

int print(char *text, size_t size, const char *format, size_t number);
static int unused;

int print(char *text, size_t size, const char *format, size_t number)
{
    (void)format;
    return snprintf(text, size, "%zu in all\n", number);
}
END
build APP=../counts/
check 'a folder is an application of several files' '[ $status -eq 0 ]'
check 'a warning in foreign code is shown, and is no error' 'says "unused.*-Wunused-variable"'
out=$(ask 2>&1)
check 'both stages serve it, too' '[ "$out" = "$(printf "6 in all\n6 in all")" ]'
for wrong in 's/count_app/counts_app/' 's/^const struct app/static &/'; do
    sed "$wrong" "$top/docs/examples/count.c" >mine/count.c
    build APP=../mine/count.c
    check "a file that does not define what its name says is refused ($wrong)" \
        '[ $status -eq 2 ] && says "^APP=../mine/count.c: expected a count_application that is not static"'
done
run make -n V=1 -C real APP="$tree/mine/count.c" CPPFLAGS=-Ifar LDLIBS=-lm build/stage2-single-reactor
check 'it finds headers by CPPFLAGS, and libraries by LDLIBS' \
    'says "cc .*-Dcount_application=application_added .*-Ifar .*mine/count.c" && says "cc .*mine/count.o .*-lm"'
if command -v clang-tidy >/dev/null; then
    sed 's/(void)self;/if (strcmp((const char *)message.data, "x")) return self == NULL;/; s/.*stdio.h.*/&\n#include <string.h>/' \
        "$top/docs/examples/count.c" >mine/count.c
    run make -C real lint APP="$tree/mine/count.c"
    check 'an application from elsewhere is linted by our list of checks' \
        '[ $status -eq 2 ] && says "count.c.*bugprone-suspicious-string-compare"'
fi
cp mine/count.c mine/echo.c
build APP=../mine/echo.c
check 'a name that is taken is refused' \
    '[ $status -eq 2 ] && says "there is an application echo already"'

# ---- with Criterion, where it is ------------------------------------------------------------------
echo '  with Criterion, where it is'

if pkg-config --exists criterion 2>/dev/null; then
    run env SERVER_IS_BETTER=1 make test-stage1 SERVER=/bin/true
    check 'another server is graded without anything of the stage' \
        '[ $status -eq 0 ] && [ "$(last)" = "2 passed, 0 failed" ] && ! says "stage1-first"'
    run make test-stage1 SERVER=/bin/false
    check 'another server can fail' '[ $status -ne 0 ] && says "^0 passed, 2 failed$"'
    run env CRITERION_TEST_PATTERN='*/cannot_yet*' make test-stage1 SERVER=/bin/true
    check 'what grades another server can be chosen' '[ "$(last)" = "1 passed, 0 failed" ]'
    run make test-common test-stage2
    check 'the tests of common/ and of a stage run' \
        '[ $status -eq 0 ] && says "^1 passed, 0 failed$" && says "^2 passed, 0 failed$"'
    check 'and one after the other' \
        '[ "$(printf "%s\n" "$out" | sed -n "s/^== \(common\|summary\|stage2\).*/\1/p" | tr "\n" " ")" = \
         "common summary stage2 stage2 summary " ]'
    suites() { # GOAL: the suites that it runs
        make -n --no-print-directory RING_HEADER=none "$1" 2>/dev/null | sed -n '/^tests.run.sh/,$p' | grep -o "'[a-z][^=/]*=" | tr '\n' ' '
    }
    out=$(suites test-all)
    check 'test-all begins with what test runs, and has more' \
        'case "$out" in "$(suites test)"?*) [ "$(suites test)" ] ;; *) false ;; esac'
    cp tests/common/sum_test.c kept
    printf 'Test(sum, red_%s)\n{\n    cr_assert_eq(sum(1, 2), %d, "red: sums are too small");\n}\n' \
        one 4 >>tests/common/sum_test.c
    run make test-common
    check 'a test of a known fault is expected to fail' '[ $status -eq 0 ] &&
        says "^      expected to fail: sum/red_one: sums are too small$" && [ "$(last)" = "1 passed, 0 failed" ]'
    sed -i.old 's/, 4, "red/, 3, "red/' tests/common/sum_test.c
    run make test-common
    check 'and to lose its mark when the fault is mended' '[ $status -ne 0 ] &&
        says "sum/red_one passes .*: take the mark off" && says "^2 passed, 1 failed$"'
    cp kept tests/common/sum_test.c
    run make BUILD=points V=1 all test-build
    check 'the tests of a stage have test points, and servers have none' \
        '[ "$(count "TEST_POINTS.* stage2-second/handler.c$")" -eq 1 ] &&
         [ "$(count " stage2-second/handler.c$")" -eq 2 ] && [ "$(count " common/base/sum.c$")" -eq 1 ] &&
         says " points/libcommon-points.a " && ! says "TEST_POINTS.*/main.c"'
    # ---- planted faults: one that a test notices, one that none does, one that changes nothing
    cp common/base/sum.c kept
    cat >>common/base/sum.c <<'END'

int untested(int a)
{
    return a < 7;
}
END
    cp common/base/sum.c planted_in
    sed -i.old 's/^int sum.*/&\nint untested(int a);/' common/base/sum.h
    cat >faults <<'END'
- common/base/sum.c:5: `return a + b;` became `return a - b;`
- common/base/sum.c:10: `return a < 7;` became `return a <= 7;`
- common/base/sum.c:5: `return a + b;` became `return (a + b);`
- common/base/sum.c:5: `return a + b;` became `return a + c;`
END
    run make plant PLANT=faults
    check 'what no test notices is listed, and nothing else' \
        '[ $status -eq 0 ] && [ "$(count "^- ")" -eq 1 ] &&
         says "^- common/base/sum.c:10: .return a < 7;. became .return a <= 7;.$"'
    check 'planted faults are summed up' \
        '[ "$(last)" = "2 faults planted, 1 noticed, 1 not noticed; 2 left out that do not compile or change nothing" ]'
    check 'what is noticed is kept with the test that noticed it' \
        'grep -q "^- common/base/sum.c:5: .*: common: sum::adds$" build/planted/noticed.txt'
    check 'faults are planted in a copy' 'cmp -s common/base/sum.c planted_in'
    run make plant N=3 SEED=5
    first=$out
    check 'as many faults are planted as were asked for' '[ $status -eq 0 ] && says "^3 faults planted, "'
    run make plant N=3 SEED=5
    check 'the same seed plants the same faults' '[ "$out" = "$first" ]'
    # Faults that are kept.
    keep() { # NAME SED_SCRIPT PATTERN
        mkdir -p tests/planted
        sed "$2" common/base/sum.c >changed
        { printf 'What a user would see.\nnoticed by: common: %s\n\n' "$3"
            diff -u --label a/common/base/sum.c --label b/common/base/sum.c common/base/sum.c changed
        } >"tests/planted/$1.patch"
        rm changed
    }
    keep noticed 's/return a + b/return a - b/' 'sum/adds'
    run make test-planted
    check 'a fault that is kept has to be noticed' '[ $status -eq 0 ] && [ "$(last)" = "1 passed, 0 failed" ]'
    keep survives 's/return a < 7/return a <= 7/' 'sum/adds'
    run make test-planted
    check 'one that survives fails' '[ $status -ne 0 ] && says "^1 passed, 1 failed$" &&
        says "^planted: FAILED: survives.patch is not noticed by common, sum/adds$"'
    keep survives 's/return a < 7/return a <= 7/' 'sum/none'
    run make test-planted
    check 'and so does one without tests' '[ $status -ne 0 ] && says "common, sum/none: fails before a fault is planted, or there"'
    sed -i.old 's/return a < 7/return a == 7/' tests/planted/survives.patch
    sed -i.old 's/sum.none/sum\/adds/' tests/planted/survives.patch
    run make test-planted
    check 'and one whose place has changed' '[ $status -ne 0 ] && says "survives.patch cannot be planted" && says "^1 passed"'
    check 'these are planted in a copy, too' 'cmp -s common/base/sum.c planted_in'
    rm -r tests/planted
    sed -i.old 's/return a + b/return a - b/' common/base/sum.c
    run make plant N=1
    check 'no fault is planted where a test fails without one' \
        '[ $status -ne 0 ] && says "common fails before a fault is planted: sum::adds$"'
    mv kept common/base/sum.c
    mv common/base/sum.h.old common/base/sum.h
    rm -f common/base/*.old

    # Under the sanitizer both leave quietly with the memory they hold.
    cat >tests/support/leak.c <<'END'
#include "support/leak.h"

#include <stdlib.h>

void leak(void)
{
    static void *volatile memory;
    memory = malloc(7);
    if (memory != NULL)
        memory = NULL;
}
END
    printf 'void leak(void);\n' >tests/support/leak.h
    sed -i.old 's/^#include "common.*/&\n#include "support\/leak.h"/; s/^{/{\n    leak();/' \
        tests/common/sum_test.c
    run make test-common SANITIZER=address
    check 'a leak in a test fails the run' '[ $status -ne 0 ] && says "^1 passed, 1 failed$"'
    mv tests/support/leak.c tests/support/leak.h common/base
    sed -i.old 's/^#include "handler.h"/&\n#include "common\/base\/leak.h"/; s/^    return 0/    leak();\n&/' \
        stage1-first/main.c
    sed -i.old 's/support/common\/base/' common/base/leak.c
    mv tests/common/sum_test.c.old tests/common/sum_test.c
    run make test-stage1 SANITIZER=address
    check 'a leak in a server fails the run' '[ $status -ne 0 ] && says LeakSanitizer'
else
    echo 'makefile: Criterion is not installed, its part was left out'
fi

echo "$passed passed, $failed failed"
[ "$failed" -eq 0 ]
