#!/usr/bin/env python3
"""A server in slow motion: the terminal of make slow (docs/slow.md).

  usage: OUT=build tests/slow/slow.py by-hand STAGE [OPTION...]      (make slow STAGE= ARGS=)
         OUT=build tests/slow/slow.py replay FILE [PATCH or OPTION]  (make slow SCHEDULE= AGAINST=)

Commands are lines of standard input, a terminal's or a pipe's; `help` lists them. A schedule is a file of such lines. It begins
with `stage N` and `options ...`; `fails PATCH` or `fails --option ...` says what it must fail with. Where a thread came to when it
was let go stands behind "=". make test-slow (slow_test.py) plays each schedule as it is, where all has to be as the schedule says, and
once with each thing that it fails with: there the threads may come to other places, and a client must not get what the schedule
expects.
"""
import contextlib
import fcntl
import json
import os
import pathlib
import re
import select
import shlex
import socket
import subprocess
import sys
import termios
import time

OUT = os.environ.get("OUT", "build")
DEADLINE = 20   # s for whatever has to happen
STEPS = 2000    # so often `run` lets a thread go before it says that there is no end
MAIN = {3: "reactor", 4: "acceptor", 5: "acceptor"}  # what main is in that stage
PLACES = {"lock": "waits", "select": "sleeps", "waits": "idle"}  # where a thread is that is at no point
SLEEP = ["awake", "asleep", "awake, and called: the next select will not sleep"]


class Problem(Exception):
    """A command that cannot be done now. With a fault threads are not where ours would be, so there a schedule goes on."""


class Failure(Exception):
    """Something that was expected did not happen."""


# ---- the server -----------------------------------------------------------------------------------------

class Thread:
    def __init__(self, server, seen):
        self.__dict__.update(seen)
        self.waits, *self.held = self.places
        self.name = MAIN[server.stage] if self.tid == server.process.pid else server.read(self.tid, "comm")
        self.place = self.point if self.state == "stopped" else PLACES.get(self.state, self.state)


