# The sections of a text for the search, out of what docs/filter_markdown.awk makes of it: one line for
# each heading, with the words below it.

function quoted(text)
{
    gsub(/[\\"]/, "\\\\&", text)
    gsub(/[\t ]+/, " ", text)
    return "\"" text "\""
}

function flush()
{
    if (title != "")
        print "[" quoted(title) "," quoted(where) "," quoted(address) "," quoted(words) "],"
    words = ""
}

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
        where = "chapter"
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
/^\\snippet/ { next }
{
    gsub(/\]\([^)]*\)/, "]")
    gsub(/[`*|\[\]\\]/, " ")
    gsub(/<\/?b>/, "")
    gsub(/---+/, " ") # the line below a table's head
    words = words " " $0
}
END { flush() }
