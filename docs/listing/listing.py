#!/usr/bin/env python3
"""Writes a stage as a listing to read on paper: code on the right pages, commentary on the left ones.

  usage: docs/listing/listing.py PROGRAM STAGE LINKED LISTING.html     (make listing STAGE=2, from the top)

PROGRAM is the server of STAGE, a folder, compiled so that it notes each function that it enters (entered.c).
LINKED has the files of common/ that it links with echo alone, as `tests/steps.sh linked` prints them. The program
serves one client, which sends a line twice, and what it does says what is printed and in which order:

  - the parts are what happens to a line, when a client arrives, when the server starts, when a client
    leaves, and when the server stops; a file stands in the first of them in which it is entered, in the order
    in which that happens. What is entered only while the server starts is named and not printed, except the stage's own;
    and so is what looks on, for an operator or for a picture, and what turns addresses into text and back (BESIDE).
  - of a file of common/ it prints types, macros, tables, and the functions that were entered; of the stage, all.

The commentary on a definition is the comment above it, there and where it is declared, what the remarks
(docs/remarks) say about it, the paragraph that a chapter puts before it, and who calls it. Code and commentary
are cut into pages here, because only so the two face each other.
"""
import collections
import glob
import html
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time

DEADLINE = 30        # s for whatever has to happen
CODE_LINES = 83      # on a page
UNCUT_LINES = 40     # a definition that is no longer stands on one page
NOTES_MM = 246       # of commentary on a page
CHARACTERS = 100     # of commentary in a line
LINE_MM, NAME_MM, GAP_MM = 4.05, 5.2, 1.4
BESIDE = ("common/base/trace.", "common/server/watch.", "common/server/watch_executor.", "common/server/endpoint.",
          "common/server/endpoint_peer.", "common/server/socket_local.")
PARTS = [            # in the order of the listing; the number says when it happens
    (2, "A line passes", "A client that is connected sends a line, and it comes back."),
    (1, "A client arrives", "What has to happen before there is a connection."),
    (0, "The server starts", "Where it all begins. Options, and what else is read or set only now, are not printed."),
    (3, "A client leaves", "The end of its stream, and what ends with it."),
    (4, "The server stops", "SIGTERM."),
]


# ---- what the program does ----------------------------------------------------------------------------

Call = collections.namedtuple("Call", "when depth function caller")  # functions are (file, name)


def settle(pid):
    """Waits until all threads of the server have been asleep for a while."""
    deadline, calm = time.monotonic() + DEADLINE, 0
    while calm < 5:
        if time.monotonic() > deadline:
            raise SystemExit("listing: the server does not come to rest")
        states = set()
        for path in glob.glob(f"/proc/{pid}/task/*/stat"):
            with open(path, encoding="ascii") as stat:
                states.add(stat.read().rsplit(")", 1)[1].split()[0])
        calm = calm + 1 if states == {"S"} else 0
        time.sleep(0.01)


def record(program):
    """All calls of a run, and when each phase of it began."""
    with tempfile.TemporaryDirectory(prefix="listing.") as folder:
        path = os.path.join(folder, "entered")
        with subprocess.Popen([program, "--port", "0"], stdout=subprocess.PIPE, text=True,
                              env=dict(os.environ, ENTERED=path)) as server:
            try:
                port = int(server.stdout.readline().rsplit(":", 1)[1])
                settle(server.pid)
                phases = [time.monotonic_ns()]
                with socket.create_connection(("127.0.0.1", port), DEADLINE) as client:
                    settle(server.pid)
                    phases.append(time.monotonic_ns())
                    for _ in range(2):  # the first one finds nothing prepared, the second one does
                        client.sendall(b"hello\n")
                        if client.recv(100) != b"hello\n":
                            raise SystemExit("listing: the server did not echo a line")
                        settle(server.pid)
                    phases.append(time.monotonic_ns())
                settle(server.pid)
                phases.append(time.monotonic_ns())
                server.send_signal(signal.SIGTERM)
                if server.wait(DEADLINE) != 0:
                    raise SystemExit("listing: the server did not end with 0")
            finally:
                server.kill()
        with open(path, encoding="ascii") as file:
            return calls_of([line.split() for line in file], phases, program)


