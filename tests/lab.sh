#!/bin/sh
# Labs: a step of the course to be written by its reader, out of the step before.
#
#   usage: tests/lab.sh COMMAND ...        (tests/steps.mk calls this, from the top)
#
#   lay-out STEP FOLDER  makes the folder: the sources of the step before, whose program calls itself
#                        `server`, and what the step `gives`, a Makefile, the task, and a workflow for a
#                        repository of one's own
#   exercise STEP FOLDER makes a folder for the exercise on the page of a step: with its own sources
#   hint STEP FILE       the next of the step's three hints; FILE remembers how many were given
#   solution STEP        where the step is, and what is new in it
#
# The task is lab.md beside the page of the step. The hints are in a file of their own, hints.md, under
# `## Hint 1` to `## Hint 3`, so that somebody who reads the task does not see them. A lab is graded by
# the tests of its step, through TCP, so it may be in any language. LIBRARIES are what the linker needs
# beside common/.
# shellcheck disable=SC2016 # what is in backquotes is text
set -u

fail() {
    echo "lab: $1" >&2
    exit 2
}

steps() {
    tests/steps.sh "$@" || exit 2
}

# One of the hints, without its heading and what names the source of its code.
one_hint() { # FILE NUMBER
    awk -v heading="## Hint $2" '
        /^## / { inside = $0 == heading; next }
        /^<!-- / { next }
        inside' "$1" | sed '/./,$!d'
}

# What earlier steps could do and this one cannot.
losses() { # STEP
    if [ -n "$(steps field "$1" loses)" ]; then
        echo 'Tests of earlier steps fail by chance: a program as this step has it waits forever now and then.'
        return
    fi
    steps lost "$1" | while read -r number back name; do
        if [ "$back" = - ]; then
            echo "- what step $number could do ($name): here it is done in another way."
        else
            echo "- what step $number could do ($name): it is missing here, and comes back in step $back."
        fi
    done
}

# What git says of the course, if the course is a clone: unpacked, it may lie in a repository of something else.
of_course() { # COMMAND...
    prefix=$(git rev-parse --show-prefix 2>/dev/null) && [ -z "$prefix" ] && git "$@" 2>/dev/null
}

# Where a machine without keys can clone the course from; nothing if it was unpacked, or cloned from a path.
address() {
    of_course remote get-url origin |
        sed -nE 's|^[a-z]+@([^:/]+):|https://\1/|; s|^ssh://([a-z]+@)?([^/:]+)(:[0-9]+)?/|https://\2/|; /^https?:/p'
}

