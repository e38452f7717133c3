"""Measures files of 1 MiB and of 1 GiB beside nginx, and what a client that reads slowly costs meanwhile.

    usage: python3 tests/bench/long_output.py [--build FOLDER] [--docs FILE] [--rounds N] [--small]

CPU time is the server's, for a file, as a ratio to nginx' within each round; nginx has sendfile on. The slow client asks
for the large file and reads a kilobyte a hundredth of a second, while another one gets small files as fast as it can; its
memory is the most that the process had more than before, in private pages. With --small the files are 1,000 times
smaller: to try the tool.
"""

import argparse
import os
import shutil
import socket
import sys
import tempfile
import threading
import time

import bench
import measure
import results as figures
from measure import Cell

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "card"))

import card

SIZES = {"1 MiB": 1 << 20, "1 GiB": 1 << 30}
AIM = 1.0
SECONDS = 3


def servers(programs, folder):
    if shutil.which("nginx"):
        yield "nginx", measure.nginx(folder), measure.nginx(folder)
    for name, command in programs.with_workers(4).items():
        command = command + ["--app", "http", "--root", folder]
        yield name, command, measure.ours(command)


def cells(wanted):
    for what, load in (("1 MiB", {"connections": 10, "warm_up": 0.1, "duration": 1}),
                       ("1 GiB", {"connections": 1, "warm_up": 0, "requests": 2, "patience": 60})):
        for name, server, _ in wanted:
            yield Cell("long", name, server, dict(load, traffic="http", path=f"/{what.replace(' ', '')}"), what)


def get(connection, path):
    connection.sendall(f"GET {path} HTTP/1.1\r\nHost: bench\r\n\r\n".encode())


def slow_reader(port, over):
    with socket.socket() as client:
        client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        client.settimeout(10)
        client.connect(("127.0.0.1", port))
        get(client, "/1GiB")
        while not over.wait(0.01) and client.recv(1024):
            pass


def fast_reader(port, over, counts):
    """Asks for one small file after the other; counts those that came whole."""
    with socket.create_connection(("127.0.0.1", port), 10) as client:
        answers = card.Responses(True)
        while not over.is_set():
            get(client, "/1MiB")
            wanted = answers.count() + 1
            while answers.count() < wanted:
                data = client.recv(1 << 18)
                if not data:
                    raise measure.Failure("the end of the stream, in a file")
                answers.feed(data)
            counts.append(1)


def memory_held(name, serve):
    """Bytes, and the files that the other client got meanwhile."""
    counts, failures, over = [], [], threading.Event()

    def run(client, *arguments):
        try:
            client(*arguments)
        except (OSError, measure.Failure, card.Wrong) as failure:
            failures.append(failure)

    with serve() as (port, pid):
        process = card.Process(pid)
        fast = threading.Thread(target=run, args=(fast_reader, port, over, counts))
        slow = threading.Thread(target=run, args=(slow_reader, port, over))
        fast.start()
        limit = time.monotonic() + 10
        while len(counts) < 3 and not failures and time.monotonic() < limit:
            time.sleep(0.01)  # it has by now what it keeps for every client
        before = most = process.memory()
        slow.start()
        limit = time.monotonic() + SECONDS
        while time.monotonic() < limit:
            most = max(most, process.memory())
            time.sleep(0.01)
        over.set()
        for client in (fast, slow):
            client.join()
    if failures or not counts:
        raise measure.Failure(f"{name}, a slow reader: {failures[0] if failures else 'nobody else got a file'}")
    return {"experiment": "held", "program": name, "bytes": most - before, "files": len(counts)}


def verdict(ratios):
    """Of a ratio to nginx in each round."""
    if not ratios:
        return "-"
    return "reached" if round(figures.median(ratios), 2) <= AIM else "missed"


def table(results):
    programs = results.values("program", experiment="long")
    lines = []
    for program in programs:
        line = [program]
        for what in SIZES:
            here = {"experiment": "long", "variant": what}
            value = results.median("cpu_us_per_reply", program=program, **here)
            ratios = results.ratios("cpu_us_per_reply", dict(here, program=program), dict(here, program="nginx"))
            line += [figures.number(value and value / 1000, 3), figures.number(figures.median(ratios)),
                     "" if program in ("nginx", "stage 1") else verdict(ratios)]
        held = results.median("bytes", experiment="held", program=program)
        lines.append(line + [figures.number(held and held / 1024, 0)])
    head = [title for what in SIZES for title in (f"{what}, CPU ms", "to nginx", f"at most {AIM:.1f}")]
    return figures.table(["program"] + head + ["KiB held for a slow client"], lines)


def main():
    parser = argparse.ArgumentParser(description="Measures large files beside nginx.")
    parser.add_argument("--build", default="build")
    parser.add_argument("--docs")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--small", action="store_true")
    parser.add_argument("--only", action="append", help="one program; may be given again")
    arguments = parser.parse_args()
    about = dict(measure.machine(), rounds=arguments.rounds)
    with tempfile.TemporaryDirectory() as folder:
        os.chmod(folder, 0o755)
        for what, size in SIZES.items():
            with open(os.path.join(folder, what.replace(" ", "")), "wb") as file:
                file.truncate(size // 1000 if arguments.small else size)
        wanted = [server for server in servers(bench.Programs(arguments.build), folder)
                  if not arguments.only or server[0] in arguments.only]
        rows, failures = measure.measure_rounds(os.path.join(arguments.build, "tests"), list(cells(wanted)), arguments.rounds)
        for number in range(arguments.rounds):
            for name, _, serve in wanted:
                try:
                    rows.append(dict(memory_held(name, serve), round=number, variant="", connections=2, idle=0, depth=1, rate=0))
                except (OSError, measure.Failure) as failure:
                    failures.append(str(failure))
    found = figures.Results(about, rows)
    figures.save(found, os.path.join(arguments.build, "bench"), "long")
    text = figures.machine_text(about) + "\n\n" + table(found)
    if not shutil.which("nginx"):
        text += "\n\nnginx is not installed here (nginx-light), so there is nothing to compare with."
    print(text)
    if arguments.docs and not arguments.small:
        bench.put(arguments.docs, "bench-long", {"long output": text})
    for failure in failures:
        print(f"long output: FAILED: {failure}", file=sys.stderr)
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