class Server:
    def __init__(self, program, stage, options):
        self.program, self.stage, self.state, self.threads = program, stage, {}, []
        ours, theirs = socket.socketpair()
        self.process = subprocess.Popen([program, "--port", "0", *options], stdout=subprocess.PIPE, stdin=subprocess.DEVNULL,
                                        env=dict(os.environ, SLOW_FD=str(theirs.fileno())), pass_fds=[theirs.fileno()],
                                        start_new_session=True)
        theirs.close()
        ours.settimeout(DEADLINE)
        self.control = ours.makefile("rw", encoding="utf-8")
        while not select.select([self.process.stdout], [], [], 0.01)[0]:
            self.ask(f"go {self.process.pid}")  # main is stopped before the server listens: at a point of an application's strand
        if not (announced := self.process.stdout.readline()):
            raise Failure(f"{program} does not start with these options: {shlex.join(options)}")
        self.port = int(announced.rsplit(b":", 1)[1])
        self.settle()

    def read(self, tid, what):
        with contextlib.suppress(OSError), open(f"/proc/{self.process.pid}/task/{tid}/{what}", encoding="utf-8") as file:
            return file.read().strip()
        return ""

    def ask(self, line):
        with contextlib.suppress(OSError):
            self.control.write(line + "\n")
            self.control.flush()

    def look(self):
        """Asks the server how it is, and says which of its threads still move."""
        self.ask("state")
        line = ""
        with contextlib.suppress(ConnectionError):  # it may end before it reads that
            line = self.control.readline()
        if not line.endswith("\n"):  # or while it answers
            self.threads = []
            raise Failure(f"the server has ended, with status {self.process.wait(DEADLINE)}")
        self.state = json.loads(line.replace(",]", "]"))
        seen = {thread["tid"]: thread for thread in self.state["threads"]}
        tids = [int(tid) for tid in os.listdir(f"/proc/{self.process.pid}/task")]
        self.threads = [Thread(self, thread) for tid, thread in seen.items() if tid in tids]
        return [tid for tid in tids if self.read(tid, "comm") != "slow" and self.moves(tid, seen.get(tid, {"state": "runs"})["state"])]

    def moves(self, tid, state):
        sleeping = self.read(tid, "stat").rpartition(")")[2].split()[:1] in ([], ["S"])
        return state == "runs" or state != "stopped" and not sleeping

    def settle(self):
        """Waits until each thread is stopped, or waits for something: seen twice, and no change in between."""
        end, before = time.monotonic() + DEADLINE, None
        while (moving := self.look()) or before != self.state["changes"]:
            before = self.state["changes"]
            if time.monotonic() > end:
                raise Failure(f"still running after {DEADLINE} s: {' and '.join(self.read(tid, 'comm') for tid in moving)}")
            if moving:
                time.sleep(0.001)

    def thread(self, name):
        for number, thread in enumerate(self.threads, 1):
            if name in (thread.name, str(number)):
                return thread
        raise Problem(f"no thread {name}; there are: {', '.join(thread.name for thread in self.threads)}")

    def go(self, thread):
        """Lets a thread go on to its next point, or until it waits for something. Where it is then."""
        if thread.state != "stopped":
            raise Problem(f"{thread.name} is not stopped at a test point: it {self.why(thread)}")
        self.ask(f"go {thread.tid}")
        self.settle()
        return next((now.place for now in self.threads if now.tid == thread.tid), "over")

    # ---- words ----

    def source(self, address):
        """What locks and waits: (function, file, line) of the outermost call that is not a lock's own."""
        lines = subprocess.run(["addr2line", "-i", "-f", "-e", self.program, hex(address - 1)], check=False,
                               capture_output=True, text=True).stdout
        lines = re.sub("^.*?/(?=build/|common/|stage[1-5]-)", "", lines, flags=re.M).split("\n")
        frames = [(function, *place.split(" ")[0].rsplit(":", 1)) for function, place in zip(lines[::2], lines[1::2])]
        return next((frame for frame in frames if not frame[1].endswith("/lock.h")), ("?", "?", "0"))

    def lock(self, place):
        """What the source calls the lock that a place is about."""
        function, file, line = self.source(place[1])
        return "".join(re.findall(r"lock\w*\(&?([^)]*)\)", text_of(file, line))) or f"the lock of {function}"

    def why(self, thread):
        """What a thread does that is at no point, and who keeps it from going on."""
        if thread.state != "lock":
            return {"select": "sleeps in select, until something wakes it", "waits": "has nothing to do, until it is signalled",
                    "stopped": f"is stopped at \"{thread.point}\""}.get(thread.state, thread.state)
        function, file, line = self.source(thread.waits[1])
        text = f"waits for {self.lock(thread.waits)} in {function}, {file}:{line}"
        holders = [other for other in self.threads if thread.waits[0] in [held[0] for held in other.held]]
        return text + "".join(f"; {other.name} has it, and {self.why(other) if other.state != 'lock' else 'waits, too'}"
                              for other in holders)

    def show(self, clients):
        lines = []
        for number, thread in enumerate(self.threads, 1):
            where = f"{thread.function}, {thread.file}:{thread.line}"
            lines.append(f"{number} {thread.name:12} {self.why(thread)}" + (f", {where}" if thread.state == "stopped" else ""))
            if thread.state == "stopped":
                lines.append(f"{'':15}next: {text_of(thread.file, thread.line + 1)}")
            lines += [f"{'':15}holds {self.lock(held)}" for held in thread.held]
        lines += [f"selector {number}: {SLEEP[sleep]}" for number, sleep in enumerate(self.state["selectors"], 1)]
        inside = {seen["port"]: seen for seen in self.state["connections"]}
        if "queue" in self.state:
            queued = {seen["port"] for seen in self.state["connections"] if seen["fd"] in self.state["queue"]}
            names = [f"client {number}" for number, client in clients.items() if client.port in queued]
            lines.append(f"status-change queue: {', '.join(names) or 'empty'}")
        for number, client in clients.items():
            text = f"client {number}: sent {client.sent!r}, got {client.received()!r}{' and the end' if client.over else ''}"
            seen = inside.get(client.port)
            lines.append(text + (f"; in the server {seen['input']} bytes of input, {seen['output']} of output, interest in "
                                 f"{interest(seen['interest'])}" if seen else ""))
        return "\n".join(lines)


def text_of(file, line):
    with contextlib.suppress(OSError, ValueError, IndexError), open(file, encoding="utf-8") as source:
        return source.read().split("\n")[int(line) - 1].strip()
    return "?"


def interest(bits):
    return " and ".join(name for bit, name in enumerate(["reading", "writing", "one event", "loss", "end"]) if bits >> bit & 1) or "nothing"


# ---- clients --------------------------------------------------------------------------------------------

