# Makes Markdown that reads well in the repository read as well in the site.
#
#   usage: awk -f docs/names.awk -f docs/filter_markdown.awk TEXT.md
#
# A link names a file of the repository, relative to the file it stands in, and leads to where that is in
# the site (docs/names.awk); #some-heading is a heading, found by its text as on GitHub: a heading gets the
# anchor queues--some-heading if it has no {#name} of its own. Doxygen eats a percent sign in front of a word,
# in inline code too, so there it gets two; it does not see that two asterisks in front of inline code
# make it bold, so they become <b>; and it makes a dash of two hyphens in prose, so --option is escaped. Fenced and
# indented code stays as it is.
#
# A line that is nothing but a link with a name in its text, as
#
#   [reactor.c: reactor_run](../stage2-single-reactor/reactor.c)
#
# shows what is defined there by that name (docs/snippets.awk). A block of C behind it shows the same
# where there is no site (`make step-pages`), and is left out.

function folder_of(path)
{
    return match(path, /.*\//) ? substr(path, 1, RLENGTH) : ""
}

# The path without "name/.." and "./" in it.
function plain_path(path)
{
    while (sub(/(^|\/)\.\//, "/", path))
        sub(/^\//, "", path)
    while (sub(/[^\/.]+[^\/]*\/\.\.\//, "", path))
        ;
    sub(/[^\/.]+[^\/]*\/\.\.$/, "", path)
    return path
}

function anchor(heading)
{
    heading = tolower(heading)
    gsub(/[^a-z0-9 _-]/, "", heading)
    gsub(/ /, "-", heading)
    return heading
}

function rewritten(target,    path, fragment)
{
    if (target ~ /^[a-z]+:/)
        return target
    if (match(target, /#.*/)) {
        fragment = substr(target, RSTART + 1)
        target = substr(target, 1, RSTART - 1)
    }
    path = target == "" ? source : plain_path(folder_of(source) target)
    if (fragment != "")
        fragment = "#" (path ~ /\.md$/ ? page_of(path) "--" : "") fragment
    if (site_of(source) != "" && site_of(path) == site_of(source))
        return substr(address_of(path), length(site_of(path)) + 1) fragment
    return (site_of(source) != "" ? "../" : "") address_of(path) fragment
}

# The line with its links rewritten; pictures are Doxygen's to find.
function with_links(text,    done, before, target)
{
    while (match(text, /\]\([^() ]+\)/)) {
        before = substr(text, 1, RSTART)
        target = substr(text, RSTART + 2, RLENGTH - 3)
        text = substr(text, RSTART + RLENGTH)
        if (before ~ /!\[[^]]*\]$/)
            sub(/^.*\/diagrams\//, "diagrams/", target) # from wherever the page stands
        else
            target = rewritten(target)
        done = done before "(" target ")"
    }
    return done text
}

# Prose with two hyphens in front of a word escaped.
function with_hyphens(text,    done)
{
    while (match(text, /(^|[ (])--[a-z]/)) {
        RSTART += index(substr(text, RSTART, 2), "-") - 1
        done = done substr(text, 1, RSTART - 1) "\\-"
        text = substr(text, RSTART + 1)
    }
    return done text
}

# Inline code with two percent signs in front of a word.
function with_percents(text,    done)
{
    while (match(text, /%[A-Za-z_]/)) {
        done = done substr(text, 1, RSTART) "%" substr(text, RSTART + 1, 1)
        text = substr(text, RSTART + 2)
    }
    return done text
}

# Prose with <b> and </b> in turn for two asterisks, over the lines of a paragraph.
function with_bold(text,    part, parts, i, done)
{
    parts = split(text, part, /\*\*/)
    done = part[1]
    for (i = 2; i <= parts; i++) {
        is_bold = !is_bold
        done = done (is_bold ? "<b>" : "</b>") part[i]
    }
    return done
}

# The line with its prose and its inline code, every second piece between backquotes, kept as is.
# With an apostrophe in it, Doxygen takes code for code only between two backquotes.
function as_written(text,    piece, pieces, i, mark, result)
{
    pieces = split(text, piece, "`")
    for (i = 1; i <= pieces; i++) {
        if (i % 2 == 0)
            piece[i] = with_percents(piece[i])
        else
            piece[i] = with_bold(with_hyphens(piece[i]))
        mark = pieces % 2 && piece[i - i % 2] ~ /'/ ? "``" : "`"
        result = result (i > 1 ? mark : "") piece[i]
    }
    return result
}

# Doxygen's \snippet fails the build if there is no such definition.
function snippet(text,    name, path)
{
    name = path = text
    sub(/^\[[^:]*: /, "", name)
    sub(/\].*/, "", name)
    sub(/.*\]\(/, "", path)
    sub(/\)$/, "", path)
    return "\\snippetlineno " plain_path(folder_of(source) path) " " name
}

# Doxygen names the file by its whole path; TOP is the repository's, MADE that of pages that a script
# has made.
FNR == 1 {
    is_bold = shown = left_out = 0
    source = FILENAME
    if (index(source, ENVIRON["MADE"] "/") == 1)
        source = substr(source, length(ENVIRON["MADE"]) + 2)
    else if (index(source, ENVIRON["TOP"] "/") == 1)
        source = substr(source, length(ENVIRON["TOP"]) + 2)
}

# HTML, of pages that a script has made.
/^\\htmlonly/ { raw = 1 }
raw { print }
/^\\endhtmlonly/ { raw = 0; next }
raw { next }

# What the snippet above has shown already.
left_out { left_out = $0 != "```"; next }
shown && /^```c$/ { left_out = 1; next }
$0 != "" { shown = 0 }

/^ *```/ { fenced = !fenced }
fenced || /^ *```/ { print; next }

# What is folded may have paragraphs of its own; Doxygen would fold each of them alone.
/^<details>/ { print "\\htmlonly[block]"; folding = 1 }
folding {
    print
    if (/<\/summary>/) {
        print "\\endhtmlonly"
        folding = 0
    }
    next
}
/^<\/details>/ { print "\\htmlonly[block]\n</details>\n\\endhtmlonly"; next }

# Indented by four after an empty line: code, or a picture.
/^    / && may_be_code { print; next }
{ may_be_code = $0 == "" }
$0 == "" { is_bold = 0 }

/^#+ / && !/\{#[^}]*\} *$/ {
    match($0, /^#+ /)
    level = RLENGTH - 1
    name = anchor(substr($0, RLENGTH + 1))
    if (level > 1)
        $0 = $0 " {#" page_of(source) "--" name "}"
    else if (is_page(source))
        $0 = $0 " {#" page_of(source) "}"
}

# In front of a block of C on a step's page: its file, which can be another step's or a stage's, and function.
/^<!-- [a-z_0-9]+\.[ch](: [a-z_0-9]+)? -->$/ && match(source, /\/steps\/[1-5C]\.[0-9]+/) {
    command = "tests/steps.sh sources " substr(source, RSTART + 7, RLENGTH - 7)
    name = substr($0, 6, length($0) - 9)
    file = $2
    sub(/:$/, "", file)
    while ((command | getline path) > 0)
        if (path ~ "/" file "$")
            print "[" name "](" address_of(path) ")\n"
    close(command)
    next
}

/^\[[^]:]*: [^]]*\]\([^() ]*\.[ch]\)$/ {
    print as_written(with_links($0)) "\n\n" snippet($0)
    shown = 1
    next
}

{ print as_written(with_links($0)) }
