"""Runs the load generator against servers, one after the other, and collects what it says.

A cell is one thing to measure: a server with its options under one load. All cells of an experiment
are measured once in each round, the servers of one load right after each other, so that a machine
that gets slower or faster meanwhile does so for all. Figures are medians over the rounds, and ratios
are medians of the ratios within a round.
"""

import collections
import contextlib
import json
import os
import shutil
import socket
import subprocess
import sys
import tempfile
import time

PROCESSORS = sorted(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else [0]


class Cell:
    """A server under a load. `group` says what it is compared within: an experiment and a load."""

    def __init__(self, experiment, program, server, load, variant="", pinned=None):
        self.experiment = experiment
        self.program = program
        self.server = server  # a command line, or a function that serves as a context
        self.load = load  # the load generator's options, without the dashes
        self.variant = variant
        self.pinned = pinned  # options for the load generator; None: a processor for the server, another one for the load

    def key(self):
        return (self.experiment, self.program, self.variant, tuple(sorted(self.load.items())))

    def __str__(self):
        text = f"{self.program}, {self.load.get('connections', 100)} connections"
        if self.load.get("idle"):
            text += f", {self.load['idle']} idle"
        if self.load.get("depth", 1) != 1:
            text += f", depth {self.load['depth']}"
        return text + (f", {self.variant}" if self.variant else "")


class Failure(Exception):
    pass


def pins():
    """The server on the first processor, the load on the last, if there are two."""
    if len(PROCESSORS) < 2:
        return []
    return ["--pin-server", str(PROCESSORS[0]), "--pin-load", str(PROCESSORS[-1])]


def run_load(tools, options, server, pinned=None):
    """What the load generator says, in one flat dictionary."""
    command = [os.path.join(tools, "load"), "--json"] + (pins() if pinned is None else pinned)
    for name, value in options.items():
        command += ["--" + name.replace("_", "-"), str(value)]
    done = subprocess.run(command + server, capture_output=True, text=True, timeout=120)
    if done.returncode != 0:
        raise Failure(done.stderr.strip().splitlines()[-1] if done.stderr.strip() else "load failed")
    result = json.loads(done.stdout)
    for name in ("latency", "from_sending"):
        for quantile, value in result.pop(name + "_us", {}).items():
            result[f"{name}_{quantile}_us"] = value
    return result


def measure(tools, cell):
    """One run of a cell."""
    if callable(cell.server):
        with cell.server() as (port, pid):
            result = run_load(tools, dict(cell.load, port=port, pid=pid), [])
    else:
        result = run_load(tools, cell.load, ["--"] + cell.server, cell.pinned)
    result.update(experiment=cell.experiment, program=cell.program, variant=cell.variant)
    return result


class Progress:
    """A bar on standard error; lines now and then where that is no terminal."""

    def __init__(self, total, budget=None):
        self.total = total
        self.done = 0
        self.began = time.monotonic()
        self.budget = budget
        self.said = 0.0

    def show(self, what):
        now = time.monotonic()
        part = self.done / self.total if self.total else 1
        passed = now - self.began
        if self.budget:
            part = max(part, passed / self.budget)
        left = passed / part - passed if part > 0.02 else None
        tail = f"{min(part, 1):4.0%}" + (f", {left:.0f} s left" if left is not None else "")
        if sys.stderr.isatty():
            bar = "#" * int(min(part, 1) * 30)
            text = f"\r[{bar:.<30}] {tail}  {what}"
            width = shutil.get_terminal_size().columns
            sys.stderr.write(text[:width] + "\033[K")
        elif now - self.said > 15:
            self.said = now
            sys.stderr.write(f"{tail}  {what}\n")
        sys.stderr.flush()

    def step(self, what):
        self.show(what)
        self.done += 1

    def end(self):
        if sys.stderr.isatty():
            sys.stderr.write("\r\033[K")


def measure_rounds(tools, cells, rounds, budget=None):
    """All cells, round by round; as many rounds as the budget of seconds lets through, one at least.

    Returns the rows, each with the number of its turn, and what went wrong.
    """
    progress = Progress(len(cells) * rounds, budget)
    rows, failures = [], []
    turns = collections.Counter()  # some cells are measured more than once in a round
    began = time.monotonic()
    for number in range(rounds):
        round_began = time.monotonic()
        for cell in cells:
            progress.step(f"round {number + 1}: {cell}")
            turn = turns[cell.key()]
            turns[cell.key()] += 1
            try:
                row = measure(tools, cell)
            except (Failure, subprocess.TimeoutExpired, OSError) as failure:
                failures.append(f"{cell}: {failure}")
                continue
            row["round"] = turn
            rows.append(row)
        now = time.monotonic()
        if budget and now - began + (now - round_began) > budget:
            break
    progress.end()
    return rows, failures


# ---- servers that are not ours ----------------------------------------------------------------


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def await_port(port, process):
    for _ in range(500):
        with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), 1):
            return
        if process.poll() is not None:
            break
        time.sleep(0.01)
    raise Failure("does not listen")


