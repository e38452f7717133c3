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
# Submissions are built and run one after the other, each in a copy, so none can take processor time, a
# port or the last process from another. Each gets a bounded time, and a bounded number of processes;
# each of these, memory and bytes in a file. What it has started is killed when its tests end. Where that
# cannot be had, nothing is graded.
#
# Where a step's program has threads, C is built and run once more with ThreadSanitizer. If that reports a
# data race, what the step is about is lost: the step's own tests do not count.
#
# Exit status: 0 if all submissions were graded, whatever their grades are; 2 if there is nothing to do,
# or if submissions cannot be contained here.
set -u
# shellcheck source=tests/processes.sh
. tests/processes.sh

BUILD_SECONDS=60
TEST_SECONDS=150
PROCESSES=200
OWN=3

fail() {
    echo "grade: $1" >&2
    exit 2
}

[ -d "${1:-}" ] || fail "DIR=${1:-}: expected a folder with a folder for each student, such as DIR/ann/2.4"
submissions=$(cd "$1" && pwd)

# Two things contain what somebody else has written. A process namespace takes all with it when it ends.
# And root gives the submission a user of its own, all of whose processes are killed afterwards.
user='' as_user=(setpriv --no-new-privs --bounding-set=-all --inh-caps=-all)
namespace=(unshare --pid --ipc --mount --fork --mount-proc --kill-child)
if [ "$(id -u)" -eq 0 ]; then
    first=61000 last=61183 # neither Debian nor systemd gives these numbers to anybody
    user=$((first + $$ % (last - first + 1)))
    while runs_as_user $user; do user=$((user < last ? user + 1 : first)); done
    as_user+=("--reuid=$user" "--regid=$user" --clear-groups)
else
    namespace+=(--map-root-user)
fi

# Inside, the course is /tmp/course, and /tmp is empty otherwise: Criterion puts a socket there that is
# named after the number of its process. Only the submission's own two folders can be written to, of all
# that belongs to the course and to the class. The shell that does this stays, because unshare
# kills it, and so all of the namespace, only as long as it has not changed its user.
# shellcheck disable=SC2016 # for the shell inside
enter='
    tmp=$1 place=$2 home=$3 submissions=$4
    shift 4
    own() { mount --rbind "$1" "$1"; }
    keep() { mount -o remount,bind,ro "$1"; }
    mount -t tmpfs -o mode=1777,size=256m tmpfs "$tmp" && own "$PWD" && cd "$PWD" && own "$place" &&
        own "$home" && keep "$PWD" && own "$submissions" && keep "$submissions" &&
        mkdir "$tmp/course" && mount --rbind "$PWD" "$tmp/course" || exit
    for each in /tmp /var/tmp /dev/shm; do
        [ ! -d $each ] || mount --rbind "$tmp" $each || exit
    done
    cd /tmp/course && "$@"'
contained=("${namespace[@]}" sh -c "$enter" cage)

work=$(mktemp -d "$OUT/grade.XXXXXX") || exit 2
caged=''
end_processes() {
    local tries
    if [ -n "$caged" ]; then
        kill -KILL -- "-$caged" "$caged"
        wait "$caged"
    fi
    [ -n "$user" ] || return 0
    for ((tries = 0; tries < 500; tries++)); do
        # One call reaches all of them, so none can start another one meanwhile.
        setpriv "--reuid=$user" "--regid=$user" --clear-groups sh -c 'kill -KILL -1'
        runs_as_user "$user" || break
        sleep 0.02
    done 2>/dev/null
    ! runs_as_user "$user" || fail "processes of user $user cannot be killed; nothing more is graded"
    find /tmp /var/tmp /dev/shm -maxdepth 1 -user "$user" -exec rm -rf {} + 2>/dev/null # the course may be in there
}
trap 'end_processes 2>/dev/null; rm -rf "$work"' EXIT
trap 'exit 130' HUP INT TERM
chmod 755 "$work"
mkdir "$work/tmp"

# The user's processes at the moment, which count against his limit. That of the number $user has none.
processes_now() {
    cat /proc/[0-9]*/status 2>/dev/null | awk -v user="${user:-$(id -u)}" '
        /^Uid:/ { counts = $2 == user }
        /^Threads:/ && counts { sum += $2 }
        END { print sum + 0 }'
}