def calls_of(steps, phases, program):
    addresses = sorted({step[2] for step in steps})
    found = subprocess.run(["addr2line", "-f", "-e", program], input="\n".join(addresses), text=True, check=True,
                           stdout=subprocess.PIPE).stdout.splitlines()
    functions = {address: (os.path.relpath(found[2 * i + 1].rsplit(":", 1)[0]), found[2 * i])
                 for i, address in enumerate(addresses)}
    stacks, calls = collections.defaultdict(list), []
    for ns, thread, address, what in steps:
        stack = stacks[thread]
        if what == "+":
            calls.append(Call(sum(int(ns) >= phase for phase in phases), len(stack), functions[address],
                              stack[-1] if stack else None))
            stack.append(functions[address])
        elif stack:
            stack.pop()
    return calls


# ---- the sources --------------------------------------------------------------------------------------

class Definition:
    """What stands between two empty lines at the first level of a file."""

    def __init__(self, file, first, lines):
        comment = 0
        if lines[0].startswith("/*"):
            while comment < len(lines) and not lines[comment].rstrip().endswith("*/"):
                comment += 1
            comment += 1
        self.file, self.first = file, first + comment
        self.comment, self.lines = plain(lines[:comment]), lines[comment:]
        text = "\n".join(self.lines)
        head = text.split("{")[0]
        named = re.search(r"\b(?!__attribute__|_Static_assert)([a-z_][a-z_0-9]*)\s*\(", head)
        kind = re.match(r"(?:static |const |typedef )*(struct|enum|union) ([a-z_0-9]+) \{", text)
        self.is_function = bool(named and re.search(r"^\{", text, re.M) and not kind and "=" not in head)
        self.is_declaration = bool(named and not self.is_function and not kind and text.rstrip().endswith(";")
                                   and "{" not in text and "=" not in text and not text.startswith(("#", "typedef")))
        self.is_frame = not self.lines or all(re.match(r"#(include|ifndef|endif|pragma)|#define [A-Z0-9_]+_H$|(struct|enum) [a-z_0-9]+;$|$", line)
                                              for line in self.lines)
        self.is_conditional = text.startswith(("#if", "#el"))
        self.name = named[1] if named and (self.is_function or self.is_declaration) else None
        self.title = self.name or (f"{kind[1]} {kind[2]}" if kind else self.title_of(text))

    @staticmethod
    def title_of(text):
        macro = re.match(r"#define ([A-Za-z_0-9]+)", text)
        if macro:
            return macro[1]
        text = re.sub(r"/\*.*?\*/", "", text, flags=re.S)
        constant = re.match(r"enum \{\s*([A-Z_0-9]+)", text)
        if constant:
            return constant[1]
        variable = re.search(r"([a-z_][a-z_0-9]*)(\[[^]]*\])?( =|;)", text)
        return variable[1] if variable else ""

    @property
    def last(self):
        return self.first + len(self.lines) - 1


def plain(lines):
    """The words of a comment, a list of lines."""
    text = [re.sub(r"^\s*(/\*\*?|\*/|\*)?\s?", "", re.sub(r"\s*\*/\s*$", "", line)) for line in lines]
    while text and not text[0].strip():
        text.pop(0)
    while text and not text[-1].strip():
        text.pop()
    return text


def definitions(file):
    with open(file, encoding="utf-8") as source:
        lines = source.read().splitlines()
    found, begin, level, in_comment = [], None, 0, False
    for number, line in enumerate([*lines, ""]):
        if not line and level == 0 and not in_comment:
            if begin is not None:
                found.append(Definition(file, begin + 1, lines[begin:number]))
            begin = None
            continue
        if begin is None:
            begin = number
        code = re.sub(r'"(\\.|[^"\\])*"|\'(\\.|[^\'\\])*\'|/\*.*?\*/', "", line)
        if in_comment:
            in_comment = "*/" not in code
            continue
        in_comment = "/*" in code
        level += code.count("{") - code.count("}")
    return found


# ---- what the texts say -------------------------------------------------------------------------------

def inline(text):
    """Markdown inside a paragraph, as HTML."""
    text = html.escape(text, quote=False)
    text = re.sub(r"\[([^]]*)\]\([^)]*\)", r"\1", text)
    text = re.sub(r"`([^`]*)`", r"<code>\1</code>", text)
    text = re.sub(r"\*\*([^*]+)\*\*", r"<b>\1</b>", text)
    return re.sub(r"(^|[\s(])[*_]([^*_]+)[*_](?=[\s).,;:]|$)", r"\1<i>\2</i>", text)


