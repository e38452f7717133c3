# Writes what changes in one file from a stage or step to the next, as a part of a page for Doxygen: HTML for
# the code, and the remarks on it as Markdown beside the hunks they speak of.
#
#   usage: awk -v name=handler.c -v what=changed -v was=handler.c -v sources_before=LIST -v sources_after=LIST \
#              -v old=FILE -v new=FILE -v remarks=NAME -v overview=FILE \
#              -f docs/names.awk -f docs/diff_pages.awk REMARKS DIFF
#
# DIFF is what diff -u says of both sides; `was` is what the side before calls the file; the lists have the paths in the
# repository of all files of a side, and old and new are the file's with names mapped. A row with its counts is
# added to overview, or a link to a file that is unchanged. What changes in a file is folded up, behind what it
# is and how many lines and remarks it has: a page opens as a list of its files. Above each hunk stand the
# functions and structs that it changes. In REMARKS a heading says what a remark is about,
#
#   ## handler.c                      the file
#   ## handler.c: handler_execute     a function or a struct, of either side
#
# and the text below it goes to the first hunk that changes something in there, beside the lines where
# the definition begins. A remark about something that is not there, or does not change, is an error:
# the remark has to be mended.

# Where a file is in the repository.
function path_in(list, file,    path, found)
{
    while ((getline path <list) > 0)
        if (bare_name(path) == file)
            found = path
    close(list)
    return found
}

# ---- what is defined where ----

# Notes the lines of each definition or declaration of a file in first[side, name] and last[side, name],
# for each of these lines its name in owner[side, line], and which lines begin inside of a comment.
function read_file(side, file,    line, lines, n, i, j, found)
{
    while ((getline line <file) > 0) {
        text[side, ++n] = lines[n] = line
        in_comment[side, n + 1] = painted(line, in_comment[side, n])
    }
    close(file)
    for (i = 1; i <= n; i++) {
        if ((found = defined(lines, i, n)) == "")
            continue
        for (j = i - 1; j > 0 && text[side, j] ~ /^( \*|\/\*)/; j--)
            ;
        first[side, found] = j + 1
        if (text[side, i = ends] !~ /;$/)
            while (i < n && text[side, i] !~ /^\}/)
                i++
        last[side, found] = i
        for (j = first[side, found]; j <= i; j++)
            owner[side, j] = found
    }
}

# ---- colours and intraline marks ----

# Cuts a line into words, numbers, runs of spaces and single characters.
function tokens(line, piece,    n)
{
    for (n = 0; line != ""; line = substr(line, RLENGTH + 1)) {
        if (!match(line, /^[A-Za-z_0-9]+/) && !match(line, /^ +/))
            RLENGTH = 1
        piece[++n] = substr(line, 1, RLENGTH)
    }
    return n
}