in_cage() { # SECONDS COMMAND...: without our rights, and without our environment
    local seconds=$1 cage=() status
    shift
    [ ${#contained[@]} -eq 0 ] || cage=("${contained[@]}" "$work/tmp" "$place" "$home" "$submissions")
    (
        ulimit -c 0 -f 102400 -d "${DATA_KIB:-2097152}" # and none of processor seconds: clock() jumps by ticks under one
        ulimit -u $(($(processes_now) + PROCESSES)) 2>/dev/null # it may be lower already
        exec timeout -k 2 "$seconds" "${cage[@]}" "${as_user[@]}" env -i PATH="$PATH" \
            HOME="$home" OUT="$OUT" LC_ALL=C TEST_DEADLINE_MS="${TEST_DEADLINE_MS:-5000}" "$@"
    ) &
    caged=$!
    wait "$caged"
    status=$?
    caged=''
    end_processes
    return $status
}

# Where namespaces are not permitted, root's other means has to do, and has to reach the course.
place=$work/trial home=$work/trial/home
mkdir -p "$home"
[ -z "$user" ] || chown -R "$user:$user" "$place"
course=/tmp/course
if ! in_cage 10 test -w "$place" -a -r tests/steps.sh 2>/dev/null; then
    contained=() course=$PWD
    if [ -z "$user" ]; then
        fail 'submissions cannot be contained: user namespaces are not permitted here (try unshare -Ur true), and you are not root'
    elif ! in_cage 10 test -r "$PWD/tests/grade.sh"; then
        fail "submissions cannot be contained: namespaces are not permitted here, and another user than root cannot read $PWD"
    fi
fi

# Makes the program of a submission, or says in $remark why there is none.
build() { # FOLDER
    local sources command=()
    if [ -f "$1/Makefile" ]; then
        command=(make -s -C "$1" COURSE="$course" server)
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
        remark="does not build: $(grep -m 1 -E 'error|\*\*\*' "$1/build.log" || head -n 1 "$1/build.log")"
        remark=${remark//"$1/"/}
    else
        remark='there is no program: expected C files, a Makefile that makes server, or an executable server'
    fi
    return 1
}

# Makes the program once more, with ThreadSanitizer. False if that takes too long, or its Makefile does not do it.
build_with_tsan() { # FOLDER
    local sources=("$1"/*.c) command
    if [ -f "$1/Makefile" ]; then
        command=(make -s -C "$1" COURSE="$course" thread/server)
    else
        mkdir -p "$1/thread"
        [ -z "$user" ] || chown "$user:$user" "$1/thread"
        command=("${CC:-cc}" -std=c11 -D_GNU_SOURCE -g -O1 -pthread -fsanitize=thread -o "$1/thread/server" "${sources[@]}")
    fi
    in_cage "$BUILD_SECONDS" "${command[@]}" >/dev/null 2>&1
    [ -x "$1/thread/server" ]
}

# Whether ThreadSanitizer reports a data race of a submission in C; says in $remark what it reports, or that it has
# not looked. Its own memory is addresses for the most part, so it bounds what is really used itself.
races() { # STEP FOLDER
    local sources=("$2"/*.c)
    [ -n "$(tests/steps.sh field "$1" threads)" ] && [ -f "${sources[0]}" ] || return 1
    if ! build_with_tsan "$2"; then
        remark='ThreadSanitizer has not looked at it: expected a program thread/server'
        return 1
    fi
    DATA_KIB=unlimited in_cage "$TEST_SECONDS" env TSAN_OPTIONS=hard_rss_limit_mb=2048 \
        tests/steps.sh grade-races "$1" "$2/thread/server" >"$2.races" 2>&1
    case $? in 124 | 137) remark="ThreadSanitizer has not looked at all of it: it took longer than $TEST_SECONDS seconds" ;; esac
    if grep -q '^skipped: .*ThreadSanitizer' "$2.races"; then
        remark='ThreadSanitizer cannot run here'
    elif grep -q 'WARNING: ThreadSanitizer: ' "$2.races"; then
        remark=$(grep -m 1 -o 'ThreadSanitizer: .*' "$2.races") remark="${remark% (pid=*)}$(sed -n 's|^ *#[0-9]* \([a-z_0-9]*\) .*/\([a-z_0-9]*\.c:[0-9]*\).*|, \2 in \1|p' "$2.races" | head -n 1)"
        return 0
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
grade() { # STUDENT STEP FOLDER
    local place=$work/runs/$1/$2 home=$work/homes/$1/$2 remark='' status=0 raced='' started
    mkdir -p "$place" "$home"
    cp -R "$3/." "$place"
    [ -z "$user" ] || chown -R "$user:$user" "$place" "$home"
    worth "$2" >"$place.worth"
    : >"$place.log"
    if build "$place"; then
        started=$SECONDS
        in_cage "$TEST_SECONDS" tests/steps.sh grade "$2" "$place/server" >"$place.log" 2>&1
        status=$?
        if [ $((SECONDS - started)) -ge "$TEST_SECONDS" ]; then
            remark="its tests took longer than $TEST_SECONDS seconds"
        elif [ $status -eq 137 ]; then
            remark='its tests were killed; it may have left no process for them'
        elif grep -q '^\[PASS\]' "$place.log" && races "$2" "$place"; then
            raced=step${2/./_}/
        fi
    fi
    rm -rf "$place" "$home" # not for the eyes of the next one
    sed -n 's/^\[PASS\] \(step[0-9_]*\)::\([a-z_0-9]*\).*/\1\/\2/p' "$place.log" | sort -u >"$place.passed"
    awk -v student="$1" -v step="$2" -v remark="$remark" -v raced="$raced" -v table="$place.csv" '
        FILENAME ~ /passed$/ { passed[$1] = 1; next }
        raced && index($2, raced) == 1 && !index($2, "/keeps_") { delete passed[$2] }
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

echo 'student,step,points,of,passed,tests,remark' >"$work/grades.csv"
for each in "${found[@]}"; do
    grade "${each%/*}" "${each#*/}" "$submissions/$each"
    cat "$work/runs/$each.report"
    cat "$work/runs/$each.csv" >>"$work/grades.csv"
done
cp "$work/grades.csv" "$submissions/grades.csv" && echo "grade: $submissions/grades.csv has a line for each"
