#!/bin/sh
# Makes the pictures of the chapters that show servers at work, out of what they record of themselves.
#
#   usage: docs/trace/stills.sh FOLDER SCENARIO STAGE...      (paths of the servers of stages 1 to 5)
#
#   FOLDER/seen-costly.svg       a line that blocks its thread, in stages 2 and 3
#   FOLDER/seen-guard.svg        a worker's change of interest on an idle server, with the guard and without
#   FOLDER/seen-life.svg         one line's way through stage 4
#   FOLDER/seen-dispatchers.svg  the line that blocks, in stage 5
#
# A picture that cannot be made stays as it is; the exit status tells.
set -u

folder=$1 scenario=$2
shift 2
work=$(mktemp -d "${TMPDIR:-/tmp}/stills.XXXXXX") || exit 2
trap 'rm -rf "$work"' EXIT
trap 'exit 130' INT TERM
failed=0

play() { # SERVER NAME SCENE [SERVER_OPTION...]
    server=$1 name=$2 scene=$3
    shift 3
    SCENE=$scene tests/trace/play.sh "$scenario" "$server" "$work/$name.json" "$@"
}

still() { # PICTURE WHAT TITLE (NAME TRACE)...
    picture=$1
    shift
    if docs/trace/still.py "$@" >"$work/$picture.svg" 2>"$work/log"; then
        # At once, for somebody may be looking.
        cp "$work/$picture.svg" "$folder/$picture.new" && mv "$folder/$picture.new" "$folder/$picture.svg"
    else
        echo "stills: no $picture.svg: $(tail -n 1 "$work/log")"
        failed=1
    fi
}

for server; do
    number=${server##*/stage}
    play "$server" "${number%%-*}" ''
    case $number in
    3*)
        play "$server" guard knock --block-ms 0
        play "$server" none knock --block-ms 0 --guard none
        ;;
    esac
done

still seen-costly costly 'A line that blocks its thread, in stages 2 and 3' \
    'stage 2' "$work/2.json" 'stage 3' "$work/3.json"
still seen-guard resume 'A worker changes the interest of its connection, with the guard and without' \
    'stage 3' "$work/guard.json" 'stage 3, --guard none' "$work/none.json"
still seen-life life "One line's way through stage 4, an event after the other" 'stage 4' "$work/4.json"
still seen-dispatchers costly 'A line that blocks its thread, in stage 5 without workers' 'stage 5' "$work/5.json"
exit $failed
