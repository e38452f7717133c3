#!/bin/sh
# Lays out a lab: a folder in which to build a stage oneself, out of the stage before it.
#
#   usage: docs/labs/lay_out.sh LAB STAGE PREVIOUS [LIBRARY...]
#          (`make lab STAGE=3` calls this, from the top)
#
#   LAB/*.c *.h      the sources of PREVIOUS; the program calls itself `server`
#   LAB/Makefile     builds `server` from them, against common/ of this repository
#   LAB/README.md    the steps, docs/labs/stageN.md; its links hold in both places
#
# A lab that is there already stays as it is: there is somebody's work in it.
set -eu

lab=$1 stage=$2 previous=${3:-}
[ $# -lt 3 ] || shift 3
number=${stage#stage}
number=${number%%-*}
steps=docs/labs/stage$number.md

if [ -z "$previous" ]; then
    echo "lab: no stage comes before $stage; begin with: make lab STAGE=2" >&2
    exit 2
fi
if [ ! -e "$steps" ]; then
    echo "lab: there are no steps for $stage yet" >&2
    exit 2
fi
if [ -e "$lab" ]; then
    echo "lab: $lab is there already; to begin anew, remove it first: rm -r $lab" >&2
    exit 2
fi

case $lab in
/* | */*/*) top=$(pwd) ;;
*) top=../.. ;;
esac
mkdir -p "$lab"
cp "$previous"/*.[ch] "$lab"
sed 's/^#define STAGE_NAME .*/#define STAGE_NAME "server"/' "$previous/main.c" >"$lab/main.c"
cp "$steps" "$lab/README.md"
sed "s|@TOP@|$top|; s|@LIBRARIES@|$*|; s|@NUMBER@|$number|; s|@STAGE@|$stage|; s|@PREVIOUS@|$previous|" \
    docs/labs/lab.mk >"$lab/Makefile"
echo "lab: $lab has the code of $previous; its README.md tells the steps"
