#!/bin/sh
# Shows that the tests of each lab catch the programs that people write by mistake.
#
#   usage: CC=... OUT=build LIBRARIES=... tests/graders.sh [STEP|strand...]     (`make test-graders` calls this)
#
# A mistake is a patch below tests/mistakes/N.M for the sources of step N.M. Above its diff stand
#
#   mistake: what the program does wrong, in a sentence
#   named: what a test that fails says of it, as grep -E reads it
#   by: 2.2                 the step whose tests say so, if that is an earlier one
#   sanitizer: thread       the program is graded with that sanitizer, as its lab is
#
# tests/mistakes/strand has those of applications that stand on a strand: they are for docs/examples/room.c,
# on stage 4, and graded by what docs/examples/room.talk says, as `make test-app` grades yours.
#
# A program with a mistake has to fail, and a message of a test has to name the mistake, or its author
# would not know what to look for. Each lab has three mistakes at least, and those of MORE five.
# Prints what failed, and "N passed, N failed" at the end.
set -u

MORE='2.4 3.1 3.4 4.2 strand'
if [ "${1:-}" = --one ]; then
    work=$2
else
    work=$(mktemp -d "${TMPDIR:-/tmp}/graders.XXXXXX") || exit 2
    trap 'rm -rf "$work"' EXIT
    trap 'exit 130' INT TERM
fi

said() { # PATCH NAME
    sed -n "/^--- /q; s/^$2: *//p" "$1"
}

# Only what the patch changes is compiled: the rest was for the program of the step, but for what wants a
# sanitizer, or includes a header that is another one.
build() { # STEP PATCH FOLDER
    mkdir -p "$3/before"
    if [ "$1" = strand ]; then
        cp docs/examples/room.c "$3" && patch -s -p 1 -d "$3" <"$2" || return
        # shellcheck disable=SC2086 # CC may be several words
        ${CC:-cc} -std=c11 -D_GNU_SOURCE -O1 -Wl,-S -pthread -I. -Droom_application=application_added \
            -o "$3/server" "$3/room.c" "$OUT"/obj/stage4-framework/*.o "$OUT/libcommon.a" ${LIBRARIES:-}
        return
    fi
    name=$(tests/steps.sh name "$1") && sources=$(tests/steps.sh sources "$1") || return
    # shellcheck disable=SC2086 # names of sources have no spaces
    cp $sources "$3" && cp $sources "$3/before" && patch -s -p 1 -d "$3" <"$2" || return
    sed -i "s|\"$name: |\"server: |; s|^\(#define [A-Z]*_NAME \)\"$name\"|\1\"server\"|" "$3"/*.c
    sanitizer=$(said "$2" sanitizer)
    sanitizer=${sanitizer:-$(tests/steps.sh field "$1" sanitizer)}
    library=
    ! grep -q '"common/' "$3"/*.c || library="$OUT${sanitizer:+/$sanitizer}/libcommon.a ${LIBRARIES:-}"
    compiled=$OUT/obj/$name anew=$sanitizer inputs=
    [ -d "$compiled" ] || compiled=$OUT/steps/$1
    for file in "$3"/*.h; do
        [ ! -e "$file" ] || cmp -s "$file" "$3/before/${file##*/}" || anew=header
    done
    for file in "$3"/*.c; do
        if [ -z "$anew" ] && cmp -s "$file" "$3/before/${file##*/}"; then
            file=${file##*/} file=$compiled/${file%.c}.o
        fi
        inputs="$inputs $file"
    done
    # Only a sanitizer's report names lines.
    # shellcheck disable=SC2046,SC2086 # CC may be several words
    ${CC:-cc} $([ -n "$sanitizer" ] && echo "-fsanitize=$sanitizer -g1" || echo -Wl,-S) -std=c11 -D_GNU_SOURCE -O1 -Wno-unused -pthread -I. -I"$3" \
        -o "$3/server" $inputs $library
}

# Prints "passed", or what is wrong.
judge() { # STEP PATCH
    folder=$work/$(echo "$2" | tr / _)
    output=$folder.output
    if ! build "$1" "$2" "$folder" >"$output" 2>&1; then
        echo 'it does not build'
        return
    fi
    grade=grade
    [ -z "$(said "$2" sanitizer)" ] || grade='grade-races'
    # Most mistakes are named by the step's own tests. Those of earlier steps run only for the others, one step's
    # after the other, until one names it: a program that spins does not have to do so in all of them.
    kept='' fails=''
    [ "$1" = strand ] || kept=$(tests/steps.sh field "$1" keeps)
    for tested in $(said "$2" by) "$1" $kept; do
        if [ "$1" = strand ]; then
            TALK_DEADLINE=10 tests/app/talk.py docs/examples/room.talk room "$folder/server" >"$output" 2>&1
        else
            TEST_DEADLINE_MS=4000 tests/steps.sh $grade "$1" "$folder/server" \
                "step$(echo "$tested" | tr . _)/*" >"$output" 2>&1
        fi && continue
        fails=1
        ! grep -aqE -- "$(said "$2" named)" "$output" || break
    done
    if grep -q '^skipped: .*ThreadSanitizer' "$output"; then
        grep '^skipped: ' "$output"
    elif [ -z "$fails" ]; then
        echo "all tests pass on a program that $(said "$2" mistake)"
    elif ! grep -aqE -- "$(said "$2" named)" "$output"; then
        echo "no test says of a program that $(said "$2" mistake): $(said "$2" named)"
    else
        echo passed
    fi
}

if [ "${1:-}" = --one ]; then # WORK PATCH
    step=${3#tests/mistakes/} step=${step%%/*}
    verdict=$(judge "$step" "$3")
    case $verdict in
    passed) echo "passed $3" ;;
    skipped*) echo "$verdict" ;;
    *)
        echo "failed $3: $verdict"
        grep -aE '^\[-|verdict|^\[FAIL|error|FAILED' "$work/$(echo "$3" | tr / _).output" | head -"${LINES_SHOWN:-12}" | sed 's/^/    /'
        ;;
    esac >"$work/$(echo "$3" | tr / _).verdict"
    head -n 1 "$work/$(echo "$3" | tr / _).verdict" | sed 's|^|  |'
    exit 0
fi

# shellcheck disable=SC2046 # a list of numbers
[ $# -gt 0 ] || set -- $(tests/steps.sh numbers) $(find stage4-framework -prune -exec echo strand ';' 2>/dev/null)
touch "$work/few"
for step; do
    least=3
    case " $MORE " in *" $step "*) least=5 ;; esac
    count=$(find tests/mistakes/"$step" -name '*.patch' 2>/dev/null | wc -l)
    [ "$count" -ge $least ] || echo "step $step has $count mistakes, expected at least $least" >>"$work/few"
    find tests/mistakes/"$step" -name '*.patch' 2>/dev/null
done | sort >"$work/all"
xargs -P $((4 * $(getconf _NPROCESSORS_ONLN))) -n 1 "$0" --one "$work" <"$work/all"

cat "$work"/*.verdict 2>/dev/null >"$work/verdicts"
grep -v '^passed ' "$work/verdicts" | sed 's/^failed /graders: FAILED: /'
sed 's/^/graders: FAILED: /' "$work/few"
failed=$(($(grep -c '^failed ' "$work/verdicts") + $(wc -l <"$work/few")))
echo "$(grep -c '^passed ' "$work/verdicts") passed, $failed failed"
[ "$failed" -eq 0 ]
