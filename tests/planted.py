#!/usr/bin/env python3
"""Plants faults of one line into the servers, one at a time, and reports those that no test notices.

  usage: tests/planted.py FOLDER --sources FILE.c... --suites NAME=COMMAND...
             [--count N --seed N | --faults FILE]            (`make plant` calls this)
         tests/planted.py FOLDER --kept FOLDER_OF_PATCHES --suites NAME=COMMAND...
                                                             (`make test-planted` calls this)

It works in a copy of the project, FOLDER/tree, and never changes the project itself. With --kept it plants
faults that no test had noticed once, and that have tests now: see keep_watch().

 1. The map. Every suite runs once with gcc's counters, so we know which suites run a line, and how
    long each of them takes. The map is kept in FOLDER/map.json until a source or a test changes.
 2. The faults. The seed chooses among all places in the functions of the sources where one of these
    can be planted; or FILE lists them, in the form in which this script prints them:
      - a comparison, an `&&` or an arithmetic operator is turned (`<` becomes `<=`, `+` becomes `-`)
      - a constant changes by one, `true` becomes `false`
      - the condition of an `if` or a `while` is negated
      - a statement that fits on one line is taken out
    No fault is planted where no test could observe it: in comments, strings, asserts, test points,
    what is logged or traced, and in an `if` that only decides whether to log or to trace.
 3. Each fault. If it does not compile, or compiles to the same object as before, it is left out and
    the seed chooses another one. If it does, the suites that run its line run until one of them
    fails, the quickest suite first. A test that fails runs once more alone, because on a busy
    machine a test may fail without a fault. A suite that does not end in ten times its time and
    five minutes has noticed the fault, too.

Prints each fault that was not noticed, and a summary. FOLDER/noticed.txt says which test noticed each
of the others. The exit status is 0 whatever was noticed, because some faults change nothing that can
be seen: that is for a reader to judge. It is 1 if a suite fails before any fault is planted.
"""

import argparse
import collections
import concurrent.futures
import hashlib
import json
import os
import pathlib
import random
import re
import resource
import shutil
import signal
import subprocess
import sys
import time

TURNED = {"<": "<=", "<=": "<", ">": ">=", ">=": ">", "==": "!=", "!=": "==", "&&": "||", "||": "&&",
          "+": "-", "-": "+", "*": "/", "/": "*", "%": "/", "&": "|", "|": "&", "+=": "-=", "-=": "+=",
          "++": "--", "--": "++", "true": "false", "false": "true"}
OPERATOR = re.compile(r"(?<= )(?:[<>=!]=|[<>+*/%&|-]|&&|\|\||[+-]=)(?= )|\+\+|--|\b(?:true|false)\b")
NUMBER = re.compile(r"(?<![\w.])\d+(?![\w.])")
CONDITION = re.compile(r"\b(?:if|while) \((.*)\)(?: \{|;)?$")
STATEMENT = re.compile(r"\s+(?!return\b|goto\b|case\b|default\b|else\b)[a-z_(*+-].*;$")
UNSEEN = re.compile(r"\b(?:log_write|log_limited|trace_\w+|TEST_POINT|assert|static_assert)\b")
TEXT = re.compile(r'/\*.*?\*/|//[^\n]*|"(?:\\.|[^"\\])*"|\'(?:\\.|[^\'\\])*\'|^[ \t]*#(?:\\\n|.)*?$',
                  re.DOTALL | re.MULTILINE)
LISTED = re.compile(r"^- (.+?):(\d+): `(.*)` became `(.*)`$", re.MULTILINE)

MEMORY = 12 << 30  # bytes of data for each process, because a fault may allocate forever

Fault = collections.namedtuple("Fault", "file line old new")  # lines as they stand in the file


def show(fault):
    return f"{fault.file}:{fault.line}: `{fault.old.strip()}` became `{fault.new.strip()}`"


# ---- where faults can be planted --------------------------------------------------------------


def blanked(source):
    """The source without comments, strings and directives, every other character at its place."""
    return TEXT.sub(lambda match: re.sub(r"[^\n]", "\a", match.group()), source).split("\n")


def balance(line):
    return line.count("(") - line.count(")")


