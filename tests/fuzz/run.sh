#!/bin/sh
# Fuzzes one target, or each for a while, as many at a time as there are processors.
#
#   usage: FUZZ=folder of programs SECONDS_EACH=n tests/fuzz/run.sh TARGET...
#
# A target starts from tests/fuzz/corpus/TARGET, which is small and part of the sources: seeds, inputs
# on both sides of each limit, and every input that was a finding once. What the fuzzer finds worth
# keeping goes to FUZZ/corpus/TARGET and is used again the next time; a finding goes to
# FUZZ/findings. The last line counts targets.
#
# No limit of a parser may lie beyond the longest input: the longest one of HTTP is a head with its
# body, of 65538 bytes, and nothing else that is parsed here may have 4096 bytes. Besides, a few
# bytes of an input can stand for as many as a limit has (fuzz_stretch in fuzz.h).
set -u

: "${FUZZ:?the folder of the fuzz programs}"
seconds=${SECONDS_EACH:-5}
TMPDIR=$(mktemp -d "${TMPDIR:-/tmp}/fuzz.XXXXXX") || exit 2
trap 'rm -rf "$TMPDIR"' EXIT
trap 'exit 130' INT TERM
export TMPDIR

if [ "$1" != --one ]; then
    printf '%s\n' "$@" | xargs -n 1 -P "$(getconf _NPROCESSORS_ONLN)" "$0" --one | tee "$TMPDIR/said"
    failed=$(grep -c ': A FINDING$' "$TMPDIR/said")
    echo "$(grep -c ': no finding$' "$TMPDIR/said") passed, $failed failed"
    [ "$failed" -eq 0 ]
    exit
fi

target=$2
seeds=tests/fuzz/corpus/$target found=$FUZZ/corpus/$target log=$FUZZ/$target.log
mkdir -p "$found" "$FUZZ/findings"
longest=4096
[ "$target" != http ] || longest=70000
# None takes a tenth of a second, but others on the machine come first.
options="-max_total_time=$seconds -timeout=60 -rss_limit_mb=1024 -max_len=$longest"
[ "$target" != options ] || options="$options -close_fd_mask=1"
dictionary=tests/fuzz/$target.dict
[ ! -e "$dictionary" ] || options="$options -dict=$dictionary"
outcome='no finding'
# shellcheck disable=SC2086 # options are several words
nice -n 19 "$FUZZ/$target" $options -print_final_stats=1 -verbosity=0 -artifact_prefix="$FUZZ/findings/$target-" \
    "$found" "$seeds" >"$log" 2>&1 </dev/null || { outcome='A FINDING' && tail -n 60 "$log"; }
runs=$(sed -n 's/^stat::number_of_executed_units: *//p' "$log")
printf '  %-12s %12s inputs in %s s: %s\n' "$target" "${runs:-?}" "$seconds" "$outcome"
