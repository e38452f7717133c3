# Shows Doxygen the plain comments of a source file as documentation:
#
# - the comment that opens a file becomes the file's,
# - a comment in the first column, with something to describe right under it, becomes that thing's,
# - a comment behind a field or an enumerator becomes the field's.
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

# Doxygen makes a dash of two hyphens that nothing escapes.
function with_hyphens(text,    done)
{
    while (match(text, /[ (]--[a-z]/)) {
        done = done substr(text, 1, RSTART) "\\"
        text = substr(text, RSTART + 1)
    }
    return done text
}

END {
    for (i = 1; i <= NR; i++) {
        if (line[i] ~ /\/\*/)
            comment = 1
        if (comment)
            line[i] = with_hyphens(line[i])
        if (line[i] ~ /\*\//)
            comment = 0
        if (i == 1 && line[i] == "/*")
            line[i] = "/** \\file"
        else if (line[i] ~ /^\/\*( [^[-]|$)/ && describes_something(i))
            sub(/\/\*/, "/**", line[i])
        else if (line[i] ~ /^ .*[;,] *\/\* [^[]/)
            sub(/\/\* /, "/**< ", line[i])
        print line[i]
    }
}
