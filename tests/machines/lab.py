"""The machines of a chat: redis, servers, HAProxy, users, and the faults between them.

Where the system permits it each machine is a network namespace of its own, with a cable to one
switch: then a cable can be pulled and a route can lead nowhere. Where it does not, all of them are
processes on 127.0.0.1. enter() finds out which, and begins the script anew inside.

Nothing stays behind. Every process is ended by its id when its Lab ends, and by the kernel if this
script is killed (PR_SET_PDEATHSIG); namespaces go with their last process, and files with them. Every wait has an end,
and one that runs out raises Missed, which says what was awaited and what came instead.
"""

import contextlib
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time

HERE = os.path.dirname(os.path.abspath(__file__))
TOP = os.path.dirname(os.path.dirname(HERE))
CONFIGURATION = os.path.join(TOP, "docs", "examples", "haproxy.cfg")

# HAProxy and ip(8) are where some users do not look.
os.environ["PATH"] += ":/usr/local/sbin:/usr/sbin:/sbin"

PATIENCE = 15  # seconds, for what should come at once on a machine that is busy
LEASE = 2  # seconds; a server gives the broker up after half of them
SIGNATURE = b"\r\n\r\n\0\r\nQUIT\n"  # of a PROXY header; 0x20: a connection of the proxy's own
LOCAL_HEADER = SIGNATURE + b"\x20\0\0\0"


class Missed(Exception):
    """Something did not come in time."""


def run(*command, check=True, lines=()):
    return subprocess.run(command, check=check, capture_output=True, text=True, timeout=30,
                          input="".join(line + "\n" for line in lines))


def missing():
    """The first package that is needed and not there, or None."""
    programs = {"redis-server": "redis-server", "haproxy": "haproxy", "setpriv": "util-linux"}
    return next((package for program, package in programs.items()
                 if shutil.which(program) is None), None)


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def until(condition, what, within=PATIENCE, pause=0.01):
    """Waits for a condition, and returns what it returned."""
    end = time.monotonic() + within
    while True:
        found = condition()
        if found:
            return found
        if time.monotonic() > end:
            raise Missed(f"{what}: not within {within} s")
        time.sleep(pause)


# ---- the network ---------------------------------------------------------------------------------


class Namespaces:
    """A switch in the network namespace of this process, and a namespace for each machine."""

    kind = "network namespaces"
    has_cables = True
    own_address = "10.18.0.254"

    def __init__(self):
        self.count = 0
        os.makedirs("/run/netns", exist_ok=True)
        run("mount", "-t", "tmpfs", "none", "/run/netns")
        self.folder = "/run/netns/.files"
        os.mkdir(self.folder)
        run("ip", "-batch", "-", lines=(
            "link set lo up", "link add switch type bridge",
            f"addr add {self.own_address}/24 dev switch", "link set switch up"))

    def add(self):
        self.count += 1
        return NamespaceHost(self.count)

    def close(self):
        cables = [f"host{number}" for number in range(1, self.count + 1)]
        run("ip", "-force", "-batch", "-", check=False,
            lines=[f"{verb} {cable}" for cable in cables for verb in ("link del", "netns del")] +
            ["link del switch"])
        run("umount", "/run/netns", check=False)


class NamespaceHost:
    def __init__(self, number):
        self.cable = f"host{number}"
        self.address = f"10.18.0.{number}"
        self.prefix = ["nsenter", f"--net=/run/netns/{self.cable}"]
        run("ip", "-batch", "-", lines=(
            f"netns add {self.cable}",
            f"link add {self.cable} type veth peer name eth0 netns {self.cable}",
            f"link set {self.cable} master switch up"))
        run(*self.prefix, "ip", "-batch", "-", lines=(
            f"addr add {self.address}/24 dev eth0", "link set eth0 up", "link set lo up"))

    def port(self, usual):
        return usual

    def pull_cable(self, pulled=True):
        """No frame goes in or out, and nobody is told."""
        run("ip", "link", "set", self.cable, "down" if pulled else "up")

    def lose_route(self, to, lost=True):
        """What this machine sends to that one is dropped here."""
        run(*self.prefix, "ip", "route", "add" if lost else "del", "blackhole", f"{to}/32")


