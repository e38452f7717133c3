#!/bin/sh
# Checks the model of stage 4's coordination, docs/model/, with spin; docs/model.md tells about it.
#
#   usage: tests/model.sh                  all checks
#          tests/model.sh large            larger models, which take more time and memory
#          tests/model.sh show MISTAKE     how the model with this mistake fails, step by step
#
# What has to hold is searched for in all states of several small models. Then each mistake that
# the model knows is made in turn, and the search has to find a failure of the kind that it causes.
# One line for each check, with the states and the seconds that it took; the last line is
# "N passed, N failed". Where spin is not installed nothing is checked, and the last line says so.
set -u

top=$(cd "$(dirname "$0")/.." && pwd)
CC=${CC:-cc}
MEGABYTES=900 # that a search may take
# gcc takes a second for a program that then searches for a tenth of one, tcc a twentieth; any compiler will do.
SMALL=$(command -v tcc) || SMALL=$CC

if ! command -v spin >/dev/null || ! command -v gcc >/dev/null; then # spin calls gcc
    echo 'skipped: model: spin is not installed; on Debian and Ubuntu: apt-get install spin gcc'
    echo '0 passed, 0 failed, 1 skipped'
    exit 0
fi

work=$(mktemp -d "${TMPDIR:-/tmp}/model.XXXXXX") || exit 2
trap 'rm -rf "$work"' EXIT
trap 'exit 130' INT TERM
cp "$top"/docs/model/*.pml "$work"
cd "$work" || exit 2

# ---- the models ---------------------------------------------------------------------------------

# NAME|SETTINGS: no assertion fails, and nobody is stuck. MANY is a setting of the search only: more than
# half a million states are seen, for which it pays to optimise.
safe() {
    cat <<'END'
one connection, changed and ended by others|CONNECTIONS=1 UNREGISTER=1 MESSAGES=1 LAG=1 MANY
one connection, output from others|CONNECTIONS=1 OUTPUT=1 BREAKS=1 ENDS=0 MANY
one connection, the result of a task|CONNECTIONS=1 WORKERS=1 UNREGISTER=1 TASK=1 MANY
one connection, others hold a lock meanwhile|CONNECTIONS=1 USER_LIST
two connections, changed by others|WORKERS=1 MANY
two connections, two workers|APPLICATION=0 MANY
a connection that opens another one|CONNECTS=1 APPLICATION=0
three threads register at once|CONNECTIONS=3 WORKERS=1 APPLICATION=0 SILENT=1 MANY
one connection, run here, changed and ended by others|CONNECTIONS=1 WORKERS=0 UNREGISTER=1 MESSAGES=1 LAG=1
one connection, run here, output from others|CONNECTIONS=1 WORKERS=0 OUTPUT=1 BREAKS=1 MESSAGES=1
one connection, run here, the result of a task|CONNECTIONS=1 WORKERS=0 UNREGISTER=1 TASK=1
two connections, run here, changed by others|WORKERS=0
two threads submit to two workers|EXECUTOR
and the executor is shut down|EXECUTOR SHUTDOWN=1
and a task does not return|EXECUTOR CORE=2 SLOW=1
a future that is cancelled, and waited for|FUTURE
a handler of stage 3 is told to go on|HOLD
a strand, three that post, and its host|STRAND MANY
END
}

large() {
    cat <<'END'
one connection, with all there is|CONNECTIONS=1 UNREGISTER=1 MESSAGES=1 OUTPUT=1 BREAKS=1 LAG=1 MANY
two connections, two workers, others|MANY
three connections|CONNECTIONS=3 WORKERS=1 APPLICATION=0 MANY
END
}

# PROPERTY|NAME|SETTINGS: what comes true in the end, whatever else goes on forever.
sooner_or_later() {
    cat <<'END'
answered|every registration is answered|WORKERS=1 APPLICATION=0 RESTLESS=1 MANY
processed|every status change is processed|CONNECTIONS=1 WORKERS=1 RESTLESS=1
processed|and under a stream of registrations|CONNECTIONS=1 WORKERS=1 APPLICATION=0 STREAM=1 RESTLESS=1
rests|the dispatcher comes to rest|CONNECTIONS=1 WORKERS=1
END
}

# MISTAKE|FAILURE|SEARCH|SETTINGS. The failure is part of spin's message. The search is short, for
# the shortest way there, deep, where that would take too much memory, or the name of a property.
mistakes() {
    cat <<'END'
NOGUARD|invalid end state|short|CONNECTIONS=1 WORKERS=1 APPLICATION=0
WAKEUP_ONLY|invalid end state|short|CONNECTIONS=1 WORKERS=1 APPLICATION=0
WAKEFIRST|invalid end state|short|CONNECTIONS=1 WORKERS=1 APPLICATION=0
GUARD_WITHOUT_WAKEUP|invalid end state|short|CONNECTIONS=1 WORKERS=1 APPLICATION=0
NO_BARRIER|invalid end state|short|CONNECTIONS=1 WORKERS=1 APPLICATION=0
READERS_FIRST|acceptance cycle|processed|CONNECTIONS=1 WORKERS=1 APPLICATION=0 STREAM=1 RESTLESS=1
CONNECT_WITHOUT_GUARD|is_processed|short|WORKERS=1 APPLICATION=0 CONNECTS=1
NO_SELECTOR_LOCK|selector_lock|short|CONNECTIONS=1 WORKERS=1 APPLICATION=0
LOST_WAKEUP|invalid end state|short|CONNECTIONS=1 WORKERS=1 APPLICATION=0
WAKE_BEFORE_PUT|is_processed|short|CONNECTIONS=1 WORKERS=1 APPLICATION=0
SLEEP_ON_QUEUE|is_answered|short|CONNECTIONS=1 WORKERS=1 APPLICATION=0
BOUNDED_QUEUE|invalid end state|short|WORKERS=1 APPLICATION=0
ERRATUM_3|invalid end state|deep|CONNECTIONS=3 WORKERS=1 EVENTS=0 ENDS=0 MANY
NO_COALESCE|is_processed|deep|WORKERS=1 EVENTS=0 ENDS=0
NEXT_READ_LATE|is_answered|deep|WORKERS=1 EVENTS=0 ENDS=0
QUEUED_CLEARED_LATE|is_heard|short|CONNECTIONS=1 ENDS=0
WATCHING_LATE|is_heard|deep|CONNECTIONS=1 WORKERS=1 OUTPUT=1 ENDS=0
BROKEN_UNTOLD|is_heard|short|CONNECTIONS=1 WORKERS=1 OUTPUT=1 BREAKS=1 ENDS=0
POST_UNANNOUNCED|is_heard|short|CONNECTIONS=1 WORKERS=1 APPLICATION=0 EVENTS=0 TASK=1
POST_OUTSIDE_LOCK|is_heard|short|CONNECTIONS=1 WORKERS=1 APPLICATION=0 EVENTS=0 TASK=1
POSTS_LEFT_OPEN|is_back|short|CONNECTIONS=1 WORKERS=1 APPLICATION=0 TASK=1
DIE_AFTER_ENQUEUE|.over)|short|CONNECTIONS=1
RUNNING_CLEARED_EARLY|.runners==1|short|CONNECTIONS=1 ENDS=0
RESUME_RUNNING|.running)|short|CONNECTIONS=1 ENDS=0
INTEREST_WITHOUT_LOCK|selector_lock|short|CONNECTIONS=1 WORKERS=1 APPLICATION=0
WANTS_BEFORE_DONE|is_heard|short|CONNECTIONS=1 WORKERS=0 ENDS=0
QUEUED_IGNORED|.gone)|short|CONNECTIONS=1 WORKERS=0
LOOK_THEN_RUN|cancelled==0|short|FUTURE
WAKE_BEFORE_STATE|is_got|short|FUTURE
COUNTED_LATE|is_got|short|FUTURE
NO_CALL|is_run|short|EXECUTOR CORE=2
END_UNASKED|is_run|short|EXECUTOR WORKERS=1 CORE=0
NO_NEXT|is_run|short|EXECUTOR CORE=2 SLOW=1
LOOK_THEN_SLEEP|is_run|short|EXECUTOR SUBMITTERS=1 WORKERS=1
TAKES_SEVERAL|is_run|short|EXECUTOR CORE=2 SLOW=1
HOLD_UNSEEN|went_on|short|HOLD
HOLD_FORGOTTEN|went_on|short|HOLD
LEFT_BLINDLY|called[|short|STRAND
TAKEN_AS_FREE|is_run|short|STRAND
ASKED_CLEARED_LATE|called[i]|short|STRAND
DUE_RESET_LATE|fired==2|short|STRAND MANY
LEFT_UNTOLD|fired==2|short|STRAND
END
}

# ---- searching ----------------------------------------------------------------------------------

define() { # SETTING...
    for setting; do
        printf ' -D%s' "$setting"
    done
}

# search KIND SETTING...: leaves what pan says in ./log, or what kept it from running. The kinds are
# those of mistakes(), and all, for a search that is to be complete. pan's status says nothing.
search() {
    kind=$1
    shift
    rm -f pan pan.* ./*.trail
    case " $* " in
    *' EXECUTOR '*) file=executor.pml ;; # a model of its own
    *' FUTURE '*) file=future.pml ;;     # and this
    *' HOLD '*) file=hold.pml ;;         # and this
    *' STRAND '*) file=strand.pml ;;     # and this
    *) file=model.pml ;;
    esac
    case " $* " in
    *' MANY '*) compile="$CC -include optimise.h" ;;
    *) compile=$SMALL ;;
    esac
    case $kind in
    all) with='-DSAFETY -DNOCLAIM' run='-m1000000' ;;
    deep) with='-DSAFETY -DNOCLAIM' run='-m600000' ;;
    short) with='-DSAFETY -DNOCLAIM -DBFS' run= ;;
    *) with='-DNFAIR=3' run="-m600000 -a -f -N $kind" ;;
    esac
    # shellcheck disable=SC2046,SC2086 # lists of words
    spin $(define "$@") -a $file >log 2>&1 &&
        $compile -O0 -w "-DMEMLIM=$MEGABYTES" $with -o pan pan.c >>log 2>&1 &&
        ./pan -w22 $run >log 2>&1
}

# Of pan's functions four run all the time. All of pan.c takes gcc four seconds to optimise, these half of one.
cat >optimise.h <<'END'
#define OPTIMISED(how) __attribute__((optimize(how)))
OPTIMISED("O2") int compress(char *, int);
OPTIMISED("O2") int h_store(char *, int);
OPTIMISED("O2") void d_sfh(unsigned char *, int);
OPTIMISED("O1") void new_state(void);
END

is_complete() {
    grep -q 'errors: 0$' log && ! grep -q 'not completed\|depth too small\|out of memory' log
}

passed=0 failed=0
report() { # STATUS NAME WHAT
    if [ "$1" -ne 0 ]; then
        failed=$((failed + 1))
        printf 'FAILED  %-44s %s\n' "$2" "$3"
        sed '/^ *$/d; /^unreached/,$d' log | sed 's/^/        | /' |
            head -n 20
        return
    fi
    passed=$((passed + 1))
    printf 'ok      %-44s %-18s%s\n' "$2" "$3" "$(
        awk '/states, stored/ { states = $1 }
             /elapsed time/ { printf "%9d states %5.1f s", states, $4 }' log
    )"
}

# ---- showing a failure --------------------------------------------------------------------------

if [ "${1-}" = show ]; then
    if ! line=$(mistakes | grep "^${2:?the name of a mistake}|"); then
        echo "no such mistake: $2; there are" >&2
        mistakes | cut -d '|' -f 1 >&2
        exit 2
    fi
    IFS='|' read -r name failure how settings <<END
$line
END
    [ "$how" != deep ] || how=short MEGABYTES=4000
    # shellcheck disable=SC2086
    search "$how" "$name" $settings
    if [ ! -e $file.trail ]; then
        cat log
        exit 1
    fi
    # Who does what; then what failed, or who is not where a thread may be in the end.
    # shellcheck disable=SC2046,SC2086
    spin $(define "$name" $settings) -t $file | sed 's/^ *//' | uniq | awk '
        /START OF CYCLE/ { print "and from here on forever:" }
        /^(dispatcher|[a-z]+_[0-9]): / { print }
        /text of failed assertion/ { sub(/.*text of /, ""); print; exit }
        /^[0-9]+:[ \t]*proc / && !/valid end state|:init|_spin_nvr/ {
            split($5, place, ":")
            for (i = 1; i <= place[2]; i++)
                getline line <place[1]
            close(place[1])
            sub(/^ */, "", line)
            match($4, /[a-z_]+/)
            print "at the end: " substr($4, RSTART, RLENGTH) ", in " $5 ": " line
        }'
    exit
