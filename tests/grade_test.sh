#!/bin/sh
# Grades submissions of all kinds: tests/grade.sh has to come to an end with each of them, to leave
# nothing behind, and to give the points that each deserves. Where it cannot contain them, it has to
# say so and to run none of them, and the rest is skipped.
#
#   usage: OUT=build tests/grade_test.sh        (from the top; wants the tests of the steps)
#
# Prints what failed, and "N passed, N failed" at the end, with ", N skipped" if anything was.
# shellcheck disable=SC2016,SC2034 # the conditions are evaluated in check(), which reads variables
set -u
# shellcheck source=tests/processes.sh
. tests/processes.sh

work=$(mktemp -d "$OUT/grade_test.XXXXXX") || exit 2
chmod 755 "$work"
trap 'rm -rf "$work"' EXIT
trap 'exit 130' INT TERM

passed=0 failed=0 skipped=0
check() { # WHAT CONDITION
    if eval "$2"; then
        passed=$((passed + 1))
    else
        failed=$((failed + 1))
        printf 'grade: FAILED: %s\n%s\n' "$1" "$(printf '%s\n' "$out" | sed 's/^/    /')"
    fi
}

says() { # PATTERN
    printf '%s\n' "$out" | grep -q -- "$1"
}

# A submission that is the program of a step.
submit() { # STUDENT STEP STEP_OF_PROGRAM
    mkdir -p "$work/class/$1/$2"
    for source in $(tests/steps.sh sources "$3"); do
        sed "s/step$3/server/" "$source" >"$work/class/$1/$2/${source##*/}"
    done
}

# A submission that is a script.
script() { # STUDENT STEP TEXT
    mkdir -p "$work/class/$1/$2"
    printf '#!/bin/sh\n%s\n' "$3" >"$work/class/$1/$2/server"
    chmod +x "$work/class/$1/$2/server"
}

# What the submissions leave behind has these in its command lines, and no other run of this test has.
left="sleep 1$$.25" left_session="sleep 2$$.25" bomb="runs/forks_$$/1.2/server"

submit right 1.2 1.2
submit wrong 1.2 1.1
submit weighed 1.3 1.2
submit races 1.2 1.2
sed -i 's/^static void serve(int client)$/static long served;\n&/; s/^    ssize_t n;$/&\n    served++;/' "$work/class/races/1.2/server.c"
submit clock 2.4 2.5
submit plain 1.2 1.2
printf 'server: server.c\n\tcc -D_GNU_SOURCE -pthread -o server server.c\n' >"$work/class/plain/1.2/Makefile"
script silent 1.2 'sleep 1000'
script endless 1.2 'while :; do :; done'
script leaves 1.2 "setsid $left_session & $left & exit 0"
script spoils 1.2 "for each in $work/class/weights $work/class/*/*/server $work/class/grades.csv; do
    echo spoilt >>\"\$each\"
done"
mkdir -p "$work/class/forks_$$/1.2" "$work/class/broken/1.2" "$work/class/empty/2.4" "$work/class/odd/9.9"
echo '#include <unistd.h>
int main(void) { for (;;) fork(); }' >"$work/class/forks_$$/1.2/server.c"
echo 'int main(void) { return none; }' >"$work/class/broken/1.2/server.c"
echo 'step1_3/a_line_may_come_in_pieces 10' >"$work/class/weights"

# Nobody's namespaces: an unshare that says no. Root is no longer root then.
mkdir "$work/refused" "$work/out"
printf '#!/bin/sh\necho unshare: not permitted >&2\nexit 1\n' >"$work/refused/unshare"
chmod 755 "$work/refused/unshare"
chmod 777 "$work/out"
as_nobody=
[ "$(id -u)" -ne 0 ] || as_nobody='setpriv --reuid=65534 --regid=65534 --clear-groups'
if $as_nobody test -r "$work/class/weights" 2>/dev/null; then
    out=$($as_nobody env PATH="$work/refused:$PATH" OUT="$work/out" tests/grade.sh "$work/class" 2>&1)
    status=$?
    check 'what cannot be contained is not graded, and one line says why' '[ $status -eq 2 ] &&
        [ "$(printf "%s\n" "$out" | wc -l)" -eq 1 ] && says "^grade: submissions cannot be contained: user namespaces " &&
        [ ! -e "$work/class/grades.csv" ] && [ -z "$(ls "$work/out")" ]'
fi

