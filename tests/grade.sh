#!/usr/bin/env bash
# Grades a folder of submissions: `make grade DIR=folder` calls this.
#
#   usage: OUT=build tests/grade.sh FOLDER
#
#   FOLDER/NAME/N.M       what NAME hands in for step N.M: a folder as `make lab` lays it out, or C files,
#                         or an executable file `server` in any language
#   FOLDER/weights        optional, lines "step2_4/TEST POINTS": what a test is worth. Otherwise a test that
#                         the step before passes, too, is worth 1 point, and what the others are worth, at
#                         least 3 each, is half of all points or more
#   FOLDER/grades.csv     is written: student, step, points, of, passed, tests, remark
#
# Each submission is built and run in a copy, and whatever it starts ends with its tests. It gets a
# bounded time, and a bounded number of processes; each of these, processor seconds, memory and bytes in a file.
#
# Exit status: 0 if all submissions were graded, whatever their grades are; 2 if there is nothing to do.
set -u

BUILD_SECONDS=60
TEST_SECONDS=150
OWN=3

fail() {
    echo "grade: $1" >&2
    exit 2
}

[ -d "${1:-}" ] || fail "DIR=${1:-}: expected a folder with a folder for each student, such as DIR/ann/2.4"
submissions=$(cd "$1" && pwd)
work=$(mktemp -d "$OUT/grade.XXXXXX") || exit 2
trap 'kill $(jobs -p) 2>/dev/null; wait; rm -rf "$work"' EXIT
trap 'exit 130' INT TERM
chmod 755 "$work"

# How to run what somebody else has written. By root: as a user that nobody else is, all of whose
# processes are killed afterwards. By others: one at a time, because all count as processes of one user; in
# a process namespace, which takes all with it when it ends, and with a /tmp of its own, because
# Criterion puts a socket there that is named after the number of its process. Where that is not
# permitted, or the course is below /tmp, what leaves its session stays.
FIRST_USER=61000 # numbers that Debian gives to nobody
jobs=1 own_user='' contained=(env)
namespace=(unshare --map-root-user --pid --fork --mount-proc --kill-child
    sh -c 'mount -t tmpfs -o mode=1777 tmpfs /tmp && exec "$@"' own_tmp)
if [ "$(id -u)" -eq 0 ] &&
    setpriv --reuid=$FIRST_USER --regid=$FIRST_USER --clear-groups test -r "$PWD/tests/grade.sh"; then
    own_user=1 jobs=$(getconf _NPROCESSORS_ONLN)
elif [ "${PWD#/tmp/}" = "$PWD" ] && "${namespace[@]}" true 2>/dev/null; then
    contained=("${namespace[@]}")
fi

in_cage() { # SECONDS COMMAND...: without our rights, and without our environment
    local seconds=$1
    shift
    (
        ulimit -c 0 -t 60 -f 102400 -d 2097152 -u 200
        exec timeout -k 2 "$seconds" "${contained[@]}" "${as_user[@]}" env -i PATH="$PATH" \
            HOME="$home" OUT="$OUT" LC_ALL=C TEST_DEADLINE_MS="${TEST_DEADLINE_MS:-5000}" "$@"
    )
    local status=$?
    if [ -n "$own_user" ]; then
        while pkill -KILL -U "$user"; do sleep 0.02; done
        find /tmp -maxdepth 1 -user "$user" -delete
    fi
    return $status
}

