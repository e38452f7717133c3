"""Counts what one line of echo costs each stage: calls, files and lines of source that it passes (passed.py), locks,
atomic steps, system calls, switches; and what programs link.

    usage: python3 tests/bench/counts.py [--build FOLDER] [--docs FILE] [--files] [--tree FOLDER]

Each server runs twice under the same load, with few lines and with many. What the longer run has more,
divided by the lines that it has more, is the cost of a line: starting, accepting and ending cancel out.
With --docs the tables go into the document, between their markers, and what a line passes in the core's steps into docs/way.md. With --files each file that a line passes is printed,
with the lines of it that are executed. With --tree what a line passes, and nothing else, is counted for another checkout,
too, which is built there, in the folder of the same name.
"""

import argparse
import os
import shutil
import subprocess
import sys
import tempfile

import bench
import measure
import passed
import results as figures

CONNECTIONS = 20
WAY = "docs/way.md"
COUNTS = ("locks", "atomics", "system calls", "switches")
LINKED = ("step 1.4", "step 2.8", "stage 1", "stage 2", "stage 3", "stage 4", "stage 5")


def cost_of(tools, plain, slow, folder):
    """The figures of one program: `slow` is its counted twin."""
    def count(load):
        return measure.counted(tools, slow, load, folder)

    def trace(load):
        calls, lines = bench.count_calls(tools, plain, load, folder)
        return {"system calls": sum(calls.values())}, lines

    cost = {}
    for depth in (1, 16):
        load = {"connections": CONNECTIONS, "depth": depth, "warm_up": 0}
        found = measure.a_line(count, load)
        if shutil.which("strace"):
            found.update(measure.a_line(trace, load))
        cost.update({f"{name}, {depth}": found.get(name) for name in COUNTS})
    return cost


def table(costs):
    head = ["program"] + [f"{name}, {depth}" for name in COUNTS for depth in (1, 16)]
    lines = [[program] + [figures.number(cost[name]) for name in head[1:]] for program, cost in costs.items()]
    return figures.table(head, lines)


def passed_table(found):
    return figures.table(["program", "calls", "files", "lines executed"],
                         [[program] + [figures.number(count, 0) for count in (line.calls, line.files, line.lines)]
                          for program, line in found.items()])


def linked_table(found):
    head = ["program", "files"] + list(passed.COUNTED)
    return figures.table(head, [[program] + [f"{counts[name]:,}" for name in head[1:]] for program, counts in found.items()])


def core_steps():
    """The steps that make the core, behind the one that they begin with."""
    return ["2.5", *subprocess.run(["tests/steps.sh", "core"], check=True, capture_output=True, text=True).stdout.split()]


def count_source(tree, build, by_file):
    """The tables of what a line passes and of what programs link; prints them."""
    found = passed.of_tree(tree, build, lambda folder: bench.Programs(folder).with_workers(4))
    linked = {name: passed.linked(tree, build, name.split()[-1]) for name in LINKED}
    tables = {"passed": passed_table(found), "linked": linked_table(passed.sums(linked))}
    print("\n\n".join(tables.values()))
    for program, line in found.items() if by_file else ():
        print(f"\n{program}")
        for file, count in line.by_file.most_common():
            if count >= 0.9:
                print(f"{count:8.1f} {file}")
    return tables


def main():
    parser = argparse.ArgumentParser(description="Counts what one line of echo costs each stage.")
    parser.add_argument("--build", default="build")
    parser.add_argument("--docs")
    parser.add_argument("--files", action="store_true")
    parser.add_argument("--tree")
    arguments = parser.parse_args()
    programs = bench.Programs(arguments.build)
    twins = bench.Programs(os.path.join(arguments.build, "counted")).with_workers(4)
    tables = count_source(".", arguments.build, arguments.files)
    if arguments.tree:
        print(f"\n{arguments.tree}")
        count_source(arguments.tree, arguments.build, arguments.files)
    with tempfile.TemporaryDirectory() as folder:
        costs = {name: cost_of(programs.tools, server, twins[name], folder)
                 for name, server in programs.with_workers(4).items() if name in twins}
    tables["line"] = table(costs)
    steps = passed_table(passed.of_steps(".", arguments.build, core_steps()))
    print(f"\n{tables['line']}\n\n{steps}")
    if arguments.docs:
        bench.put(arguments.docs, "bench-line", tables)
        bench.put(WAY, "bench-line", {"steps": steps})
    return 0


if __name__ == "__main__":
    sys.exit(main())