# Sets colour[i] for each token of a line: a class of the theme, as Doxygen has it in the listings.
# Returns whether a comment is open at the end.
function painted(line, open,    piece, n, i, state, from, quote)
{
    state = open ? "comment" : line ~ /^ *#/ ? "preprocessor" : ""
    n = tokens(line, piece)
    for (i = 1; i <= n; i++) {
        if (state ~ /^(preprocessor)?$/ && piece[i] piece[i + 1] == "/*") {
            state = "comment"
            from = i + 2
        } else if (state == "" && piece[i] ~ /["']/) {
            state = "stringliteral"
            quote = piece[i]
            from = i + 1
        }
        colour[i] = state != "" ? state : piece[i] ~ KEYWORDS ? "keyword" : \
            piece[i] ~ TYPES ? "keywordtype" : ""
        if (state == "comment" && i > from && piece[i - 1] piece[i] == "*/")
            state = ""
        else if (state == "stringliteral" && piece[i] == "\\")
            colour[++i] = state
        else if (state == "stringliteral" && i >= from && piece[i] == quote)
            state = ""
    }
    return state == "comment"
}

# How much of two lines is common, token by token: best[i, j] is that from the tokens i and j on.
function in_common(a, n, b, m, best,    i, j)
{
    for (i = n; i >= 1; i--)
        for (j = m; j >= 1; j--)
            best[i, j] = a[i] == b[j] ? weight(a[i]) + best[i + 1, j + 1] : \
                best[i + 1, j] > best[i, j + 1] ? best[i + 1, j] : best[i, j + 1]
    return best[1, 1]
}

function weight(token)
{
    return token ~ /[A-Za-z_0-9]/ ? 1 : 0.2
}

# How much two lines are alike, from 0 to 1.
function similarity(one, two,    a, b, n, m, i, best, whole)
{
    n = tokens(one, a)
    m = tokens(two, b)
    for (i = 1; i <= n; i++)
        whole += weight(a[i])
    for (i = 1; i <= m; i++)
        whole += weight(b[i])
    return n && m ? 2 * in_common(a, n, b, m, best) / whole : 0
}

function html(line)
{
    gsub(/&/, "\\&amp;", line)
    gsub(/</, "\\&lt;", line)
    gsub(/>/, "\\&gt;", line)
    gsub(/\*/, "\\&#42;", line) # Doxygen takes the end of a comment for one, wherever it is
    return line
}

# Sets marked[1] and marked[2]: a removed line and the added one it became, with what differs marked.
function mark_pair(at, to, marked,    a, b, n, m, i, j, best, keep_a, keep_b)
{
    n = tokens(text[1, at], a)
    m = tokens(text[2, to], b)
    in_common(a, n, b, m, best)
    i = j = 1
    while (i <= n && j <= m) {
        if (a[i] == b[j]) {
            keep_a[i++]
            keep_b[j++]
        } else if (best[i + 1, j] >= best[i, j + 1])
            i++
        else
            j++
    }
    marked[1] = code_of(1, at, "del", keep_a)
    marked[2] = code_of(2, to, "ins", keep_b)
}

# A line in colours; without a tag nothing is marked, else all that is not to keep.
function code_of(side, at, tag, keep,    piece, n, i, mark, open, class, result)
{
    painted(text[side, at], in_comment[side, at])
    n = tokens(text[side, at], piece)
    for (i = 1; i <= n + 1; i++) {
        mark = tag != "" && i <= n && (!(i in keep) || \
            open && piece[i] ~ /^ +$/ && i < n && !((i + 1) in keep))
        if (class != "" && (i > n || mark != open || colour[i] != class)) {
            result = result "</span>"
            class = ""
        }
        if (mark != open)
            result = result "<" (mark ? "" : "/") tag ">"
        open = mark
        if (i <= n && colour[i] != class && piece[i] !~ /^ /)
            result = result "<span class=\"" (class = colour[i]) "\">"
        result = result html(piece[i])
    }
    return result
}

# ---- rows ----

# A line's number leads to the listing of its file, if that has one.
function number(path, n)
{
    path = n ? address_of(path) : ""
    return "<td class=\"n\">" (path ~ /_source\.html$/ ? sprintf("<a href=\"%s#l%05d\">%d</a>", path, n, n) : \
        n ? n : "") "</td>"
}

function row(class, old_number, new_number, sign, code)
{
    rows[hunks]++
    old_line[hunks, rows[hunks]] = old_number
    new_line[hunks, rows[hunks]] = new_number
    shown_row[hunks, rows[hunks]] = "<tr class=\"" class "\">" number(before, old_number) \
        number(after, new_number) "<td class=\"s\">" sign "</td><td class=\"c\">" code "</td></tr>\n"
}

# Finds for each removed line that became an added one which one that is: the same order on both
# sides, and as much alike as possible.
function pair_lines(    i, j, score, best)
{
    split("", partner)
    if (removed_count == 0 || added_count == 0 || removed_count * added_count > 2500)
        return
    for (i = removed_count; i >= 1; i--)
        for (j = added_count; j >= 1; j--) {
            score = similarity(text[1, removed_at + i - 1], text[2, added_at + j - 1])
            score = score > 0.5 ? score : 0
            alike[i, j] = score
            best = score > 0 ? score + total[i + 1, j + 1] : 0
            if (total[i + 1, j] > best)
                best = total[i + 1, j]
            if (total[i, j + 1] > best)
                best = total[i, j + 1]
            total[i, j] = best
        }
    i = j = 1
    while (i <= removed_count && j <= added_count) {
        if (alike[i, j] > 0 && total[i, j] == alike[i, j] + total[i + 1, j + 1]) {
            partner[i] = j
            i++
            j++
        } else if (total[i, j] == total[i + 1, j])
            i++
        else
            j++
    }
    split("", total)
    split("", alike)
}

function end_of_change(    i, marked, shown)
{
    pair_lines()
    for (i = 1; i <= removed_count; i++) {
        if (i in partner) {
            mark_pair(removed_at + i - 1, added_at + partner[i] - 1, marked)
            shown[partner[i]] = marked[2]
        } else
            marked[1] = code_of(1, removed_at + i - 1)
        row("del", removed_at + i - 1, 0, "-", marked[1])
    }
    for (i = 1; i <= added_count; i++)
        row("ins", 0, added_at + i - 1, "+", i in shown ? shown[i] : code_of(2, added_at + i - 1))
    counted[1] += removed_count
    counted[2] += added_count
    removed_count = added_count = 0
}

# ---- input ----

BEGIN {
    KEYWORDS = "^(break|case|const|continue|default|do|else|enum|extern|for|goto|if|return|sizeof|" \
        "static|struct|switch|typedef|union|volatile|while)$"
    TYPES = "^(bool|char|double|int|long|short|signed|unsigned|void|[a-z_0-9]+_t)$"
    before = path_in(sources_before, was)
    after = path_in(sources_after, name)
    if (what != "unchanged") {
        read_file(1, old)
        read_file(2, new)
    }
}

# The remarks on this file.
FNR == 1 { part++ }
part == 1 && /^## / {
    about = ""
    heading = substr($0, 4)
    if (heading == name || index(heading, name ": ") == 1) {
        about = heading == name ? "" : substr(heading, length(name) + 3)
        remark_line[about] = FNR
        inside = 1
    } else
        inside = 0
    next
}
part == 1 {
    if (inside)
        remark[about] = remark[about] $0 "\n"
    next
}

