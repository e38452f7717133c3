"""Makes the cards of our servers and of those that people know, and writes docs/cards.md.

    usage: python3 -B tests/card/cards.py [--build FOLDER] [--docs FILE] [--slow SEC] [--only SERVER]...

Starts nginx, redis-server, memcached and HAProxy, where they are installed, and ours beside them, all on free ports and
with folders of their own; and ends them. All have the options that the page names. What is not installed is left out,
and the page says so. The slow clients of all servers wait at the same time; everything else is done one server at a time.
"""

import argparse
import contextlib
import os
import shutil
import signal
import sys
import tempfile
import threading

sys.path.insert(0, os.path.join(os.path.dirname(__file__), "..", "bench"))

import bench
import card
import measure
import real
import results as figures

PACKAGES = {"nginx": "nginx-light", "redis-server": "redis-server", "memcached": "memcached", "HAProxy": "haproxy"}
REDIS = """
bind 127.0.0.1
port {port}
dir {folder}
save ""
appendonly no
logfile /dev/null
"""


def peers(folder, to):
    """Name, program, protocol and server of those that people know."""
    yield "nginx", "nginx", "http", measure.nginx(folder)
    yield "HAProxy", "haproxy", "line", measure.configured(
        real.HAPROXY, lambda path, _: ["haproxy", "-q", "-db", "-f", path], to=to)
    yield "redis-server", "redis-server", "redis", measure.configured(REDIS, lambda path, _: ["redis-server", path])
    yield "memcached", "memcached", "memcached", measure.configured("{port}", memcached)


def memcached(path, _):
    with open(path, encoding="ascii") as file:
        port = file.read()
    return ["memcached", "-l", "127.0.0.1", "-p", port, "-U", "0", "-t", "1"] + (["-u", "root"] if os.getuid() == 0 else [])


def servers(programs, folder, to):
    """Name, protocol and server, each beside what it can be compared with."""
    others = {name: (protocol, server) for name, program, protocol, server in peers(folder, to) if shutil.which(program)}

    def stage(number, name, protocol, *options):
        command = programs.stage(number, "--log", "error", *options)
        return [(f"stage {number}{name}", protocol, measure.ours(command))] if command else []

    def other(name):
        return [(name, *others[name])] if name in others else []

    for number in range(1, 6):
        yield from stage(number, "", "line")
    yield from other("HAProxy")
    for number in (4, 5):
        yield from stage(number, ", relay", "line", "--app", "relay", "--to", f"127.0.0.1:{to}")
    yield from other("nginx")
    for number in (1, 2, 3, 4, 5):
        yield from stage(number, ", http", "http", "--app", "http", "--root", folder)
    yield from other("redis-server")
    for number in (4, 5):
        yield from stage(number, ", store", "redis", "--app", "store")
    yield from other("memcached")


def make(wanted, slow):
    """The rows of each server, by its name; and what went wrong."""
    found, failures, turn = {}, [], threading.Lock()

    def one(name, protocol, port, pid):
        try:
            found[name] = card.Card(("127.0.0.1", port), protocol, pid, "/page.txt", slow).rows(turn=turn)
        except (card.Wrong, OSError) as error:
            failures.append(f"{name}: {error}")
            return
        print(f"{name}\n{card.text(found[name])}\n", flush=True)

    with contextlib.ExitStack() as stack:
        threads = [threading.Thread(target=one, args=(name, protocol, *stack.enter_context(server())), daemon=True)
                   for name, protocol, server in wanted]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    return {name: found[name] for name, _, _ in wanted if name in found}, failures


def table(found, case):
    return figures.table(["server", "what it does", "in numbers"], [
        [name, row.does, row.numbers] for name, rows in found.items() for row in rows if row.case == case])


def main():
    parser = argparse.ArgumentParser(description="Cards of our servers and of those that people know.")
    parser.add_argument("--build", default="build")
    parser.add_argument("--docs")
    parser.add_argument("--slow", type=int, default=75, metavar="SEC")
    parser.add_argument("--only", action="append", metavar="SERVER")
    arguments = parser.parse_args()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # and whatever was started is ended
    programs = bench.Programs(arguments.build)
    about = dict(measure.machine(), rounds=1)
    with tempfile.TemporaryDirectory() as folder, contextlib.ExitStack() as stack:
        os.chmod(folder, 0o755)
        with open(os.path.join(folder, "page.txt"), "w", encoding="ascii") as file:
            file.write("x" * 1023 + "\n")
        to, _ = stack.enter_context(measure.ours(programs.stage(2), -1)())
        wanted = [server for server in servers(programs, folder, to) if not arguments.only or server[0] in arguments.only]
        found, failures = make(wanted, arguments.slow)
    missing = [f"{name} is not installed here ({package}), so it has no card." for name, package in PACKAGES.items()
               if name not in found]
    parts = {"cards": " ".join([figures.machine_text(about, "")] + missing)}
    parts.update({case: table(found, case) for case in card.CASES})
    for failure in failures:
        print(f"cards: FAILED: {failure}", file=sys.stderr)
    if arguments.docs:
        bench.put(arguments.docs, "cards", parts)
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
