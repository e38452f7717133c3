"""Counts what one line of echo costs each stage: calls, locks, atomic steps, system calls, switches.

    usage: python3 tests/bench/counts.py [--build FOLDER] [--docs FILE]

Each server runs twice under the same load, with few lines and with many. What the longer run has more,
divided by the lines that it has more, is the cost of a line: starting, accepting and ending cancel out.
With --docs the table goes into the document, between its markers.
"""

import argparse
import json
import os
import shutil
import sys
import tempfile

import bench
import measure
import results as figures

FEW, MANY = 2000, 12000
CONNECTIONS = 20  # and one for calls, so that a round of a loop has one line
COUNTS = ("locks", "atomics", "system calls", "switches")


def counted(tools, server, load, folder):
    """What a counted server has counted, and the lines that it has answered."""
    path = os.path.join(folder, "counts")
    os.environ["COUNTS"] = path
    lines = measure.run_load(tools, load, ["--"] + server)["all_replies"]
    with open(path, encoding="ascii") as file:
        return json.load(file), lines


def a_line(run, load):
    """The cost of a line, by name. run(load) is what a run costs, and the lines that it had."""
    few, lines = run(dict(load, requests=FEW))
    many, more_lines = run(dict(load, requests=MANY))
    return {name: (count - few.get(name, 0)) / (more_lines - lines) for name, count in many.items()}


def cost_of(tools, plain, slow, folder):
    """The figures of one program: `slow` is its counted twin."""
    def count(load):
        return counted(tools, slow, load, folder)

    def trace(load):
        calls, lines = bench.count_calls(tools, plain, load, folder)
        return {"system calls": sum(calls.values())}, lines

    cost = {"calls": a_line(count, {"connections": 1, "warm_up": 0})["calls"]}
    for depth in (1, 16):
        load = {"connections": CONNECTIONS, "depth": depth, "warm_up": 0}
        found = a_line(count, load)
        if shutil.which("strace"):
            found.update(a_line(trace, load))
        cost.update({f"{name}, {depth}": found.get(name) for name in COUNTS})
    return cost


def table(costs):
    head = ["program", "calls"] + [f"{name}, {depth}" for name in COUNTS for depth in (1, 16)]
    lines = [[program, figures.number(cost["calls"], 0)] +
             [figures.number(cost[name]) for name in head[2:]] for program, cost in costs.items()]
    return figures.table(head, lines)


def main():
    parser = argparse.ArgumentParser(description="Counts what one line of echo costs each stage.")
    parser.add_argument("--build", default="build")
    parser.add_argument("--docs")
    arguments = parser.parse_args()
    programs = bench.Programs(arguments.build)
    twins = bench.Programs(os.path.join(arguments.build, "counted")).with_workers(4)
    with tempfile.TemporaryDirectory() as folder:
        costs = {name: cost_of(programs.tools, server, twins[name], folder)
                 for name, server in programs.with_workers(4).items() if name in twins}
    print(table(costs))
    if arguments.docs:
        bench.put(arguments.docs, "bench-line", {"line": table(costs)})
    return 0


if __name__ == "__main__":
    sys.exit(main())
