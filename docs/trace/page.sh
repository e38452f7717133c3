#!/bin/sh
# Makes one page of traces: everything is in it, and a browser needs nothing else.
#
#   usage: [SITE=way] docs/trace/page.sh TITLE TRACE.json... >PAGE.html
#
# SITE is the way from the page to the site, if that is there: the page has links to it then. Where it is a part of the
# site, ./, docs/site.sh puts a frame around it.
set -eu

title=$1
shift
template=$(dirname "$0")/page.html

# The line of the template that says @DATA@ becomes a script of data for each trace.
into="s|@TITLE@|$title|"
[ "${SITE-}" = ./ ] || into="$into; /^@FRAME@\$/d; /^@AROUND@\$/d"
[ -z "${SITE-}" ] || into="$into; s|@SITE@|$SITE|g"
sed "$into; /^@DATA@\$/,\$d" "$template"
for trace; do
    echo '<script class="trace" type="application/json">'
    cat "$trace"
    echo '</script>'
done
sed "$into; 1,/^@DATA@\$/d" "$template"