fi

# ---- checking -----------------------------------------------------------------------------------

# Steps of the model that were never taken: what is proved of them is in vain.
vain() {
    awk '/^unreached in/ { thread = $4 }
         thread ~ /^(dispatcher|worker|acceptor|application|helper)$/ && /state [0-9]/ && !/"-end-"/ {
             print "never taken in " thread ":" $0
         }' log
}

check_safety() { # NAME SETTING...
    name=$1
    shift
    search all "$@"
    is_complete
    report $? "$name" 'nothing fails'
}

sum_up() {
    echo "$passed passed, $failed failed"
    exit $((failed > 0))
}

if [ "${1-}" = large ]; then
    MEGABYTES=4000
    large >list
    while IFS='|' read -r name settings; do
        # shellcheck disable=SC2086
        check_safety "$name" $settings
    done <list
    sum_up
fi

safe >list
while IFS='|' read -r name settings; do
    # shellcheck disable=SC2086
    check_safety "$name" $settings
    if [ "$name" = 'two connections, changed by others' ]; then
        vain >steps
        mv steps log
        [ ! -s log ]
        report $? 'in which every step is taken' ''
    fi
done <list

sooner_or_later >list
while IFS='|' read -r property name settings; do
    # shellcheck disable=SC2086
    search "$property" $settings
    is_complete
    report $? "$name" "$property"
