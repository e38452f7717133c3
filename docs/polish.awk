# The last touch to a page that Doxygen has written:
#
# - the side bar says where the reader is, and so does the page,
# - each page of the course has links to the one before it and the one after it,
# - the number of each line of code leads to it: in a listing to itself, in an excerpt to the listing,
# - in what a console shows, the commands stand out,
# - tables and code that are too wide scroll for themselves,
# - the cells of a table know what their column is, and whether they are short,
# - in inline code no line ends at a hyphen,
# - a text with several headings begins with a list of them, and each heading can be linked to,
# - the title of a page is its only h1,
# - pictures are images, in which the reader's choice of light or dark holds; what is seen is in their
#   captions, and a picture that is too small for a phone opens at its own size,
# - a listing leads to its module, its chapter and its changes,
# - a chapter or a step leads to the page of its changes, and that to it,
# - a page says what it is about to those who show a link to it, and of which version and file it is made.
#
#   usage: awk -v page=stage2.html -v top=../ -v pages=FILE -v site=FOLDER -v version="1.1" -v repository=URL \
#              -f docs/names.awk -f docs/polish.awk PAGE >NEW_PAGE
#
# page is the address in the site, and top the way to the site's top; pages is what docs/pages.awk says, and site
# has all pages as Doxygen has written them. repository is where the files can be seen, up to their paths, or
# nothing; then a text leads to the copy in the site.

BEGIN {
    while ((getline entry <pages) > 0) {
        split(entry, field, "\t")
        title[field[1]] = field[2]
        if (field[1] == page) {
            here = 1
            place_of_page = field[3]
            before = field[4]
            after = field[5]
            there = field[6]
            file = field[7]
        }
    }
    close(pages)
    if (page == "readme.html")
        file = "README.md"
}

function link(class, address, what)
{
    return address == "" ? "<span></span>" : "<a class=\"" class "\" href=\"" top address \
        "\">" (what == "" ? "" : "<small>" what "</small>") title[address] "</a>"
}

# What stands at the end of a page. docs/site.sh replaces @DATE(FILE)@.
function colophon(    source)
{
    source = repository != "" && file != "" ? repository file : file ~ /\.md$/ ? top "files/" file ".txt" : ""
    return "<p>Version " version (file ~ /\.md$/ ? ", this text of @DATE(" file ")@" : "") ". " \
        (source == "" ? "" : "<a href=\"" source "\">The source of this page</a>: <code>" file "</code>. ") \
        "Built by Doxygen. Every command shown here is run by a test.</p>"
}

function is_short(cell)
{
    sub(/<\/td>.*/, "", cell)
    gsub(/<[^>]*>/, "", cell)
    return cell != "" && length(cell) <= 8
}

# Inline code in which what has a hyphen is kept in one line, if a phone has room for it.
function with_whole_words(text,    done, code, word, words, i)
{
    while (match(text, /<code>[^<]*-[^<]*<\/code>/)) {
        done = done substr(text, 1, RSTART + 5)
        code = substr(text, RSTART + 6, RLENGTH - 13)
        text = substr(text, RSTART + RLENGTH)
        words = split(code, word, " ")
        for (i = 1; i <= words; i++)
            done = done (i > 1 ? " " : "") (word[i] ~ /-/ && length(word[i]) <= 30 ? \
                "<span class=\"whole\">" word[i] "</span>" : word[i])
        done = done "</code>"
    }
    return done text
}

# Whether the site has a file, and some text in it. Not by index(): if a line ends with the first letters of what
# is looked for, mawk 1.3.4 compares what is behind the line, too, which may be behind the end of its memory.
function has(file, text,    line, found) {
    file = site "/" file
    while (!found && (getline line <file) > 0)
        found = line ~ text
    close(file)
    return found
}

