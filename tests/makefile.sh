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

# ---- a small project ----------------------------------------------------------------------------

mkdir -p common stage1-first stage2-second tests/support tests/common tests/conformance \
    tests/stage1 tests/stage2 docs
cp "$top/Makefile" .
cp "$top"/tests/*.sh "$top/tests/tsan_arena.c" "$top/tests/valgrind.supp" tests
cp "$top/docs/stage_diff.sh" docs

echo 'int sum(int a, int b);' >common/sum.h
cat >common/sum.c <<'END'
#include "sum.h"

int sum(int a, int b)
{
    return a + b;
}
END
echo 'const int alone = 1;' | sed 's/^/extern const int alone;\n/' >common/alone.c
for stage in stage1-first stage2-second; do
    number=$(echo $stage | tr -dc 0-9)
    cat >$stage/handler.h <<'END'
int handler_answer(void);
END
    cat >$stage/handler.c <<END
#include "handler.h"

#include "common/sum.h"

int handler_answer(void)
{
    return sum($number, 0);
}
END
    # Says who it is and what it was given; told to wait, it waits for a signal first.
    cat >$stage/main.c <<END
#include "handler.h"

#include <signal.h>
#include <stdio.h>
#include <string.h>

int main(int argc, char **argv)
{
    int number;
    sigset_t set;
    sigemptyset(&set);
    sigaddset(&set, SIGINT);
    sigprocmask(SIG_BLOCK, &set, NULL);
    printf("$stage answers %d", handler_answer());
    for (int i = 1; i < argc; i++)
        printf(" [%s]", argv[i]);
    puts("");
    fflush(stdout);
    if (argc > 1 && strcmp(argv[1], "wait") == 0) {
        sigwait(&set, &number);
        puts("stopped");
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
#include "common/sum.h"

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

# ---- what is refused ----------------------------------------------------------------------------

run make SANITIZER=nonsense
check 'an unknown sanitizer is refused' \
    '[ $status -eq 2 ] && says "SANITIZER=nonsense: not one of address undefined thread"'
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
run make test-stage1 SERVER=no/such/server
check 'a server that is not there is refused' \
    '[ $status -eq 2 ] && says "SERVER=no/such/server: no such program"'
run make test SERVER=/bin/true
check 'all suites on one server are refused' '[ $status -eq 2 ] && says "make test-stageN SERVER="'
check 'what is refused builds nothing' '[ ! -e build ]'

# ---- help ---------------------------------------------------------------------------------------

run make help
help=$out
check 'help succeeds' '[ $status -eq 0 ]'
sed -n 's/^\.PHONY: \([a-z-]*\)$/\1/p' Makefile >targets
while read -r target; do
    check "help names $target" 'says "make $target[ =]" "$help"'
done <targets
check 'help names the tests of a stage' 'says "make test-stageN" "$help"'

# ---- building -----------------------------------------------------------------------------------

# Criterion must not even be looked for: this pkg-config would tell.
mkdir bin
printf '#!/bin/sh\ntouch "%s/asked"\nexit 1\n' "$tree" >bin/pkg-config
chmod +x bin/pkg-config
path=$tree/bin:$PATH

run make -j4
check 'make builds every stage' \
    '[ $status -eq 0 ] && [ -x build/stage1-first ] && [ -x build/stage2-second ]'
check 'lines are quiet' 'says "^  CC      common/sum.c$" && ! says Wall'
run make
check 'what is built stays built' '[ $status -eq 0 ] && [ -z "$out" ]'
run make run
check 'run without STAGE runs the last stage' 'says "^stage2-second answers 2$"'
run make run STAGE=1 'ARGS=one "two three"'
check 'run passes the arguments on' 'says "^stage1-first answers 1 \[one\] \[two three\]$"'
check 'no test was built and Criterion not asked for' '[ ! -e build/tests ] && [ ! -e asked ]'

# timeout sends the signal to the whole group, as the terminal does for Ctrl-C.
run timeout -s INT 2 make run STAGE=1 ARGS=wait
check 'Ctrl-C reaches the server, which ends in its own way' 'says "^stopped$"'

touch stage1-first/handler.h
run make
check 'a header rebuilds what includes it and nothing else' \
    'says "CC .*stage1-first/handler.c" && says "CC .*stage1-first/main.c" && [ "$(count " CC ")" -eq 2 ]'
touch common/sum.h
run make
check 'a header of common/ rebuilds what includes it in the stages too' \
    'says "CC .*common/sum.c" && says "CC .*stage2-second/handler.c" && [ "$(count " CC ")" -eq 3 ]'
rm common/alone.c
run make
check 'a source that is gone is gone from the library' \
    '[ $status -eq 0 ] && says "AR .*libcommon.a" && ! ar t build/libcommon.a | grep -q alone'

run make CFLAGS=-O0 V=1
check 'V=1 shows whole lines' 'says "-Wall .*-c -o build/obj/common/sum.o common/sum.c"'
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

cp common/sum.c kept
echo 'static int unused;' >>common/sum.c
run make
check 'a warning is an error' '[ $status -ne 0 ] && says unused'
cp kept common/sum.c

cp -R stage2-second stage3-third
sed -i.old 's/stage2-second/stage3-third/' stage3-third/main.c
rm stage3-third/*.old
run make run
check 'a new stage needs no edit' 'says "^stage3-third answers 2$"'
rm -r stage3-third

# ---- the diff of two stages ---------------------------------------------------------------------

run make diff FROM=1 TO=2
check 'diff succeeds' '[ $status -eq 0 ]'
check 'diff says what was added' 'says "^  added *fresh.h *+1$"'
check 'diff says what was removed' 'says "^  removed *gone.h *-1$"'
check 'diff counts what changed' 'says "^  changed *handler.c *+1 -1$"'
check 'diff says what stays' 'says "^  unchanged *handler.h$"'
check 'diff shows the changes' 'says "^-    return sum(1, 0);$" && says "^+    return sum(2, 0);$"'
check 'diff shows added and removed files whole' 'says "^+int fresh;$" && says "^-int handler_answer"'
check 'diff ends with the README' '[ "$(printf "%s\n" "$out" | tail -1)" = "+two" ]'
mv stage2-second/main.c stage2-second/start.c
run docs/stage_diff.sh stage1-first stage2-second
check 'diff finds a file that only changed its name' 'says "^  renamed *main.c -> start.c"'
mv stage2-second/start.c stage2-second/main.c

# ---- what is missing ----------------------------------------------------------------------------

# A user without rights: no apt-get that could be called, no sudo.
printf '#!/bin/sh\necho 1000\n' >bin/id
printf '#!/bin/sh\nexit 1\n' >bin/sudo
printf '#!/bin/sh\ntouch "%s/installed"\n' "$tree" >bin/apt-get
chmod +x bin/id bin/sudo bin/apt-get
run make test
check 'without Criterion and rights, test says what to install' \
    '[ $status -ne 0 ] && says "apt-get install libcriterion-dev pkg-config" && [ ! -e installed ]'
printf '#!/bin/sh\necho 0\n' >bin/id
run tests/need.sh 'A thing' '[ -e "$HOME/installed" ]' some-package
check 'root installs what is missing' '[ $status -eq 0 ] && [ -e installed ]'
path=

# ---- the scripts that run tests -----------------------------------------------------------------

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
run tests/run.sh "a=$(synthesis 3 2 1); exit 1" "b=$(synthesis 1 1 0)"
check 'a failure does not stop the suites behind it' \
    '[ $status -eq 1 ] && [ "$(last)" = "3 passed, 1 failed" ]'
run tests/run.sh "a=$(synthesis 3 3 0); exit 98"
check 'a bad exit status is a failure' '[ $status -eq 1 ] && [ "$(last)" = "3 passed, 1 failed" ]'
run tests/run.sh "a=$(synthesis 0 0 0)" "b=$(synthesis 1 1 0)"
check 'a suite without tests is a failure' \
    '[ $status -eq 1 ] && [ "$(last)" = "1 passed, 1 failed" ]'
run tests/run.sh 'a=echo 0 passed, 0 failed, 1 skipped' 'b=echo 2 passed, 0 failed'
check 'a suite may skip all of its tests' \
    '[ $status -eq 0 ] && says "^   a  .*, 1 skipped$" && [ "$(last)" = "2 passed, 0 failed" ]'
run tests/run.sh
check 'no suite is a failure' '[ $status -eq 1 ] && [ "$(last)" = "0 passed, 1 failed" ]'

run tests/gate.sh sh -c "$(synthesis 1 1 0)"
check 'the gate lets a good run pass' '[ $status -eq 0 ]'
run tests/gate.sh sh -c "$(synthesis 0 0 0)"
check 'the gate wants a test to run' '[ $status -eq 97 ] && says "no test ran"'
run tests/gate.sh sh -c "$(synthesis 1 1 0); exit 3"
check 'the gate hands the status on' '[ $status -eq 3 ]'
run tests/gate.sh sh -c "$(synthesis 1 1 0); echo '[ERR ] something'"
check 'the gate wants Criterion to be content' '[ $status -eq 96 ]'
run env BUDGET=1 tests/gate.sh sh -c "$(synthesis 1 1 0); exec sleep 9"
check 'the gate ends what takes too long' '[ $status -eq 124 ] && says "stopped after 1 seconds"'
run tests/gate.sh sh -c "$(synthesis 1 1 0); p=\${ASAN_OPTIONS#log_path=}; echo leak >\${p%%:*}.1"
check 'the gate finds a sanitizer'"'"'s report' '[ $status -eq 98 ] && says leak'

# ---- with Criterion, where it is ----------------------------------------------------------------

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
    run make BUILD=points V=1 all test-build
    check 'the tests of a stage have test points, and servers have none' \
        '[ "$(count "TEST_POINTS.* stage2-second/handler.c$")" -eq 1 ] &&
         [ "$(count " stage2-second/handler.c$")" -eq 2 ] &&
         says " points/libcommon-points.a " && ! says "TEST_POINTS.*/main.c"'
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
    mv tests/support/leak.c tests/support/leak.h common
    sed -i.old 's/^#include "handler.h"/&\n#include "common\/leak.h"/; s/^    return 0/    leak();\n&/' \
        stage1-first/main.c
    sed -i.old 's/support/common/' common/leak.c
    mv tests/common/sum_test.c.old tests/common/sum_test.c
    run make test-stage1 SANITIZER=address
    check 'a leak in a server fails the run' '[ $status -ne 0 ] && says LeakSanitizer'
else
    echo 'makefile: Criterion is not installed, its part was left out'
fi

echo "$passed passed, $failed failed"
[ "$failed" -eq 0 ]
