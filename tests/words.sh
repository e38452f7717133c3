#!/bin/sh
# Counts the words of the course's main line: the chapters that the sittings lead to, and the pages of the steps
# up to stage 5 (the epilogue comes after it).
#
#   usage: tests/words.sh       (tests/docs.sh calls this; docs/readers.md says why)
#
# A word has a letter or a digit in it. Code, commands and what they show, comments, tags and the
# targets of links are no words. A line for each file, then the sum, then a line for each step that is too
# long. Fails if there are more than MAX, or more than MAX_OF_STEP in the page of a step. Of step 2.4, which
# the reader writes from its page, there may be more; 5.4, an exercise beside the main line, is not counted.
set -eu
cd "$(dirname "$0")/.."

MAX=46000
MAX_OF_STEP=799

main_line() {
    docs/sittings.sh | grep '^docs/'
    find common/steps stage[1-5]-*/steps -name README.md ! -path '*-epilogue/*' | sort
}

# shellcheck disable=SC2046 # names of documents have no spaces
exec awk -v max="$MAX" -v max_of_step="$MAX_OF_STEP" '
    function end_file() {
        print words, last
        if (last ~ /\/steps\/[^\/]*\// && last !~ /\/2\.4-/ && words > max_of_step)
            too_long[++count] = words " words in " last ", at most " max_of_step
    }
    FNR == 1 { if (NR > 1) end_file(); words = fenced = 0; last = FILENAME }
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
        end_file()
        print sum " words in the main line, at most " max
        for (i = 1; i <= count; i++)
            print too_long[i]
        exit sum > max || count > 0
    }' $(main_line)
