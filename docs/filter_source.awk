# Shows Doxygen the plain comments of a source file as documentation:
#
# - the comment that opens a file becomes the file's,
# - a comment in the first column, with something to describe right under it, becomes that thing's,
# - a comment behind a field or an enumerator becomes the field's,
# - all of that belongs to a module: the header and the sources that go by its name, as selector.h,
#   selector.c and selector_epoll.c. What opens the files describes the module.
#
# Snippet markers, /* [name] */, and headings, /* ---- text, stay as they are. So does the number of
# lines, since Doxygen links to them. In comments --option keeps its two hyphens.

{ line[NR] = $0 }

# The line on which the comment that starts on line i ends.
function end_of_comment(i)
{
    while (i < NR && line[i] !~ /\*\//)
        i++
    return i
}

function describes_something(i,    below)
{
    below = line[end_of_comment(i) + 1]
    return below != "" && below !~ /^# *(include|if|ifdef|ifndef|elif|else|endif|undef)/
}

# Doxygen makes a dash of two hyphens that nothing escapes, and a link of what follows two colons.
function with_hyphens(text,    done)
{
    gsub(/::/, "\\::", text)
    while (match(text, /[ (]--[a-z]/)) {
        done = done substr(text, 1, RSTART) "\\"
        text = substr(text, RSTART + 1)
    }
    return done text
}

# The module of a file: the longest beginning of its name that has a header.
function module(file,    folder, name, line)
{
    folder = name = file
    sub(/[^\/]*$/, "", folder)
    sub(/.*\//, "", name)
    file = name
    sub(/\.[ch]$/, "", name)
    while ((getline line <(folder name ".h")) < 0 && sub(/_[^_]*$/, "", name))
        ;
    close(folder name ".h")
    if (name != "")
        return name
    sub(/\.[ch]$/, "", file)
    return file
}

END {
    name = module(FILENAME)
    for (i = 1; i <= NR; i++) {
        if (line[i] ~ /\/\*/)
            comment = 1
        if (comment)
            line[i] = with_hyphens(line[i])
        if (line[i] ~ /\*\//)
            comment = 0
        if (i == 1 && line[i] == "/*") {
            line[i] = "/** \\addtogroup " name " " name
            opening = 1
            grouped = 1
        } else if (!grouped && line[i] == "") { # no comment opens the file: the first empty line does
            line[i] = "/** \\addtogroup " name " " name " */ /** @{ */"
            grouped = 1
        }
        if (opening && line[i] ~ /\*\//) {
            sub(/\*\//, "@{ */", line[i])
            opening = 0
        }
        else if (line[i] ~ /^\/\*( [^[-]|$)/ && describes_something(i))
            sub(/\/\*/, "/**", line[i])
        else if (line[i] ~ /^ .*[;,] *\/\* [^[]/)
            sub(/\/\* /, "/**< ", line[i])
        print line[i]
    }
    if (grouped)
        print "/** @} */"
}
