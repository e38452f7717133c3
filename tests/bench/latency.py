"""Measures how long a message waits at half of what a server can do.

    usage: python3 tests/bench/latency.py [--build FOLDER] [--docs FILE] [--rounds N]

For each server a closed loop finds out first what one processor can do: it has time for so many messages of what one
costs. Then messages are due in an open loop at half that rate, and a latency counts from when the message was due. Lines are
compared with the floors, libevent and libuv, files with nginx. Each round begins with what the servers can do then.
"""

import argparse
import os
import shutil
import sys
import tempfile

import bench
import measure
import plots
import results as figures
from chart import Axis

PART, CONNECTIONS, DEPTH = 0.5, 100, 16
CLOSED = {"connections": CONNECTIONS, "warm_up": 0.2, "duration": 0.5}
OPEN = {"connections": CONNECTIONS, "depth": DEPTH, "warm_up": 0.5, "duration": 2}
QUANTILES = ("p50", "p99", "p99.9")
TITLES = {"lines": "Lines at half load", "files": "Files of 1 KiB at half load"}


def servers(programs, folder):
    """What, name, server, and the load generator's options for it."""
    for name, server in programs.all().items():
        yield "lines", name, server, {}
    path = os.path.join(folder, "1.txt")
    with open(path, "w", encoding="ascii") as file:
        file.write("x" * 1023 + "\n")
    load = {"traffic": "http", "path": "/1.txt", "body": path}
    if shutil.which("nginx"):
        yield "files", "nginx", measure.nginx(folder), load
    for name, server in programs.with_workers(4).items():
        yield "files", name, server + ["--app", "http", "--root", folder], load


def rate_of(closed):
    """Half of what it can do: a processor's time, or what the load generator could get out of it."""
    return max(1, round(PART * min(1e6 / closed["cpu_us_per_reply"], closed["replies_per_second"])))


def one_round(programs, wanted, number):
    rows, failures = [], []
    for what, name, server, load in wanted:
        first, failed = measure.measure_rounds(programs.tools, [measure.Cell("closed", name, server, {**CLOSED, **load}, what)], 1)
        cells = [measure.Cell("half", name, server, {**OPEN, **load, "rate": rate_of(closed)}, what) for closed in first]
        found, more = measure.measure_rounds(programs.tools, cells, 1)
        rows, failures = rows + [dict(row, round=number) for row in found], failures + failed + more
    return rows, failures


def table(results, what):
    here = {"experiment": "half", "variant": what}
    lines = []
    for program in results.values("program", **here):
        row = [results.median(field, program=program, **here) for field in
               ["rate"] + [f"latency_{quantile}_us" for quantile in QUANTILES] + ["processors", "load_processors"]]
        lines.append([program] + [figures.number(value, 0) for value in row[:4]] + [f"{part:.0%}" for part in row[4:]])
    return figures.table(["program", "messages/s"] + [f"{quantile}, us" for quantile in QUANTILES] +
                         ["of a processor", "load generator"], lines)


def picture(results, what, folder):
    series = plots.percentiles(results, experiment="half", variant=what)
    if not series:
        return ""
    words = f"the 99th percentile, in milliseconds: {plots.in_words(series, 2, 2)}"
    return plots.draw(folder, f"half-{what}", f"{TITLES[what]}, in an open loop: how long a message waits, in milliseconds", words,
                      Axis("percentile of the replies", ticks=list(plots.PERCENTILES)), Axis("milliseconds", log=True), series)


def text(results, folder):
    parts = [figures.machine_text(results.about)]
    for what, title in TITLES.items():
        if results.select(variant=what):
            parts += [picture(results, what, folder), bench.folded(f"{title}, in numbers", table(results, what))]
    return "\n\n".join(filter(None, parts))


def main():
    parser = argparse.ArgumentParser(description="Measures how long a message waits at half load.")
    parser.add_argument("--build", default="build")
    parser.add_argument("--docs")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--only", action="append", help="one program; may be given again")
    arguments = parser.parse_args()
    programs = bench.Programs(arguments.build)
    bench.say_what_is_missing(programs)
    rows, failures = [], []
    with tempfile.TemporaryDirectory() as folder:
        os.chmod(folder, 0o755)
        wanted = [server for server in servers(programs, folder) if not arguments.only or server[1] in arguments.only]
        about = dict(measure.machine(), rounds=arguments.rounds)
        for number in range(arguments.rounds):
            more, failed = one_round(programs, wanted, number)
            rows, failures = rows + more, failures + failed
    if not rows:
        sys.exit("latency: nothing was measured\n" + "\n".join(failures))
    found = figures.Results(about, rows)
    folder = os.path.join(arguments.build, "bench")
    figures.save(found, folder, "latency")
    print(text(found, folder))
    if arguments.docs:
        bench.put(arguments.docs, "bench-latency", {
            "half load": text(found, os.path.join(os.path.dirname(arguments.docs), "diagrams"))})
    for failure in failures:
        print(f"latency: FAILED: {failure}", file=sys.stderr)
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