class Loopback:
    """All machines are this one."""

    kind = "processes on 127.0.0.1, because network namespaces are not permitted here"
    has_cables = False
    own_address = "127.0.0.1"

    def __init__(self):
        self.folder = tempfile.mkdtemp(prefix="machines.")

    def add(self):
        return LoopbackHost()

    def close(self):
        shutil.rmtree(self.folder, ignore_errors=True)


class LoopbackHost:
    address = "127.0.0.1"
    prefix = []

    def port(self, usual):
        del usual
        return free_port()


def enter():
    """Begins the script once more in namespaces of its own, where that is permitted."""
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    if os.environ.get("MACHINES_IN"):
        return
    inside = ["unshare", "-rnm", "env", "MACHINES_IN=namespaces", sys.executable, "-B"]
    probe = inside + [os.path.abspath(__file__), "probe"]
    with contextlib.suppress(OSError, subprocess.TimeoutExpired):
        if os.environ.get("MACHINES_ON") != "loopback" and \
                subprocess.run(probe, capture_output=True, timeout=20).returncode == 0:
            os.execvp(inside[0], inside + sys.argv)
    os.environ["MACHINES_IN"] = "loopback"


def network():
    return Namespaces() if os.environ.get("MACHINES_IN") == "namespaces" else Loopback()


# ---- what runs on the machines -------------------------------------------------------------------


class Machine:
    """One program on one host. It can be started again, at the same address."""

    def __init__(self, lab, name, usual_port):
        self.lab = lab
        self.name = name
        self.host = lab.network.add()
        self.port = self.host.port(usual_port)
        self.process = None
        self.log = os.path.join(lab.folder, f"{name}.log")

    @property
    def at(self):
        return f"{self.host.address}:{self.port}"

    @property
    def pid(self):
        return self.process.pid

    def spawn(self, command, environment=None):
        with open(self.log, "ab") as log:
            self.process = subprocess.Popen(
                self.host.prefix + ["setpriv", "--pdeathsig", "KILL", "--"] + command,
                stdin=subprocess.DEVNULL, stdout=log, stderr=log,
                env={**os.environ, **(environment or {})})
        self.lab.processes.append(self.process)

    def signal(self, number):
        self.process.send_signal(number)

    def kill(self):
        self.signal(signal.SIGKILL)
        self.process.wait(PATIENCE)

    def said(self):
        with open(self.log, encoding="utf-8", errors="replace") as log:
            return log.read()

    def expect_logged(self, pattern, within=PATIENCE):
        return until(lambda: re.search(pattern, self.said()),
                     f"{self.name} logs {pattern!r}, and not only:\n{self.said()}", within)

    def answers(self):
        with contextlib.suppress(OSError), \
                socket.create_connection((self.host.address, self.port), 1):
            return True
        if self.process.poll() is not None:
            raise Missed(f"{self.name} has ended with {self.process.returncode}:\n{self.said()}")
        return False

    def cpu_seconds(self):
        """Processor time of all threads that it has."""
        total = 0
        for task in os.listdir(f"/proc/{self.pid}/task"):
            with open(f"/proc/{self.pid}/task/{task}/schedstat", encoding="ascii") as file:
                total += int(file.read().split()[0])
        return total / 1e9

    def resident_kib(self):
        with open(f"/proc/{self.pid}/status", encoding="ascii") as file:
            return int(re.search(r"VmRSS:\s+(\d+)", file.read()).group(1))


class Broker(Machine):
    def start(self, *options):
        self.spawn(["redis-server", "--bind", self.host.address, "--port", str(self.port),
                    "--protected-mode", "no", "--save", "", "--appendonly", "no",
                    "--dir", self.lab.folder, "--loglevel", "warning", *options])
        until(self.answers, "redis answers")
        return self

    def ask(self, *command):
        done = run("redis-cli", "-h", self.host.address, "-p", str(self.port), *command)
        return done.stdout.strip()


