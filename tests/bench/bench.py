"""Measures the stages beside floors and peers.

    usage: python3 tests/bench/bench.py quick|full|table|beside [--build FOLDER] [--docs FILE] [--other FOLDER]

quick    every stage at 1, 100 and 1,000 connections, depth 1 and 16; ten clients beside a silent crowd; a crowd that comes
         and goes; three minutes at most
full     more connections, idle crowds, slow messages, chat, system calls
table    draws what was measured last, and writes it into the document, between its markers
beside   the floor, and every stage beside the one in the other build folder, of an older checkout, say: in ten rounds, in
         which the two of a stage follow each other; writes that into the document

Results go to FOLDER/bench/ as quick.csv and quick.json, or full.csv and full.json, and pictures.
Needs nothing but Python, and the programs that `make bench` builds.
"""

import argparse
import glob
import os
import re
import resource
import shutil
import subprocess
import sys
import tempfile

import measure
import plots
import results as figures
from measure import Cell
from results import STAGE_5

QUICK_SECONDS, CROWD_SECONDS = 80, 60
FULL_ROUNDS = 4
CONNECTIONS = (1, 100, 1000)
MANY_CONNECTIONS = (1, 10, 100, 1000)
MOST_CONNECTIONS = (10000,)
SHORT = {"warm_up": 0.1, "duration": 0.3}
LONG = {"warm_up": 0.1, "duration": 0.5}


# ---- who is measured --------------------------------------------------------------------------


class Programs:
    """What there is to measure: name and command line."""

    def __init__(self, build):
        self.tools = os.path.join(build, "tests")
        self.stages = {}
        for path in sorted(glob.glob(os.path.join(build, "stage[1-5]-*"))):
            if os.access(path, os.X_OK) and os.path.isfile(path):
                number = int(re.search(r"stage(\d)-", path).group(1))
                self.stages[number] = [path, "--port", "0"]

    def tool(self, name):
        path = os.path.join(self.tools, name)
        return [path] if os.access(path, os.X_OK) else None

    def ring(self):
        """The floor on io_uring, which ends at once where a kernel or a sandbox forbids that."""
        tool = self.tool("raw_uring")
        if tool:
            with subprocess.Popen(tool, stdout=subprocess.PIPE, text=True) as server:
                said = server.stdout.readline()
                server.kill()
            if "echo on" not in said:
                print(f"left out: {said.strip()}", file=sys.stderr)
                return None
        return tool

    def stage(self, number, *options):
        return self.stages[number] + list(options) if number in self.stages else None

    def with_workers(self, workers):
        """All stages, those that have workers with so many."""
        found = {"stage 1": self.stage(1), "stage 2": self.stage(2)}
        for number in (3, 4):
            found[f"stage {number}"] = self.stage(number, "--workers", str(workers))
        found[STAGE_5] = self.stage(5, "--dispatchers", "1", "--workers", "0")
        found[f"stage 5, {workers} workers"] = self.stage(
            5, "--dispatchers", "1", "--workers", str(workers))
        return {name: command for name, command in found.items() if command}

    def floors_and_peers(self):
        found = {"raw threads": self.tool("raw_threads"), "raw epoll": self.tool("raw_epoll"),
                 "raw io_uring": self.ring(), "libevent": self.tool("peer_libevent"), "libuv": self.tool("peer_libuv")}
        return {name: command for name, command in found.items() if command}

    def all(self, workers=4):
        return {**self.floors_and_peers(), **self.with_workers(workers)}


# ---- experiments ------------------------------------------------------------------------------


def echo(programs, connections, depths, times):
    for count in connections:
        for depth in depths:
            for name, server in programs.all().items():
                yield Cell("echo", name, server, dict(times, connections=count, depth=depth))


def crowd_of(wanted):
    """As many connections, or what the limit of descriptors leaves room for."""
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    return min(wanted, most - 1000) if most != resource.RLIM_INFINITY else wanted


def idle(programs, crowds):
    for name, server in programs.all().items():
        for crowd in crowds:
            yield Cell("idle", name, server, dict(LONG, connections=100, idle=crowd))


def few(programs):
    """Ten clients that are busy, alone and beside a crowd that says nothing."""
    for name, server in programs.all().items():
        for crowd in (0, crowd_of(10000)):
            yield Cell("few", name, server, dict(LONG, connections=10, idle=crowd))


