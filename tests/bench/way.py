#!/usr/bin/env python3
"""Writes the calls of a warm line, in their order and folded by file, into docs/way.md.

    usage: python3 -B tests/bench/way.py DOCUMENT FOLDER STAGE...        (make bench-line, from the top)

FOLDER has the servers of `make listing`, which note each function that they enter (docs/listing/entered.c). Each
serves one client, which sends some lines; what it enters for the last of them is written down.
"""

import glob
import os
import re
import signal
import socket
import subprocess
import sys
import tempfile
import time

sys.path.insert(0, "docs/listing")
import bench
import listing
import passed
import results as figures

WARM = 3  # lines that come before


def entered(program):
    """What the server enters for one line, in the order of time: (thread, file, function)."""
    with tempfile.TemporaryDirectory(prefix="way.") as folder:
        path = os.path.join(folder, "entered")
        with subprocess.Popen([program, "--port", "0"], stdout=subprocess.PIPE, text=True,
                              env=dict(os.environ, ENTERED=path)) as server:
            port = int(server.stdout.readline().rsplit(":", 1)[1])
            with socket.create_connection(("127.0.0.1", port), listing.DEADLINE) as client:
                for _ in range(WARM + 1):
                    listing.settle(server.pid)
                    begin = time.monotonic_ns()
                    client.sendall(b"hello\n")
                    if client.recv(100) != b"hello\n":
                        raise SystemExit(f"way: {program} did not echo a line")
                listing.settle(server.pid)
                end = time.monotonic_ns()
            server.send_signal(signal.SIGTERM)
            if server.wait(listing.DEADLINE) != 0:
                raise SystemExit(f"way: {program} did not end with 0")
        with open(path, encoding="ascii") as file:
            steps = [line.split() for line in file]
    steps = [step for step in steps if begin <= int(step[0]) < end and step[3] == "+"]
    found = subprocess.run(["addr2line", "-f", "-e", program], input="\n".join(step[2] for step in steps), text=True,
                           check=True, stdout=subprocess.PIPE).stdout.splitlines()
    return [(step[1], os.path.relpath(found[2 * i + 1].rsplit(":", 1)[0]), found[2 * i]) for i, step in enumerate(steps)]


def inline():
    """The names of the functions that headers define."""
    names = set()
    for path in [*glob.glob("common/*/*.h"), *glob.glob("stage*/*.h")]:
        with open(path, encoding="utf-8") as file:
            names.update(re.findall(r"^static inline [^(=;]*?([a-z_0-9]+)\(", file.read(), re.M))
    return names


def link(file):
    return f"[{os.path.basename(file)}](../{file})"


def table(stage, calls):
    """A row for each time that the way enters another file, without what headers define; and which given files it passes."""
    rows, threads, small, known = [], {}, inline(), passed.given(stage)
    for thread, file, function in calls:
        if function in small or file in known:
            continue
        number = threads.setdefault(thread, len(threads) + 1)
        if not rows or rows[-1][:2] != [number, file]:
            rows.append([number, file, []])
        rows[-1][2].append(function)
    several = len(threads) > 1
    left = sum(function in small for _, _, function in calls)
    way = sorted({file for _, file, _ in calls if file in known})
    return figures.table((["thread"] if several else []) + ["file", "calls"],
                         [([str(number)] if several else []) + [link(file), ", ".join(f"`{name}`" for name in names)]
                          for number, file, names in rows]) + \
        f"\n\nAnd {left} calls of small functions that headers define. Given on the way: {', '.join(map(link, way)) or 'nothing'}."


def main():
    document, folder, stages = sys.argv[1], sys.argv[2], sys.argv[3:]
    numbers = {stage: int(stage[len("stage")]) for stage in stages}
    bench.put(document, "bench-line", {f"stage {number}": table(number, entered(os.path.join(folder, stage)))
                                       for stage, number in numbers.items()})
    return 0


if __name__ == "__main__":
    sys.exit(main())
