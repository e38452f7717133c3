# Reads sources and headers, and prints what they say and show about threads and locks, as rows for
# the tables of docs/threads.md. tests/threads_table.sh compares; it also says which files are read.
#
#   FUNCTION <header> | `name` | threads that come there | what its header says | locks it takes |
#   RULE     | `header` | what holds for all of the header |
#   FIELD    | `struct x` | `field` | its lock, or atomic |
#   ORDER    | lock | locks that are taken while it is held |
#   WRONG    what no table can put right: a lock that can be waited for by its own holder, or one that
#            is held while the application is called
#
# It follows calls by name, with the form of the sources to lean on: a definition begins in the first
# column, and ends with a brace there. Calls through pointers are listed below; so are the functions
# with which threads begin. What a thread can reach by some path it counts as reaching.

BEGIN {
    # Through which member a call goes, and where it can lead.
    pointer["run"] = "future_task.c:run"
    pointer["dropped"] = "future_task.c:dropped"
    pointer["call"] = "handler_future_task.c:handler_future_task_call"
    pointer["done"] = "handler_future_task.c:handler_future_task_done"
    pointer["saturated"] = "executor.c:abort_task executor.c:block_submitter " \
        "executor.c:run_in_caller executor.c:drop executor.c:drop_oldest"
    split("input enqueue enqueue_shared set_handler interest modify_interest close peer retain " \
        "release", verb, " ")
    for (i in verb)
        pointer["verbs->" verb[i]] = "handler_adapter.c:facade_" verb[i]

    # Where threads begin. An application's may be any.
    root["main.c:main"] = "main"
    root["main.c:dispatcher_thread"] = "dispatcher"
    root["executor.c:worker"] = "worker"
    root["dispatcher.c:dispatcher_unregister_channel"] = "any"
    for (i in verb)
        root["handler_adapter.c:facade_" verb[i]] = "any"

    # Where the application is called. It is treated like a lock, to see what is held meanwhile.
    calls_application["verbs->next_message"]
    calls_application["verbs->handle_input"]
    calls_application["verbs->refuse_input"]
    calls_application["verbs->timed_out"]
    calls_application["call_handler"]

    # An orderly shutdown, the only kind that stage 4 asks for, drops nothing.
    cut["executor.c:executor_shutdown executor.c:drop"]

    thread_count = split("main dispatcher worker any", thread_name, " ")
    split("selector_guard.lock guard selector.lock selector handler_adapter.state_lock state " \
        "status_change_queue.lock changes output_queue.lock output executor.lock executor " \
        "future_monitor.lock future buffer_factory.lock buffers admission.lock admission " \
        "service.lock service dispatcher.end_lock end application application", names, " ")
    for (i = 1; i in names; i += 2) {
        short[names[i]] = names[i + 1]
        lock_name[++lock_count] = names[i]
    }
    short["atomic"] = "atomic"
    about_threads = "[Tt]hread|[Rr]unner|own calls"
}

