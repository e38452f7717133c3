"""Measures stage 2's server on io_uring beside stage 2, and the floors of both.

    usage: python3 tests/bench/ring.py [--build FOLDER] [--docs FILE] [--rounds N]

Each program echoes one message at a time for 100 and for 1,000 clients. A round measures all four one after the other,
and a figure is the median of the ratios within the rounds.
"""

import argparse
import os
import sys

import bench
import measure
import results as figures

CONNECTIONS = (100, 1000)
FLOOR = "raw epoll"


def servers(programs):
    yield FLOOR, programs.tool("raw_epoll")
    yield "raw io_uring", programs.ring()
    yield "stage 2", programs.stage(2)
    yield "proactor", [os.path.join(os.path.dirname(programs.tools), "proactor"), "--port", "0"]


def ratios(results, program, connections, to=FLOOR):
    here = {"experiment": "ring", "connections": connections}
    return results.ratios("cpu_us_per_reply", dict(here, program=program), dict(here, program=to))


def table(results):
    lines = []
    for program in results.values("program"):
        line = [program]
        for connections in CONNECTIONS:
            found = ratios(results, program, connections)
            line.append(f"{sorted(found)[len(found) // 2]:.2f} ({min(found):.2f} to {max(found):.2f})" if found else "-")
        lines.append(line)
    return figures.table(["CPU time a message, as a ratio to raw epoll"] +
                         [f"{connections:,} connections" for connections in CONNECTIONS], lines)


def saying(results, connections):
    """What every round agrees on."""
    found = ratios(results, "proactor", connections, "stage 2")
    if not found:
        return ""
    words = "a message costs the proactor {} than stage 2"
    said = (words.format("less CPU time") if max(found) < 1 else words.format("more CPU time") if min(found) > 1
            else "the rounds do not agree on which of the two a message costs more")
    return f"With {connections:,} connections {said} (ratio {min(found):.2f} to {max(found):.2f})."


def main():
    parser = argparse.ArgumentParser(description="Measures the server on io_uring beside stage 2.")
    parser.add_argument("--build", default="build")
    parser.add_argument("--docs")
    parser.add_argument("--rounds", type=int, default=7)
    arguments = parser.parse_args()
    programs = bench.Programs(arguments.build)
    if programs.ring() is None:
        sys.exit("ring: io_uring is forbidden here, or the headers do not know it")
    about = dict(measure.machine(), rounds=arguments.rounds)
    cells = [measure.Cell("ring", name, server, dict(bench.LONG, connections=connections))
             for connections in CONNECTIONS for name, server in servers(programs) if server]
    rows, failures = measure.measure_rounds(programs.tools, cells, arguments.rounds)
    if not rows:
        sys.exit("ring: nothing was measured\n" + "\n".join(failures))
    results = figures.Results(about, rows)
    figures.save(results, os.path.join(arguments.build, "bench"), "ring")
    text = "\n\n".join([figures.machine_text(about), table(results),
                        " ".join(saying(results, connections) for connections in CONNECTIONS)])
    print(text)
    if arguments.docs:
        bench.put(arguments.docs, "bench-ring", {"ring": text})
    for failure in failures:
        print(f"ring: FAILED: {failure}", file=sys.stderr)
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