def unseen(lines):
    """The numbers (from 0) of the lines whose effect no test can observe."""
    numbers = set()
    for start, line in enumerate(lines):
        if UNSEEN.search(line):
            end, depth = start, balance(line)
            while depth > 0:
                end += 1
                depth += balance(lines[end])
            numbers.update(range(start, end + 1))
            if start > 0 and re.match(r"\s+(?:if \(.*\)|else)$", lines[start - 1]):
                numbers.add(start - 1)
    return numbers


def changes(line, begins):
    """All that one line can become; begins: a statement begins here."""
    for match in OPERATOR.finditer(line):
        yield match.start(), match.end(), TURNED[match.group()]
    for match in NUMBER.finditer(line):
        number = int(match.group())
        yield match.start(), match.end(), str(number - 1 if number > 0 else 1)
    match = CONDITION.search(line)
    if match and balance(match.group(1)) == 0:
        yield match.start(1), match.end(1), f"!({line[match.start(1):match.end(1)]})"
    if begins and balance(line) == 0 and STATEMENT.match(line):
        yield len(line) - len(line.lstrip()), len(line), ";"


def places(file, source):
    """All faults that can be planted in a file: in its functions, which clang-format lays out so that
    a body is what stands between two braces in the first column."""
    texts, lines = source.split("\n"), blanked(source)
    hidden = unseen(lines)
    inside, before = False, ""
    for number, line in enumerate(lines):
        if line == "{":
            inside = True
        elif line.startswith("}"):
            inside = False
        elif inside and number not in hidden:
            begins = re.search(r"(?:^|[;{}:)]|else|\a)$", before) is not None
            for start, end, new in changes(line, begins):
                if "\a" in new:  # a condition with a string in it
                    new = f"!({texts[number][start:end]})"
                text = texts[number]
                yield Fault(file, number + 1, text, text[:start] + new + text[end:])
        before = line.rstrip()


def listed(file, tree, sources):
    """The faults of a list. Where lines have moved, the one with that text that is nearest."""
    for name, line, old, new in LISTED.findall(pathlib.Path(file).read_text()):
        lines = (tree / name).read_text().split("\n") if name in sources else []
        same = [number for number, text in enumerate(lines, 1) if text.strip() == old]
        if not same:
            print(f"planted: left out: no source {name} has the line `{old}`")
            continue
        number = min(same, key=lambda each: abs(each - int(line)))
        yield Fault(name, number, lines[number - 1], new)


# ---- building and running ---------------------------------------------------------------------


class Suite:
    def __init__(self, argument):
        self.name, self.command = argument.split("=", 1)
        self.products = re.findall(r"\$OUT/([\w./-]+)", self.command)
        self.seconds = 0.0


