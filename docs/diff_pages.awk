# Writes what changes in one file from a stage to the next, as a part of a page for Doxygen: HTML for
# the code, and the remarks on it as Markdown beside the hunks they speak of.
#
#   usage: awk -v name=handler.c -v what=changed -v before=stage2-... -v after=stage3-... \
#              -v old=FILE -v new=FILE -f docs/diff_pages.awk REMARKS DIFF
#
# DIFF is the output of diff -U. In REMARKS a heading says what a remark is about,
#
#   ## handler.c                      the file
#   ## handler.c: handler_execute     a function or a struct, of either side
#
# and the text below it goes to the first hunk that changes something in there, beside the lines where
# the definition begins. A remark about something that is not there, or does not change, is an error:
# the remark has to be mended.

# ---- what is defined where ----

# Notes the lines of each definition of a file in first[side, name] and last[side, name].
function find_definitions(side, file,    line, n, i, j, found)
{
    while ((getline line <file) > 0)
        text[side, ++n] = line
    close(file)
    for (i = 1; i <= n; i++) {
        found = defined(side, i, n)
        if (found == "")
            continue
        for (j = i - 1; j > 0 && text[side, j] ~ /^( \*|\/\*)/; j--)
            ;
        first[side, found] = j + 1
        while (i <= n && text[side, i] !~ /^\}/)
            i++
        last[side, found] = i
    }
}

# The name of what is defined from line i on; nothing if there is no definition.
function defined(side, i, n,    line, j)
{
    line = text[side, i]
    if (match(line, /^(struct|enum|union) [a-z_0-9]+ \{$/))
        return substr(line, 1, RLENGTH - 2)
    if (line !~ /^[a-z].*\(/ || line ~ /^typedef /)
        return ""
    for (j = i; j <= n && text[side, j] !~ /;$/; j++)
        if (text[side, j] == "{") {
            match(line, /[a-z_0-9]+\(/)
            return substr(line, RSTART, RLENGTH - 1)
        }
    return ""
}

# ---- intraline marks ----

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

# The length of the longest common part of two lines, in tokens, over all of the longer one.
function similarity(one, two,    a, b, n, m, i, j, row, above, before, count)
{
    n = tokens(one, a)
    m = tokens(two, b)
    if (n == 0 || m == 0)
        return 0
    for (i = 1; i <= n; i++) {
        before = 0
        for (j = 1; j <= m; j++) {
            above = row[j]
            if (a[i] == b[j])
                row[j] = before + (a[i] ~ /[A-Za-z_0-9]/ ? 1 : 0.2)
            else if (row[j - 1] > above)
                row[j] = row[j - 1]
            before = above
        }
    }
    for (i = 1; i <= n; i++)
        count += a[i] ~ /[A-Za-z_0-9]/ ? 1 : 0.2
    for (j = 1; j <= m; j++)
        before = (j == 1 ? 0 : before) + (b[j] ~ /[A-Za-z_0-9]/ ? 1 : 0.2)
    return 2 * row[m] / (count + before)
}

function html(line)
{
    gsub(/&/, "\\&amp;", line)
    gsub(/</, "\\&lt;", line)
    gsub(/>/, "\\&gt;", line)
    gsub(/\*/, "\\&#42;", line) # Doxygen takes the end of a comment for one, wherever it is
    return line
}

# Sets marked[1] and marked[2]: the two lines, with what differs marked.
function mark_pair(one, two, marked,    a, b, n, m, i, j, length_of, keep_a, keep_b)
{
    n = tokens(one, a)
    m = tokens(two, b)
    for (i = n; i >= 1; i--)
        for (j = m; j >= 1; j--) {
            if (a[i] == b[j])
                length_of[i, j] = length_of[i + 1, j + 1] + 1
            else
                length_of[i, j] = length_of[i + 1, j] > length_of[i, j + 1] ? \
                    length_of[i + 1, j] : length_of[i, j + 1]
        }
    i = j = 1
    while (i <= n && j <= m) {
        if (a[i] == b[j]) {
            keep_a[i++]
            keep_b[j++]
        } else if (length_of[i + 1, j] >= length_of[i, j + 1])
            i++
        else
            j++
    }
    marked[1] = with_marks(a, n, keep_a, "del")
    marked[2] = with_marks(b, m, keep_b, "ins")
}

function with_marks(piece, n, keep, tag,    i, open, result)
{
    for (i = 1; i <= n; i++) {
        if ((i in keep) && open && !(piece[i] ~ /^ +$/ && i < n && !((i + 1) in keep))) {
            result = result "</" tag ">"
            open = 0
        } else if (!(i in keep) && !open) {
            result = result "<" tag ">"
            open = 1
        }
        result = result html(piece[i])
    }
    return result (open ? "</" tag ">" : "")
}

# ---- rows ----

function source_page(stage,    file)
{
    file = name
    gsub(/_/, "__", file)
    sub(/\./, "_8", file)
    return stage "/" file "_source.html"
}

function number(stage, n)
{
    return n ? sprintf("<td class=\"n\"><a href=\"%s#l%05d\">%d</a></td>", source_page(stage), n, n) : \
        "<td class=\"n\"></td>"
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
            score = similarity(removed[i], added[j])
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
            mark_pair(removed[i], added[partner[i]], marked)
            shown[partner[i]] = marked[2]
            row("del", removed_at + i - 1, 0, "-", marked[1])
        } else
            row("del", removed_at + i - 1, 0, "-", html(removed[i]))
    }
    for (i = 1; i <= added_count; i++)
        row("ins", 0, added_at + i - 1, "+", i in shown ? shown[i] : html(added[i]))
    removed_count = added_count = 0
}

# ---- input ----

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
/^(---|\+\+\+) / && !hunks { next }
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
    removed[++removed_count] = substr($0, 2)
    changed[1, old_at++] = hunks
    next
}
/^\+/ {
    if (!added_count)
        added_at = new_at
    added[++added_count] = substr($0, 2)
    changed[2, new_at++] = hunks
    next
}
/^ / {
    end_of_change()
    row("", old_at++, new_at++, "", html(substr($0, 2)))
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
            return i
    }
    return 1
}

# One piece of a hunk, and the remarks that belong to it.
function print_rows(hunk, from, to, beside,    i, code)
{
    if (from > to)
        return
    for (i = from; i <= to; i++)
        code = code shown_row[hunk, i]
    print_html("<div class=\"hunk" (beside == "" ? "" : " remarked") "\">")
    if (beside != "") {
        print_html("<div class=\"remarks\">")
        print beside
        print_html("</div>")
    }
    print_html("<div class=\"diff\" tabindex=\"0\"><table>\n" code "</table></div></div>")
}

END {
    end_of_change()
    find_definitions(1, old)
    find_definitions(2, new)
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
    }
    if (failed)
        exit 1
    if (what == "unchanged")
        exit
    print "## " name "\n"
    print_html("<p class=\"what\">" what "</p>")
    if ("" in remark)
        print remark[""]
    if (what != "changed")
        print_html("<details" (what == "added" ? " open" : "") "><summary>" \
            (what == "added" ? "the whole file" : "the file as it was") "</summary>")
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
    if (what != "changed")
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