class Server(Machine):
    def start(self, *options):
        if self.lab.broker is not None:
            options = ("--broker", self.lab.broker.at, "--broker-name", self.name,
                       "--broker-lease", str(LEASE)) + options
        if self.lab.balancer is not None:
            proxies = f"{self.lab.balancer.host.address},{self.lab.network.own_address}"
            options = ("--proxy-protocol", proxies) + options
        self.spawn([self.lab.program, "--app", "chat", "--bind", self.host.address,
                    "--port", str(self.port), "--stats", *self.lab.options, *options],
                   # What is freed counts as memory for as long as a sanitizer keeps it.
                   {"ASAN_OPTIONS": os.environ.get("ASAN_OPTIONS", "") + ":quarantine_size_mb=1"})
        self.expect_logged(r"chat on \S+:\d+\n" if self.process else "")
        until(self.answers, f"{self.name} answers")
        return self

    def expect_good_end(self, has_failed):
        """Whatever state the broker is in; and no sanitizer has found anything."""
        if not has_failed and self.process is not None and self.process.poll() is None:
            self.signal(signal.SIGTERM)
            if self.process.wait(PATIENCE) != 0:
                raise Missed(f"{self.name} ends with {self.process.returncode}:\n{self.said()}")
        if re.search(r"Sanitizer|runtime error", self.said()):
            raise Missed(f"{self.name}:\n{self.said()}")


class Balancer(Machine):
    """HAProxy with the configuration of the course. reload() is what an operator does."""

    def start(self):
        self.control = os.path.join(self.lab.folder, "haproxy.sock")
        self.spawn(self.command(), self.environment())
        # A connection to ask would become a user for a moment, at some server.
        until(lambda: "Pid: " in self.ask("show info"), "HAProxy answers")
        return self

    def command(self):
        return ["haproxy", "-db", "-f", CONFIGURATION]

    def environment(self):
        places = {f"SERVER_{server.name.upper()}": server.at for server in self.lab.servers}
        return {"CHAT": self.at, "CONTROL": self.control, **places}

    def reload(self):
        """A new HAProxy takes the listening socket over; the old one keeps its connections."""
        old = self.process
        self.spawn(self.command() + ["-sf", str(old.pid), "-x", self.control], self.environment())
        until(lambda: f"Pid: {self.pid}" in self.ask("show info"), "the new HAProxy has taken over")
        return old

    def ask(self, command):
        with contextlib.suppress(OSError), \
                socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as control:
            control.settimeout(PATIENCE)
            control.connect(self.control)
            control.sendall(command.encode() + b"\n")
            return b"".join(iter(lambda: control.recv(65536), b"")).decode()
        return ""

    def table(self):
        """What HAProxy knows of each server: its status, its sessions now and in all."""
        head, *rows = self.ask("show stat").lstrip("# ").strip().splitlines() or [""]
        rows = [dict(zip(head.split(","), row.split(","))) for row in rows]
        return {row["svname"]: row for row in rows if row.get("pxname") == "servers"}

    def status(self, server):
        return self.table().get(server.name, {}).get("status", "")

    def expect_status(self, server, pattern, within=PATIENCE):
        return until(lambda: re.match(pattern, self.status(server)),
                     f"HAProxy finds {server.name} {pattern}", within, 0.05)

    def server_of(self, user):
        """The name of the server that a user was given."""
        source = "%s:%d" % user.socket.getsockname()[:2]
        found = re.search(rf" src={re.escape(source)} .* srv=(\w+)", self.ask("show sess"))
        return found.group(1) if found else None

    def drain(self, server, drained=True):
        self.ask(f"set server servers/{server.name} state {'drain' if drained else 'ready'}")


# ---- users ---------------------------------------------------------------------------------------


