"""Measures what a message costs on several processors beside one.

    usage: python3 tests/bench/processors.py [--build FOLDER] [--docs FILE] [--pairs N] [--processors N]

N dispatchers on N processors have N times the messages of one dispatcher on one, so each of them does the same. If they
shared nothing, a message would cost the same CPU time. The load is so low that each dispatcher's processor is busy with
it for 30 % of the time, because the load generator needs room beside it. The runs of a pair follow each other.
"""

import argparse
import statistics
import sys

import bench
import measure
import results as figures
import sayings

BUSY, AIM, CONNECTIONS = 0.3, 1.05, 50
SPREAD = AIM - 1
TIMES = {"warm_up": 0.2, "duration": 2}


def servers(programs):
    """Name, and the server's command line for a number of processors."""
    yield "stage 5, dispatchers", lambda n: programs.stage(5, "--workers", "0", "--dispatchers", str(n))
    for number in (3, 4):
        yield f"stage {number}, workers", lambda n, number=number: programs.stage(
            number, "--workers", str(n), "--work-us", "50")


def run(programs, server, count, rate):
    """What a message costs, and how busy that keeps the server, on so many processors."""
    spare = measure.PROCESSORS[count:]  # the load generator shares the server's processors if there are no others
    here = measure.PROCESSORS[:count]
    pinned = ["--pin-server", ",".join(map(str, here)), "--pin-load", ",".join(map(str, spare[-2:] if len(
        measure.PROCESSORS) > 2 and spare else here))]
    found = measure.run_load(programs.tools, dict(TIMES, connections=CONNECTIONS * count, rate=rate * count),
                             ["--"] + server(count), pinned)
    return found["cpu_us_per_reply"], found["processors"]


def fitting_rate(programs, server):
    """Messages a second that keep one processor busy for BUSY of the time."""
    rate = 2000
    for _ in range(3):
        _, busy = run(programs, server, 1, rate)
        rate = max(100, round(rate * min(BUSY / busy, 5)))
    return rate


def verdict(ratios):
    if max(ratios) - min(ratios) > SPREAD:
        return "not measurable here"
    return "reached" if round(statistics.median(ratios), 2) <= AIM else "missed"


def table(found, count):
    lines = [[name, f"{rate}", f"{statistics.median(cost):.2f}", f"{statistics.median(ratios):.2f}",
              f"{min(ratios):.2f} to {max(ratios):.2f}", verdict(ratios)]
             for name, (rate, cost, ratios) in found.items()]
    return figures.table(["program", "messages/s, of each", "CPU on one, us", f"on {count}, as a ratio", "pairs",
                          f"at most {AIM:.2f}"], lines)


def main():
    parser = argparse.ArgumentParser(description="Measures a message on several processors beside one.")
    parser.add_argument("--build", default="build")
    parser.add_argument("--docs")
    parser.add_argument("--pairs", type=int, default=5)
    parser.add_argument("--processors", type=int, default=2)
    arguments = parser.parse_args()
    count = arguments.processors
    if not 2 <= count <= len(measure.PROCESSORS):
        sys.exit(f"processors: expected 2 to {len(measure.PROCESSORS)}, which is what there is, got {count}")
    programs = bench.Programs(arguments.build)
    about = dict(measure.machine(), rounds=arguments.pairs)
    found = {}
    for name, server in servers(programs):
        rate = fitting_rate(programs, server)
        pairs = [(run(programs, server, 1, rate)[0], run(programs, server, count, rate)[0])
                 for _ in range(arguments.pairs)]
        found[name] = (rate, [one for one, _ in pairs], [more / one for one, more in pairs])
    text = "\n\n".join([figures.machine_text(about, ""), table(found, count),
                        sayings.processors(found["stage 5, dispatchers"][2], count, SPREAD)])
    print(text)
    if arguments.docs:
        bench.put(arguments.docs, "bench-processors", {"processors": text})
    return 0


if __name__ == "__main__":
    sys.exit(main())
