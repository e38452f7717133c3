# A page that is not Doxygen's gets the head of all others, and its side bar says where it is.
#
#   usage: awk -v page=seen.html -v top="" -f docs/theme/alone.awk PAGE

/<script id="theme">/ {
    print "<link rel=\"stylesheet\" href=\"" top "frame.css\">\n<script src=\"" top "theme.js\"></script>"
    print "<script src=\"" top "search.js\" data-top=\"" top "\" defer></script>"
    print "<script src=\"" top "course.js\" data-top=\"" top "\" defer></script>"
    skipping = 1
}
skipping {
    skipping = !/<\/script>/
    next
}
/<html / { sub(/<html /, "<html data-keys=\"own\" ") }
/<main>/ { sub(/<main>/, "<main id=\"content\">") }

# The branch of the side bar with this page is open; it is kept until one knows.
/<details><summary>/ && !/more/ && /<li>/ { branch = $0; kept = ""; next }
branch != "" {
    if (index($0, "data-page=\"" page "\"")) {
        sub(/<details>/, "<details open=\"open\">", branch)
        sub("data-page=\"" page "\"", "aria-current=\"page\"")
    }
    gsub(/ data-page="[^"]*"/, "")
    kept = kept "\n" $0
    if (/<\/details>/) {
        print branch kept
        branch = ""
    }
    next
}
{ gsub(/ data-page="[^"]*"/, ""); print }