class User:
    """Somebody at a terminal. What comes is kept, each line with the moment at which it came."""

    def __init__(self, lab, nick, via):
        self.lab = lab
        self.nick = nick
        self.via = via
        self.heard = []
        self.came = threading.Condition()
        self.seen = 0
        self.said = 0
        self.open = False
        self.connect()

    def connect(self):
        self.socket = socket.create_connection((self.via.host.address, self.via.port), PATIENCE)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.socket.settimeout(None)
        if self.lab.balancer is not None and self.via is not self.lab.balancer:
            self.socket.sendall(LOCAL_HEADER)
        self.open = True
        self.reader = threading.Thread(target=self.read, args=(self.socket,), daemon=True)
        self.reader.start()
        self.expect(r"\* welcome")
        if self.nick:
            self.send(f"/nick {self.nick}")
            self.expect(rf"\* you are {self.nick}")

    def read(self, connection):
        with contextlib.suppress(OSError), connection.makefile("rb") as file:
            for line in file:
                with self.came:
                    text = line.decode(errors="replace").rstrip("\n")
                    self.heard.append((time.monotonic(), text))
                    self.came.notify_all()
        with self.came:
            if connection is self.socket:
                self.open = False
            self.came.notify_all()

    def send(self, line):
        self.socket.sendall(line.encode() + b"\n")

    def say(self):
        """Says the next number, which nobody else says."""
        self.said += 1
        self.send(f"{self.said}")

    def expect(self, pattern, within=PATIENCE):
        """The next line like that; those before it are passed over."""
        end = time.monotonic() + within
        with self.came:
            at = self.seen
            while True:
                for at in range(at, len(self.heard)):
                    if re.search(pattern, self.heard[at][1]):
                        self.seen = at + 1
                        return self.heard[at][1]
                at = len(self.heard)
                left = end - time.monotonic() if self.open else 0
                if left <= 0:
                    late = "\n  ".join(text for _, text in self.heard[self.seen:][-20:])
                    why = f"within {within:g} s" if self.open else "before the end"
                    raise Missed(f"{self.nick} reads {pattern!r}: not {why}; "
                                 f"the last lines are:\n  {late}")
                self.came.wait(left)

    def expect_end(self, within=PATIENCE):
        with self.came:
            if not self.came.wait_for(lambda: not self.open, within):
                raise Missed(f"{self.nick} is disconnected: not within {within:g} s")

    def lines(self, pattern):
        with self.came:
            return [text for _, text in self.heard if re.search(pattern, text)]

    def numbers_of(self, other):
        """The numbers that another one said, as they came."""
        with self.came:
            found = (re.match(rf"\[{other.nick}(?:~\w+)?\] (\d+)$", text) for _, text in self.heard)
            return [int(match.group(1)) for match in found if match]

    def moment_of(self, pattern, since=0):
        """When the first line like that came, at that moment or later; None if none has."""
        with self.came:
            return next((moment for moment, text in self.heard
                         if moment >= since and re.search(pattern, text)), None)

    def hang_up(self):
        with contextlib.suppress(OSError):
            self.socket.shutdown(socket.SHUT_RDWR)
        self.reader.join(PATIENCE)
        self.socket.close()

    def come_again(self):
        self.hang_up()
        self.connect()

    def close(self):
        """For good."""
        self.hang_up()


# ---- all of it -----------------------------------------------------------------------------------


class Lab:
    """Machines that belong together, for `with`, which starts them, unless `start` is false."""

    def __init__(self, servers=3, stage=5, broker=True, balancer=True, options=(), start=True):
        self.starts = start
        self.processes, self.users = [], []
        self.network = network()
        self.folder = self.network.folder
        build = os.environ.get("BUILD", os.path.join(TOP, "build"))
        names = {4: "stage4-framework", 5: "stage5-multireactor"}
        self.program = os.path.join(os.path.abspath(build), names[stage])
        self.options = ["--idle-timeout", "0", *options]
        self.broker = Broker(self, "redis", 6379) if broker else None
        self.balancer = None
        self.servers = [Server(self, name, 7000 + stage) for name in "abc"[:servers]]
        if balancer:
            self.balancer = Balancer(self, "haproxy", 7000)

    def start(self):
        for machine in [self.broker, *self.servers, self.balancer]:
            if machine is not None:
                machine.start()
        if self.balancer is not None:
            for server in self.servers:
                self.balancer.expect_status(server, "UP")

    def user(self, nick, via):
        return self.add_user(User(self, nick, via))

    def add_user(self, user):
        """From now on the user leaves when all of it ends."""
        self.users.append(user)
        return user

    def __enter__(self):
        try:
            if self.starts:
                self.start()
        except BaseException:
            self.close()
            raise
        return self

    def __exit__(self, kind, *_):
        try:
            for user in self.users:
                user.close()
            if kind is not None and self.balancer is not None:
                print("HAProxy has said:", self.balancer.said())
            for server in self.servers:
                server.expect_good_end(kind is not None)
        finally:
            self.close()

    def close(self):
        for process in self.processes:
            if process.poll() is None:
                process.kill()
                process.wait(PATIENCE)
        self.network.close()


if __name__ == "__main__" and sys.argv[1:] == ["probe"]:
    found = Namespaces()
    found.add()
    found.close()
