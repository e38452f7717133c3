#!/usr/bin/env python3
"""Holds what the steps have shown against what the servers execute, and counts the given lines that a warm line passes.

    usage: python3 -B tests/figures.py [--write] FOLDER        (make test-figures and make figures, from the top)

Builds the stages for gcov below FOLDER. Each of them lives through a story with echo: it starts, serves warm lines, a client that
ends its half, one that reads late and one that does not read at all, ends a client by each of the four timeouts, and stops in
order. Each line of source that it executes has to be in a file that the page of a step up to that stage names, or in one that is
given (tests/given.txt). What nobody has shown is printed, and has failed. The other applications declare their options in each
server. They may execute nothing else, that is, what --version executes, too, but for functions that a page prints.

And a warm line may execute only so many different lines of given files: MOST. docs/way.md has a table of them, which is checked,
too; with --write it is written. The last line is "N passed, N failed".
"""

import argparse
import collections
import glob
import os
import re
import select
import signal
import socket
import subprocess
import sys
import time

sys.path[:0] = ["tests/bench", "docs/listing"]
import bench
import listing
import passed
import results as figures

MOST = {1: 12, 2: 12, 3: 18, 4: 24, 5: 18}  # different given lines that a warm line of a stage executes
WAY = "docs/way.md"
FLAGS = "-O0 --coverage -fprofile-update=atomic"
DEADLINE = 20  # s for whatever has to happen
SOON = 0.3     # s: a timeout that is waited for
QUIET = 0.1    # s: more than the RECEIVE_MS of stage 1
FEW, MANY = 3, 13  # lines; what the longer run executes more is what the further ones do
BLOCK = b"a line that nobody reads yet\n" * 2000


# ---- what the steps show ----------------------------------------------------------------------

def said(*command):
    return subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout.split("\n")[:-1]


def named(folder):
    """What the page of a step shows: files of common/ to which it has links, files of a stage that it names, and functions that
    it prints, as (file, function)."""
    with open(os.path.join(folder, "README.md"), encoding="utf-8") as file:
        page = file.read()
    linked = {os.path.normpath(os.path.join(folder, path)) for path in re.findall(r"\]\(([^() #]+\.[ch])\)", page)}
    return {path for path in linked if path.startswith("common/")} | \
        set(re.findall(r"\b[a-z_0-9]+\.[ch]\b", page)) | \
        {(os.path.normpath(os.path.join(folder, path)), function)
         for function, path in re.findall(r"^\[[^]:]*: ([a-z_0-9]+)\]\(([^()]*)\)$", page, re.M)}


def shown():
    """For each stage what the pages of all steps up to it show, in the order in which the course is read."""
    ends = set(said("tests/steps.sh", "stage-steps"))
    names, stages = set(), {}
    for line in said("docs/order.sh"):
        step = re.search(r"\t(\S+/steps/([0-9C]\.\d+)-[^/]+)/README\.md\t", line)
        if step:
            names |= named(step[1])
            if step[2] in ends:
                stages[int(step[2][0])] = names.copy()
    return stages


def is_shown(file, names):
    return (file if file.startswith("common/") else os.path.basename(file)) in names


# ---- the story --------------------------------------------------------------------------------

class Server:
    """A server with these options, which ends in order."""

    def __init__(self, program, *options):
        self.command = [program, "--port", "0", *options]

    def __enter__(self):
        self.process = subprocess.Popen(self.command, stdout=subprocess.PIPE, text=True)
        self.port = int(self.process.stdout.readline().rsplit(":", 1)[1])
        return self

    def client(self):
        return socket.create_connection(("127.0.0.1", self.port), timeout=DEADLINE)

    def stop(self):
        self.process.send_signal(signal.SIGTERM)
        if self.process.wait(DEADLINE) != 0:
            raise SystemExit(f"figures: {self.command} ended with {self.process.returncode}")

    def __exit__(self, kind, *_):
        if kind is None:
            self.stop()
        else:
            self.process.kill()
            self.process.wait()
        self.process.stdout.close()


def expect(client, text):
    """The client gets exactly that."""
    got = b""
    while len(got) < len(text):
        some = client.recv(len(text) - len(got))
        if not some:
            break
        got += some
    if got != text:
        raise SystemExit(f"figures: expected {text[:60]!r}, got {got[:60]!r}")


def expect_end(client):
    """The server disconnects the client, whatever it has sent before."""
    try:
        while client.recv(1 << 16):
            pass
    except ConnectionResetError:
        pass