# The diff.
/^diff / { is_this = $NF ~ "/" name "$" }
!is_this || /^(---|\+\+\+) / && !hunks { next }
/^@@ / {
    end_of_change()
    hunks++
    split($2, range, ",")
    old_at = -range[1]
    split($3, range, ",")
    new_at = range[1] + 0
    next
}
/^-/ {
    if (added_count)
        end_of_change()
    if (!removed_count)
        removed_at = old_at
    removed_count++
    changed[1, old_at++] = hunks
    next
}
/^\+/ {
    if (!added_count)
        added_at = new_at
    added_count++
    changed[2, new_at++] = hunks
    next
}
/^ / {
    end_of_change()
    row("", old_at++, new_at, "", code_of(2, new_at))
    new_at++
}

# ---- output ----

# The first hunk that changes something in a definition; 0 if none does. Sets side_of[definition].
function hunk_of(definition,    side, i)
{
    for (side = 2; side >= 1; side--)
        if ((side, definition) in first)
            for (i = first[side, definition]; i <= last[side, definition]; i++)
                if ((side, i) in changed) {
                    side_of[definition] = side
                    return changed[side, i]
                }
    return 0
}

# The row of a hunk with which a definition begins, or with which the hunk begins inside of it.
function row_of(definition, hunk,    side, i, line)
{
    side = side_of[definition]
    for (i = 1; i < rows[hunk]; i++) {
        line = side == 1 ? old_line[hunk, i] : new_line[hunk, i]
        if (line >= first[side, definition])
            break
    }
    while (i > 1 && !new_line[hunk, i - 1] && owner[1, old_line[hunk, i - 1]] == definition)
        i-- # what it was before
    return i
}

# One piece of a hunk, below links to what it changes, and the remarks that belong to it.
function print_rows(hunk, from, to, beside,    i, code, found, names, seen)
{
    if (from > to)
        return
    for (i = from; i <= to; i++) {
        found = new_line[hunk, i] ? owner[2, new_line[hunk, i]] : owner[1, old_line[hunk, i]]
        if (found != "" && (!old_line[hunk, i] || !new_line[hunk, i]) && !seen[found]++) {
            names = names (names == "" ? "" : ", ") "<a href=\"#" name "-" ++named "\">" found "</a>"
            sub(/<td/, "<td id=\"" name "-" named "\"", shown_row[hunk, i])
        }
        code = code shown_row[hunk, i]
    }
    print_html("<div class=\"hunk" (beside == "" ? "" : " remarked") "\">")
    if (beside != "") {
        print_html("<div class=\"remarks\">")
        print beside
        print_html("</div>")
    }
    print_html("<div class=\"diff\" tabindex=\"0\">" (names == "" ? "" : "<p>" names "</p>") \
        "<table>\n" code "</table></div></div>")
}

END {
    end_of_change()
    for (about in remark) {
        if (about == "") {
            if (what == "unchanged")
                stale(remark_line[about], name " does not change")
            continue
        }
        if (!((1, about) in first) && !((2, about) in first))
            stale(remark_line[about], "there is no " about " in " name)
        else if (!(place[about] = hunk_of(about)))
            stale(remark_line[about], about " in " name " does not change")
        folded++
    }
    if (failed)
        exit 1
    counts = (counted[2] == 0 ? "" : "<ins>+" counted[2] "</ins>") \
        (counted[1] == 0 ? "" : " <del>-" counted[1] "</del>")
    anchor = page_of(remarks) "--" name
    gsub(/\./, "", anchor)
    source = address_of(what == "removed" ? before : after)
    what_was = what (was == name ? "" : ", was " was)
    if (what == "unchanged") {
        print "<a href=\"" source "\">" name "</a>" >>overview
        exit
    }
    short = name
    gsub(/_/, "&<wbr/>", short)
    print "<tr><td><a href=\"#" anchor "\">" short "</a></td><td>" what_was "</td><td>" counts "</td><td><a href=\"" \
        source "\" aria-label=\"source of " name "\">source</a></td></tr>" >>overview
    print "## " name "\n"
    if ("" in remark)
        print remark[""]
    print_html("<details><summary>" what_was " " counts (folded ? ", " folded (folded == 1 ? " remark" : " remarks") : "") "</summary>")
    for (i = 1; i <= hunks; i++) {
        split("", beside_row)
        for (line = 1; line < 10000; line++) # in the order of the remarks
            for (about in place)
                if (place[about] == i && remark_line[about] == line) {
                    n = row_of(about, i)
                    beside_row[n] = beside_row[n] "`" about "`\n" remark[about]
                }
        from = 1
        for (n = 2; n <= rows[i]; n++)
            if (n in beside_row) {
                print_rows(i, from, n - 1, beside_row[from])
                from = n
            }
        print_rows(i, from, rows[i], beside_row[from])
    }
    print_html("</details>")
}

function print_html(code)
{
    print "\n\\htmlonly[block]\n" code "\n\\endhtmlonly\n"
}

function stale(line, why)
{
    print "docs: " remarks ":" line ": " why >"/dev/stderr"
    failed = 1
}