readme() { # STEP STEP_BEFORE
    folder=$(steps folder "$1")
    echo "# Lab: step $(basename "$folder" | sed 's/-/ /; s/-/ /g')"
    echo
    cat "$folder/lab.md"
    cat <<END

## How to work

    make             builds \`server\` from all C files here
    make test        grades it by the tests of step $1, and by those of earlier steps that must still pass
    make hint        the next of three hints
    make solution    how we did it

${2:+You begin with step $2. }The step's page is \`$folder/README.md\` in the course. If you
have not read it yet, stop at its first excerpt, and read on if you get stuck.

The program may be in any language. It gets \`--port 0\`, has to print its own name, which is the last
part of its path, and where it listens, as in \`server: echo on 127.0.0.1:40123\`, and it has to flush
that line. Let \`make\` build it, or put it here as \`server\`.

To have each push graded, make this folder a repository of your own on GitHub:
\`.github/workflows/grade.yml\` is there. It grades by the course as it was when you began, so your grade changes only
when your program does.
END
    [ -n "$(address)" ] || printf '\n%s\n' "Before you push: nobody can clone the course from here, so
\`.github/workflows/grade.yml\` does not know its address yet. Write that behind \`COURSE:\`."
    lost=$(losses "$1")
    [ -z "$lost" ] || printf '\n## What earlier steps could do and this one need not\n\n%s\n' "$lost"
    case $1 in
    2.[1-7]) [ -z "$lost" ] || printf '\n(Steps 1.4 and 1.5 are read after step 2.7.)\n' ;;
    esac
}

makefile() { # STEP TARGET SOURCES...: with the target that grades
    number=$1 target=$2
    shift 2
    library=
    [ $# -eq 0 ] || ! grep -q '"common/' "$@" || library=1
    sanitizer=$(steps field "$number" sanitizer)
    threads=
    [ "$target" != test-step ] || threads=$(steps field "$number" threads)
    cat <<END
# Lab $number, see README.md. This file is yours, too.

# Where the course is.
COURSE   ?= $PWD
STEP     := $number
GRADE    := $target
LIBRARY  := ${library:+build/libcommon.a}
LIBS     := ${library:+${LIBRARIES:-}}
SANITIZE := ${sanitizer:+-fsanitize=$sanitizer -fno-omit-frame-pointer}
# Programs with threads are graded once more under ThreadSanitizer.
RACES    := ${threads:+thread/server}
END
    cat <<'END'
CFLAGS   ?= -O2 -g
WARNINGS := -Wall -Wextra -Wpedantic -Wshadow -Wconversion
SOURCES  := $(wildcard *.c)
THERE     = @[ -e '$(COURSE)/tests/lab.sh' ] || { echo 'COURSE=$(COURSE): expected the folder of the course, and it is not' \
    'there; say where it is: make COURSE=path/to/scalable-servers' >&2; exit 2; }; $(MAKE) --no-print-directory -C '$(COURSE)'

COMPILE   = $(CC) -std=c11 -D_GNU_SOURCE $(LIBRARY:%=-I. -I'$(COURSE)') $(WARNINGS) $(CFLAGS) -pthread -o $@ $(SOURCES)

# A server that was compiled is not for git; one in another language is.
.PHONY: all ignored
all: server ignored
ignored:
	@$(if $(SOURCES),grep -qsx /server .gitignore || echo /server >>.gitignore,sed -i '/^.server$$/d' .gitignore)

server: $(SOURCES) $(wildcard *.h)
	+$(if $(LIBRARY),$(THERE) $(LIBRARY))
	$(if $(SOURCES),$(COMPILE) $(SANITIZE) $(LIBRARY:%='$(COURSE)/%') $(LIBS))

thread/server: $(SOURCES) $(wildcard *.h)
	+$(if $(LIBRARY),$(THERE) SANITIZER=thread $(LIBRARY:build/%=build/thread/%))
	@mkdir -p $(@D)
	$(COMPILE) -fsanitize=thread $(LIBRARY:build/%='$(COURSE)/build/thread/%') $(LIBS)

.PHONY: test hint solution
test: all $(if $(SOURCES),$(RACES))
	@[ -x server ] || { echo 'there is no C file here, and no program called server'; exit 1; }
	+$(THERE) $(GRADE) STEP=$(STEP) SERVER='$(CURDIR)/server' $(if $(SOURCES),$(RACES:%=RACES_OF='$(CURDIR)/%'))
hint solution:
	+$(THERE) $@ STEP=$(STEP) HINTS='$(CURDIR)/.hints'
END
}

workflow() {
    cat <<END
# Grades each push. COURSE is where the course can be cloned from, and COMMIT which state of it grades.
name: grade

on: [push]

permissions:
  contents: read

jobs:
  grade:
    runs-on: ubuntu-latest
    timeout-minutes: 10
    env:
      COURSE: $(address | grep . || echo ADDRESS-OF-THE-COURSE)
      COMMIT: $(of_course rev-parse HEAD || cat tests/commit 2>/dev/null || echo HEAD)
    steps:
      - uses: actions/checkout@v4
      - run: sudo apt-get -q update && sudo apt-get -q install -y gcc make pkg-config libcriterion-dev
      - run: |
          case \$COURSE in *://*) ;; *) echo "write the address of the course behind COURSE: in .github/workflows/grade.yml"; exit 1 ;; esac
          git clone -q "\$COURSE" "\$RUNNER_TEMP/course" && git -C "\$RUNNER_TEMP/course" checkout -q "\$COMMIT"
      - run: make test COURSE="\$RUNNER_TEMP/course"
END
}

# Makes a folder with sources, which are those of a step if one is named.
begin() { # FOLDER STEP
    case $1 in
    *[[:space:]]*) fail "DIR=$1: expected a folder without a space in its path" ;;
    esac
    [ ! -e "$1" ] || [ -z "$(ls -A "$1" 2>/dev/null || echo file)" ] ||
        fail "$1 is there already; expected a new folder. To begin anew: rm -r $1"
    mkdir -p "$1/.github/workflows" && workflow >"$1/.github/workflows/grade.yml" &&
        printf '/thread/\n/.hints\n' >"$1/.gitignore" || exit 2
    [ -n "$2" ] || return 0
    name=$(steps name "$2")
    for file in $(steps sources "$2"); do
        sed "s|\"$name: |\"server: |; s|^\\(#define [A-Z]*_NAME \\)\"$name\"|\\1\"server\"|" \
            "$file" >"$1/${file##*/}" || exit 2
    done
}

warn_of_clean() { # FOLDER
    [ -n "$(address)" ] || echo "lab: nobody can clone the course from here, so write its address" \
        "into .github/workflows/grade.yml before you push"
    case $1 in
    build/*) echo 'lab: make clean would remove it; name a folder with DIR= to keep your work elsewhere' ;;
    esac
}

# The core's steps show files of the course, so there is nothing to write.
need_lab() { # STEP
    [ -f "$(steps folder "$1")/lab.md" ] ||
        fail "step $1 has no lab: it shows files of common/, and its page says which"
}

lay_out() { # STEP FOLDER
    need_lab "$1"
    old=$(steps before "$1")
    begin "$2" "$old"
    for file in $(steps field "$1" gives); do
        cp "$(steps folder "$1")/$file" "$2" || exit 2
    done
    # shellcheck disable=SC2046 # names of sources have no spaces
    makefile "$1" test-step $([ -z "$old" ] || steps sources "$old") >"$2/Makefile" &&
        readme "$1" "$old" >"$2/README.md" || exit 2
    echo "lab: $2 is there, ${old:+with step $old }for you to write step $1; its README.md says how"
    warn_of_clean "$2"
}

# The exercise is a paragraph of the page.
exercise() { # STEP FOLDER
    page=$(steps folder "$1")/README.md
    grep -q '^\*\*Exercise\.\*\*' "$page" || fail "there is no exercise on $page"
    [ -e "${page%README.md}exercise.patch" ] || fail "the exercise on $page has no tests"
    begin "$2" "$1"
    target=test-exercise
    grep -q "^Test(exercise$(echo "$1" | tr . _)," tests/steps/*.c || target=test-step
    # shellcheck disable=SC2046 # names of sources have no spaces
    makefile "$1" $target $(steps sources "$1") >"$2/Makefile" || exit 2
    {
        printf '# Exercise of step %s\n\n' "$1"
        awk '/^\*\*Exercise\.\*\*/ { on = 1; sub(/^[^ ]* /, "") } /^$/ { on = 0 } on' "$page"
        printf '\n`make` builds `server` from all C files here, and `make test` grades it.\n'
        printf 'Our solution is `%sexercise.patch` in the course.\n' "${page%README.md}"
    } >"$2/README.md"
    echo "lab: $2 is there, with step $1; its README.md says what to make of it"
    warn_of_clean "$2"
}

hint() { # STEP FILE
    need_lab "$1"
    file=$(steps folder "$1")/hints.md
    given=$(cat "$2" 2>/dev/null || echo 0)
    next=$((given + 1))
    if [ "$next" -gt 3 ]; then
        for each in 1 2 3; do
            printf '%s. ' "$each"
            one_hint "$file" "$each"
        done
        echo "That was the last hint; make solution STEP=$1 shows the step."
        return
    fi
    mkdir -p "$(dirname "$2")" && echo "$next" >"$2" || exit 2
    echo "Hint $next of 3 for step $1:"
    echo
    one_hint "$file" "$next"
}

solution() { # STEP
    echo "The solution is $(steps folder "$1"):"
    steps sources "$1" | sed 's/^/    /'
    old=$(steps before "$1")
    [ -z "$old" ] || steps diff "$old" "$1"
}

command=$1
shift
case $command in
lay-out) lay_out "$@" ;;
exercise | hint | solution) "$command" "$@" ;;
*) fail "no such command: $command" ;;
esac
