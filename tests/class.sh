#!/bin/sh
# Lays out what a class of thirty hands in, so that a teacher can see beforehand what `make grade` says of it:
# programs of steps, of the step before, and with the mistakes that tests/mistakes has, and two that are no programs.
#
#   usage: tests/class.sh FOLDER        (`make class DIR=folder` calls this)
#
# FOLDER, which must not be there yet, gets FOLDER/NAME/STEP for each line below.
set -eu

class=${1:-}
if [ -z "$class" ] || [ -e "$class" ]; then
    echo "class: DIR=$class: expected the name of a folder that is not there yet" >&2
    exit 2
fi

# STUDENT STEP STEP (the program of that step), MISTAKE (step's own, with that), broken or empty
handed_in='
    ada     1.2 1.2
    ali     1.2 1.2
    bea     1.2 1.1
    boris   1.2 sigpipe
    carl    1.2 1.2
    chen    1.2 waits_for_the_thread
    dana    1.2 shared_variable
    dov     1.2 1.2
    elif    1.2 broken
    emil    1.2 1.3
    fatou   1.3 1.3
    finn    1.3 half_lines
    gita    1.3 1.3
    greta   1.3 drops_the_rest
    hana    1.3 one_buffer
    hugo    1.3 1.2
    ines    1.3 1.3
    ivan    1.3 empty
    jana    2.4 2.4
    jin     2.4 spins
    kofi    2.4 2.4
    kira    2.4 waits
    lea     2.4 2.3
    luis    2.4 no_backpressure
    mara    2.4 forgets_the_rest
    milan   2.4 end_first
    nora    2.4 always_asks_for_room
    omar    2.4 2.4
    pia     2.4 2.5
    rosa    2.4 1.3'

program_of() { # STEP FOLDER
    for source in $(tests/steps.sh sources "$1"); do
        sed "s/step$1/server/" "$source" >"$2/${source##*/}"
    done
}

echo "$handed_in" | while read -r student step what; do
    [ -n "$student" ] || continue
    folder=$class/$student/$step
    mkdir -p "$folder"
    case $what in
    empty) ;;
    broken) echo 'int main(void) { return missing; }' >"$folder/server.c" ;;
    [0-9]*) program_of "$what" "$folder" ;;
    *)
        program_of "$step" "$folder"
        patch -s -p 1 -d "$folder" <"tests/mistakes/$step/$what.patch"
        ;;
    esac
done
echo "class: $(find "$class" -mindepth 2 -maxdepth 2 | wc -l) submissions; make grade DIR=$class grades them"