function basename(path)
{
    sub(/.*\//, "", path)
    return path
}

# The lock that an expression such as &adapter->state_lock means.
function lock_of(text,    owner, field)
{
    gsub(/[&() ]|\(|\)/, "", text)
    field = owner = text
    sub(/.*(->|\.)/, "", field)
    sub(/(->|\.)[a-z_]+$/, "", owner)
    sub(/.*(->|\.)/, "", owner)
    if (owner == "adapter") owner = "handler_adapter"
    else if (owner == "guard") owner = "selector_guard"
    else if (owner == "monitor") owner = "future_monitor"
    else if (owner == "factory") owner = "buffer_factory"
    else if (owner == "queue") owner = substr(file, 1, length(file) - 2)
    return owner "." field
}

FNR == 1 { finish_file(); file = basename(FILENAME); path = FILENAME; lines = 0 }
{ text[++lines] = $0 }

# ---- what headers say ---------------------------------------------------------------------------

# Adds the sentences of a comment that are about threads to what is said already.
function sentences(comment, said,    n, i, part)
{
    gsub(/\/\*+|\*\//, " ", comment)
    gsub(/[ \t]+/, " ", comment)
    gsub(/\. /, ".\n", comment)
    n = split(comment, part, "\n")
    for (i = 1; i <= n; i++) {
        gsub(/^ +| +$/, "", part[i])
        if (part[i] ~ about_threads)
            said = said (said == "" ? "" : " ") part[i]
    }
    return said
}

# One bullet of the opening comment: a rule for a function that it begins with, or for the file.
function bullet(comment,    said, rest)
{
    said = sentences(comment, "")
    if (said == "")
        return
    if (said !~ /^[a-z_]+\(\)/) {
        rule[path] = rule[path] (rule[path] == "" ? "" : " ") said
        return
    }
    rest = said
    while (match(rest, /^(and )?[a-z_]+\(\) /)) {
        subject = substr(rest, RSTART, RLENGTH)
        gsub(/^and |[() ]/, "", subject)
        rest = substr(rest, RSTART + RLENGTH)
        stated[subject] = said
    }
}

function read_opening(    i, line, comment, inside)
{
    for (i = 1; i <= lines && text[i] !~ /\*\//; i++) {
        line = text[i]
        sub(/^ \* ?/, "", line)
        if (line ~ /^Interface:./ || line ~ /^- /) {
            bullet(comment)
            comment = line
            sub(/^(Interface:|-) /, "", comment)
            inside = 1
        } else if (line == "") {
            bullet(comment)
            comment = ""
            inside = 0
        } else if (inside) {
            comment = comment " " line
        }
    }
    bullet(comment)
}

function attribute(declaration, word,    lock)
{
    if (!match(declaration, " " word "\\([^)]*\\)"))
        return ""
    lock = substr(declaration, RSTART, RLENGTH)
    sub(/^[^(]*\(/, "", lock)
    return lock_of(lock)
}

function read_attributes(name, declaration)
{
    if (attribute(declaration, "ACQUIRE(_SHARED)?") != "")
        acquires[name] = attribute(declaration, "ACQUIRE(_SHARED)?")
    if (attribute(declaration, "RELEASE(_SHARED)?") != "")
        releases[name] = attribute(declaration, "RELEASE(_SHARED)?")
    if (attribute(declaration, "EXCLUDES") != "")
        excludes[name] = attribute(declaration, "EXCLUDES")
    if (attribute(declaration, "REQUIRES(_SHARED)?") != "")
        requires[name] = attribute(declaration, "REQUIRES(_SHARED)?")
}

function function_name(line)
{
    match(line, /[a-z_0-9]+\(/)
    return substr(line, RSTART, RLENGTH - 1)
}

function read_header(    i, comment, declaration, name, struct_name, field, lock)
{
    read_opening()
    for (i = 1; i <= lines; i++) {
        if (text[i] ~ /^\/\*/) {
            comment = ""
            do
                comment = comment " " (text[i] ~ /^ \*/ ? substr(text[i], 3) : text[i])
            while (text[i] !~ /\*\// && i++ < lines)
        } else if (text[i] ~ /^struct .*\{$/) {
            struct_name = text[i]
            gsub(/CAPABILITY\([^)]*\) | \{$/, "", struct_name)
        } else if (text[i] ~ /GUARDED_BY\(/ && text[i] !~ /^#/) {
            field = lock = text[i]
            sub(/ GUARDED_BY.*/, "", field)
            sub(/\[.*/, "", field)
            sub(/.*[ *]/, "", field)
            sub(/.*GUARDED_BY\(&/, "", lock)
            sub(/\).*/, "", lock)
            owner = struct_name
            sub(/^struct /, "", owner)
            fields[++field_count] = struct_name SUBSEP field SUBSEP owner "." lock
        } else if (text[i] ~ /^    atomic_[a-z_0-9]+ [a-z_]+;/) {
            field = text[i]
            sub(/;.*/, "", field)
            sub(/.* /, "", field)
            fields[++field_count] = struct_name SUBSEP field SUBSEP "atomic"
        } else if (text[i] ~ /^[a-z].*\(/ && text[i] !~ /^typedef/) {
            declaration = text[i]
            while (text[i] !~ /[;{]/ && i < lines)
                declaration = declaration " " text[++i]
            name = function_name(declaration)
            public[++public_count] = path SUBSEP name
            read_attributes(name, declaration)
            stated[name] = sentences(comment, stated[name])
            comment = ""
        } else if (text[i] == "") {
            comment = ""
        }
    }
    if (rule[path] != "")
        rules[++rule_count] = path
}

# ---- what sources show --------------------------------------------------------------------------

function without_comments(    i, line, result, inside)
{
    for (i = 1; i <= lines; i++) {
        line = text[i]
        gsub(/"([^"\\]|\\.)*"/, "\"\"", line)
        result = ""
        while (line != "") {
            if (inside) {
                if (!match(line, /\*\//))
                    break
                line = substr(line, RSTART + 2)
                inside = 0
            } else if (match(line, /\/\*/)) {
                result = result substr(line, 1, RSTART - 1)
                line = substr(line, RSTART + 2)
                inside = 1
            } else {
                result = result line
                line = ""
            }
        }
        text[i] = result
    }
}

# Keeps a definition's calls and locks, in their order.
function read_source(    i, declaration, name, key)
{
    without_comments()
    for (i = 1; i <= lines; i++) {
        if (text[i] !~ /^[a-z].*\(/ || text[i] ~ /^(typedef|__attribute__)/ || text[i] ~ /;$/)
            continue
        declaration = text[i]
        while (text[i] !~ /[;{]/ && i < lines)
            declaration = declaration " " text[++i]
        if (text[i] !~ /^\{/)
            continue
        name = function_name(declaration)
        key = file ":" name
        defined[key]
        if (declaration !~ /^static /)
            global[name] = key
        if (attribute(declaration, "REQUIRES(_SHARED)?") != "")
            needs[key] = attribute(declaration, "REQUIRES(_SHARED)?")
        for (i++; i <= lines && text[i] !~ /^\}/; i++)
            read_statement(key, text[i])
    }
}

function step(key, what)
{
    steps[key, ++step_count[key]] = what
}

function read_statement(key, line,    call, before)
{
    while (match(line, /[A-Za-z_0-9]+\(/)) {
        before = substr(line, 1, RSTART - 1)
        call = substr(line, RSTART, RLENGTH - 1)
        line = substr(line, RSTART + RLENGTH)
        if (call ~ /^(mutex|rwlock)_lock(_shared)?$/)
            step(key, "lock " lock_of(substr(line, 1, index(line, ")") - 1)))
        else if (call ~ /^(mutex|rwlock)_unlock(_shared)?$/)
            step(key, "unlock " lock_of(substr(line, 1, index(line, ")") - 1)))
        else if (before ~ /verbs->$/)
            step(key, "pointer verbs->" call)
        else if (before ~ /(->|\.)$/)
            step(key, "pointer " call)
        else
            step(key, "call " file " " call)
    }
}

function finish_file()
{
    if (lines == 0)
        return
    if (file ~ /\.h$/)
        read_header()
    else
        read_source()
}

# ---- what follows -------------------------------------------------------------------------------

# Turns calls into the definitions they lead to: edge[from, 1..] and held locks beside them.
function resolve(key,    i, n, part, targets, target, j, m)
{
    held_now = (key in needs) ? " " needs[key] " " : " "
    for (i = 1; i <= step_count[key]; i++) {
        n = split(steps[key, i], part, " ")
        targets = ""
        if (part[n] in calls_application) {
            takes[key, "application"]
            order_all(held_now, "application")
        }
        if (part[1] == "lock")
            take(key, part[2])
        else if (part[1] == "unlock")
            let_go(part[2])
        else if (part[1] == "pointer" && part[2] in pointer)
            targets = pointer[part[2]]
        else if (part[1] == "call" && (part[2] ":" part[3]) in defined)
            targets = part[2] ":" part[3]
        else if (part[1] == "call" && part[3] in global)
            targets = global[part[3]]
        m = split(targets, target, " ")
        for (j = 1; j <= m; j++)
            if (!((key " " target[j]) in cut)) {
                edges[key, ++edge_count[key]] = target[j]
                edge_held[key, edge_count[key]] = held_now
            }
        if (part[1] == "call" && part[3] in acquires)
            take(key, acquires[part[3]])
        if (part[1] == "call" && part[3] in releases)
            let_go(releases[part[3]])
    }
}

function take(key, lock)
{
    takes[key, lock]
    order_all(held_now, lock)
    held_now = held_now lock " "
}

function let_go(lock,    at)
{
    at = index(held_now, " " lock " ")
    if (at)
        held_now = substr(held_now, 1, at) substr(held_now, at + length(lock) + 2)
}

function order_all(held, lock,    n, part, i)
{
    n = split(held, part, " ")
    for (i = 1; i <= n; i++)
        after[part[i], lock]
}

# Who is reached by which thread, and takes which lock, until nothing is added any more.
function spread(    key, i, j, target, again)
{
    do {
        again = 0
        for (key in defined)
            for (i = 1; i <= edge_count[key]; i++) {
                target = edges[key, i]
                for (j = 1; j <= thread_count; j++)
                    if ((key, thread_name[j]) in reached && !((target, thread_name[j]) in reached)) {
                        reached[target, thread_name[j]]
                        again = 1
                    }
                for (j = 1; j <= lock_count; j++)
                    if ((target, lock_name[j]) in takes && !((key, lock_name[j]) in takes)) {
                        takes[key, lock_name[j]]
                        again = 1
                    }
            }
    } while (again)
}

# A lock that a callee needs held is the callee's affair: it may let go of it in between.
function order_calls(    key, i, j, n, part, target)
{
    for (key in defined)
        for (i = 1; i <= edge_count[key]; i++) {
            target = edges[key, i]
            n = split(edge_held[key, i], part, " ")
            for (j = 1; j <= n; j++)
                if (!(target in needs) || needs[target] != part[j])
                    order_taken(part[j], target)
        }
}

function order_taken(lock, target,    j)
{
    for (j = 1; j <= lock_count; j++)
        if ((target, lock_name[j]) in takes)
            after[lock, lock_name[j]]
}

function find_cycles(    i, j, k)
{
    for (k = 1; k <= lock_count; k++)
        for (i = 1; i <= lock_count; i++)
            for (j = 1; j <= lock_count; j++)
                if ((lock_name[i], lock_name[k]) in after && (lock_name[k], lock_name[j]) in after)
                    after_all[lock_name[i], lock_name[j]]
    for (i = 1; i <= lock_count; i++)
        if ((lock_name[i], lock_name[i]) in after || (lock_name[i], lock_name[i]) in after_all)
            print "WRONG " short[lock_name[i]] " can be waited for by the thread that holds it"
    for (i = 1; i <= lock_count; i++)
        if ((lock_name[i], "application") in after)
            print "WRONG " short[lock_name[i]] " is held while the application is called"
}

function threads_of(key,    j, list)
{
    for (j = 1; j <= thread_count; j++)
        if ((key, thread_name[j]) in reached)
            list = list (list == "" ? "" : ", ") thread_name[j]
    return list == "" ? "-" : list
}

function locks_of(key, name,    j, list)
{
    if (name in acquires)
        return short[acquires[name]] ", kept"
    if (name in releases)
        return short[releases[name]] ", given back"
    for (j = 1; j <= lock_count; j++)
        if ((key, lock_name[j]) in takes)
            list = list (list == "" ? "" : ", ") short[lock_name[j]]
    if (name in excludes)
        list = list "; not to be held: " short[excludes[name]]
    if (name in requires)
        list = list "; to be held: " short[requires[name]]
    return list == "" ? "-" : list
}

function print_order(    i, j, list)
{
    for (i = 1; i <= lock_count; i++) {
        list = ""
        for (j = 1; j <= lock_count; j++)
            if ((lock_name[i], lock_name[j]) in after)
                list = list (list == "" ? "" : ", ") short[lock_name[j]]
        if (list != "")
            print "ORDER | " short[lock_name[i]] " | " list " |"
    }
}

END {
    finish_file()
    for (key in defined)
        resolve(key)
    for (key in root) {
        if (!(key in defined))
            print "WRONG threads are said to begin in " key ", which is not there"
        reached[key, root[key]]
    }
    spread()
    order_calls()
    find_cycles()
    for (i = 1; i <= public_count; i++) {
        split(public[i], part, SUBSEP)
        name = part[2]
        key = name in global ? global[name] : "-"
        print "FUNCTION " part[1] " | `" name "` | " \
            (part[1] ~ /channel_facade/ ? "any" : threads_of(key)) " | " \
            (stated[name] == "" ? "-" : stated[name]) " | " \
            locks_of(part[1] ~ /channel_facade/ ? \
                "handler_adapter.c:facade_" substr(name, 9) : key, name) " |"
    }
    for (i = 1; i <= rule_count; i++)
        print "RULE | `" basename(rules[i]) "` | " rule[rules[i]] " |"
    for (i = 1; i <= field_count; i++) {
        split(fields[i], part, SUBSEP)
        if (part[1] != last_struct || part[3] != last_lock) {
            if (row != "")
                print row " | " short[last_lock] " |"
            row = "FIELD | `" part[1] "` | `" part[2] "`"
        } else {
            row = row ", `" part[2] "`"
        }
        last_struct = part[1]
        last_lock = part[3]
    }
    if (row != "")
        print row " | " short[last_lock] " |"
    print_order()
}
