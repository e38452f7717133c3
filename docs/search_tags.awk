# What is defined in a part of the code, for the search: out of the tag file of its Doxygen run.

function value(text)
{
    sub(/^[^>]*>/, "", text)
    sub(/<.*/, "", text)
    return text
}

function add(title, where, address)
{
    if (!seen[title, address]++)
        print "[\"" title "\",\"" where "\",\"" part "/" address "\",\"\"],"
}

/<compound kind="/ { kind = $0; sub(/.*kind="/, "", kind); sub(/".*/, "", kind); name = file = "" }
/^    <name>/ && name == "" { name = value($0) }
/^    <filename>/ && file == "" {
    file = value($0)
    sub(/\.html$/, "", file)
    if (kind == "struct" || kind == "union")
        add(kind " " name, part, file ".html")
    else if (kind == "file" && name ~ /\.[ch]$/)
        add(name, part, file "_source.html")
    else if (kind == "group")
        add(name, "module, " part, file ".html")
}
/<member kind="/ { member = $0; sub(/.*kind="/, "", member); sub(/".*/, "", member); member_name = "" }
/^      <name>/ && member_name == "" { member_name = value($0) }
/^      <anchorfile>/ { anchor_file = value($0) }
/^      <anchor>/ {
    if (member == "function" || member == "enumeration" || member == "define" || member == "enumvalue")
        add(member_name (member == "function" ? "()" : ""), part, anchor_file "#" value($0))
}
