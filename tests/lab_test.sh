#!/bin/sh
# Goes through the labs as their reader would: lays out each, takes its hints, grades what is in it at
# the beginning and what we wrote, and a server in another language.
#
#   usage: [BUILD=folder] [LIBRARIES=...] tests/lab_test.sh     (from the top; wants all steps built)
#
# Prints what failed, and "N passed, N failed" at the end.
# shellcheck disable=SC2016,SC2034 # the conditions are evaluated in check(), which reads variables
set -u
unset MAKEFLAGS MAKELEVEL MFLAGS

BUILD=${BUILD:-build}
work=$(mktemp -d "${TMPDIR:-/tmp}/lab.XXXXXX") || exit 2
trap 'rm -rf "$work"' EXIT
trap 'exit 130' INT TERM

passed=0 failed=0
check() { # WHAT CONDITION: the condition is a command line; it may look at $out and $status
    if eval "$2"; then
        passed=$((passed + 1))
    else
        failed=$((failed + 1))
        printf 'labs: FAILED: %s\n%s\n' "$1" "$(printf '%s\n' "$out" | tail -30 | sed 's/^/    /')"
    fi
}

run() {
    out=$("$@" 2>&1 </dev/null)
    status=$?
}

course() { # TARGET...
    run make --no-print-directory BUILD="$BUILD" "$@"
}

lab() { # TARGET...
    run make --no-print-directory -C "$lab" BUILD="$BUILD" "$@"
}

says() { # PATTERN [TEXT]
    printf '%s\n' "${2:-$out}" | grep -q -- "$1"
}

# ---- each step ----

check_step() { # STEP
    step=$1 lab=$work/$1
    run tests/lab.sh lay-out "$step" "$lab"
    check "there is a lab for step $step" '[ $status -eq 0 ] && [ -s "$lab/.github/workflows/grade.yml" ]'
    lab
    check "what is in the lab of step $step at the beginning builds without a warning" \
        '[ $status -eq 0 ] && ! says "warning:"'
    case $step in
    1.1) ;; # there is nothing to begin with
    *) check "the program in the lab of step $step has a name of its own" \
        'grep -qE "\"server: echo|program_invocation_short_name|_NAME \"server\"" "$lab"/*.c' ;;
    esac
    for file in $(tests/steps.sh field "$step" gives); do
        check "the lab of step $step has $file" '[ -s "$lab/$file" ]'
    done
    out=$(cat "$lab/README.md")
    check "the lab of step $step has a task" '[ "$(sed -n 3p "$lab/README.md" | wc -w)" -ge 10 ]'
    grep '.\{40\}' "$(tests/steps.sh folder "$step")/hints.md" >"$work/hint_lines$step"
    check "the lab of step $step says how to get a hint, and shows none" \
        'says "make hint STEP=$step" && ! grep -qxFf "$work/hint_lines$step" "$lab/README.md"'
    for hint in 1 2 3; do
        run tests/lab.sh hint "$step" "$work/hints$step"
        check "step $step has hint $hint" \
            'says "^Hint $hint of 3 for step $step:" && [ "$(printf "%s" "$out" | wc -w)" -ge 20 ]'
    done
    [ -z "$(tests/steps.sh field "$step" loses)" ] ||
        check "the lab of step $step says that it loses by chance" 'grep -q "fail by chance" "$lab/README.md"'
    # What is said to be lost is: its tests fail on the program of the first step that has lost it.
    while read -r lost back name; do
        program=$BUILD/$(tests/steps.sh name "$step")
        [ -e "$program" ] || program=$BUILD/steps/$step/step$step
        run env SERVER="$program" TEST_DEADLINE_MS=2000 CRITERION_VERBOSITY_LEVEL=1 \
            CRITERION_TEST_PATTERN="step$(echo "$lost" | tr . _)/*" "$BUILD/tests/steps"
        check "step $step has lost what step $lost could ($name)" 'says "Failing: [1-9]"'
        out=$(cat "$lab/README.md")
        [ "$back" = - ] ||
            check "the lab of step $step says where that comes back" 'says "step $lost could do .* step $back\\."'
    done <"$work/lost$step"
}

touch "$work/known"
for step in $(tests/steps.sh numbers); do
    : >"$work/all_lost"
    [ -n "$(tests/steps.sh field "$step" loses)" ] || tests/steps.sh lost "$step" >"$work/all_lost"
    grep -vxFf "$work/known" "$work/all_lost" >"$work/lost$step"
    cat "$work/lost$step" >>"$work/known"