class Client:
    def __init__(self, port):
        self.socket = socket.create_connection(("127.0.0.1", port), DEADLINE)
        self.port = self.socket.getsockname()[1]
        self.sent, self.got, self.expected, self.over = "", b"", 0, False
        # What tells the server's system of it follows connect(2), on a busy machine by a while: before that its side is SYN_RECV.
        known = re.compile(rf":{port:04X} \S+:{self.port:04X} (?!03)")
        self.await_kernel(lambda: known.search(pathlib.Path("/proc/net/tcp").read_text("ascii")))

    def await_kernel(self, done, seconds=DEADLINE):
        """Until the system has it; it acknowledges what it takes just before it wakes the reader up."""
        end = time.monotonic() + seconds
        while not done() and time.monotonic() < end:
            time.sleep(0.001)
        time.sleep(0.01)

    def send(self, text):
        self.sent += text
        self.socket.sendall(text.encode())
        self.await_kernel(lambda: not any(fcntl.ioctl(self.socket, termios.TIOCOUTQ, b"1234")))

    def half(self):
        self.socket.shutdown(socket.SHUT_WR)
        # Not established, FIN_WAIT1 or LAST_ACK.
        self.await_kernel(lambda: self.socket.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, 1)[0] not in (1, 4, 9))

    def received(self):
        with contextlib.suppress(ConnectionError):
            while not self.over and select.select([self.socket], [], [], 0)[0]:
                self.got += (heard := self.socket.recv(65536))
                self.over = not heard
        return self.got.decode(errors="replace")


# ---- commands -------------------------------------------------------------------------------------------

class Scene:
    """A server, its clients, and what was done so far."""

    def __init__(self, stage, options, program=None, strict=True):
        self.strict, self.clients, self.log = strict, {}, [f"stage {stage}", f"options {shlex.join(options)}"]
        self.server = Server(program or f"{OUT}/slow/stage{stage}", stage, options)

    def client(self, number):
        if not number.isdigit() or int(number) not in self.clients:
            raise Problem(f"no client {number}; there are: {', '.join(map(str, self.clients)) or 'none yet'}")
        return self.clients[int(number)]

    def do(self, line):
        """Does a command, and keeps it."""
        line, _, wanted = (part.strip() for part in line.partition(" = "))
        verb, _, rest = line.partition(" ")
        if not hasattr(self, f"do_{verb}"):
            raise Problem(f"{verb}: expected one of {', '.join(name[3:] for name in dir(self) if name.startswith('do_'))}, quit")
        came_to = getattr(self, f"do_{verb}")(rest.strip())
        self.server.settle()
        self.log.append(line + (f" = {came_to}" if came_to else ""))
        if wanted and self.strict and came_to != wanted:
            raise Failure(f"{line}: expected that it comes to \"{wanted}\", and it came to \"{came_to}\"")

    def do_connect(self, _):
        """connect: a new client"""
        self.clients[len(self.clients) + 1] = Client(self.server.port)

    def do_send(self, rest):
        """send N TEXT: client N sends a line, or several with \\n between them"""
        number, _, text = rest.partition(" ")
        self.client(number).send(text.replace("\\n", "\n") + "\n")

    def do_half(self, rest):
        """half N: client N ends its stream, and still reads"""
        self.client(rest).half()

    def do_stop(self, _):
        """stop: the server gets SIGTERM"""
        self.server.process.terminate()

    def do_go(self, rest):
        """go THREAD: a thread, by name or number, goes on to its next test point, or until it waits for something"""
        return self.server.go(self.server.thread(rest))

    def do_run(self, rest):
        """run [but THREAD, ...] [to POINT]: threads go on in turn until none can, or one stands at that test point"""
        rest, _, point = f" {rest}".partition(" to ")
        with open(self.server.program, "rb") as program:
            if point.encode() + b"\0" not in program.read():
                raise Failure(f"no test point \"{point}\"; for all: grep -r TEST_POINT stage{self.server.stage}-* common")
        spared = [self.server.thread(name.strip()).name for name in rest.strip().removeprefix("but ").split(",") if name.strip()]
        last = ""
        for _ in range(STEPS):
            free = [thread for thread in self.server.threads if thread.state == "stopped" and thread.name not in spared]
            there = next((thread.name for thread in free if thread.point == point), None)
            if there or not free:
                if point and not there:
                    raise Failure(f"nobody comes to \"{point}\"")
                return there
            names = [thread.name for thread in free]  # the one behind the last in turn
            chosen = free[(names.index(last) + 1) % len(free) if last in names else 0]
            last = chosen.name
            self.server.go(chosen)
        raise Failure(f"the threads have gone on {STEPS} times, and there is no end")

    def do_expect(self, rest):
        """expect N TEXT, or nothing, or end: what client N has got since the last time; expect THREAD PLACE; expect rest"""
        who, _, what = rest.partition(" ")
        if who.isdigit():
            client = self.client(who)
            wanted = "" if what in ("nothing", "end") else what.replace("\\n", "\n") + "\n"
            client.await_kernel(lambda: client.received()[client.expected:] == wanted and (client.over or what != "end"), 1)
            client.expected += len(got := client.received()[client.expected:])
            if got != wanted or (what == "end" and not client.over):
                raise Failure(f"client {who}: expected {repr(wanted) if wanted else what}, got {got!r}{' and the end' * client.over}")
            return
        meant = [thread for thread in self.server.threads if rest == "rest" or rest.startswith(f"{thread.name} ")]
        wrong = [f"{thread.name} {self.server.why(thread)}" for thread in meant
                 if (thread.state == "stopped" if rest == "rest" else rest != f"{thread.name} {thread.place}")]
        if wrong or not meant:
            raise (Failure if self.strict else Problem)(f"expected {rest}; but {', '.join(wrong) or 'there is no such thread'}")

    def do_save(self, path):
        """save FILE: keeps what was done so far, to be replayed"""
        with open(path, "w", encoding="utf-8") as file:
            file.write("\n".join(self.log) + "\n")
        raise Problem(f"saved: make slow SCHEDULE={path}")

    def do_help(self, _):
        """help: this"""
        raise Problem("\n".join([*(getattr(self, name).__doc__ for name in dir(self) if name.startswith("do_")), "quit: ends it"]))

    def end(self):
        self.server.process.kill()
        self.server.process.wait()
        for client in self.clients.values():
            client.socket.close()