def visits(programs):
    """A crowd that comes, says a line each and leaves."""
    for name, server in programs.all().items():
        if name != "raw io_uring":
            yield Cell("visits", name, server, {"connections": crowd_of(18000), "duration": 0.3}, "visits")


def slow(programs):
    """The slowest percent of the replies is left out: what is left are the other messages."""
    load = dict(LONG, duration=1, connections=100, rate=2000, set_aside=1)
    for name, server in programs.with_workers(8).items():
        yield Cell("slow", name, server, load)
        yield Cell("slow", name, server + ["--block-ms", "10", "--cost-every", "100"], load, "slow")


def chat(programs):
    load = dict(LONG, traffic="chat", connections=1000)
    raw = programs.tool("raw_epoll")
    yield Cell("chat", "raw epoll", raw + ["--to-all"], load)
    for name, server in programs.with_workers(4).items():
        if name.startswith(("stage 4", "stage 5")):
            yield Cell("chat", name, server + ["--app", "chat"], load)


# ---- system calls -----------------------------------------------------------------------------


def read_strace(path):
    calls = {}
    with open(path, encoding="ascii") as file:
        for line in file:
            words = line.split()
            if len(words) >= 5 and words[0][0].isdigit() and words[-1] != "total":
                calls[words[-1]] = int(words[3])
    return calls


def count_calls(tools, server, load, folder):
    """System calls by name, and messages. strace goes beside the server, which stays our child."""
    path = os.path.join(folder, "calls")
    command = ["strace", "-D", "-f", "-c", "-o", path] + server
    result = measure.run_load(tools, load, ["--"] + command)
    for _ in range(200):
        if os.path.exists(path) and os.path.getsize(path) > 0:
            break
        measure.time.sleep(0.01)
    calls = read_strace(path)
    os.remove(path)
    return calls, result["all_replies"]


def calls_a_message(tools, server, depth, folder):
    load = {"connections": 100, "depth": depth, "warm_up": 0, "requests": 20000}
    calls, messages = count_calls(tools, server, load, folder)
    return {name: count / messages for name, count in calls.items() if count / messages >= 0.01}


def system_calls(programs, folder):
    if shutil.which("strace") is None:
        print("bench: no strace, so no table of system calls", file=sys.stderr)
        return {}
    counted = {}
    for name, server in programs.all().items():
        for depth in (1, 16):
            try:
                counted[f"{name}, {depth}"] = calls_a_message(programs.tools, server, depth,
                                                              folder)
            except (measure.Failure, OSError) as failure:
                print(f"bench: strace: {name}: {failure}", file=sys.stderr)
    return counted


def calls_table(counted):
    names = sorted({name for calls in counted.values() for name in calls},
                   key=lambda name: -sum(calls.get(name, 0) for calls in counted.values()))
    lines = [[what, f"{sum(calls.values()):.2f}"] +
             [figures.number(calls.get(name)) for name in names]
             for what, calls in counted.items()]
    return figures.table(["program, depth", "all"] + names, lines)


# ---- locks ------------------------------------------------------------------------------------


def mutexes(programs, build):
    """The mutexes that a message takes with 100 connections and depth 1, by program, in servers that count them."""
    twins = Programs(os.path.join(build, "counted")).with_workers(4)
    load = {"connections": 100, "depth": 1, "warm_up": 0}
    found = {}
    with tempfile.TemporaryDirectory() as folder:
        for name, server in twins.items():
            cost = measure.a_line(lambda load, server=server: measure.counted(programs.tools, server, load, folder), load)
            found[name] = round(cost["mutexes"], 2)
    return found


# ---- the document -----------------------------------------------------------------------------

BEGIN = "<!-- written by make {}: {} -->"
END = "<!-- end -->"


def folded(summary, *tables):
    """The numbers of a picture, for those who want them."""
    return f"<details><summary>{summary}</summary>\n\n" + "\n\n".join(tables) + "\n\n</details>"


