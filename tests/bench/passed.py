"""Counts what a warm line of echo passes in each stage: functions, files and lines of source; and what programs link.

    usage: counts.py calls this (make bench-line)

The servers of a tree are built once more for gcov, without optimisation. One client sends a line, waits until it comes back,
and lets the server fall asleep before the next one. Each server runs twice, with few lines and with many: what the longer run
has more, divided by the lines that it has more, is what a line passes. No folding makes the lines of source fewer, as it
does the calls.
"""

import collections
import glob
import json
import os
import signal
import socket
import subprocess
import tempfile
import time

FEW, MANY = 20, 120
PAUSE = 0.004  # seconds in which the server's threads fall asleep
FLAGS = "-O0 -g --coverage -fprofile-update=atomic"

Passed = collections.namedtuple("Passed", "calls files lines by_file")


def make(tree, build, *goals):
    """A make of its own, which inherits no flags and no jobserver of the one that called us."""
    environment = {name: value for name, value in os.environ.items() if name not in ("MAKEFLAGS", "MAKELEVEL", "MFLAGS")}
    subprocess.run(["make", "--no-print-directory", "-s", "-C", tree, f"BUILD={build}", "CC=gcc", *goals],
                   check=True, stdout=subprocess.DEVNULL, env=environment)


def serve(server, count, tree):
    """Lets a server answer lines, one at a time, until it is told to stop."""
    with subprocess.Popen(server, stdout=subprocess.PIPE, text=True, cwd=tree) as process:
        port = int(process.stdout.readline().rsplit(":", 1)[1])
        with socket.create_connection(("127.0.0.1", port), timeout=10) as client:
            for _ in range(count):
                client.sendall(b"hello\n")
                if client.recv(100) != b"hello\n":
                    raise SystemExit(f"bench: {server[0]} did not echo a line")
                time.sleep(PAUSE)
        process.send_signal(signal.SIGTERM)
        process.wait(timeout=10)


def given(stage):
    """The files that no step shows up to the end of a stage (tests/given.txt)."""
    with open("tests/given.txt", encoding="utf-8") as file:
        words = [line.split() for line in file if line.strip() and not line.startswith("#")]
    return {word[0] for word in words if word[1] != "until" or int(word[2].split(".")[0]) > stage}


def counters(objects):
    return sorted(path for folder in objects for path in glob.glob(os.path.join(folder, "*.gcda")))


def executions(tree, objects):
    """How often each line and each function of the tree has been executed."""
    counts = collections.Counter()
    with tempfile.TemporaryDirectory() as folder:
        said = subprocess.run(["gcov", "--json-format", "--stdout", *counters(objects)],
                              check=True, capture_output=True, cwd=tree, env=dict(os.environ, TMPDIR=folder)).stdout
    for found in said.splitlines():
        for file in json.loads(found)["files"]:
            if file["file"].startswith("/"):
                continue
            for line in file["lines"]:
                counts[file["file"], line["line_number"]] += line["count"]
            for function in file["functions"]:
                counts[file["file"], function["name"]] += function["execution_count"]
    return counts


def a_line(tree, server, objects):
    """What a warm line passes in a server that gcov counts."""
    runs = []
    for count in (FEW, MANY):
        for path in counters(objects):
            os.unlink(path)
        serve(server, count, tree)
        runs.append(executions(tree, objects))
    few, many = runs
    each = {place: (many[place] - few[place]) / (MANY - FEW) for place in many}
    lines = {place: count for place, count in each.items() if isinstance(place[1], int)}
    by_file = collections.Counter()
    for (file, _), count in lines.items():
        by_file[file] += count
    calls = {place: count for place, count in each.items() if place not in lines}
    files = {file for (file, _), count in calls.items() if count >= 0.9}
    return Passed(sum(calls.values()), len(files), sum(lines.values()), by_file)


def of_tree(tree, build, servers):
    """What a warm line passes in these servers of a tree. servers(folder) are command lines by name, below a folder."""
    build = os.path.join(build, "passed")
    make(tree, build, f"CFLAGS={FLAGS}", "all")
    folder = os.path.abspath(os.path.join(tree, build))
    rooms = [path for path, _, _ in os.walk(os.path.join(folder, "obj", "common"))]

    def objects(server):
        return rooms + [os.path.join(folder, "obj", os.path.basename(server[0]))]

    return {name: a_line(tree, server, objects(server)) for name, server in servers(folder).items()}


def of_steps(tree, build, steps):
    """What a warm line passes in the programs of these steps, built for gcov as of_tree() builds the stages. Most have no end, and
    are given one (exits.c)."""
    build = os.path.join(build, "passed")
    make(tree, build, f"CFLAGS={FLAGS}", "all", "step-programs")
    folder = os.path.abspath(os.path.join(tree, build))
    rooms = [path for path, _, _ in os.walk(os.path.join(folder, "obj", "common"))]
    exits = os.path.join(folder, "exits.so")
    subprocess.run(["gcc", "-shared", "-fPIC", "-o", exits, os.path.join(tree, "tests", "bench", "exits.c")], check=True)

    def of_step(step):
        room = os.path.join(folder, "steps", step)
        server = ["env", f"LD_PRELOAD={exits}", os.path.join(room, f"step{step}"), "--port", "0"]
        return a_line(tree, server, [*rooms, room])

    return {f"step {step}": of_step(step) for step in steps}


# ---- what programs link -----------------------------------------------------------------------

def is_core(file):
    return os.path.basename(file).startswith(("connection", "input_queue", "output_chain"))


def is_below(*rooms):
    return lambda file: file.startswith(tuple(f"common/{room}/" for room in rooms))


COUNTED = {
    "common/": lambda file: True,
    "bytes/ and server/": is_below("bytes", "server"),
    "connection*, input_queue*, output_chain*": is_core,
}


def linked(tree, build, program):
    """The lines of code of each file of common/ that a step or a stage links with echo alone."""
    make(tree, build, "all", "step-programs")
    steps = os.path.abspath(os.path.join(os.path.dirname(__file__), "..", "steps.sh"))
    said = subprocess.run([steps, "linked", program], check=True, capture_output=True, text=True, cwd=tree,
                          env=dict(os.environ, OUT=build, LIBRARIES="-lcrypt")).stdout
    return {file: int(lines) for lines, file in (line.split() for line in said.splitlines())}


def sums(programs):
    """For each program: how many files it links, and the lines of code in them, by what they are part of."""
    return {program: {"files": len(lines),
                      **{name: sum(count for file, count in lines.items() if counts(file))
                         for name, counts in COUNTED.items()}}
            for program, lines in programs.items()}