NGINX = """
daemon off;
master_process off;
worker_processes 1;
error_log stderr crit;
pid {folder}/nginx.pid;
events {{ worker_connections 20000; }}
http {{
    access_log off;
    sendfile on;
    keepalive_requests 1000000000;
    types {{ text/plain txt; }}
    client_body_temp_path {folder}/1; proxy_temp_path {folder}/2; fastcgi_temp_path {folder}/3;
    uwsgi_temp_path {folder}/4; scgi_temp_path {folder}/5;
    server {{ listen 127.0.0.1:{port}; root {root}; }}
}}
"""


def configured(text, command, **words):
    """A server of somebody else's, with its configuration; all it writes is in a folder that goes. command(path, folder)
    is its command line."""

    @contextlib.contextmanager
    def serve():
        with tempfile.TemporaryDirectory() as folder:
            os.chmod(folder, 0o755)
            port = free_port()
            path = os.path.join(folder, "configuration")
            with open(path, "w", encoding="ascii") as file:
                file.write(text.format(folder=folder, port=port, **words))
            with on_processor(command(path, folder), 0, stderr=subprocess.DEVNULL) as process:
                await_port(port, process)
                yield port, process.pid

    return serve


def ours(command, processor=0):
    """A server of ours, for a client that is not the load generator or for a server that it is behind."""

    @contextlib.contextmanager
    def serve():
        with on_processor(command, processor, stdout=subprocess.PIPE, text=True) as process:
            yield int(process.stdout.readline().rsplit(":", 1)[1]), process.pid

    return serve


@contextlib.contextmanager
def on_processor(command, processor, **streams):
    def pin():
        if len(PROCESSORS) > 1:
            os.sched_setaffinity(0, [PROCESSORS[processor]])

    with subprocess.Popen(command, preexec_fn=pin, **streams) as process:
        try:
            yield process
        finally:
            process.terminate()
            process.wait(timeout=30)


def nginx(root):
    """nginx in front of a folder: one process, access log off."""
    return configured(NGINX, lambda path, folder: ["nginx", "-p", folder, "-c", path, "-e", "stderr"], root=root)


# ---- the machine ------------------------------------------------------------------------------


def first_line(command):
    try:
        return subprocess.run(command, capture_output=True, text=True).stdout.splitlines()[0]
    except (OSError, IndexError):
        return ""


FEW, MANY = 2000, 12000  # messages


def counted(tools, server, load, folder):
    """What a counted server (counted.c) has counted, and the messages that it has answered."""
    path = os.path.join(folder, "counts")
    os.environ["COUNTS"] = path
    messages = run_load(tools, load, ["--"] + server)["all_replies"]
    with open(path, encoding="ascii") as file:
        return json.load(file), messages


def a_line(run, load):
    """The cost of a message, by name. run(load) is what a run costs, and the messages that it had."""
    few, messages = run(dict(load, requests=FEW))
    many, more_messages = run(dict(load, requests=MANY))
    return {name: (count - few.get(name, 0)) / (more_messages - messages) for name, count in many.items() if name != "held"}


def machine():
    """What a reader has to know of the machine; nothing that names it."""
    about = {"processors": os.cpu_count(), "system": " ".join(os.uname()[i] for i in (0, 2, 4))}
    with contextlib.suppress(OSError), open("/proc/cpuinfo", encoding="utf-8") as file:
        for line in file:
            if line.startswith("model name"):
                about["processor"] = line.split(":", 1)[1].strip()
                break
    with contextlib.suppress(OSError), open("/proc/meminfo", encoding="utf-8") as file:
        about["memory_gib"] = round(int(file.readline().split()[1]) / 1048576)
    about["compiler"] = first_line([os.environ.get("CC", "cc"), "--version"])
    about["date"] = time.strftime("%Y-%m-%d")
    about["load_average"] = round(os.getloadavg()[0], 1)
    return about