# The program of a submission; prints why there is none.
build() { # FOLDER
    local sources command=()
    if [ -f "$1/Makefile" ]; then
        command=(make -s -C "$1" COURSE="$PWD" server)
    else
        sources=("$1"/*.c)
        if [ -f "${sources[0]}" ]; then
            command=("${CC:-cc}" -std=c11 -D_GNU_SOURCE -O2 -pthread -o "$1/server" "${sources[@]}")
        fi
    fi
    [ ${#command[@]} -eq 0 ] || in_cage "$BUILD_SECONDS" "${command[@]}" >"$1/build.log" 2>&1
    if [ -x "$1/server" ]; then
        return 0
    elif [ -s "$1/build.log" ]; then
        echo "does not build: $(grep -m 1 -E 'error|\*\*\*' "$1/build.log" || head -n 1 "$1/build.log")"
    else
        echo 'there is no program: expected C files, a Makefile that makes server, or an executable server'
    fi
    return 1
}

# "POINTS TEST" for each test that a step is graded by. All those that the step before passes, too, are
# worth at most as much together as those that it fails: the step's own, but for those that are called keeps_.
worth() { # STEP
    local each
    # shellcheck disable=SC2046 # a list of numbers
    for each in "$1" $(tests/steps.sh field "$1" keeps); do
        grep -hoE "^Test\(step${each/./_}, [a-z_0-9]+" tests/steps/*.c | sed 's/^Test(//; s/, /\//'
    done | awk -v own="step${1/./_}/" -v least="$OWN" -v weights="$submissions/weights" '
        BEGIN { while ((getline line <weights) > 0) { split(line, field); given[field[1]] = field[2] } }
        { test[NR] = $1; is_new[NR] = index($1, own) == 1 && !index($1, "/keeps_"); count += is_new[NR] }
        END {
            each = count ? int((NR - 1) / count) : 0 # NR - count kept ones over count, rounded up
            for (i = 1; i <= NR; i++) {
                points = !is_new[i] ? 1 : each > least ? each : least
                print (test[i] in given ? given[test[i]] : points), test[i]
            }
        }'
}

# Grades one submission: its part of the report, and its line of the table.
grade() { # STUDENT STEP FOLDER NUMBER
    local place=$work/runs/$1/$2 home=$work/homes/$4 remark='' status=0 user=$((FIRST_USER + $4)) as_user=(env)
    local started
    mkdir -p "$place" "$home"
    cp -R "$3/." "$place"
    if [ -n "$own_user" ]; then
        as_user=(setpriv "--reuid=$user" "--regid=$user" --clear-groups)
        chown -R "$user:$user" "$place" "$home"
    fi
    worth "$2" >"$place.worth"
    : >"$place.log"
    if ! remark=$(build "$place"); then
        remark=${remark//"$place/"/}
    else
        started=$SECONDS
        in_cage "$TEST_SECONDS" tests/steps.sh grade "$2" "$place/server" >"$place.log" 2>&1
        status=$?
        if [ $((SECONDS - started)) -ge "$TEST_SECONDS" ]; then
            remark="its tests took longer than $TEST_SECONDS seconds"
        elif [ $status -eq 137 ]; then
            remark='its tests were killed; it may have left no process for them'
        fi
    fi
    sed -n 's/^\[PASS\] \(step[0-9_]*\)::\([a-z_0-9]*\).*/\1\/\2/p' "$place.log" | sort -u >"$place.passed"
    awk -v student="$1" -v step="$2" -v remark="$remark" -v table="$place.csv" '
        FILENAME ~ /passed$/ { passed[$1] = 1; next }
        { of += $1; tests++; if ($2 in passed) { points += $1; good++ } else lost = lost "    lost: " $2 " (" $1 ")\n" }
        END {
            printf "%s, step %s: %d of %d points, %d of %d tests%s\n%s", student, step, points, of, good,
                tests, remark == "" ? "" : "; " remark, lost
            gsub(/"/, "\"\"", remark)
            printf "%s,%s,%d,%d,%d,%d,\"%s\"\n", student, step, points, of, good, tests, remark >table
        }' "$place.passed" "$place.worth" >"$place.report"
}

steps=$(tests/steps.sh numbers)
found=()
for folder in "$submissions"/*/[0-9]*.[0-9]*/; do
    [ -d "$folder" ] || continue
    step=$(basename "$folder")
    student=$(basename "$(dirname "$folder")")
    grep -qxF "$step" <<<"$steps" || {
        echo "grade: $student/$step: no such step; left out" >&2
        continue
    }
    found+=("$student/$step")
done
[ ${#found[@]} -gt 0 ] || fail "DIR=$1: there is no submission, such as DIR/ann/2.4"

number=0
for each in "${found[@]}"; do
    number=$((number + 1))
    while [ "$(jobs -rp | wc -l)" -ge "$jobs" ]; do wait -n; done
    grade "${each%/*}" "${each#*/}" "$submissions/$each" $number &
done
wait
echo 'student,step,points,of,passed,tests,remark' >"$work/grades.csv"
for each in "${found[@]}"; do
    cat "$work/runs/$each.report"
    cat "$work/runs/$each.csv" >>"$work/grades.csv"
done
cp "$work/grades.csv" "$submissions/grades.csv" && echo "grade: $submissions/grades.csv has a line for each"