def say(client, line):
    client.sendall(line)
    expect(client, line)


def send_some(client, sent):
    """Goes on with the blocks after so many bytes, until the socket takes no more; how many there are now."""
    try:
        while True:
            sent += client.send((BLOCK * 2)[sent % len(BLOCK):][:len(BLOCK)])
    except BlockingIOError:
        return sent


def fill(server, client):
    """Sends, and reads nothing, until all threads of the server sleep and it takes no more; how many bytes."""
    client.setblocking(False)
    sent, before = 0, -1
    while sent > before:
        before, sent = sent, send_some(client, sent)
        listing.settle(server.process.pid)
    client.settimeout(DEADLINE)
    return sent


def read_late(server, client):
    """What the server did not want to take any more comes back in the end."""
    sent = fill(server, client)
    for _ in range(sent // len(BLOCK)):
        expect(client, BLOCK)


def end_half(client):
    client.sendall(b"one\ntwo\nno line")
    client.shutdown(socket.SHUT_WR)
    expect(client, b"one\ntwo\n")
    expect(client, b"")
    expect_end(client)


def serve_all(program):
    """Clients of all kinds, of whom two are still connected when the server stops."""
    with Server(program, "--drain-timeout", str(SOON)) as server, server.client() as warm, server.client() as bob:
        for line in (b"hello\n", b"hello\r\n", b"one\ntwo\nthree\n") * 20:
            say(warm, line)
        with server.client() as eve:
            end_half(eve)
        with server.client() as late:
            read_late(server, late)
        fill(server, bob)
        say(warm, b"still there\n")
        server.stop()
        expect_end(warm)


def say_nothing(client):
    expect_end(client)


def begin_a_line(client):
    client.sendall(b"no line")
    expect_end(client)


def never_read(client):
    """Sends whatever the server takes, until it disconnects, which shows without a read."""
    client.setblocking(False)
    poll, sent = select.poll(), 0
    poll.register(client, select.POLLOUT)
    for [(_, events)] in iter(lambda: poll.poll(DEADLINE * 1000), []):
        try:
            if events & (select.POLLERR | select.POLLHUP):
                return
            sent = send_some(client, sent)
        except ConnectionError:
            return
    raise SystemExit("figures: a client that does not read was not disconnected")


def talk(client):
    """Until the server disconnects."""
    deadline = time.monotonic() + DEADLINE
    try:
        while time.monotonic() < deadline:
            client.sendall(b"hello\n")
            if not client.recv(100):
                return
    except ConnectionError:
        return
    raise SystemExit("figures: a client that talks was not disconnected")


TIMEOUTS = {"--idle-timeout": say_nothing, "--request-timeout": begin_a_line, "--progress-timeout": never_read, "--lifetime": talk}


def live(program):
    """The whole story. Each timeout has a server in which no other one ends a client so soon."""
    serve_all(program)
    for option, client in TIMEOUTS.items():
        with Server(program, option, str(SOON)) as server, server.client() as connected:
            client(connected)


# ---- counting ---------------------------------------------------------------------------------

def spans(numbers):
    """12, 15-19"""
    found = []
    for number in sorted(numbers):
        if found and found[-1][1] == number - 1:
            found[-1][1] = number
        else:
            found.append([number, number])
    return ", ".join(f"{first}-{last}" if last > first else f"{first}" for first, last in found)


def is_of_another_application(file):
    return file.startswith("common/apps/") and file.count("/") > 2 and not file.startswith("common/apps/echo/")


class Stage:
    def __init__(self, folder, program):
        self.number = int(os.path.basename(program)[len("stage")])
        self.program = program
        rooms = [path for path, _, _ in os.walk(os.path.join(folder, "obj", "common"))]
        self.objects = [os.path.abspath(path) for path in [*rooms, os.path.join(folder, "obj", os.path.basename(program))]]

    def executed(self, run):
        """How often each line is executed while a function runs the server: {(file, line): count}."""
        for path in passed.counters(self.objects):
            os.unlink(path)
        run()
        return {place: count for place, count in passed.executions(".", self.objects).items()
                if count > 0 and isinstance(place[1], int)}

    def lines(self, run):
        """The lines that are executed, by file."""
        lines = collections.defaultdict(set)
        for file, line in self.executed(run):
            lines[file].add(line)
        return lines

    def unseen(self, known, names):
        """Prints how much it executes, and what of that nobody has shown."""
        lines = self.lines(lambda: live(self.program))
        declared = self.lines(lambda: subprocess.run([self.program, "--version"], check=True, stdout=subprocess.DEVNULL))
        left, options = {}, []
        for file, numbers in sorted(lines.items()):
            if is_of_another_application(file):
                options.append(len(numbers))
                numbers = {line for line in numbers - declared[file] if (file, function_at(file, line)) not in names}
            elif file in known or is_shown(file, names):
                continue
            if numbers:
                left[file] = numbers
        of_given = [len(numbers) for file, numbers in lines.items() if file in known]
        print(f"stage {self.number} executes {sum(map(len, lines.values()))} lines of {len(lines)} files, "
              f"{sum(of_given)} of them of {len(of_given)} files that are given; "
              f"{sum(options)} lines of {len(options)} files declare other applications' options")
        for file, numbers in left.items():
            print(f"figures: FAILED: stage {self.number} executes {file}:{spans(numbers)}, "
                  f"and no step up to it names that file, and it is not given")
        return left

    def on_the_way(self, known):
        """The given lines that a warm line executes: {(file, line)}."""
        lasted = []
        many = self.executed(lambda: lasted.append(serve_warm(self.program, MANY)))
        few = self.executed(lambda: serve_warm(self.program, FEW, *lasted))
        return {place for place, count in many.items()
                if place[0] in known and count - few.get(place, 0) >= (MANY - FEW) / 2}


def serve_warm(program, count, least=0):
    """One line at a time, when all threads sleep. A quiet client's thread in stage 1 sleeps in poll, not in recv. Returns how many
    seconds that took, which are at least so many: some lines are executed once in a while, whoever talks."""
    began = time.monotonic()
    with Server(program) as server, server.client() as client:
        for _ in range(count):
            time.sleep(QUIET)
            listing.settle(server.process.pid)
            say(client, b"hello\n")
        listing.settle(server.process.pid)
        took = time.monotonic() - began
        time.sleep(max(0, least - took))
        return took


def function_at(file, number):
    """The name of the function that a line is part of."""
    with open(file, encoding="utf-8") as source:
        lines = source.read().split("\n")
    while not re.match(r"[a-z_].*\b[a-z_0-9]+\(", lines[number - 1]):
        number -= 1
    return re.search(r"\b([a-z_0-9]+)\(", re.sub(r"_Atomic\([^()]*\)", "", lines[number - 1]))[1]


def table(way):
    """A row for each given function that a warm line executes in any stage: how many lines of it in each."""
    rows = collections.defaultdict(lambda: dict.fromkeys(way, 0))
    for stage, places in way.items():
        for file, line in places:
            rows[file, function_at(file, line)][stage] += 1
    spread = {row: spans({line for places in way.values() for file, line in places if (file, function_at(file, line)) == row})
              for row in rows}
    return figures.table(
        ["file", "function", "its lines"] + [f"stage {stage}" for stage in way],
        [[f"[{os.path.basename(file)}](../{file})", f"`{function}`", spread[file, function]] +
         [str(count) if count else "" for count in counts.values()] for (file, function), counts in sorted(rows.items())] +
        [["together", "", ""] + [str(len(places)) for places in way.values()],
         ["at most", "", ""] + [str(MOST[stage]) for stage in way]])


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--write", action="store_true")
    parser.add_argument("folder")
    arguments = parser.parse_args()
    passed.make(".", arguments.folder, f"CFLAGS={FLAGS}", "all")
    names, way, failed = shown(), {}, 0
    for program in sorted(glob.glob(os.path.join(arguments.folder, "stage[1-5]-*"))):
        stage = Stage(arguments.folder, program)
        known = passed.given(stage.number)
        failed += bool(stage.unseen(known, names[stage.number]))
        way[stage.number] = stage.on_the_way(known)
        count, most = len(way[stage.number]), MOST[stage.number]
        print(f"stage {stage.number}: a warm line executes {count} different given lines, at most {most}")
        if count > most:
            failed += 1
            print(f"figures: FAILED: stage {stage.number}: a warm line executes {count} given lines, more than {most}")
    found = table(way)
    if arguments.write:
        bench.put(WAY, "figures", {"given": found})
    with open(WAY, encoding="utf-8") as file:
        if found not in file.read():
            failed += 1
            print(f"figures: FAILED: {WAY} does not list the given lines that a line passes: make figures\n{found}")
    checks = 2 * len(way) + 1
    print(f"{checks - failed} passed, {failed} failed")
    return failed > 0


if __name__ == "__main__":
    sys.exit(main())
