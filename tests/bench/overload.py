"""Measures what a server still does in time when it is offered more than it can do.

    usage: python3 tests/bench/overload.py [--build FOLDER] [--docs FILE] [--rounds N]

Each message costs WORK_US of CPU time, so the server is the limit and not the load generator. Messages are due in an
open loop, from half to twice the capacity: the messages that one processor has time for, by the CPU time that one costs
stage 2. A server holds a load if it answers 99 % of the messages that were due within WITHIN_MS.
"""

import argparse
import os
import sys

import bench
import measure
import plots
import results as figures
import sayings
from chart import Axis

WORK_US, WITHIN_MS, HOLDS = 2000, 100, 0.99
LOADS = (0.5, 0.8, 1, 1.2, 1.5, 2)
BOUNDED = ("--queue", "bounded:16", "--saturation")
POLICIES = {"unbounded": (), "max-wait": ("--max-wait-ms", "40"),
            **{name: BOUNDED + (name,) for name in ("abort", "block", "caller-runs", "discard", "discard-oldest")}}
CROWD = {"connections": 500, "warm_up": 0.5, "duration": 1}


def servers(programs):
    """Every stage, and each policy where there is a queue."""
    work = ("--work-us", str(WORK_US))
    yield "stage 1", programs.stage(1, *work)
    yield "stage 2", programs.stage(2, *work)
    yield figures.STAGE_5, programs.stage(5, "--dispatchers", "1", "--workers", "0", *work)
    for number in (3, 4, 5):
        more = ("--dispatchers", "1") if number == 5 else ()
        for name, options in POLICIES.items():
            yield f"stage {number}, {name}", programs.stage(number, "--workers", "2", *more, *work, *options)


def one_round(programs, number, only):
    """The rows of a round. Each says which part of the capacity was offered, and was answered in time."""
    found = {name: server for name, server in servers(programs) if server and (not only or name in only)}
    capacity = 1e6 / measure.run_load(programs.tools, {"connections": 100, "duration": 1}, [
        "--"] + programs.stage(2, "--work-us", str(WORK_US)))["cpu_us_per_reply"]
    cells = [measure.Cell("overload", name, server, dict(
        CROWD, depth=256, within=WITHIN_MS, rate=round(load * capacity)), str(load))
             for load in LOADS for name, server in found.items()]
    rows, failures = measure.measure_rounds(programs.tools, cells, 1)
    for row in rows:
        row.update(round=number, load=float(row["variant"]), share=row["in_time"] / row["offered"],
                   served=row["in_time"] / row["seconds"] / capacity, refusals=row["refused"] / row["offered"])
    return rows, failures


def held(results, program):
    """The highest load that is held, with all below it, in every round; 0 if none is."""
    most = 0
    for load in LOADS:
        if any(row["share"] < HOLDS for row in results.select(program=program, load=load)):
            break
        most = load
    return most


def table(results):
    lines = []
    for program in results.values("program"):
        shares = [results.median("share", program=program, load=load) for load in LOADS]
        refused = results.median("refusals", program=program, load=LOADS[-1])
        lines.append([program] + ["-" if share is None else f"{share:.0%}" for share in shares] +
                     [f"{held(results, program) or 'none'}", "-" if refused is None else f"{refused:.0%}"])
    return figures.table(["program"] + [f"{load:g}" for load in LOADS] + ["holds", "refused at 2"], lines)


def picture(results, folder):
    """Stages 1 and 2, and the policies of stage 4."""
    series = [("all that can be", 0, [(load, min(load, 1)) for load in LOADS])]
    for program in results.values("program"):
        if program in ("stage 1", "stage 2") or program.startswith("stage 4, "):
            points = [(load, results.median("served", program=program, load=load)) for load in LOADS]
            style = len(series) if len(series) < 8 else 7 - len(series)
            series.append((program.replace("stage 4, ", ""), style, [p for p in points if p[1] is not None]))
    words = "at twice the capacity: " + ", ".join(f"{name} {line[-1][1]:.0%}" for name, _, line in series[1:])
    return plots.draw(folder, "overload", "Replies in time, as a part of the capacity, against the load that is offered",
                      words, Axis("offered load, of the capacity", ticks=[(load, f"{load:g}") for load in LOADS]),
                      Axis("in time, of the capacity", ticks=[(i / 5, f"{i / 5:g}") for i in range(6)]),
                      [line for line in series if len(line[2]) > 1])


def text(results, folder):
    twice = {program: [row["served"] for row in results.select(program=program, load=LOADS[-1])]
             for program in results.values("program")}
    generator = max(row["load_processors"] for row in results.rows)
    said = sayings.overload({program: served for program, served in twice.items() if served}, generator)
    return "\n\n".join([figures.machine_text(results.about), picture(results, folder), said, bench.folded(
        f"Answered within {WITHIN_MS} ms, of the messages that were due, at each load", table(results))])


def main():
    parser = argparse.ArgumentParser(description="Measures servers that are offered too much.")
    parser.add_argument("--build", default="build")
    parser.add_argument("--docs")
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--only", action="append", help="one program; may be given again")
    arguments = parser.parse_args()
    programs = bench.Programs(arguments.build)
    about = dict(measure.machine(), rounds=arguments.rounds)
    rows, failures = [], []
    for number in range(arguments.rounds):
        more, failed = one_round(programs, number, arguments.only)
        rows, failures = rows + more, failures + failed
    folder = os.path.join(arguments.build, "bench")
    if not rows:
        sys.exit("overload: nothing was measured\n" + "\n".join(failures))
    results = figures.Results(about, rows)
    figures.save(results, folder, "overload")
    print(text(results, folder))
    if arguments.docs:
        written = text(results, os.path.join(os.path.dirname(arguments.docs), "diagrams"))
        bench.put(arguments.docs, "bench-overload", {"overload": written})
    for failure in failures:
        print(f"overload: FAILED: {failure}", file=sys.stderr)
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