# What belongs to a listing.
function place(    folder, file, number, links, name)
{
    folder = file = page
    sub(/\/.*/, "", folder)
    sub(/.*\//, "", file)
    links = "<a href=\"" file "\">What is in it</a>"
    sub(/_source\.html"/, ".html\"", links)
    sub(/_source\.html$/, "", file)
    sub(/_8/, ".", file)
    gsub(/__/, "_", file)
    if (match(folder, /^stage[1-5]/)) {
        number = substr(folder, 6, 1)
        links = links "<a href=\"../stage" number ".html\">Chapter: stage " number "</a>"
        name = "changes" number "--" file
        sub(/\./, "", name)
        if (number > 1 && has("changes" number ".html", "id=\"" name "\""))
            links = links "<a href=\"../changes" number ".html#" name "\">What has changed since stage " \
                number - 1 "</a>"
    }
    return "<nav class=\"where\" aria-label=\"Beside this\">" links "</nav>"
}

/>Go to the documentation of this file\.</ {
    sub(/<a href="[^"]*">Go to the documentation of this file\.<\/a>/, place())
}

/<details><summary>/ { branch = NR }

/<a data-page="/ {
    current = "data-page=\"" page "\""
    folder = page
    if (!sub(/\/.*/, "/index.html", folder))
        folder = page ~ /^changes/ ? there : ""
    if ($0 ~ current || folder != "" && $0 ~ "data-page=\"" folder "\"") { # is that page, or a part of it
        sub(/data-page="[^"]*"/, $0 ~ current ? "aria-current=\"page\"" : "aria-current=\"true\"")
        if (branch)
            sub(/<details>/, "<details open=\"open\">", line[branch])
    }
    gsub(/ data-page="[^"]*"/, "")
}
/<\/details>/ { branch = 0 }

match($0, /<li><a (aria-current="page" )?href="[^"]*\/group__[a-z_0-9]*\.html">[^<]*/) {
    name = $0
    sub(/.*">/, "", name)
    sub(/<.*/, "", name)
    if (page ~ "/(struct)?" mangled(name) "(_8[ch](_source)?)?\\.html$")
        sub(/<a href/, "<a aria-current=\"true\" href")
}

/<!-- before and after -->/ {
    line[NR] = here && (before != "" || after != "") ? "<nav class=\"around\" aria-label=\"Before and after\">" \
        link("before", before, "Before") link("after", after, "Next") "</nav>" : ""
    next
}

/<!-- colophon -->/ {
    line[NR] = colophon()
    next
}

# The course's own name stands on its first page once.
/^<title>/ { sub(/<title>Scalable servers, stage by stage \| /, "<title>") }

