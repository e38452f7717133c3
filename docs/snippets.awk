# Gives the functions, structs and enums of a source file the markers that Doxygen's \snippet asks
# for, so that a chapter can show any of them by its name and the sources need no marker lines:
#
#   \snippet stage2-single-reactor/reactor.c reactor_run
#   \snippet common/workers/executor.h struct executor_settings
#
# A definition begins in the first column, with the comment above it, and ends with a brace in the
# first column. Its markers take the place of the empty lines around it, so no line changes its
# number.

{ line[NR] = $0 }

# The first line of the comment that ends right above line i, or i.
function with_comment(i,    j)
{
    if (line[i - 1] !~ /\*\/$/)
        return i
    for (j = i - 1; j > 0 && line[j] != ""; j--)
        if (line[j] ~ /^\/\*/)
            return j
    return i
}

# Two definitions may share the empty line between them, and so its markers.
function mark(i, name)
{
    if (line[i] == "")
        markers[i] = (i in markers ? markers[i] " " : "") "/* [" name "] */"
}

END {
    for (i = 1; i <= NR; i++) {
        name = defined(line, i, NR)
        if (name == "" || line[ends] ~ /;$/)
            continue
        mark(with_comment(i) - 1, name)
        while (i <= NR && line[i] !~ /^\}/)
            i++
        mark(i + 1, name)
    }
    for (i = 1; i <= NR || i in markers; i++)
        print i in markers ? markers[i] : line[i]
}