def title_of(lines):
    return next((line[2:].strip() for line in lines if line.startswith("# ")), "")


def remarks(path, folder):
    """{(file, name or None): paragraphs} of a page of remarks."""
    found, at = collections.defaultdict(list), None
    if os.path.exists(path):
        with open(path, encoding="utf-8") as text:
            for paragraph in re.split(r"\n\s*\n", text.read()):
                heading = re.match(r"## ([a-z_]+\.[ch])(?:: ([a-z_0-9 ]+))?$", paragraph.strip())
                if heading:
                    at = os.path.join(folder, heading[1]), heading[2]
                elif paragraph.startswith("#"):
                    at = None
                elif at and not paragraph.startswith("```"):
                    found[at].append(paragraph)
    return found


def shown(pages):
    """{(file, name): [(title of the page, paragraph before the code)]}."""
    found = collections.defaultdict(list)
    for page in pages:
        with open(page, encoding="utf-8") as file:
            text = file.read()
        title, before = title_of(text.splitlines()), ""
        for paragraph in re.split(r"\n\s*\n", text):
            link = re.match(r"\[[a-z_]+\.[ch]: ([a-z_0-9 ]+)\]\(([^)]*)\)", paragraph)
            if link:
                path = os.path.normpath(os.path.join(os.path.dirname(page), link[2]))
                found[path, link[1]].append((title, before))
            is_prose = re.match(r"[A-Z*`(\[\"]", paragraph) and not re.match(r"\[[a-z_]+\.[ch]", paragraph)
            before = paragraph if is_prose else ""
    return found


# ---- commentary ---------------------------------------------------------------------------------------