# What a page is about: its first sentences, behind what it needs.
/<p ?>/ && about == "" && in_text && !/<em>Needs:|<p ?><em>|class="excerpt"|^<p ?><a / {
    about = $0
    sub(/.*<p ?>/, "", about)
    sub(/<\/p>.*/, "", about)
    gsub(/<[^>]*>/, "", about)
    gsub(/^ +/, "", about)
    gsub(/"/, "\\&quot;", about)
    if (length(about) > 200) {
        about = substr(about, 1, 200)
        sub(/ [^ ]*$/, " ...", about)
    }
    if (length(about) < 40)
        about = ""
}
/<div class="contents">/ { in_text = 1 }

# A line of a listing, which knows more names than Doxygen does here, with its links as they are from here.
function line_of(listing, target,    folder, text, found)
{
    folder = listing
    sub(/[^\/]*$/, "", folder)
    while (!(listing in have) && (getline text <(site "/" listing)) > 0)
        if (match(text, /name="l[0-9]+"/)) {
            found = substr(text, RSTART + 6, RLENGTH - 7)
            sub(/.*class="lineno"> *(<a [^>]*>)? *[0-9]+(<\/a>)?<\/span>(&#160;)?/, "", text)
            gsub(/href="/, "&" folder, text)
            gsub("\"" folder "\\.\\./", "\"", text)
            of_listing[listing, found] = text
        }
    close(site "/" listing)
    have[listing]
    return of_listing[listing, target]
}

# The text without the link that match() has found.
function unlinked(text,    behind)
{
    behind = substr(text, RSTART)
    sub(/<a [^>]*>/, "", behind)
    sub(/<\/a>/, "", behind)
    return substr(text, 1, RSTART - 1) behind
}

function without_tags(text)
{
    gsub(/<[^>]*>/, "", text)
    return text
}

# The listing that an excerpt comes from is linked right above it; that of an example is a copy of the file.
match($0, /href="([^"#]*_8[ch]_source\.html|files\/docs\/[^"#]*\.[ch]\.txt)"/) { listing = substr($0, RSTART + 6, RLENGTH - 7) }

/<div class="fragment"/ {
    gsub(/<div class="fragment">/, "<div class=\"fragment\" tabindex=\"0\">")
}

/<div class="memproto">/ { sub(/<div class="memproto">/, "<div class=\"memproto\" tabindex=\"0\">") }

/<pre class="fragment">/ { gsub(/<pre class="fragment">/, "<pre class=\"fragment\" tabindex=\"0\">") }

/^<div class="ttc"/ { next } # what Doxygen's own scripts would show

/<div class="line">/ {
    if (match($0, /<a id="l[0-9]+" name="l[0-9]+"><\/a><span class="lineno"> *(<a [^>]*>)? *[0-9]+(<\/a>)?/)) {
        target = substr($0, RSTART + 7, RLENGTH)
        sub(/".*/, "", target)
        shown = target
        sub(/^l0*/, "", shown)
        shown = page ~ /_source\.html$/ ? "id=\"" target "\" href=\"#" target "\">" shown : \
            "href=\"" listing "#" target "\">" shown
        sub(/<a id="l[0-9]+" name="l[0-9]+"><\/a><span class="lineno"> *(<a [^>]*>)? *[0-9]+(<\/a>)?<\/span>(&#160;)?/, \
            "<a class=\"lineno\" " shown "</a>")
        text = $0
        sub(/^<div class="line"><a [^>]*>[0-9]+<\/a>/, "", text)
        if (page !~ /_source\.html$/ && without_tags(text) == without_tags(line_of(listing, target)))
            $0 = substr($0, 1, length($0) - length(text)) line_of(listing, target)
    } else if (page !~ /\//) # a variable of the program, which Doxygen takes for what common/ calls so
        while (match($0, /<a class="code hl_(variableRef" href="[^"]*">[a-z]|functionRef" href="[^"]*">[a-z]+<)/))
            $0 = unlinked($0)
    gsub(/<div class="line">\$ /, "<div class=\"line command\">$ ")
    gsub(/<div class="line">&gt; /, "<div class=\"line command\">\\&gt; ")
}

open_table && /<\/table>/ {
    sub(/<\/table>/, "</table></div>")
    open_table = 0
}
/<table class="(markdownTable|memberdecls|doxtable|fieldtable)"/ {
    sub(/<table class="(markdownTable|memberdecls|doxtable|fieldtable)"[^>]*>/, "<div class=\"wide\" tabindex=\"0\">&")
    open_table = 1
}

# Each cell of a table knows its column's head, for where the columns do not fit beside each other.
/<th class="markdownTableHead[A-Za-z]*">/ {
    columns = split($0, head, /<th class="markdownTableHead[A-Za-z]*"> */)
    for (i = 2; i <= columns; i++) {
        gsub(/<[^>]*>/, "", head[i])
        gsub(/^ +| +$/, "", head[i])
        gsub(/"/, "", head[i])
    }
}
/<td class="markdownTableBody[A-Za-z]*">/ {
    cells = split($0, cell, /<td class="markdownTableBody[A-Za-z]*"> */)
    $0 = cell[1]
    for (i = 2; i <= cells; i++) {
        sub(/ +<\/td>/, "</td>", cell[i])
        $0 = $0 "<td" (i <= columns && head[i] != "" && cell[i] !~ /^<\/td>/ ? \
            " data-head=\"" head[i] "\"" : "") (is_short(cell[i]) ? " class=\"short\"" : "") ">" cell[i]
    }
}

# The way through the folders: the side bar is there for that.
/<div id="nav-path"/ { folders = 1 }
folders {
    if (/<\/div>/)
        folders = 0
    next
}

# A page's anchor with the path that it was made from: nothing leads there.
{ gsub(/<a class="anchor" id="md_[^"]*"><\/a> ?/, "") }

# The server.c of a step is not that of common/.
page ~ /^(step|teaching)/ { gsub(/<a class="el" href="common\/server_8c\.html"[^>]*>server\.c<\/a>/, "server.c") }

# A file of its own the top README.md is not.
{ gsub(/<a class="el" href="README_8md\.html"[^>]*>README\.md<\/a>/, "README.md") }

# <object type="image/svg+xml" data="lanes.svg" ...>what it shows</object>
/<object type="image\/svg\+xml"/ {
    picture = ""
    match($0, /data="[^"]*"/)
    picture = substr($0, RSTART + 6, RLENGTH - 7)
    sub(/<object [^>]*>[^<]*<\/object>/, "<img src=\"" picture "\" alt=\"\"/>")
}

# The headings of a text, for a list of them at its top.
/<h1><a class="anchor" id="[^"]*">/ {
    heading = $0
    sub(/.*<h1><a class="anchor" id="/, "", heading)
    sub(/".*/, "", heading)
}
heading != "" && /<\/h1>$/ {
    text = $0
    sub(/.*<h1><a [^>]*><\/a>/, "", text)
    sub(/<\/h1>$/, "", text)
    gsub(/<[^>]*>/, "", text)
    contents = contents "<li><a href=\"#" heading "\">" text "</a></li>\n"
    link_here[NR] = heading
    headings++
    heading = ""
}

# The name of an excerpt's file and function stands on top of it.
/^<p ><a href="[^"]*(_8[ch]_source\.html|\.[ch]\.txt)">([^<]*: )?[^<]*<\/a><\/p>$/ { sub(/<p >/, "<p class=\"excerpt\">") }

{ line[NR] = with_whole_words($0) }

# Sections are below the page's title, which is the one h1.
function with_levels(text)
{
    if (text ~ /<div class="title">/) {
        sub(/<div class="title">/, "<h1 class=\"title\">", text)
        if (!sub(/<div class="ingroups">/, "</h1><div class=\"ingroups\">", text))
            sub(/<\/div>/, "</h1>", text)
        else
            sub(/<\/div>/, "", text)
        return text
    }
    if (headings > 0)
        for (level = 3; level >= 1; level--) {
            gsub("<h" level ">", "<h" level + 1 ">", text)
            gsub("</h" level ">", "</h" level + 1 ">", text)
        }
    return text
}

# What is seen in a picture, without what would end the attribute.
function plain(text)
{
    gsub(/<[^>]*>/, "", text)
    gsub(/"/, "\\&quot;", text)
    return text
}

function with_picture(text, caption,    name)
{
    if (caption == "" && match(text, /title="[^"]*"/))
        caption = substr(text, RSTART + 7, RLENGTH - 8)
    sub(/alt=""/, "alt=\"" plain(caption) "\"", text)
    match(text, /src="[^"]*"/)
    name = substr(text, RSTART + 5, RLENGTH - 6)
    sub(/<img [^>]*>/, "<a class=\"picture\" href=\"" name "\">&</a>", text)
    return text
}

END {
    for (i = 1; i <= NR; i++) {
        if (!(i in line))
            continue
        gsub(/<a class="lineno" /, "<a class=\"lineno\" tabindex=\"-1\" ", line[i])
        if (i in link_here)
            sub(/<\/h1>$/, " <a class=\"permalink\" href=\"#" link_here[i] "\" aria-label=\"Link to this section\">#</a></h1>", line[i])
        if (line[i] ~ /<img [^>]*alt=""/ && line[i] !~ /class="picture"/)
            line[i] = with_picture(line[i], line[i + 1] ~ /<div class="caption">/ ? line[i + 2] : "")
        gsub(/<th class="markdownTableHead[A-Za-z]*"><\/th>/, "<td></td>", line[i])
        if (line[i] ~ /^<!-- description -->/) {
            if (about == "")
                about = "A page of a course on scalable servers: five complete TCP servers in C, each one idea further."
            print "<meta name=\"description\" content=\"" about "\"/>\n<meta property=\"og:description\" content=\"" \
                about "\"/>"
            continue
        }
        print with_levels(line[i])
        if (place_of_page != "" && line[i] ~ /<div class="header">/ && !placed++)
            print "<p class=\"place\">" place_of_page "</p>"
        if (there != "" && line[i] ~ /^<div class="contents">/ && !led++)
            print "<nav class=\"where\" aria-label=\"Beside this\">" link("to", there, "") "</nav>"
        if (line[i] ~ /^<div class="contents">/ && headings >= 4 && page !~ /^changes/ && !listed++)
            print "<nav class=\"toc\" aria-label=\"On this page\"><ul>\n" contents "</ul></nav>"
    }
}
