# The sections of a text for the search, out of what docs/filter_markdown.awk makes of it: one line for
# each heading, with the words below it. The file `synonyms` has what readers call a page.

BEGIN {
    while (synonyms != "" && (getline line < synonyms) > 0)
        if (match(line, /^[^#: ][^: ]*: /))
            known[substr(line, 1, RLENGTH - 2)] = substr(line, RLENGTH + 1)
}

function quoted(text)
{
    gsub(/[\\"]/, "\\\\&", text)
    gsub(/[\t ]+/, " ", text)
    return "\"" text "\""
}

function flush()
{
    if (title != "")
        print "[" quoted(title) "," quoted(where) "," quoted(address) "," quoted(words) \
            (address in known ? "," quoted(known[address]) : "") "],"
    words = ""
}

page ~ /^changes/ && /^\\htmlonly/ { exit } # of changes, what they are about
/^ *```/ { fenced = !fenced; next }
fenced { next }
/^#+ .*\{#[^}]*\}$/ {
    flush()
    match($0, /\{#[^}]*\}$/)
    id = substr($0, RSTART + 2, RLENGTH - 3)
    title = substr($0, 1, RSTART - 2)
    sub(/^#+ /, "", title)
    gsub(/`/, "", title)
    if (/^# /) {
        address = id ".html"
        page = id
        where = page ~ /^changes/ ? "changes" : "chapter"
        name = title
    } else {
        address = (page == "" ? "index" : page) ".html#" id
        where = name
    }
    next
}
/^# / {
    title = name = substr($0, 3)
    where = "chapter"
    address = "index.html"
    next
}
/^\\(snippet|htmlonly|endhtmlonly)/ { next }
{
    gsub(/\]\([^)]*\)/, "]")
    gsub(/[`*|\[\]\\]/, " ")
    gsub(/<[^<>]*>/, "")
    gsub(/---+/, " ") # the line below a table's head
    words = words " " $0
}
END { flush() }
