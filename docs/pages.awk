# The pages of the site in the order of the course: which is before which, what each is called and where one is.
#
#   usage: docs/order.sh | awk -v changes="FILE..." -v made_in=FOLDER -v side=FILE -f docs/names.awk -f docs/pages.awk >PAGES
#
# PAGES has a line of seven fields for each page, with tabs between:
#
#   ADDRESS, TITLE   in the site
#   WHERE            "Sitting 5: Turns, limits, the selector. Step 2.6, the sixth of nine"
#   BEFORE, AFTER    addresses, where there is one
#   TWIN             for a step or a chapter the page of its changes, and for that the other one
#   FILE             in the repository
#
# Behind the README.md of a stage come its sources, in the order in which that names them; those of common/ are
# a row of their own. A page that is aside leads back to the one before it and on to the one behind that. changes
# has the files that docs/diff_pages.sh has made in FOLDER/docs/remarks. The side bar goes to the file `side`: its links have
# @TOP@ in front, and data-page for docs/polish.awk.

function title_of(file,    line, found)
{
    if (file == "docs/trace/page.html")
        return "The stages, seen running"
    if (file == "docs/play/scheduler.html")
        return "Play the scheduler"
    if (file ~ /\.[ch]$/)
        return bare_name(file)
    while (found == "" && (getline line <file) > 0)
        if (line ~ /^# /)
            found = substr(line, 3)
    close(file)
    return found
}

function nth_of(n, all)
{
    return "the " (n in ordinal ? ordinal[n] : n "th") " of " (all in cardinal ? cardinal[all] : all)
}

function add(as, where, file, page)
{
    pages++
    kind[pages] = as
    place[pages] = where
    source[pages] = file
    address[pages] = page != "" ? page : address_of(file)
    title[pages] = title_of(file)
    at[address[pages]] = pages
}

# The sources that a README.md names, in its order: behind a header what is its, at the end all others.
function add_sources(folder, as, where,    find, readme, line, path, stem, n, i, files, count, there, listed, order)
{
    find = "cd " folder " && find . -name '*.[ch]' ! -path './steps/*' | sed 's|^\\./||' | LC_ALL=C sort"
    while ((find | getline path) > 0) {
        there[path]
        files[++count] = path
    }
    close(find)
    readme = folder "/README.md"
    while ((getline line <readme) > 0)
        while (match(line, /\]\([a-z_0-9\/]+\.[ch]\)/)) {
            path = substr(line, RSTART + 2, RLENGTH - 3)
            line = substr(line, RSTART + RLENGTH)
            if (path in there && !(path in listed)) {
                order[++n] = path
                listed[path]
            }
            stem = path
            if (folder == "common" && sub(/\.h$/, ".c", stem) && stem in there && !(stem in listed)) {
                order[++n] = stem
                listed[stem]
            }
        }
    close(readme)
    for (i = 1; i <= count; i++)
        if (!(files[i] in listed))
            order[++n] = files[i]
    for (i = 1; i <= n; i++)
        add(as, where nth_of(i, n) " files", folder "/" order[i])
}

function entry(page, text)
{
    print "<li><a data-page=\"" page "\" href=\"@TOP@" page "\">" text "</a></li>" >side
}

function end_of_branch()
{
    if (branch != "")
        print "</ul></details></li>" >side
    branch = ""
}

BEGIN {
    FS = "\t"
    split("first second third fourth fifth sixth seventh eighth ninth tenth eleventh twelfth", ordinal, " ")
    split("one two three four five six seven eight nine ten eleven twelve", cardinal, " ")
    print "<ul>" >side
}

# Of each branch, and of the steps of each stage, how many there are: known when all lines are.
{
    line[NR] = $0
    size[$2, $3]++
    if ($5 == "-" && match($4, /\/steps\/[1-5C]\./))
        steps[substr($4, RSTART + 7, 1)]++
}

END {
    for (i = 1; i <= NR; i++) {
        split(line[i], field, "\t")
        number = field[2]
        name = field[3]
        file = field[4]
        short = field[5]
        sitting = number == "-" ? "" : "Sitting " number ": " name ". "
        where = number != "-" ? sitting : name == "The course" || size[number, name] == 1 ? "" : \
            name ", " nth_of(++place_in[name], size[number, name])
        if (short == "-") {
            match(file, /\/[1-5C]\.[0-9]+-/)
            step = substr(file, RSTART + 1, RLENGTH - 2)
            stage = substr(step, 1, 1)
            step_where[step] = "Step " step ", " nth_of(++step_of[stage], steps[stage])
            where = (number == "-" ? name ". " : sitting) step_where[step]
        }
        sub(/\. $/, "", where)
        add(field[1], where, file)

        # The side bar.
        if (number "\t" name != branch && i > 1) {
            end_of_branch()
            if (field[1] == "main") {
                if (number == "1" || number == "-" && !afterwards++)
                    print "</ul><p class=\"part\">" (number == "1" ? "In sittings" : "Afterwards") \
                        "</p><ul class=\"tree\">" >side
                branch = number "\t" name
                print "<li><details><summary>" (number == "-" ? "" : "<b>" number "</b> ") name "</summary><ul>" >side
            }
        }
        entry(address[pages], short == "-" || short == "Steps" ? title[pages] : short)

        if (file ~ /^stage[1-5]-[^\/]*\/README\.md$/) {
            stage = substr(file, 6, 1)
            sub(/\/README\.md$/, "", file)
            add_sources(file, "main", sitting "Code of stage " stage ", ")
        }
    }
    end_of_branch()
    print "</ul><p class=\"part\">Code</p><ul>" >side
    entry("readme.html", "The repository")
    entry("common/index.html", "common, what all stages share")
    print "</ul>" >side

    # Rows: the course, and common/.
    for (i = 1; i <= pages; i++) {
        if (kind[i] == "main") {
            if (last)
                after[last] = i
            before[i] = last
            last = i
        } else
            before[i] = last
    }
    for (i = 1; i <= pages; i++)
        if (kind[i] == "aside")
            after[i] = after[before[i]]
    first = pages + 1
    add("row", "common/, what all stages share", "common/README.md")
    add_sources("common", "row", "common/, ")
    for (i = first; i <= pages; i++) {
        before[i] = i > first ? i - 1 : 0
        after[i] = i < pages ? i + 1 : 0
    }

    count = split(changes, made, " ")
    for (i = 1; i <= count; i++) {
        changed = page_of("docs/remarks/" made[i]) ".html"
        twin = changed
        sub(/^changes/, made[i] ~ /^step/ ? "step" : "stage", twin)
        n = at[twin]
        step = made[i]
        gsub(/^step|\.md$/, "", step)
        add("aside", step in step_where ? "Changes of step " step : "", made_in "/docs/remarks/" made[i], changed)
        source[pages] = ""
        before[pages] = n
        after[pages] = after[n]
        other[n] = pages
        other[pages] = n
    }
    for (i = 1; i <= pages; i++)
        printf "%s\t%s\t%s\t%s\t%s\t%s\t%s\n", address[i], title[i], place[i], address[before[i]], address[after[i]], \
            address[other[i]], source[i]
}
