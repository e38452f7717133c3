"""Measures --app store beside redis-server, and four ways in which clients can share what they count.

    usage: python3 tests/bench/store.py [--build FOLDER] [--docs FILE] [--rounds N] [--requests N]

In each round all servers are measured right after each other, in another order each time, by redis-benchmark with 50
connections: GET, SET and LPUSH, one request at a time and 16 at a time. What counts is the server's CPU time for a
request, as a ratio to redis-server's in the same round. Servers on one processor leave the other one to the
load; stage 5 with two dispatchers shares both with it, and so does redis-server then.

A ratio's interval is that from the second to the ninth of ten: the true median is outside of it 2 times in 100. With
other numbers of rounds it is the narrowest for which that is at most 5 times, and with fewer than six it is all of them.
"""

import argparse
import csv
import glob
import math
import os
import random
import re
import socket
import statistics
import subprocess
import sys
import tempfile

import bench
import measure
import results as figures

COMMANDS, PIPELINES, CONNECTIONS = ("set", "get", "lpush"), (1, 16), 50
AIM = 0.90  # of redis', at pipeline 16
WORK_US = (0, 20)
WAYS = "strand", "strands", "lock", "locks"


def stores(build):
    """Name, command, what it is compared with, and whether it has one processor."""
    stage = {number: glob.glob(os.path.join(build, f"stage{number}-*"))[0] for number in (4, 5)}
    redis = ["redis-server", "--save", "", "--appendonly", "no"]
    ours = ["--app", "store", "--workers", "0"]
    return [("redis-server", redis, None, True),
            ("stage 5, one dispatcher", [stage[5], *ours, "--dispatchers", "1"], "redis-server", True),
            ("stage 4, one worker", [stage[4], "--app", "store", "--workers", "1"], "redis-server", True),
            ("redis-server, two processors", redis, None, False),
            ("stage 5, two dispatchers", [stage[5], *ours, "--dispatchers", "2"], "redis-server, two processors", False)]


def cpu_us(pid):
    """What all threads that there are have used: the scheduler counts nanoseconds."""
    used = 0
    for path in glob.glob(f"/proc/{pid}/task/*/schedstat"):
        with open(path, encoding="ascii") as file:
            used += int(file.read().split()[0])
    return used / 1000


def free_port():
    with socket.socket() as attempt:
        attempt.bind(("127.0.0.1", 0))
        return attempt.getsockname()[1]


def pinned(processor):
    return ["taskset", "-c", str(measure.PROCESSORS[processor])] if len(measure.PROCESSORS) > 1 else []


def benchmark(port, command, pipeline, requests, one_processor):
    """What redis-benchmark says, by its names."""
    done = subprocess.run([*(pinned(-1) if one_processor else []), "redis-benchmark", "-p", str(port), "-c", str(CONNECTIONS),
                           "-n", str(requests), "-r", "10000", "-P", str(pipeline), "-t", command, "--csv"],
                          capture_output=True, text=True, timeout=300, check=False)
    rows = [row for row in csv.reader(done.stdout.splitlines()) if len(row) > 2]
    if done.returncode != 0 or len(rows) < 2:
        raise measure.Failure(f"redis-benchmark: {done.stderr.strip() or done.stdout.strip() or done.returncode}")
    return {name: float(value) for name, value in zip(rows[0][1:], rows[1][1:])}