started=$(date +%s)
out=$(TEST_DEADLINE_MS=6000 tests/grade.sh "$work/class" 2>&1)
status=$?
if [ $status -eq 2 ] && says '^grade: submissions cannot be contained: '; then
    check 'none of these was run' '! runs_command "$left" "$left_session" "$bomb"'
    echo "skipped: grade/submissions: ${out#grade: }"
    echo "$passed passed, $failed failed, 1 skipped"
    exit "$failed"
fi
check 'it comes to an end' '[ $status -eq 0 ] && [ $(($(date +%s) - started)) -lt 600 ]'
check 'what is right gets all points' 'says "^right, step 1.2: 7 of 7 points, 3 of 3 tests$"'
check 'and so does one that computes by clock(), and is a step further' 'says "^clock, step 2.4: 33 of 33 points, 14 of 14 tests$"'
check 'what is wrong in the hard half loses it' 'says "^wrong, step 1.2: [1-4] of 7 points, [12] of 3 tests$" &&
    says "lost: step1_2/a_silent_client_keeps_nobody_waiting (3)"'
if says '^races, .*; ThreadSanitizer cannot run here$'; then
    echo 'skipped: grade/races: ThreadSanitizer cannot run here'
    skipped=1
else
    check 'a data race loses what the step is about' 'says "^races, step 1.2: [1-4] of 7 points, [12] of 3 tests; ThreadSanitizer: data race, server.c:[0-9]* in serve$" &&
        says "lost: step1_2/a_silent_client_keeps_nobody_waiting (3)"'
fi
check 'that ThreadSanitizer has not looked is said' \
    'says "^plain, step 1.2: 7 of 7 points, 3 of 3 tests; ThreadSanitizer has not looked at it: "'
check 'a test may be worth more' 'says "^weighed, step 1.3: .* of 1[6-9] points" &&
    says "lost: step1_3/a_line_may_come_in_pieces (10)"'
for student in silent endless leaves spoils "forks_$$"; do
    check "one that is $student gets nothing" 'says "^$student, step 1.2: 0 of 7 points, 0 of 3 tests"'
done
check 'what does not build is said to be so' \
    'says "^broken, step 1.2: 0 of 7 points.*; does not build: server.c:1:25: error: "'
check 'and so is a folder without a program' 'says "^empty, .*; there is no program: "'
check 'what the step before fails is worth as much as all the rest' \
    'says "lost: step2_4/a_client_that_reads_late_gets_all_answers (6)"'
check 'a step that is none is left out' 'says "grade: odd/9.9: no such step; left out" && ! says "^odd"'
check 'the table has a line for each' '[ "$(wc -l <"$work/class/grades.csv")" -eq 14 ] &&
    grep -qxF "right,1.2,7,7,3,3,\"\"" "$work/class/grades.csv"'
check 'nothing that was submitted still runs' '! runs_command "$left" "$left_session" "$bomb"'
check 'no submission writes to what belongs to others' '! grep -qr spoilt "$work/class" --exclude-dir=spoils'

# Stopped while a submission runs.
mkdir "$work/stopped"
mv "$work/class/leaves" "$work/stopped"
printf '#!/bin/sh\nsetsid %s & exec %s\n' "$left_session" "$left" >"$work/stopped/leaves/1.2/server"
tests/grade.sh "$work/stopped" >"$work/stopped.log" 2>&1 &
grading=$!
tries=0
until runs_command "$left" && runs_command "$left_session" || [ $((tries += 1)) -gt 600 ]; do sleep 0.05; done
check 'what runs is seen' '[ $tries -le 600 ]'
kill "$grading"
wait "$grading"
out=$(cat "$work/stopped.log")
check 'nothing runs after grading was stopped' '! runs_command "$left" "$left_session" "$bomb"'
out=$(tests/grade.sh "$work/nowhere" 2>&1)
status=$?
check 'a folder has to be there' '[ $status -eq 2 ] && says "^grade: DIR=.*expected a folder"'

# The example class.
out=$(tests/class.sh "$work/thirty" 2>&1)
unfit=
for folder in "$work"/thirty/*/*/; do
    ${CC:-cc} -std=c11 -D_GNU_SOURCE -w -pthread -o "$work/program" "$folder"*.c 2>/dev/null || unfit="$unfit$(basename "$(dirname "$folder")") "
done
check 'the example class hands in thirty programs, but for two' 'says "^class: 30 submissions; " && [ "$unfit" = "elif ivan " ]'
out=$(tests/class.sh "$work/thirty" 2>&1)
status=$?
check 'nothing is laid out over a class that is there' '[ $status -eq 2 ] && says "^class: DIR=.*not there yet"'

echo "$passed passed, $failed failed$([ "$skipped" -eq 0 ] || echo ", $skipped skipped")"
[ "$failed" -eq 0 ]
