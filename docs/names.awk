# What several of the site's scripts have to know: where a file of the repository is in the site, and what
# is defined in a source.
#
#   a README.md, or the folder of one  is the main page of that Doxygen run
#   README.md at the top               is the page readme.html
#   docs/queues.md                     is the page queues.html, whatever Doxygen's version
#   stage2-*/steps/README.md           is the page steps2.html, and
#   stage2-*/steps/2.4-*/README.md     is the page step2_4.html; the core's, in common/steps, are stepsc and stepc_1
#   docs/remarks/stage3.md, step2.4.md are changes3.html and changes2_4.html, made by docs/diff_pages.sh
#   common/base/log.h, stage*-*/handler.c   is the file's listing
#   docs/trace/page.html               is seen.html, with traces of all stages in it
#   docs/play/scheduler.html           is play/scheduler.html, copied by docs/site.sh
#   any other file                     is a copy below files/, made by docs/site.sh

# The name of the site that a path belongs to, with a slash; the chapters are the top.
function site_of(path)
{
    if (path ~ /^(common|stage[1-5]-[^\/]*)\/steps(\/|$)/)
        return ""
    return match(path, /^(common|stage[1-5]-[^\/]*)\//) ? substr(path, 1, RLENGTH) : ""
}

function bare_name(path)
{
    sub(/.*\//, "", path)
    return path
}

# A file as Doxygen names its pages.
function mangled(file)
{
    gsub(/_/, "__", file)
    sub(/\./, "_8", file)
    return file
}

function is_page(path)
{
    return path ~ /^(README|docs\/([^\/]*|remarks\/(stage|step)[0-9C.]+)|(common|stage[1-5]-[^\/]*)\/steps\/([^\/]*\/)?README)\.md$/ && path != "docs/index.md"
}

# The name of a page, with which its anchors begin: they have to differ in all of a run.
function page_of(path,    name)
{
    name = tolower(bare_name(path))
    sub(/\.md$/, "", name)
    if (path ~ /^docs\/remarks\//) {
        sub(/^(stage|step)/, "changes", name)
        sub(/\./, "_", name)
    } else if (match(path, /\/steps\/[1-5C]\.[0-9]+-/)) {
        name = "step" tolower(substr(path, RSTART + 7, RLENGTH - 8))
        sub(/\./, "_", name)
    } else if (path ~ /\/steps\//)
        name = "steps" (path ~ /^common/ ? "c" : substr(path, 6, 1))
    return is_page(path) ? name : "index"
}

# Where a path of the repository is in the site.
function address_of(path)
{
    if (path ~ /^(docs\/?(index\.md)?)?$/)
        return "index.html"
    if (path ~ /^(common|stage[1-5]-[^\/]*)(\/(README\.md)?)?$/) {
        sub(/\/.*/, "", path)
        return path "/index.html"
    }
    if (is_page(path))
        return page_of(path) ".html"
    if (path ~ /^(common|stage[1-5]-).*\.[ch]$/ && path !~ /\/steps\//)
        return site_of(path) mangled(bare_name(path)) "_source.html"
    if (path ~ /^docs\/play\/[^\/]*\.html$/)
        return substr(path, length("docs/") + 1)
    if (path == "docs/trace/page.html")
        return "seen.html"
    return "files/" path ".txt"
}

# The name of what is defined or declared from line i of a text on; nothing if there is none. Sets ends to
# the line with its brace or semicolon.
function defined(text, i, n,    line)
{
    line = text[ends = i]
    if (match(line, /^(struct|enum|union) [a-z_0-9]+ \{$/))
        return substr(line, 1, RLENGTH - 2)
    if (line !~ /^[a-z].*\(/ || line ~ /^typedef /)
        return ""
    while (ends < n && text[ends] !~ /;$|^\{$/)
        ends++
    if (text[ends] !~ /^\{$|\);$/ || !match(line, /[a-z_0-9]+\(/))
        return ""
    return substr(line, RSTART, RLENGTH - 1)
}