done <list

mistakes >list
while IFS='|' read -r name failure how settings; do
    # shellcheck disable=SC2086
    search "$how" "$name" $settings
    grep '^pan:1: ' log | grep -qF -- "$failure"
    report $? "$name" "$failure"
done <list

# What has a name of C's is there in C; the model and the chapter know the same mistakes.
sed -n 's/^inline \([a-z_]*\).*/\1/p; s/^#define \([a-z_]*\)(.*/\1/p' \
    selector.pml selector_guard.pml status_change_queue.pml handler_adapter.pml dispatcher.pml executor.pml \
    future.pml strand.pml |
    sort -u >names
while read -r name; do
    grep -q "^[a-z].*[ *]$name(" "$top"/common/*/*.c "$top"/stage[45]-*/*.c ||
        echo "no function in C is called $name"
done <names >log
[ ! -s log ]
report $? 'the functions of the model are there in C' "$(wc -l <names) names"

mistakes | cut -d '|' -f 1 >names
while read -r name; do
    grep -q "ifn*def $name\$\|defined($name)" ./*.pml || echo "the model does not know $name"
    grep -q "^### $name" "$top/docs/model.md" || echo "docs/model.md does not tell of $name"
done <names >log
[ ! -s log ]
report $? 'the chapter tells of all mistakes' "$(wc -l <names) mistakes"

sum_up