class Tree:
    """The copy of the project, in which things are built and run."""

    def __init__(self, folder, log=None):
        self.path = folder / "tree"
        self.log = log or folder / "log"
        self.planted = folder / "planted"
        self.old = []
        self.environment = {name: value for name, value in os.environ.items()
                            if name not in ("MAKEFLAGS", "MFLAGS", "MAKELEVEL", "SERVER", "SANITIZER")}

    def begin(self, products):
        """From here to end() objects may have faults in them, and be newer than the next copy of their sources."""
        self.planted.write_text(" ".join(products))

    def end(self):
        """All sources are as they were, with the time of now; and now all objects are, too."""
        if self.make(self.planted.read_text().split()):
            self.planted.unlink()

    def copy(self, top, build):
        """Copies with the times, so that make builds only what has changed since the last copy."""
        self.path.mkdir(parents=True, exist_ok=True)
        if self.planted.exists(): # nobody has come to the end
            shutil.rmtree(self.path / "build", ignore_errors=True)
            self.planted.unlink()
        for each in self.path.iterdir():
            if each.name not in ("build", "counted"):
                shutil.rmtree(each) if each.is_dir() else each.unlink()
        for each in top.iterdir():
            if each.name.startswith(".") or each.name in ("lab", "build") or each.resolve() == build:
                continue
            if each.is_dir():
                shutil.copytree(each, self.path / each.name, symlinks=True)
            else:
                shutil.copy2(each, self.path)

    def copy_built(self, build):
        """Takes what is built already, with the times, into a tree in which nothing is. From here on objects stay
        although the flags are others: `make` warns of what a fault leaves unused."""
        self.old = ["-o", "build/flags"]
        flags = build / "flags"
        if (self.path / "build").exists() or not flags.exists() or "-DNDEBUG" in flags.read_text():
            return
        (self.path / "build").mkdir()
        for each in build.iterdir():
            if not each.is_dir():
                shutil.copy2(each, self.path / "build")
            elif each.name in ("obj", "obj-points", "contract", "tests"):
                shutil.copytree(each, self.path / "build" / each.name)

    def digest(self, suites):
        digest = hashlib.sha256(repr([suite.command for suite in suites]).encode())
        for each in sorted(self.path.rglob("*")):
            if each.suffix in (".c", ".h", ".sh", "") and each.is_file() and \
                    each.relative_to(self.path).parts[0] not in ("build", "counted"):
                digest.update(str(each).encode() + each.read_bytes())
        return digest.hexdigest()

    def make(self, products, out="build", flags="-O2"):
        command = ["make", "--no-print-directory", f"-j{os.cpu_count()}", f"BUILD={out}", "CC=gcc",
                   f"CFLAGS={flags}", "WARNINGS=-w", *self.old, *(f"{out}/{each}" for each in products)]
        with open(self.log, "w") as log:
            return subprocess.run(command, cwd=self.path, env=self.environment, stdin=subprocess.DEVNULL,
                                  stdout=log, stderr=log, check=False).returncode == 0

    def run(self, suite, out="build", pattern=None, bound=600):
        """Whether the suite passes. None if it has not ended in time."""
        environment = dict(self.environment, OUT=out, BUDGET=str(bound), CRITERION_FAIL_FAST="1")
        if pattern:
            environment["CRITERION_TEST_PATTERN"] = pattern
        with open(self.log, "w") as log:
            process = subprocess.Popen(["sh", "-c", suite.command], cwd=self.path, env=environment,
                                       stdin=subprocess.DEVNULL, stdout=log, stderr=log,
                                       start_new_session=True)
            try:
                return process.wait(bound + 30) == 0
            except subprocess.TimeoutExpired:
                os.killpg(process.pid, signal.SIGKILL)
                process.wait()
                return None

    def failed(self):
        """The tests that have failed in the last run."""
        output = self.log.read_text(errors="replace")
        return sorted(set(re.findall(r"^\[FAIL\] ([^\s:]+::[^\s:]+):", output, re.MULTILINE)))

    def notices(self, suite, pattern=None, **options):
        """What a suite, or some of its tests, fails with, twice; None if it passes."""
        for _ in range(2):
            passes = self.run(suite, pattern=pattern, **options)
            if passes is not False:
                return None if passes else "it did not end"
            names = self.failed()
            again = "@(" + "|".join(name.replace("::", "/") for name in names) + ")"
            if not self.run(suite, pattern=again if names else pattern, **options):
                return ", ".join(self.failed() or names) or "it failed"
        return None


# ---- the map ----------------------------------------------------------------------------------


def lines_run(tree):
    """How often each line of the servers was run: {file: {line: count}}."""
    notes = [str(each.relative_to(tree.path)) for folder in ("obj", "obj-points")
             for each in (tree.path / "counted" / folder).rglob("*.gcno") if "tests" not in each.parts]
    output = subprocess.run(["gcov", "--json-format", "--stdout", *sorted(notes)], cwd=tree.path,
                            capture_output=True, text=True, check=True).stdout
    counts = collections.defaultdict(collections.Counter)
    for document in output.splitlines():
        for each in json.loads(document)["files"]:
            for line in each["lines"]:
                counts[each["file"]][line["line_number"]] += line["count"]
    return counts


