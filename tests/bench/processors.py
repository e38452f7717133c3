"""Measures what a message costs on several processors beside one.

    usage: python3 tests/bench/processors.py [--build FOLDER] [--docs FILE] [--pairs N] [--processors N] [--count-only]

N dispatchers on N processors have N times the messages of one dispatcher on one, so each of them does the same. If they
shared nothing, a message would cost the same CPU time. The load is so low that each dispatcher's processor is busy with
it for 30 % of the time, because the load generator needs room beside it. The runs of a pair follow each other.

A second table is arithmetic for more processors than there are: counted servers (counted.c) say for how long a message
holds the lock that all wait for. What follows from that for the processors that were measured stands beside what was
measured. With --count-only nothing but that is done: the holding times alone.
"""

import argparse
import os
import shutil
import statistics
import subprocess
import sys
import tempfile

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


def name_of(program, offset):
    """The function of the program at that offset, that is, the one into which the calls of lock.h are compiled."""
    if not offset or not shutil.which("addr2line"):
        return "-"
    said = subprocess.run(["addr2line", "-f", "-i", "-e", program, hex(offset - 1)], capture_output=True, text=True, check=False)
    names = [name for name in said.stdout.split("\n")[::2] if name and not name.startswith(("mutex_", "condition_"))]
    return f"`{names[0]}`" if names else "-"


def holding(tools, server, folder):
    """What a message costs the lock that is held for longest: times, us, and the function that takes it."""
    load = {"connections": CONNECTIONS, "warm_up": 0, "requests": measure.MANY}
    counts, messages = measure.counted(tools, server, load, folder)
    held = counts["held"]
    return held["taken"] / messages, held["ns"] / 1000 / messages, name_of(server[0], held["taker"])


def speedup(cost, hold, count):
    """How many times the messages of one processor so many have, if each needs `cost` us for a message, and for `hold` of
    these a lock that all share: the mean value analysis of a closed network with one queue."""
    rate = waiting = 0.0
    for number in range(1, count + 1):
        at_the_lock = hold * (1 + waiting)
        rate = number / (cost - hold + at_the_lock)
        waiting = rate * at_the_lock
    return rate * cost


def expected_ratio(cost, hold, rate, count):
    """CPU of a message on so many processors beside one, if the only difference is that one finds the lock held by
    another, for half of a holding."""
    return 1 + (count - 1) * rate * hold / 1e6 * hold / 2 / cost


def bound_table(found, holdings, count):
    lines = []
    for name, (rate, cost, ratios) in found.items():
        taken, hold, taker = holdings[name]
        one = statistics.median(cost)
        expected, measured = expected_ratio(one, hold, rate, count), statistics.median(ratios)
        lines.append([name, taker, f"{taken:.2f}", f"{hold:.3f}", f"{1e6 / hold:,.0f}" if hold else "-"]
                     + [f"{speedup(one, hold, n):.1f}" for n in (4, 16, 64)]
                     + [f"{expected:.2f}", f"{measured:.2f}", f"{measured - expected:+.2f}"])
    return figures.table(["program", "lock, first taken in", "times a message", "held, us", "so at most, messages/s", "work of 4",
                          "of 16", "of 64", f"expected on {count}", "measured", "error"], lines)


def main():
    parser = argparse.ArgumentParser(description="Measures a message on several processors beside one.")
    parser.add_argument("--build", default="build")
    parser.add_argument("--docs")
    parser.add_argument("--pairs", type=int, default=10)
    parser.add_argument("--processors", type=int, default=2)
    parser.add_argument("--count-only", action="store_true")
    arguments = parser.parse_args()
    count = arguments.processors
    if not 2 <= count <= len(measure.PROCESSORS):
        sys.exit(f"processors: expected 2 to {len(measure.PROCESSORS)}, which is what there is, got {count}")
    programs = bench.Programs(arguments.build)
    twins = dict(servers(bench.Programs(os.path.join(arguments.build, "counted"))))
    with tempfile.TemporaryDirectory() as folder:
        holdings = {name: holding(programs.tools, server(count), folder) for name, server in twins.items()}
    if arguments.count_only:
        for name, (taken, hold, taker) in holdings.items():
            print(f"{name}: {taken:.2f} times a message, {hold:.3f} us, first taken in {taker}")
        return 0
    about = dict(measure.machine(), rounds=arguments.pairs)
    found = {}
    for name, server in servers(programs):
        rate = fitting_rate(programs, server)
        pairs = [(run(programs, server, 1, rate)[0], run(programs, server, count, rate)[0])
                 for _ in range(arguments.pairs)]
        found[name] = (rate, [one for one, _ in pairs], [more / one for one, more in pairs])
    text = "\n\n".join([figures.machine_text(about, ""), table(found, count),
                        sayings.processors(found["stage 5, dispatchers"][2], count, SPREAD)])
    bound = "\n\n".join([bound_table(found, holdings, count), sayings.bound(
        {name: statistics.median(ratios) - expected_ratio(statistics.median(cost), holdings[name][1], rate, count)
         for name, (rate, cost, ratios) in found.items()}, count)])
    print(f"{text}\n\n{bound}")
    if arguments.docs:
        bench.put(arguments.docs, "bench-processors", {"processors": text, "bound": bound})
    return 0


if __name__ == "__main__":
    sys.exit(main())