done

# They wait for compilers and for servers, so they are checked at the same time.
exec 3>&1
for file in "$work"/lost*; do
    step=${file#"$work/lost"}
    (
        check_step "$step"
        echo "$passed $failed"
        echo "  lab $step: $passed passed, $failed failed" >&3
    ) >"$work/said$step" 2>&1 &
done
wait
for file in "$work"/said*; do
    counts=$(tail -n 1 "$file")
    sed '$d' "$file"
    passed=$((passed + ${counts% *})) failed=$((failed + ${counts#* }))
done

# ---- one lab, from its beginning to its end ----

lab=$work/lab
course lab STEP=2.4 DIR="$lab"
check "make lays it out" '[ $status -eq 0 ] && says "step 2.3 .* step 2.4"'
TEST_DEADLINE_MS=2000
export TEST_DEADLINE_MS
lab test
check 'the beginning fails by the verdict of the step' \
    '[ $status -ne 0 ] && says "verdict: Bob sent" && says "Failing: 2 "'
unset TEST_DEADLINE_MS
sed 's/"step2.4: /"server: /' stage2-single-reactor/steps/2.4-short-writes/server.c >"$lab/server.c"
lab test
check 'the solution passes' '[ $status -eq 0 ] && says " 0 failed"'
lab hint
check 'hints can be had in the lab' '[ $status -eq 0 ] && says "for step 2.4"'
lab hint COURSE=/nowhere
check 'a lab whose course is elsewhere says how to name it' \
    '[ $status -eq 2 ] && says "^COURSE=/nowhere: expected the folder of the course, .*make COURSE="'
course solution STEP=2.4
check 'the solution is shown' '[ $status -eq 0 ] && says "2.4-short-writes/server.c" && says "^+.*client_wait"'

# What the workflow does on a machine of its own, but for what it installs and clones there.
mkdir "$work/elsewhere" && ln -s "$PWD" "$work/elsewhere/course"
sed -n 's/^ *- run: \(make .*\)/\1/p' "$lab/.github/workflows/grade.yml" >"$work/workflow"
run env RUNNER_TEMP="$work/elsewhere" sh -ec "cd '$lab' && $(cat "$work/workflow") BUILD='$BUILD'"
check 'the workflow grades' '[ $status -eq 0 ] && says "^== step 2.4" && says " 0 failed"'

# ---- where the course comes from ----

git_says() { # URL [PREFIX]: a git that knows this clone to come from there, or its repository, in which it is PREFIX
    mkdir -p "$work/git" && printf '#!/bin/sh\ncase "$*" in remote*) echo %s ;; *prefix) echo %s ;; *) echo 0123abc ;; esac\n' \
        "'$1'" "${2:-}" >"$work/git/git"
    chmod +x "$work/git/git"
    rm -rf "$work/from"
    run env PATH="$work/git:$PATH" tests/lab.sh lay-out 2.4 "$work/from"
    said=$out
    out=$(cat "$work/from/.github/workflows/grade.yml")
}
for url in git@example.org:ann/course.git ssh://git@example.org:22/ann/course.git https://example.org/ann/course.git; do
    git_says "$url"
    check "a course that was cloned from $url can be cloned without a key" \
        'says "COURSE: https://example.org/ann/course.git$"'
done
check 'the commit that grades is fixed' 'says "COMMIT: 0123abc$" && says "checkout -q .*COMMIT"'
git_says /home/ann/course
check 'of a course that was cloned from a path, the lab says what is missing' \
    'says "COURSE: ADDRESS-OF-THE-COURSE" && says "write its address" "$said" &&
        grep -q "address yet. Write that behind" "$work/from/README.md"'
git_says https://example.org/ann/diary.git lessons/course/
check 'a course that was unpacked in a repository of something else does not come from there' \
    'says "COURSE: ADDRESS-OF-THE-COURSE" && ! says 0123abc && says "write its address" "$said"'

# ---- an exercise ----

lab=$work/exercise
course exercise STEP=2.3 DIR="$lab"
check 'an exercise is laid out' '[ $status -eq 0 ] && grep -q "^Give each client a number" "$lab/README.md"'
lab test
check 'nobody has done it' '[ $status -ne 0 ] && says "verdict: the first client got"'
patch -s -d "$lab" <stage2-single-reactor/steps/2.3-a-struct-each/exercise.patch
lab test
check 'the solution passes' '[ $status -eq 0 ] && says " 0 failed"'
course exercise STEP=1.4 DIR="$work/none"
check 'a page without an exercise says so' '[ $status -eq 2 ] && says "no exercise" && [ ! -e "$work/none" ]'

# ---- threads ----

lab=$work/threads
course lab STEP=1.2 DIR="$lab"
sed 's/"step1.2: /"server: /' stage1-blocking/steps/1.2-a-thread-each/server.c >"$lab/server.c"
lab test
check 'a lab with threads is graded under ThreadSanitizer, too' \
    '[ $status -eq 0 ] && says "^== step 1.2, ThreadSanitizer" && says " 0 failed"'
patch -s -p1 -d "$lab" <tests/mistakes/1.2/shared_variable.patch
lab test
check 'a race fails' '[ $status -ne 0 ] && says "data race"'

# ---- another language ----

lab=$work/python
course lab STEP=2.7 DIR="$lab"
rm "$lab"/*.c
lab test
check 'without a program a lab says so' '[ $status -ne 0 ] && says "no program called server"'
cp tests/steps/server.py "$lab/server"
(cd "$lab" && git init -q && git add -A && git -c user.name=a -c user.email=a@b commit -qm all &&
    git clone -q . "$work/pushed") >/dev/null 2>&1
lab=$work/pushed
lab test
check 'a lab in Python can be pushed' '[ $status -eq 0 ] && says " 0 failed"'
course test-step STEP=2.7 SERVER=tests/steps/server.py
check 'a server in Python passes' '[ $status -eq 0 ] && says "Failing: 0 "'
sed 's/^\( *\)pass$/\1if client: client.output = b""/' tests/steps/server.py >"$work/loses.py"
chmod +x "$work/loses.py"
run env TEST_DEADLINE_MS=6000 make BUILD="$BUILD" test-step STEP=2.4 SERVER="$work/loses.py"
check 'one that loses answers does not' '[ $status -ne 0 ] && says "verdict: Bob sent"'

# ---- a server of one's own, from outside ----

export TEST_DEADLINE_MS=3000
course test-stage2 SERVER=tests/steps/server.py
check 'a server that ends by SIGTERM hears of that once' \
    '[ $status -ne 0 ] && [ "$(printf "%s\n" "$out" | grep -c "^outside: .*killed by signal 15\|^outside: .*requirement")" -eq 1 ] &&
        says "^outside: FAILED: requirement 3: at SIGTERM"'
check 'tests that want options it does not take are skipped, and told by option' \
    'says "^skipped: [0-9]* tests: wants --max-line, which --help of the server does not name$"'
check 'no application is asked for' '! says "pop3" && ! says "http"'
course test-stage2 SERVER=/bin/cat
check 'a program that is no server hears what it has to print' \
    '[ $status -ne 0 ] && says "requirement 1: it does not print where it listens" && says "^0 passed, 1 failed"'
unset TEST_DEADLINE_MS
run "$BUILD/tests/stage2" --filter 'stage2_one_thread/*'
check 'a suite runs by itself' '[ $status -eq 0 ] && says "Passing: [1-9]"'

# ---- what is not there ----

for target in hint lab; do
    course $target STEP=C.1 DIR="$work/core"
    check "make $target refuses a step of the core in one sentence" \
        '[ $status -ne 0 ] && says "step C.1 has no lab" && [ ! -e "$work/core" ] && ! says "No such file"'
done
for target in lab hint solution exercise test-exercise; do
    course $target
    check "make $target wants a step, and says which there are" \
        '[ $status -eq 2 ] && says "2.4 short-writes"'
    course $target STEP=9.9
    check "make $target says which steps there are" '[ $status -eq 2 ] && says "9.9.*2.4 short-writes"'
done
lab=$work/lab
cp "$lab/server.c" "$work/mine"
course lab STEP=2.4 DIR="$lab"
check 'a lab that is there stays as it is' \
    '[ $status -eq 2 ] && says "is there already" && cmp -s "$lab/server.c" "$work/mine"'
run tests/lab.sh hint 2.4 "$work/hints2.4"
check 'after the last hint there are all three' 'says "^1\\. " && says "^3\\. " && says "make solution STEP=2.4"'

echo "$passed passed, $failed failed"
[ "$failed" -eq 0 ]