def paragraphs(comment):
    """The paragraphs of a comment: (HTML, lines that it takes)."""
    found, words = [], []

    def end():
        if words:
            text = " ".join(words)
            found.append((f"<p>{inline(text)}</p>", -(-len(text) // CHARACTERS)))
            words.clear()
    for line in comment:
        if re.match(r"\s{2,}\S", line) and (not words or not words[0].startswith("- ")):
            end()
            found.append((f"<pre>{html.escape(line, quote=False)}</pre>", 1))
        elif not line.strip():
            end()
        else:
            if re.match(r"\s*- ", line):
                end()
            words.append(line.strip())
    end()
    return found


def prose(text, label):
    text = " ".join(text.split())
    size = -(-(len(text) + len(label)) // CHARACTERS)
    return f"<p><span class=\"from\">{html.escape(label)}</span> {inline(text)}</p>", size


class Listing:
    def __init__(self, stage, calls, linked):
        self.stage, self.calls, self.linked = stage, calls, linked
        self.number = stage[len("stage"):].split("-")[0]
        own = sorted(glob.glob(f"{stage}/*.[ch]"))
        self.files = {file: definitions(file) for file in [*linked, *own]}
        self.functions = {}
        by_name = collections.defaultdict(list)
        for file in self.files:
            for definition in self.files[file]:
                if definition.is_function:
                    self.functions[file, definition.name] = definition
                    by_name[definition.name].append((file, definition.name))
        self.comments = {}  # where a function is declared
        for file in self.files:
            for definition in self.files[file]:
                if definition.is_declaration and definition.comment:
                    self.comments.setdefault(definition.name, definition)
        # What a macro defines, the compiler finds where the macro stands.
        self.place = {call.function: call.function if call.function in self.functions else
                      (by_name[call.function[1]] or [None])[0] for call in calls}
        self.entered = collections.defaultdict(set)   # function: phases
        self.callers = collections.defaultdict(dict)  # function: functions
        for call in calls:
            place = self.place[call.function]
            if place:
                self.entered[place].add(call.when)
                if call.caller and self.place[call.caller]:
                    self.callers[place][self.place[call.caller]] = True
        self.remarks = remarks(f"docs/remarks/stage{self.number}.md", stage)
        self.shown = shown(sorted(glob.glob("docs/*.md")))
        self.order()
        self.lay_out()

    # ---- the order ----

    def unit(self, file):
        return re.sub(r"\.[ch]$", "", file)

    def order(self):
        """self.parts: (title, text, files), a header before its source."""
        own, when = self.stage + "/", {}
        for phase, _, _ in PARTS:
            for call in self.calls:
                place = self.place[call.function]
                if place and call.when == phase:
                    when.setdefault(self.unit(place[0]), phase)
        for file in self.files:
            if file.startswith(own):
                when.setdefault(self.unit(file), 0)
        phases = collections.defaultdict(set)
        for (file, _), entered in self.entered.items():
            phases[self.unit(file)] |= entered
        self.parts, self.unprinted = [], []
        for phase, title, text in PARTS:
            units = [unit for unit, first in when.items() if first == phase and
                     (phases[unit] != {0} or unit.startswith(own))]
            files = [unit + ending for unit in units for ending in (".h", ".c")
                     if not (unit + ending).startswith(BESIDE) and any(map(self.is_printed, self.files.get(unit + ending, [])))]
            if files:
                self.parts.append((title, text, files))
        printed = {file for _, _, files in self.parts for file in files}
        self.unprinted = [file for file in sorted(self.files) if file not in printed]

    def is_printed(self, definition):
        if definition.is_frame or definition.is_declaration or definition.is_conditional:
            return False
        own = definition.file.startswith(self.stage + "/")
        return own or not definition.is_function or (definition.file, definition.name) in self.entered

    # ---- the commentary ----

    def notes(self, definition):
        """[(HTML, height in mm)] of what faces a definition. {page of FILE NAME} is filled in at the end."""
        key = definition.file, definition.name
        lines = f"{definition.first}" + (f"–{definition.last}" if definition.last > definition.first else "")
        found = [(f"<h3><code>{html.escape(definition.title)}</code> <span>{lines}</span></h3>", NAME_MM)]
        if definition.is_function:
            callers = [caller for caller in self.callers[key] if caller in self.functions]
            names = ", ".join(f"<code>{name}</code> {{{file} {name}}}" for file, name in callers[:8])
            size = sum(len(name) + 6 for _, name in callers[:8])
            if key not in self.entered:
                found.append(('<p class="calls">A server with echo does not call it.</p>', LINE_MM))
            elif callers:
                found.append((f'<p class="calls">Called by {names}.</p>', -(-(size + 10) // CHARACTERS) * LINE_MM))
        comments = paragraphs(definition.comment)
        declared = self.comments.get(definition.name) if definition.is_function else None
        if declared:
            comments += paragraphs(declared.comment)
        for text in self.remarks.get((definition.file, definition.name or definition.title), []):
            comments.append(prose(text, "What has changed:"))
        for title, text in self.shown.get((definition.file, definition.name or definition.title), [])[:3]:
            if text:
                comments.append(prose(text, title + ":"))
        return found + [(text, lines * LINE_MM + GAP_MM) for text, lines in comments]

    def notes_of_file(self, file):
        opening = next((each.comment for each in self.files[file] if each.comment and each.is_frame), [])
        found = [(f'<h2 id="notes-{file}">{file}</h2>', 9)]
        comments = paragraphs(opening) + [prose(text, "What has changed:") for text in self.remarks.get((file, None), [])]
        left_out = [each.name for each in self.files[file] if each.is_function and not self.is_printed(each)]
        if left_out:
            text = ", ".join(f"`{name}`" for name in left_out)
            comments.append(prose(text + ".", "Not printed, because a server with echo does not call it:"))
        return found + [(text, lines * LINE_MM + GAP_MM) for text, lines in comments]

    # ---- pages ----

    def lay_out(self):
        """Fills self.spreads: what stands on two pages that face each other."""
        self.spreads, self.pages, self.contents, self.carried = [], {}, [], []
        self.open_spread()
        for number, (title, text, files) in enumerate(self.parts, 1):
            head = [(f"<h1>Part {number}: {title}</h1><p>{text}</p>", 16)]
            self.contents.append((0, f"{number}. {title}", None))
            for file in files:
                self.lay_out_file(file, head)
                head = []

    def open_spread(self):
        carried, self.carried = self.carried, []
        self.spreads.append({"notes": [], "code": [], "lines": 0, "mm": 0})
        self.add_notes(carried)

    def add_notes(self, notes):
        """What is too much for the page goes to the next one."""
        spread = self.spreads[-1]
        for note in notes:
            if self.carried or (spread["mm"] + note[1] > NOTES_MM and spread["notes"]):
                self.carried.append(note)
            else:
                spread["notes"].append(note[0])
                spread["mm"] += note[1]

    def lay_out_file(self, file, head):
        printed = [each for each in self.files[file] if self.is_printed(each)]
        head, last = head + self.notes_of_file(file), None
        for definition in printed:
            notes = head + self.notes(definition)
            need = min(len(definition.lines), UNCUT_LINES) + (3 if head else 0) + 1
            height = sum(mm for _, mm in notes)
            spread = self.spreads[-1]
            if spread["code"] and (spread["lines"] + need > CODE_LINES or self.carried or
                                   spread["mm"] + min(height, NOTES_MM / 2) > NOTES_MM):
                self.open_spread()
            if head:
                if self.contents[-1][2] is None:
                    self.contents[-1] = (*self.contents[-1][:2], len(self.spreads))
                self.contents.append((1, file, len(self.spreads)))
                self.add_code('<div class="file">' + file + "</div>", 3)
            elif self.spreads[-1]["code"]:
                gap = "gap" if definition.first - last > len(definition.comment) + 3 else ""
                self.add_code(f'<div class="line {gap}"><i></i><code>{"⋮" if gap else ""}</code></div>', 1)
            self.pages[file, definition.name or definition.title] = len(self.spreads)
            self.add_notes(notes)
            for number, line in enumerate(definition.lines, definition.first):
                if self.spreads[-1]["lines"] >= CODE_LINES:
                    self.open_spread()
                    self.add_notes([(f"<h3><code>{html.escape(definition.title)}</code> <span>goes on</span></h3>", NAME_MM)])
                name = f' id="{file}-{definition.name}"' if number == definition.first and definition.name else ""
                self.add_code(f'<div class="line"{name}><i>{number}</i><code>{html.escape(line, quote=False)}</code></div>', 1)
            head, last = [], definition.last

    def add_code(self, code, lines):
        self.spreads[-1]["code"].append(code)
        self.spreads[-1]["lines"] += lines

    # ---- the whole ----

    def front(self):
        """Everything before the code, as pages; their count is odd, so that code stands on right pages."""
        pages = [self.title_page()]
        rows = [f'<div class="part"><span>{text}</span><b>{{spread {spread}}}</b></div>' if level == 0 else
                f'<div><span><code>{text}</code></span><b>{{spread {spread}}}</b></div>'
                for level, text, spread in self.contents]
        rows += ['<div class="part"><span>Index of functions</span><b>{index}</b></div>',
                 '<div class="part"><span>What is linked and not printed</span><b>{unprinted}</b></div>']
        pages += columns("Contents", rows, 2, 58)
        pages += columns("The way of a line", self.way(), 2, 72,
                         "Each function that a line makes the server enter, below the one that called it first; in the "
                         "order in which that happens, with the page of its commentary.")
        if len(pages) % 2 == 0:
            pages[0:1] = [self.cover(), pages[0]]
        return pages

    def cover(self):
        return f'<div class="cover"><h1>Stage {self.number}</h1><p>a listing with commentary</p></div>'

    def title_page(self):
        return f"""<div class="cover"><h1>Stage {self.number}: {self.stage.split("-", 1)[1].replace("-", " ")}</h1>
<p>The source of the server and of the core that it runs, with commentary on the facing page.</p></div>
<p>Print it on both sides, and bind it on the left: then commentary stands on the left pages, and the code that it is about
on the right ones. The lines have the numbers that they have in the files.</p>
<p>The files stand in the order in which one line of echo passes them, then those that a client's arrival and end need. We got
that order from the server itself, which noted each function that it entered while one client sent two lines.
Of the files in <code>common/</code> you find types, tables, and the functions that it entered; what else they have is named. Of the
folder <code>{self.stage}</code> you find everything. An application is served in the same way, so
<code>echo.c</code> is the only one here.</p>
<p>Begin with <i>The way of a line</i>, follow it once with a finger, and look each function up as you come to it.</p>
<p>The commentary is made of the comments in the sources, of the chapters, and of the remarks on what has changed since the stage
before, as on the site of the course.</p>"""

    def way(self):
        seen, rows, top = set(), [], None
        for call in self.calls:
            place = self.place[call.function]
            if call.when == 2 and place and place not in seen and place in self.pages:
                seen.add(place)
                top = call.depth if top is None else min(top, call.depth)
                rows.append((call.depth, place))
        return [f'<div style="padding-left: {min(depth - top, 14) * 2:.0f}mm"><span><code>{name}</code></span>'
                f'<b>{{{file} {name}}}</b></div>' for depth, (file, name) in rows]

    def index(self):
        rows = [f'<div><span><code>{name}</code></span><b>{{{file} {name}}}</b></div>'
                for file, name in sorted(self.pages, key=lambda key: (key[1], key[0])) if (file, name) in self.functions]
        return columns("Index of functions", rows, 3, 76)

    def not_printed(self):
        rows = [f"<div><span><code>{file}</code></span></div>" for file in self.unprinted]
        return columns("What is linked and not printed", rows, 2, 58,
                       "These files are part of this server. With echo it enters nothing of them, or only while it "
                       "starts (options, for instance); or it looks on, for an operator or for a picture, or turns addresses into text and "
                       "back; or they have nothing but declarations, whose comments stand beside the functions.")

    def html(self):
        if self.carried:
            raise SystemExit("listing: the commentary on the last page does not fit")
        front = self.front()
        first = len(front) + 1

        def page_of_spread(number):
            return first + 2 * (number - 1)
        body = []
        for spread in self.spreads:
            body += [("notes", "".join(spread["notes"])), ("code", "".join(spread["code"]))]
        index, unprinted = self.index(), self.not_printed()
        text = [("front", page) for page in front] + body + [("front", page) for page in index + unprinted]
        places = {"{index}": first + len(body), "{unprinted}": first + len(body) + len(index)}

        def fill(found):
            what = found[0]
            if what in places:
                return str(places[what])
            spread = re.match(r"\{spread (\d+)\}", what)
            if spread:
                return str(page_of_spread(int(spread[1])))
            file, name = what[1:-1].split()
            return str(page_of_spread(self.pages[file, name])) if (file, name) in self.pages else ""
        pages = []
        for number, (kind, page) in enumerate(text, 1):
            side = "left" if number % 2 == 0 else "right"
            pages.append(f'<section class="page {kind} {side}"><header><span>Stage {self.number}</span><b>{number}</b></header>'
                         f'<div class="body">' + re.sub(r"\{(?:index|unprinted|spread \d+|[a-z0-9_/.-]+\.[ch] [a-z_0-9]+)\}",
                                                        fill, page) + "</div></section>")
        with open(os.path.join(os.path.dirname(__file__), "listing.css"), encoding="utf-8") as style:
            return (f'<!doctype html>\n<html lang="en"><head><meta charset="utf-8"><title>Stage {self.number}, a listing'
                    f"</title><style>{style.read()}</style></head><body>\n" + "\n".join(pages) + "\n</body></html>\n"), len(pages)


def columns(title, rows, count, height, text=""):
    """Pages of short lines in columns."""
    pages, head = [], f"<h1>{title}</h1>" + (f"<p>{text}</p>" if text else "")
    for at in range(0, len(rows), count * height):
        part = rows[at:at + count * height]
        cells = "".join('<div class="column">' + "".join(part[i:i + height]) + "</div>" for i in range(0, len(part), height))
        pages.append(head + f'<div class="columns of{count}">{cells}</div>')
        head = f"<h1>{title}, continued</h1>" + (f"<p>{text}</p>" if text else "")
    return pages


def made(program, stage, linked):
    with open(linked, encoding="utf-8") as file:
        files = sorted(line.split()[1] for line in file)
    return Listing(stage, record(program), files)


def print_to_pdf(target):
    """Lets a browser print it, where one is at hand. The path of the PDF, or None."""
    browser = next(filter(None, map(shutil.which, ("chromium", "google-chrome"))), None)
    if browser is None:
        return None
    pdf = target.replace(".html", ".pdf")
    with tempfile.TemporaryDirectory(prefix="listing.") as profile:
        subprocess.run([browser, "--headless", "--no-sandbox", "--disable-gpu", "--no-pdf-header-footer",
                        f"--user-data-dir={profile}", f"--print-to-pdf={pdf}", "file://" + os.path.abspath(target)],
                       check=True, timeout=300, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    return pdf


def main():
    program, stage, linked, target = sys.argv[1:]
    text, pages = made(program, stage, linked).html()
    with open(target, "w", encoding="utf-8") as file:
        file.write(text)
    pdf = print_to_pdf(target)
    print(f"listing: {target}" + (f" and {pdf}" if pdf else "") + f", {pages} pages")


if __name__ == "__main__":
    main()
