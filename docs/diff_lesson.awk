# How many changed lines of each source teach what the later of two stages is about.
#
#   usage: awk -v from=stage1-blocking -v to=stage2-single-reactor -f docs/diff_lesson.awk \
#              tests/not_lesson.txt FROM/*.[ch] TO/*.[ch] DIFF      (docs/stage_diff.sh calls this)
#
# FROM and TO are copies of the stages with these names, and DIFF is what `make diff` shows of them. Prints
# "NAME LESSON CHANGED" for each source. A line that begins with + or - and is not blank is a changed one.
# It teaches, unless it
#
#   stands outside of all definitions, as an #include,
#   is in a file, a function, a struct or a variable that tests/not_lesson.txt names for one of the stages
#     or for the step between them, or is like a pattern in there,
#   has only moved: its definition is the same on both sides, apart from spaces,
#   is removed with all of its definition, which the stage before has taught,
#   is part of a comment on code that does not change. (The comment at the head of a file that stays teaches.)
#
# Fails if the list names something between the stages that does not change, and says what.

function number(stage) { return substr(stage, 6, 1) }

function base(path) {
    sub(/.*\//, "", path)
    return path
}

FILENAME ~ /not_lesson\.txt$/ {
    if (sub(/^every difference: */, ""))
        pattern = pattern (pattern == "" ? "" : "|") $0
    if ($1 == from ":" || $1 == to ":")
        for (i = 2; i <= NF; i++)
            excused[$i]
    if ($1 == number(from) "-" number(to) ":")
        for (i = 2; i <= NF; i++) {
            excused[$i]
            expected[$i]
        }
    next
}

# ---- which definition a line belongs to -----------------------------------------------------------

FILENAME ~ /\.[ch]$/ {
    if (FNR == 1) {
        there[FILENAME]
        inside = comment = waiting = 0
        at_head = 1
    }
    code = $0
    if (comment && !sub(/^.*\*\//, "", code))
        code = ""
    else {
        gsub(/\/\*([^*]|\*[^\/])*\*\//, "", code)
        comment = sub(/\/\*.*/, "", code)
    }
    is = code ~ /^#/ ? "directive" : code ~ /[^ \t]/ ? "code" : /[^ \t]/ ? "comment" : "blank"
    kind[FILENAME, FNR] = is
    if (inside)
        owner[FILENAME, FNR] = definition
    else if (is == "comment")
        above[++waiting] = FNR
    else if (is == "code") # begins a definition, which has the comment above it
        begin_definition()
    else { # the comment stands alone
        for (; waiting > 0; waiting--)
            if (at_head)
                kind[FILENAME, above[waiting]] = "head"
        at_head = 0
    }
    if (is == "code")
        go_on_with_definition()
    next
}

function begin_definition() {
    inside = 1
    at_head = 0
    text = ""
    definition = FILENAME ":" FNR
    for (; waiting > 0; waiting--)
        owner[FILENAME, above[waiting]] = definition
    owner[FILENAME, FNR] = definition
}

# Up to the brace or semicolon that ends it.
function go_on_with_definition(    name) {
    text = text code "\n"
    if (code !~ /^}/ && (code !~ /;[ \t]*$/ || text ~ /{/))
        return
    inside = 0
    name = text
    sub(/[[({=;].*/, "", name)
    gsub(/[ \n]+$/, "", name)
    sub(/.*[ *]/, "", name)
    gsub(/[ \t\n]/, "", text)
    name_of[definition] = name
    text_of[definition] = text
    has[side_of(FILENAME), name]
    has_text[side_of(FILENAME), text]
}

function side_of(path) { return index(path, from "/") == 1 ? from : to }

# ---- the changed lines ----------------------------------------------------------------------------

/^diff / { old = $(NF - 1); new = $NF; in_hunk = 0 }
/^@@ / {
    split($2, range, ",")
    old_at = -range[1]
    split($3, range, ",")
    new_at = range[1] + 0
    in_hunk = 1
    next
}
!in_hunk { next }
/^-/ { note(old, old_at++) }
/^\+/ { note(new, new_at++) }
/^ / { old_at++; new_at++ }

function note(path, at) {
    if (path !~ /\.[ch]$/ || kind[path, at] == "blank")
        return
    path_of[++lines] = path
    at_of[lines] = at
    shown[lines] = substr($0, 2)
    definition = owner[path, at]
    changes[name_of[definition]]
    changes[base(path)]
    if (kind[path, at] == "code" && !has_moved(path, definition))
        code_changes[name_of[definition]]
}

# Whether the other side has the same definition.
function has_moved(path, definition) {
    return ((side_of(path) == from ? to : from), text_of[definition]) in has_text
}

function teaches(i,    path, is, definition, name) {
    path = path_of[i]
    is = kind[path, at_of[i]]
    definition = owner[path, at_of[i]]
    name = name_of[definition]
    if (base(path) in excused || pattern != "" && shown[i] ~ pattern)
        return 0
    if (is == "head")
        return side_of(path) == to || (to "/" base(path)) in there
    if (definition == "" || name in excused || side_of(path) == from && !((to, name) in has))
        return 0
    return is == "comment" ? name in code_changes : !has_moved(path, definition)
}

END {
    for (i = 1; i <= lines; i++) {
        name = base(path_of[i])
        if (!(name in all))
            order[++files] = name
        all[name]++
        lesson[name] += teaches(i)
    }
    for (i = 1; i <= files; i++)
        print order[i], lesson[order[i]], all[order[i]]
    for (name in expected)
        if (!(name in changes)) {
            print "tests/not_lesson.txt: " number(from) "-" number(to) ": nothing of " name " changes" >"/dev/stderr"
            failed = 1
        }
    exit failed
}