def parts(results, pictures):
    """What goes between which markers: pictures with their numbers folded, or the numbers alone."""
    latencies = [("p50, us", "latency_p50_us", 0), ("p99, us", "latency_p99_us", 0),
                 ("p99.9, us", "latency_p99.9_us", 0)]
    cost = [("CPU, us a reply", "cpu_us_per_reply", 2), ("replies/s", "replies_per_second", 0)]

    def shown(summary, table, *names):
        return "\n\n".join([pictures[name] for name in names if name in pictures] + [folded(summary, table)])

    yield "machine", figures.machine_text(results.about)
    yield "cpu", shown("As a ratio to the raw epoll loop, in numbers",
                       figures.echo_table(results, "cpu_us_per_reply", 2, "raw epoll"), "cpu-1", "cpu-16")
    yield "microseconds", folded("In microseconds", figures.echo_table(results, "cpu_us_per_reply", 2))
    yield "throughput", folded("Replies per second", figures.echo_table(results, "replies_per_second", 0))
    yield "latency", shown("The 99th percentile of all loads, in microseconds",
                           figures.echo_table(results, "latency_p99_us", 0), "latency")
    yield "targets", figures.target_table(results)
    if results.about.get("system_calls"):
        yield "calls", folded("System calls for each message", calls_table(results.about["system_calls"]))
    if results.select(experiment="idle"):
        yield "idle", shown("In numbers, with the CPU time of a message of the active connections",
                            figures.experiment_table(results, "idle", [("idle", "idle", 0)] + cost[:1] + [
                                ("bytes a connection", "bytes_per_connection", 0), ("threads", "threads", 0)]),
                            "memory")
    if results.select(experiment="few"):
        yield "few", figures.few_table(results)
    if results.select(experiment="visits"):
        yield "visits", figures.visits_table(results)
    if results.select(experiment="slow"):
        yield "slow", shown("In numbers, beside the same load without slow messages", figures.experiment_table(
            results, "slow", [("slow messages", "variant", None)] + latencies), "slow")
    if results.select(experiment="chat"):
        yield "chat", figures.experiment_table(results, "chat", cost + latencies[:2])


def put(path, target, found):
    """Writes what a target has measured into a document, each part between its markers."""
    with open(path, encoding="utf-8") as file:
        text = file.read()
    for name, part in found.items():
        begin = BEGIN.format(target, name)
        start = text.find(begin)
        stop = text.find(END, start)
        if start < 0 or stop < 0:
            sys.exit(f"bench: {path}: no place for {name}: {begin} ... {END}")
        text = text[:start] + begin + "\n\n" + part + "\n\n" + text[stop:]
    with open(path, "w", encoding="utf-8") as file:
        file.write(text)
    print(f"bench: {path}")


# ---- what can be asked for --------------------------------------------------------------------


def finish(rows, failures, folder, kind, about):
    if not rows:
        sys.exit("bench: nothing was measured\n" + "\n".join(failures))
    found = figures.Results(about, rows)
    counts = sorted(found.rounds().values())
    about["rounds"] = f"{counts[0]} to {counts[-1]}" if counts[0] < counts[-1] else counts[0]
    figures.save(found, folder, kind)
    pictures = plots.draw_all(found, folder)
    print(figures.machine_text(about))
    for title, field, digits, of in (
            ("CPU time of the server, microseconds a reply:", "cpu_us_per_reply", 2, None),
            ("The same as a ratio to the raw epoll loop:", "cpu_us_per_reply", 2, "raw epoll"),
            ("Replies a second:", "replies_per_second", 0, None)):
        print(f"\n{title}\n\n{figures.echo_table(found, field, digits, of)}")
    for experiment, title, table in (("few", "Ten clients beside a silent crowd", figures.few_table),
                                     ("visits", "A crowd of which each says one line and leaves", figures.visits_table)):
        if found.select(experiment=experiment):
            print(f"\n{title}, microseconds of CPU time:\n\n{table(found)}")
    print(f"\nTargets:\n\n{figures.target_table(found, True)}\n")
    print(f"bench: {os.path.join(folder, kind)}.csv and .json" +
          (f", {len(pictures)} pictures" if pictures else ""))
    for failure in failures:
        print(f"bench: FAILED: {failure}", file=sys.stderr)
    return 1 if failures else 0


def say_what_is_missing(programs):
    for name in ("libevent", "libuv"):
        if programs.tool("peer_" + name) is None:
            print(f"bench: {name} is not installed (lib{name[3:]}-dev); left out", file=sys.stderr)
    for number in range(1, 6):
        if number not in programs.stages:
            print(f"bench: there is no stage {number}; left out", file=sys.stderr)


def quick(programs, build, folder):
    about = measure.machine()
    about["mutexes"] = mutexes(programs, build)
    cells = list(echo(programs, CONNECTIONS, (1, 16), SHORT))
    rows, failures = measure.measure_rounds(programs.tools, cells, 5, QUICK_SECONDS)
    crowds, failed = measure.measure_rounds(programs.tools, list(few(programs)) + list(visits(programs)), 3, CROWD_SECONDS)
    rows, failures = rows + crowds, failures + failed
    return finish(rows, failures, folder, "quick", about)