# ---- schedules ------------------------------------------------------------------------------------------

class Schedule:
    def __init__(self, path):
        with open(path, encoding="utf-8") as file:
            lines = [line.strip().partition(" ")[::2] for line in file if line.strip() and line[0] != "#"]
        self.name = os.path.basename(path).rpartition(".")[0]
        self.stage = next((int(rest) for verb, rest in lines if verb == "stage"), 3)
        self.options = shlex.split(" ".join(rest for verb, rest in lines if verb == "options"))
        self.fails = [rest for verb, rest in lines if verb == "fails"]
        self.lines = [f"{verb} {rest}".strip() for verb, rest in lines if verb not in ("stage", "options", "fails")]

    def scene(self, against):
        """Ours, or what the schedule fails with: a patch, or options."""
        if against.startswith("-") or not against:
            return Scene(self.stage, [*self.options, *shlex.split(against)], strict=not against)
        return Scene(self.stage, self.options, f"{OUT}/slow/{against}", strict=False)

    def play(self, against):
        """None, or what was not as it is expected."""
        scene, line = self.scene(against), ""
        try:
            for line in self.lines:
                with contextlib.nullcontext() if scene.strict else contextlib.suppress(Problem):
                    scene.do(line)
        except (Problem, Failure, OSError) as problem:
            return f"{line}: {problem}"
        finally:
            scene.end()
        return None


def test(paths):
    played, failed = [(schedule, against) for schedule in map(Schedule, paths) for against in ["", *schedule.fails]], 0
    for schedule, against in played:
        wrong = schedule.play(against)
        if bool(wrong) != bool(against):
            failed += 1
            print(f"slow: FAILED: {schedule.name}: {wrong or f'with {against} nothing goes wrong'}")
    print(f"{len(played) - failed} passed, {failed} failed")


# ---- by hand --------------------------------------------------------------------------------------------

def by_hand(scene, lines):
    """Plays lines, and then those of standard input. False if something that was expected did not happen; whoever sits at a
    terminal has seen it."""
    right, said = True, ""
    try:
        while True:
            print("\033[H\033[2J" * sys.stdout.isatty() + scene.server.show(scene.clients))
            print(said + "> ", end="", flush=True)
            echo = bool(lines) or not sys.stdin.isatty()
            line = lines.pop(0) + "\n" if lines else sys.stdin.readline()
            print((line or "\n") if echo or not line else "", end="")
            if not line or line == "quit\n":
                return right or sys.stdin.isatty()
            try:
                said = scene.do(line) or "" if line.strip() else ""
            except (Problem, Failure, OSError) as problem:
                right, said = right and isinstance(problem, Problem), f"{problem}\n"
    except KeyboardInterrupt:
        return right
    finally:
        scene.end()


def main():
    verb, first, *rest = sys.argv[1:]
    try:
        if verb == "replay":
            schedule = Schedule(first)
            sys.exit(not by_hand(schedule.scene(" ".join(rest)), schedule.lines))
        sys.exit(not by_hand(Scene(int(first), rest), []))
    except (Failure, OSError) as problem:
        sys.exit(f"slow: {problem}")


if __name__ == "__main__":
    main()
