#!/usr/bin/env python3
"""Measures what several machines cost, and writes that into docs/machines.md. Three minutes.

    usage: tests/machines/machines_bench.py [--docs FILE]

A line costs its server and its broker processor time, counted by the kernel for each thread; whatever
else the machine does can only add to it, so the least of some rounds is what counts. Lines are
said one at a time, so that none leaves together with another one. From four of the figures follow the
costs of single steps (costs.txt); cost_of_a_line.awk gets the others from these, and the table says by
how much it is wrong. Failures are those of machines_test.py, which says what was lost.
"""

import argparse
import contextlib
import os
import re
import selectors
import socket
import statistics
import subprocess
import sys
import time

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [HERE, os.path.join(os.path.dirname(HERE), "bench")]
import bench  # noqa: E402
import lab as labs  # noqa: E402
import measure  # noqa: E402
import results as figures  # noqa: E402
from lab import Lab  # noqa: E402

COSTS = os.path.join(HERE, "costs.txt")
SIMULATION = os.path.join(HERE, "cost_of_a_line.awk")
USERS = (30, 90)
LINES = 1500
RATE = 250  # lines a second
ROUNDS = 3


# ---- a crowd that listens ------------------------------------------------------------------------


class Crowd:
    """Users on all servers in turn. The first on each server talks, the second has a watch."""

    def __init__(self, lab, count):
        self.selector = selectors.DefaultSelector()
        self.sockets = []
        for i in range(count):
            server = lab.servers[i % len(lab.servers)]
            connection = socket.create_connection((server.host.address, server.port), labs.PATIENCE)
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            self.sockets.append(connection)
            self.selector.register(connection, selectors.EVENT_READ, i)
        self.servers = len(lab.servers)
        self.rests = {}
        self.heard = 0
        self.said_at = {}
        self.latencies = {"same": [], "other": []}

    def listen(self, until):
        while True:
            left = until - time.monotonic()
            if left <= 0:
                return
            for key, _ in self.selector.select(left):
                data = key.fileobj.recv(65536)
                if not data:
                    raise labs.Missed("a user was disconnected")
                if key.data < 2 * self.servers:
                    self.note(key.data, data)
                self.heard += data.count(b"] line ")

    def note(self, hearer, data):
        now = time.monotonic()
        *lines, self.rests[hearer] = (self.rests.get(hearer, b"") + data).split(b"\n")
        for line in lines:
            match = re.search(rb"\] line (\d+)$", line)
            if match and hearer >= self.servers:
                number = int(match.group(1))
                same = number % self.servers == hearer % self.servers
                self.latencies["same" if same else "other"].append(now - self.said_at[number])

    def talk(self, count):
        """Says so many lines, evenly; True if everybody has heard each of them."""
        self.heard, self.said_at = 0, {}
        begin = time.monotonic() + 0.01
        for number in range(count):
            self.listen(begin + number / RATE)
            self.said_at[number] = time.monotonic()
            self.sockets[number % self.servers].sendall(b"line %d\n" % number)
        wanted = count * (len(self.sockets) - 1)
        end = time.monotonic() + labs.PATIENCE
        while self.heard < wanted and time.monotonic() < end:
            self.listen(time.monotonic() + 0.02)
        return self.heard == wanted

    def close(self):
        for connection in self.sockets:
            connection.close()
        self.selector.close()


def measure_line(servers, broker, users):
    """Processor time of a line in microseconds, and how long it takes to others in milliseconds."""
    with Lab(servers=servers, broker=broker, balancer=False) as lab:
        crowd = Crowd(lab, users)
        try:
            crowd.listen(time.monotonic() + 1)  # everybody has come, and all servers know it
            crowd.talk(200)
            crowd.latencies = {"same": [], "other": []}
            machines = lab.servers + ([lab.broker] if broker else [])
            before = [machine.cpu_seconds() for machine in machines]
            if not crowd.talk(LINES):
                raise labs.Missed(f"{crowd.heard} lines were heard, and not all")
            spent = [(machine.cpu_seconds() - start) * 1e6 / LINES
                     for machine, start in zip(machines, before)]
        finally:
            crowd.close()
    return {"servers": sum(spent[:servers]), "broker": sum(spent[servers:]),
            "latencies": crowd.latencies}


# ---- steps, and the simulation -------------------------------------------------------------------


def steps(cells):
    """The cost of single steps, from the smallest and the largest cells."""
    few, many = USERS
    alone, crowded = cells[1, False, few], cells[1, False, many]
    one, three = cells[1, True, few], cells[3, True, few]
    out = (crowded["servers"] - alone["servers"]) / (many - few)
    sub = (three["servers"] - one["servers"]) / 2
    copy = (three["broker"] - one["broker"]) / 2
    return {"in": alone["servers"] - out * (few - 1), "out": out, "sub": sub,
            "pub": one["servers"] - alone["servers"] - sub, "copy": copy,
            "take": one["broker"] - copy}


def write_costs(costs):
    with open(COSTS, encoding="ascii") as file:
        comments = [line for line in file if line.startswith("#")]
    with open(COSTS, "w", encoding="ascii") as file:
        file.writelines(comments + [f"{name} {cost:.2f}\n" for name, cost in costs.items()])


def simulate(**settings):
    command = ["awk"]
    for name, value in settings.items():
        command += ["-v", f"{name}={value}"]
    done = subprocess.run(command + ["-f", SIMULATION, COSTS], check=True, capture_output=True,
                          text=True, timeout=60)
    return {name: float(value) for name, value in map(str.split, done.stdout.splitlines())}


