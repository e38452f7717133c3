#!/bin/sh
# Grades submissions of all kinds: tests/grade.sh has to come to an end with each of them, to leave
# nothing behind, and to give the points that each deserves.
#
#   usage: OUT=build tests/grade_test.sh        (from the top; wants the tests of the steps)
#
# Prints what failed, and "N passed, N failed" at the end.
# shellcheck disable=SC2016,SC2034 # the conditions are evaluated in check(), which reads variables
set -u

work=$(mktemp -d "${TMPDIR:-/tmp}/grade_test.XXXXXX") || exit 2
trap 'rm -rf "$work"' EXIT
trap 'exit 130' INT TERM

passed=0 failed=0
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

submit right 1.2 1.2
submit wrong 1.2 1.1
submit weighed 1.3 1.2
script silent 1.2 'sleep 1000'
script endless 1.2 'while :; do :; done'
script leaves 1.2 'setsid sleep 54321 & sleep 54321 & exit 0'
mkdir -p "$work/class/forks/1.2" "$work/class/broken/1.2" "$work/class/empty/2.4" "$work/class/odd/9.9"
echo '#include <unistd.h>
int main(void) { for (;;) fork(); }' >"$work/class/forks/1.2/server.c"
echo 'int main(void) { return none; }' >"$work/class/broken/1.2/server.c"
echo 'step1_3/a_line_may_come_in_pieces 10' >"$work/class/weights"

started=$(date +%s)
out=$(TEST_DEADLINE_MS=4000 tests/grade.sh "$work/class" 2>&1)
status=$?
check 'it comes to an end' '[ $status -eq 0 ] && [ $(($(date +%s) - started)) -lt 150 ]'
check 'what is right gets all points' 'says "^right, step 1.2: 7 of 7 points, 3 of 3 tests$"'
check 'what is wrong in the hard half loses it' 'says "^wrong, step 1.2: [1-4] of 7 points, [12] of 3 tests$" &&
    says "lost: step1_2/a_silent_client_keeps_nobody_waiting (3)"'
check 'a test may be worth more' 'says "^weighed, step 1.3: .* of 1[6-9] points" &&
    says "lost: step1_3/a_line_may_come_in_pieces (10)"'
for student in silent endless leaves forks; do
    check "one that is $student gets nothing" 'says "^$student, step 1.2: 0 of 7 points, 0 of 3 tests"'
done
check 'what does not build is said to be so' \
    'says "^broken, step 1.2: 0 of 7 points.*; does not build: server.c:1:25: error: "'
check 'and so is a folder without a program' 'says "^empty, .*; there is no program: "'
check 'what the step before fails is worth as much as all the rest' \
    'says "lost: step2_4/a_client_that_reads_late_gets_all_answers (9)"'
check 'a step that is none is left out' 'says "grade: odd/9.9: no such step; left out" && ! says "^odd"'
check 'the table has a line for each' '[ "$(wc -l <"$work/class/grades.csv")" -eq 10 ] &&
    grep -qxF "right,1.2,7,7,3,3,\"\"" "$work/class/grades.csv"'
check 'nothing that was submitted still runs' '! pgrep -f "sleep 54321" >/dev/null'
out=$(tests/grade.sh "$work/nowhere" 2>&1)
status=$?
check 'a folder has to be there' '[ $status -eq 2 ] && says "^grade: DIR=.*expected a folder"'

echo "$passed passed, $failed failed"
[ "$failed" -eq 0 ]
