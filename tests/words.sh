#!/bin/sh
# Counts the words of the course's main line: the chapters that the sittings lead to, and the pages of the steps
# up to stage 5 (the epilogue comes after it).
#
#   usage: tests/words.sh       (tests/docs.sh calls this; docs/readers.md says why)
#
# A word has a letter or a digit in it. Code, commands and what they show, comments, tags and the
# targets of links are no words. A line for each file, then the sum. Fails if there are more than MAX.
set -eu
cd "$(dirname "$0")/.."

MAX=46000

main_line() {
    docs/sittings.sh | grep '^docs/'
    find common/steps stage[1-5]-*/steps -name README.md ! -path '*-epilogue/*' | sort
}

# shellcheck disable=SC2046 # names of documents have no spaces
exec awk -v max="$MAX" '
    FNR == 1 { if (NR > 1) print words, last; words = fenced = 0; last = FILENAME }
    /^ *```/ { fenced = !fenced; next }
    fenced || /^    / { next }
    {
        gsub(/<[^>]*>/, "")
        gsub(/\]\([^)]*\)/, "]")
        for (i = 1; i <= NF; i++)
            if ($i ~ /[A-Za-z0-9]/) {
                words++
                sum++
            }
    }
    END {
        print words, last
        print sum " words in the main line, at most " max
        exit sum > max
    }' $(main_line)