def full(programs, build, folder, rounds):
    about = measure.machine()
    about["mutexes"] = mutexes(programs, build)
    with tempfile.TemporaryDirectory() as files:
        os.chmod(files, 0o755)
        cells = list(echo(programs, MANY_CONNECTIONS, (1, 16), LONG))
        cells += list(echo(programs, MOST_CONNECTIONS, (1,), LONG))
        cells += list(idle(programs, (0, 1000, 10000))) + list(chat(programs))
        # What the targets are about is measured more often.
        cells += list(echo(programs, (100,), (1, 16), LONG)) * 2 + list(idle(programs, (0, 10000)))
        cells += list(slow(programs)) * 2 + list(few(programs)) * 2 + list(visits(programs))
        about["system_calls"] = system_calls(programs, files)
        rows, failures = measure.measure_rounds(programs.tools, cells, rounds)
    return finish(rows, failures, folder, "full", about)


def commit_of(build):
    """Which commit a build folder's tree stands at; the folder's name if nobody knows."""
    asked = subprocess.run(["git", "-C", os.path.dirname(os.path.abspath(build)), "rev-parse", "--short=7", "HEAD"],
                           capture_output=True, text=True, check=False)
    return asked.stdout.strip() or os.path.basename(os.path.dirname(os.path.abspath(build)))


def there(name):
    return f"{name}, there"


def beside(programs, other, docs):
    """Figures of this build, of the other one, and the ratios of the two."""
    others = Programs(other).with_workers(4)
    servers = {"raw epoll": programs.tool("raw_epoll")}
    for name, server in programs.with_workers(4).items():
        servers.update({name: server, there(name): others[name]} if name in others else {})
    cells = [Cell("echo", name, server, dict(LONG, connections=100, depth=depth), variant, pinned)
             for depth in (1, 16) for variant, pinned in (("one each", None), ("shared", []))
             for name, server in servers.items()]
    about = dict(measure.machine(), rounds=10)
    rows, failures = measure.measure_rounds(programs.tools, cells, about["rounds"])
    found = figures.Results(about, rows)
    text = (f"Before: commit {commit_of(other)}. {figures.machine_text(about, '')}\n\n"
            f"{figures.beside_table(found, there, 'raw epoll')}")
    print(text)
    put(docs, "bench-beside", {"beside": text})
    for failure in failures:
        print(f"bench: FAILED: {failure}", file=sys.stderr)
    return 1 if failures else 0


def main():
    parser = argparse.ArgumentParser(description="Measures the stages beside floors and peers.")
    parser.add_argument("what", choices=("quick", "full", "table", "beside", "first-read"))
    parser.add_argument("--build", default="build")
    parser.add_argument("--docs", default="docs/measuring.md")
    parser.add_argument("--rounds", type=int, default=FULL_ROUNDS, help="of full")
    parser.add_argument("--other", default="../old/build", help="of beside")
    arguments = parser.parse_args()
    folder = os.path.join(arguments.build, "bench")
    if arguments.what == "table":
        for kind in ("full", "quick"):
            if os.path.exists(os.path.join(folder, kind + ".json")):
                found = figures.load(folder, kind)
                pictures = plots.draw_all(found, os.path.join(os.path.dirname(arguments.docs), "diagrams"))
                put(arguments.docs, "bench-table", dict(parts(found, pictures)))
                return 0
        sys.exit("bench: nothing was measured yet: make bench-full")
    if arguments.what == "first-read":
        counted = subprocess.run([os.path.join(arguments.build, "tests", "first_read")],
                                 capture_output=True, check=True, text=True, timeout=120).stdout
        print(counted, end="")
        put(arguments.docs, "bench-first-read", {"first read": counted.strip()})
        return 0
    programs = Programs(arguments.build)
    say_what_is_missing(programs)
    if arguments.what == "quick":
        return quick(programs, arguments.build, folder)
    if arguments.what == "beside":
        return beside(programs, arguments.other, arguments.docs)
    return full(programs, arguments.build, folder, arguments.rounds)


if __name__ == "__main__":
    try:
        sys.exit(main())
    except KeyboardInterrupt:
        sys.exit(130)
