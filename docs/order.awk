# The order of the course, from the one place where it stands: docs/index.md, its sittings and the lists below them.
#
#   usage: awk -v steps="1.1=FOLDER 1.2=FOLDER ..." -f docs/order.awk docs/index.md
#
# steps has the folder of every step, in order. For each page there is a line of five fields, with tabs between:
#
#   KIND    main, or aside: a page that may be read instead of others, so that no other leads on to it
#   NUMBER  of the sitting; - where there is none
#   NAME    of the sitting, or of the list
#   FILE    in the repository
#   SHORT   what the link to it says, with a capital; - for a step, whose page has its number in its title
#
# A sitting is a row of the table, | NUMBER | **name:** text |, and a list an item, - **Name:** text. In the text
# each link is a page, and so is each step that is named by its number: 2.3, C.1 to C.3, or from 2.5 on, which
# is to the end of the stage, or of the core. A page counts where it is named first. What stands above the table is aside. Fails if
# a step that is named does not exist, or one that exists is not named.

# docs/x.md of x.md, and stage1-blocking/y of ../stage1-blocking/y.
function path_of(target)
{
    sub(/#.*/, "", target)
    return sub(/^\.\.\//, "", target) ? target : "docs/" target
}

function emit(file, short)
{
    if (seen[file]++)
        return
    printf "%s\t%s\t%s\t%s\t%s\n", kind, number, name, file, short
}

# The steps from one to another, or to the end of the stage.
function emit_steps(from, to,    i, inside)
{
    if (!(from in known) || to != "" && !(to in known))
        stale("there is no step " (from in known ? to : from))
    for (i = 1; i <= count; i++) {
        if (step[i] == from)
            inside = 1
        if (inside && (to != "" || substr(step[i], 1, 1) == substr(from, 1, 1)))
            emit(folder[i] "/README.md", "-")
        if (step[i] == to)
            inside = 0
    }
}

function stale(why)
{
    print "docs: docs/index.md:" NR ": " why >"/dev/stderr"
    failed = 1
}

function pages_of(text,    found, from, short)
{
    while (match(text, /\[[^]]*\]\([^)]*\)|[1-5C]\.[0-9]+/)) {
        found = substr(text, RSTART, RLENGTH)
        from = substr(text, 1, RSTART - 1) ~ /from $/
        text = substr(text, RSTART + RLENGTH)
        if (found ~ /^\[/) {
            short = substr(found, 2, index(found, "]") - 2)
            sub(/^[^(]*\(/, "", found)
            sub(/\)$/, "", found)
            if (found ~ /^[a-z]+:/ || found ~ /^#/)
                continue
            emit(path_of(found), found ~ /steps\/[1-5C]\./ ? "-" : toupper(substr(short, 1, 1)) substr(short, 2))
        } else if (match(text, /^ to [1-5C]\.[0-9]+/)) {
            emit_steps(found, substr(text, 5, RLENGTH - 4))
            text = substr(text, RLENGTH + 1)
        } else if (from && text ~ /^ on/)
            emit_steps(found, "")
        else
            emit_steps(found, found)
    }
}

BEGIN {
    FS = "\t"
    count = split(steps, part, " ")
    for (i = 1; i <= count; i++) {
        step[i] = folder[i] = part[i]
        sub(/=.*/, "", step[i])
        sub(/.*=/, "", folder[i])
        known[step[i]]
    }
    number = "-"
    name = "The course"
    kind = "main"
    emit("docs/index.md", "The course")
    kind = "aside"
}

# A row of the sittings, or an item of the lists with the lines that go on with it.
/^\| [0-9]+ \| \*\*[^*]*:\*\* / || /^- \*\*[^*]*:\*\* / {
    number = "-"
    if (/^\|/) {
        kind = "main"
        number = $0
        gsub(/^\| | .*/, "", number)
        sub(/ \| [^|]*\|$/, "") # the hours
    }
    name = $0
    sub(/:\*\*.*/, "", name)
    sub(/.*\*\*/, "", name)
    inside = 1
    sub(/^[^*]*\*\*[^*]*\*\*/, "")
}
/^$/ || /^#/ { inside = 0 }
inside { pages_of($0) }

END {
    for (i = 1; i <= count; i++)
        if (!seen[folder[i] "/README.md"])
            stale("no sitting has step " step[i])
    exit failed
}
