#!/bin/sh
# Makes one page of traces: everything is in it, and a browser needs nothing else.
#
#   usage: docs/trace/page.sh TITLE TRACE.json... >PAGE.html
set -eu

title=$1
shift
template=$(dirname "$0")/page.html

# The line of the template that says @DATA@ becomes a script of data for each trace.
sed "s/@TITLE@/$title/; /^@DATA@\$/,\$d" "$template"
for trace; do
    echo '<script class="trace" type="application/json">'
    cat "$trace"
    echo '</script>'
done
sed '1,/^@DATA@$/d' "$template"