def make_map(tree, suites, sources):
    """{file: {line: [number of each suite that runs it]}}, and how long each suite takes."""
    products = sorted({each for suite in suites for each in suite.products})
    if not tree.make(products, out="counted", flags="-O0 --coverage") or not tree.make(products):
        sys.exit(tree.log.read_text() + "planted: the project does not build")
    lines = {file: collections.defaultdict(list) for file in sources}
    for number, suite in enumerate(suites):
        for each in (tree.path / "counted").rglob("*.gcda"):
            each.unlink()
        trouble = tree.notices(suite, out="counted")
        if trouble:
            sys.exit(tree.log.read_text(errors="replace") +
                     f"planted: {suite.name} fails before a fault is planted: {trouble}")
        for file, counts in lines_run(tree).items():
            for line, count in counts.items():
                if file in lines:
                    lines[file][line] += [number] if count else []
        started = time.monotonic()
        tree.run(suite)
        suite.seconds = time.monotonic() - started
        print(f"planted: map: {suite.name}, {suite.seconds:.1f} s", flush=True)
    return {"lines": lines, "seconds": [suite.seconds for suite in suites]}


def kept_map(folder, tree, suites, sources):
    file, digest = folder / "map.json", tree.digest(suites)
    if not file.exists() or json.loads(file.read_text())["digest"] != digest:
        known = make_map(tree, suites, sources)
        file.write_text(json.dumps(dict(known, digest=digest)))
    known = json.loads(file.read_text())
    for suite, seconds in zip(suites, known["seconds"]):
        suite.seconds = seconds
    return known["lines"]


def suites_of(fault, lines, suites):
    """The suites that run the line, or the one before it that gcc counts; the quickest first."""
    counted = [line for line in map(int, lines[fault.file]) if line <= fault.line]
    numbers = lines[fault.file][str(max(counted))] if counted else []
    return sorted((suites[number] for number in numbers), key=lambda suite: suite.seconds)


# ---- planting ---------------------------------------------------------------------------------


def try_fault(fault, tree, suites):
    """What has noticed the fault; None if nothing has; False if it is no fault."""
    source = tree.path / fault.file
    text = source.read_text()
    product = "obj/" + fault.file[:-2] + ".o"
    tree.make([product])
    before = (tree.path / "build" / product).read_bytes()
    lines = text.split("\n")
    lines[fault.line - 1] = fault.new
    source.write_text("\n".join(lines))
    try:
        if not tree.make([product]) or (tree.path / "build" / product).read_bytes() == before:
            return False
        for suite in suites:
            if not tree.make(suite.products):
                print(f"planted: left out, because it does not link: {show(fault)}", flush=True)
                return False
            trouble = tree.notices(suite, bound=300 + round(10 * suite.seconds))
            if trouble:
                return f"{suite.name}: {trouble}"
        return None
    finally:
        source.write_text(text)


# ---- faults that are kept ---------------------------------------------------------------------


class Kept:
    """A patch. Above it stands what a user would see, and a line `noticed by: SUITE: PATTERN` for each suite
    that has to fail; PATTERN chooses its tests."""

    def __init__(self, file, suites):
        self.name, self.file, self.trouble = file.stem, file, None
        by_name = {suite.name: suite for suite in suites}
        demands = re.findall(r"^noticed by: (.+?): (.+)$", file.read_text().split("\n--- ")[0], re.MULTILINE)
        if not demands or any(suite not in by_name for suite, _ in demands):
            sys.exit(f"planted: {file}: has to say `noticed by: SUITE: PATTERN`; there are: {', '.join(by_name)}")
        self.demands = [(by_name[suite], pattern) for suite, pattern in demands]

    def products(self):
        return sorted({each for suite, _ in self.demands for each in suite.products})

    def patch(self, tree, *options):
        command = ["patch", "-s", "-f", "-p1", "--no-backup-if-mismatch", *options, "-i", str(self.file.resolve())]
        return subprocess.run(command, cwd=tree.path, check=False).returncode == 0


def put_aside(tree, fault, name):
    """Copies what a fault's suites run, so that the next fault can be built meanwhile; where that is."""
    for each in fault.products():
        place = tree.path / name / each
        place.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(tree.path / "build" / each, place)
    return name


def passes_without(tree, suite, pattern):
    """Whether tests pass, and there are some, as long as nothing is planted."""
    run = Tree(tree.path.parent, tree.path.parent / "log.without")
    return run.run(suite, pattern=pattern) and re.search(r"Tested: .*?[1-9]", run.log.read_text(errors="replace"))