def line_table(cells):
    rows, worst = [], 0
    for (servers, broker, users), cell in cells.items():
        found = cell["servers"] + cell["broker"]
        beside = cells[1, False, users]["servers"]
        simulated = simulate(servers=servers, users=users, broker=int(broker))["line_us"]
        worst = max(worst, abs(simulated / found - 1))
        rows.append([f"{servers}" + ("" if broker else ", no broker"), str(users),
                     f"{cell['servers']:.0f}", f"{cell['broker']:.0f}",
                     f"{found / (users - 1):.2f}", f"{found / beside:.2f}", f"{simulated:.0f}",
                     f"{(simulated / found - 1) * 100:+.0f} %"])
    return figures.table(["servers", "users", "servers, us", "redis, us", "a line delivered, us",
                          "beside one machine", "simulated, us", "wrong by"], rows), worst


def latency_table(cells):
    rows = []
    for (servers, broker, users), cell in cells.items():
        for where, found in cell["latencies"].items():
            if len(found) > 100:
                cuts = statistics.quantiles(found, n=100)
                rows.append([f"{servers}" + ("" if broker else ", no broker"), str(users), where,
                             f"{cuts[49] * 1e3:.2f}", f"{cuts[98] * 1e3:.2f}"])
    return figures.table(["servers", "users", "listener is on", "half within, ms",
                          "99 % within, ms"], rows)


# Users, and servers for 20,000 each; at least three, because one may die.
PAPER = ((10**4, 3), (10**6, 50), (10**8, 5000))
LAYOUTS = (("all in one room", {"layout": "one"}),
           ("rooms of 50, one channel", {"layout": "one", "room": 50}),
           ("rooms of 50, a channel each", {"layout": "rooms", "room": 50}),
           ("the same, a broker for 5 servers", {"layout": "sharded", "room": 50}))


def paper_table():
    rows = []
    for users, servers in PAPER:
        for name, layout in LAYOUTS:
            found = simulate(users=users, servers=servers, nodes=-(-servers // 5), **layout)
            full = {part: found[f"{part}_full"] for part in ("broker", "network", "servers")}
            rows.append([f"{users:,}", f"{servers:,}", name, f"{found['copies']:,.0f}",
                         f"{found['deliveries']:,.0f}"] + [f"{part:.2g}" if part < 100 else
                                                           f"{part:,.0f}" for part in full.values()] +
                        [max(full, key=full.get) if max(full.values()) > 1 else "none"])
    return figures.table(["users", "servers", "layout", "copies of a line", "deliveries",
                          "broker", "its network", "servers", "first too full"], rows)


# ---- failures ------------------------------------------------------------------------------------


def failures():
    """What machines_test.py says of each failure: `machines: NAME (stage N): T s; WHAT`."""
    script = os.path.join(HERE, "machines_test.py")
    done = subprocess.run([sys.executable, "-B", script, "--stage", "5"], capture_output=True,
                          text=True, timeout=900)
    if done.returncode != 0:
        sys.exit(f"bench: a failure has no figures, because its test fails:\n{done.stdout}")
    rows = []
    for line in done.stdout.splitlines():
        match = re.match(r"machines: (\w+) \(stage 5\): [0-9.]+ s; (.*)", line)
        if match:
            rows.append([match.group(1).replace("_", " ")] + match.group(2).split("; "))
    width = max(map(len, rows), default=1)
    return figures.table(["failure", "lines lost", "said on Ann's side", "on Bob's", "heals within"],
                         [row + [""] * (width - len(row)) for row in rows])


def machine_text(about):
    busy = "" if about["load_average"] < 0.5 else (
        f" The machine was busy with other things (load average {about['load_average']}): processor "
        "times hold, latencies do not say much.")
    return (f"{about['processors']} processors ({about['processor']}), {about['system']}; "
            f"{about['date']}; processor times are the least of {ROUNDS} rounds. All machines are network namespaces on "
            f"this one.{busy}")


def main():
    parser = argparse.ArgumentParser(description="Measures the chat on several machines.")
    parser.add_argument("--docs", default=os.path.join(labs.TOP, "docs", "machines.md"))
    arguments = parser.parse_args()
    if labs.missing():
        sys.exit(f"bench: {labs.missing()} is not installed")
    labs.enter()
    kinds = [(servers, broker, users) for servers, broker in
             ((1, False), (1, True), (2, True), (3, True)) for users in USERS]
    found = {kind: [] for kind in kinds}
    for number in range(ROUNDS):
        for kind in kinds:
            print(f"bench: round {number + 1}: servers, broker, users: {kind}", file=sys.stderr)
            found[kind].append(measure_line(*kind))
    cells = {}
    for kind, several in found.items():
        cells[kind] = {part: min(one[part] for one in several)
                       for part in ("servers", "broker")}
        cells[kind]["latencies"] = {where: sum((one["latencies"][where] for one in several), [])
                                    for where in ("same", "other")}
    write_costs(steps(cells))
    table, worst = line_table(cells)
    parts = {"machine": machine_text(measure.machine()), "line": table,
             "latency": latency_table(cells), "paper": paper_table()}
    for part in parts.values():
        print(part, end="\n\n")
    os.environ.pop("MACHINES_IN")
    parts["failures"] = failures()
    print(parts["failures"])
    bench.put(arguments.docs, "bench-machines", parts)
    if worst > 0.2:
        print(f"bench: the simulation is wrong by {worst:.0%}", file=sys.stderr)
    return int(worst > 0.2)


if __name__ == "__main__":
    with contextlib.suppress(KeyboardInterrupt):
        sys.exit(main())
    sys.exit(130)