def measure_store(store, requests, number):
    name, command, _, one_processor = store
    port = free_port()
    with tempfile.TemporaryDirectory() as folder:
        with subprocess.Popen([*(pinned(0) if one_processor else []), *command, "--port", str(port)], cwd=folder,
                              stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as process:
            try:
                measure.await_port(port, process)
                for what in COMMANDS:
                    for pipeline in PIPELINES:
                        count = requests * (1 if pipeline == 1 else 8)
                        benchmark(port, what, pipeline, max(count // 10, 1000), one_processor)  # warm
                        before = cpu_us(process.pid)
                        said = benchmark(port, what, pipeline, count, one_processor)
                        yield {"experiment": "store", "program": name, "variant": what, "depth": pipeline, "round": number,
                               "connections": CONNECTIONS, "idle": 0, "rate": 0, "cpu_us": (cpu_us(process.pid) - before) / count,
                               "rps": said["rps"], **{key: said[f"{key}_latency_ms"] * 1000 for key in ("p50", "p95", "p99", "max")}}
            finally:
                process.terminate()
                process.wait(30)


def measure_way(build, tools, way, work_us, number):
    server = [os.path.join(build, "talks", "tally", "stage5"), "--app", "tally", "--sharing", way, "--dispatchers", "2", "--workers", "0",
              "--work-us", str(work_us)]
    said = measure.run_load(tools, {"connections": CONNECTIONS, "warm_up": 0.3, "duration": 1.5}, ["--", *server], pinned=[])
    return {"experiment": "ways", "program": way, "variant": work_us, "depth": 1, "round": number, "connections": CONNECTIONS,
            "idle": 0, "rate": 0, "cpu_us": said["cpu_us_per_reply"], "rps": said["replies_per_second"],
            "p50": said["latency_p50_us"], "p99": said["latency_p99_us"]}


# ---- what is said ---------------------------------------------------------------------------------


def interval(ratios):
    """The narrowest pair of them between which the true median is 95 times in 100 or more."""
    ordered, count, cut = sorted(ratios), len(ratios), 0
    while 2 * sum(math.comb(count, k) for k in range(cut + 1)) / 2 ** count <= 0.05:
        cut += 1
    cut = max(cut - 1, 0)
    return ordered[cut], ordered[-1 - cut]


def verdict(name, pipeline, ratios):
    """The aim is stage 5's: a batch of stage 4 goes through a worker."""
    low, high = interval(ratios)
    middle = statistics.median(ratios)
    holds = (middle <= AIM if pipeline == 16 else low <= 1.0) or not name.startswith("stage 5")
    return f"{middle:.2f} ({low:.2f} to {high:.2f})" + ("" if holds else ", **missed**")


def store_table(results, wanted):
    lines = []
    for name, _, other, _ in wanted:
        for pipeline in PIPELINES:
            line = [name, str(pipeline)]
            for what in COMMANDS:
                here = {"experiment": "store", "variant": what, "depth": pipeline}
                cpu = results.median("cpu_us", program=name, **here)
                ratios = other and results.ratios("cpu_us", dict(here, program=name), dict(here, program=other))
                line.append(figures.number(cpu, 2) + (f"; {verdict(name, pipeline, ratios)}" if ratios else ""))
            lines.append(line)
    return figures.table(["server", "pipeline"] + [f"{what.upper()}, us" for what in COMMANDS], lines)


def tail_table(results, wanted):
    lines = []
    for name, *_ in wanted:
        for pipeline in PIPELINES:
            here = {"experiment": "store", "program": name, "variant": "get", "depth": pipeline}
            lines.append([name, str(pipeline)] + [figures.number(results.median(key, **here), 0) for key in
                                                  ("rps", "p50", "p95", "p99", "max")])
    return figures.table(["server", "pipeline", "GET/s", "p50, us", "p95, us", "p99, us", "longest, us"], lines)


def ways_table(results):
    lines = []
    for way in WAYS:
        line = [way]
        for work in WORK_US:
            here = {"experiment": "ways", "program": way, "variant": work}
            line += [figures.number(results.median(key, **here), digits) for key, digits in (("cpu_us", 2), ("rps", 0), ("p99", 0))]
        lines.append(line)
    heads = [f"{head}, {work} us of work" for work in WORK_US for head in ("CPU us", "lines/s", "p99 us")]
    return figures.table(["--sharing", *heads], lines)


def texts(results, wanted):
    about = figures.machine_text(results.about)
    version = re.search(r"v=[\d.]+", results.about["redis"])
    return {"beside redis": "\n\n".join([about + f" redis-server {version[0] if version else '?'}.", store_table(results, wanted), "How long a GET takes, beside the others:",
                                         tail_table(results, wanted)]),
            "four ways": "\n\n".join([about, ways_table(results)])}


def main():
    parser = argparse.ArgumentParser(description="Measures the store beside redis-server, and four ways to share.")
    parser.add_argument("--build", default="build")
    parser.add_argument("--docs")
    parser.add_argument("--rounds", type=int, default=10)
    parser.add_argument("--requests", type=int, default=100000, help="one at a time; eight times as many at pipeline 16")
    arguments = parser.parse_args()
    build = os.path.abspath(arguments.build)
    wanted, rows, failures = stores(build), [], []
    about = dict(measure.machine(), rounds=arguments.rounds)
    about["redis"] = measure.first_line(["redis-server", "--version"])
    dice, jobs = random.Random(1), []
    for number in range(arguments.rounds):
        order = [*wanted, *((way, work) for way in WAYS for work in WORK_US)]
        dice.shuffle(order)
        jobs += [(number, job) for job in order]
    progress = measure.Progress(len(jobs))
    for number, job in jobs:
        progress.step(f"round {number + 1}: {job[0]}")
        try:
            if len(job) == 2:
                rows.append(measure_way(build, os.path.join(build, "tests"), *job, number))
            else:
                rows += measure_store(job, arguments.requests, number)
        except (measure.Failure, subprocess.TimeoutExpired, OSError) as failure:
            failures.append(f"{job[0]}: {failure}")
    progress.end()
    if not rows:
        sys.exit("store: nothing was measured\n" + "\n".join(failures))
    found = figures.Results(about, rows)
    figures.save(found, os.path.join(build, "bench"), "store")
    for text in texts(found, wanted).values():
        print(text, end="\n\n")
    if arguments.docs and not failures:
        bench.put(arguments.docs, "bench-store", texts(found, wanted))
    for failure in failures:
        print(f"store: FAILED: {failure}", file=sys.stderr)
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