def watch(folder, fault, out):
    """Runs what has to notice a fault, and says so in fault.trouble if something does not."""
    tree = Tree(folder, folder / f"log.{fault.name}")
    for suite, pattern in fault.demands:
        if not tree.notices(suite, out=out, pattern=pattern, bound=120):
            fault.trouble = f"is not noticed by {suite.name}, {pattern}"
    shutil.rmtree(tree.path / out)


def keep_watch(folder, patches, suites):
    """Plants the faults that are kept, one after the other, and builds only what each of them changes. The tests
    of two run at a time. Prints those that survive; whether there is none."""
    faults = [Kept(file, suites) for file in sorted(patches.glob("*.patch"))]
    tree = Tree(folder)
    tree.copy(pathlib.Path.cwd(), folder.parent)
    tree.copy_built(folder.parent)
    products = sorted({each for fault in faults for each in fault.products()})
    if not tree.make(products):
        sys.exit(tree.log.read_text() + "planted: the project does not build")
    for suite, pattern in sorted({demand for fault in faults for demand in fault.demands}, key=lambda each: each[1]):
        if not passes_without(tree, suite, pattern):
            sys.exit(f"planted: {suite.name}, {pattern}: fails before a fault is planted, or there is no such test")
    tree.begin(products)
    watched = []
    with concurrent.futures.ThreadPoolExecutor(2) as pool:
        for fault in faults:
            if not fault.patch(tree, "--dry-run") or not fault.patch(tree):
                fault.trouble = "cannot be planted: its patch does not apply"
                continue
            if tree.make(fault.products()):
                out = put_aside(tree, fault, f"build/kept/{fault.name}")
                watched.append(pool.submit(watch, folder, fault, out))
            else:
                fault.trouble = "does not build"
            fault.patch(tree, "-R")
        tree.end()
    for each in watched:
        each.result()
    for fault in faults:
        if fault.trouble:
            print(f"planted: FAILED: {fault.file.name} {fault.trouble}")
    failed = sum(fault.trouble is not None for fault in faults)
    print(f"{len(faults) - failed} passed, {failed} failed")
    return failed == 0


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("folder", type=pathlib.Path)
    parser.add_argument("--sources", nargs="+")
    parser.add_argument("--suites", nargs="+", type=Suite)
    parser.add_argument("--count", type=int)
    parser.add_argument("--seed", type=int)
    parser.add_argument("--faults")
    parser.add_argument("--kept", type=pathlib.Path)
    arguments = parser.parse_args()
    folder, suites = arguments.folder.resolve(), arguments.suites
    resource.setrlimit(resource.RLIMIT_DATA, (MEMORY, MEMORY))

    if arguments.kept:
        folder.mkdir(parents=True, exist_ok=True)
        return 0 if keep_watch(folder, arguments.kept, suites) else 1
    tree = Tree(folder)
    tree.copy(pathlib.Path.cwd(), folder.parent)
    lines = kept_map(folder, tree, suites, arguments.sources)
    if arguments.faults:
        faults = list(listed(arguments.faults, tree.path, arguments.sources))
        count = len(faults)
    else:
        faults = [fault for file in sorted(arguments.sources)
                  for fault in places(file, (tree.path / file).read_text())]
        random.Random(arguments.seed).shuffle(faults)
        count = arguments.count

    noticed, missed, left_out = [], [], 0
    tree.begin(sorted({each for suite in suites for each in suite.products}))
    for fault in faults:
        if len(noticed) + len(missed) == count:
            break
        found = try_fault(fault, tree, suites_of(fault, lines, suites))
        if found is False:
            left_out += 1
        elif found:
            noticed.append(f"- {show(fault)}: {found}\n")
            (folder / "noticed.txt").write_text("".join(noticed))
        else:
            missed.append(fault)
            print(f"- {show(fault)}", flush=True)
    tree.end()
    print(f"{len(noticed) + len(missed)} faults planted, {len(noticed)} noticed, {len(missed)} not noticed; "
          f"{left_out} left out that do not compile or change nothing")
    return 0


if __name__ == "__main__":
    sys.exit(main())
