"""Treats a server as hostile clients do, and says what it did: a card of that server.

    usage: python3 -B tests/card/card.py HOST:PORT line|http|redis|memcached [--pid N] [--path /NAME] [--slow SEC]

It is for any server that speaks one of these protocols: `line` expects each line back, `http` an answer 200 for the
path, `redis` a PING, `memcached` a get. The cases:

never reads    a client asks for 64 MiB of answers, and reads none of them; later it reads all of what it is owed
byte a second  a client sends one request, a byte a second
half-close     a client half-closes while 4 MiB of answers are due, and then reads
reset          a hundred clients reset: in the middle of a request, or of its answer
million        a client sends a million short requests without waiting for an answer, beside one that asks now and then
descriptors    the process has twenty descriptors left, and sixty clients come
SIGTERM        twenty clients send without a pause, and the process gets SIGTERM

The last two need --pid, the number of the process that accepts, and so do memory and CPU time; what needs it is "not
run" without. For "descriptors" the card lowers the limit of that process (prlimit), and puts it back. The server does
not live longer than "SIGTERM". Each case ends by a deadline, and all of them in three minutes at most (and SEC).

Prints a line for each case: what the server did, in words and numbers. That is no verdict, because a server may do
something else on purpose. Exit status 0, or 1 if the server does not speak the protocol at all.
"""

import argparse
import bisect
import collections
import contextlib
import itertools
import json
import os
import resource
import select
import signal
import socket
import struct
import sys
import threading
import time

MIB = 1 << 20
REQUEST = 1000  # bytes of a large request, about
STALLED = 2  # seconds without a byte taken: the server has stopped reading
PATIENCE = 20  # seconds for what a server should do at once
FREE = 20  # descriptors that a process has left
LARGE = 4096  # large requests, whose answers fit into no socket's buffer
LOOKS = 50  # in a second, at what the threads of a process do; those that say nothing do not count
DYING = 5  # seconds in which a process may end after its listener

Row = collections.namedtuple("Row", "case does numbers")


class Wrong(Exception):
    """The server answers something else than its protocol says."""


# ---- protocols ----------------------------------------------------------------------------------


class Stream:
    """The same pieces again and again: requests, or the answers that are expected."""

    def __init__(self, pieces):
        self.all = b"".join(pieces)
        self.ends = list(itertools.accumulate(map(len, pieces)))

    def length(self, pieces):
        rounds, rest = divmod(pieces, len(self.ends))
        return rounds * len(self.all) + (self.ends[rest - 1] if rest else 0)

    def pieces(self, length):
        """How many are whole in so many bytes."""
        rounds, rest = divmod(length, len(self.all))
        return rounds * len(self.ends) + bisect.bisect_right(self.ends, rest)

    def at(self, position, most):
        position %= len(self.all)
        return memoryview(self.all)[position:position + most]


class Exactly:
    """Answers of which each byte is known."""

    def __init__(self, stream):
        self.stream, self.position = stream, 0

    def feed(self, data):
        data = memoryview(data)
        while data:
            expected = self.stream.at(self.position, len(data))
            if data[:len(expected)] != expected:
                raise Wrong(f"after {self.count():,} answers comes {bytes(data[:40])!r}, not {bytes(expected[:40])!r}")
            self.position += len(expected)
            data = data[len(expected):]

    def count(self):
        return self.stream.pieces(self.position)


class Responses:
    """Answers of http, all of them 200."""

    def __init__(self, bodies):
        self.bodies, self.found, self.rest, self.skip = bodies, 0, b"", 0

    def feed(self, data):
        data, at = self.rest + data, 0
        while True:
            if self.skip:
                taken = min(self.skip, len(data) - at)
                self.skip, at = self.skip - taken, at + taken
                if self.skip:
                    break
                self.found += 1
            end = data.find(b"\r\n\r\n", at)
            if end < 0:
                break
            head, at = data[at:end + 2], end + 4
            if not head.startswith(b"HTTP/1.1 200 "):
                raise Wrong(f"after {self.found:,} answers comes {head.splitlines()[0]!r}")
            length = head.lower().partition(b"\r\ncontent-length:")[2].partition(b"\r")[0]
            if not length:
                raise Wrong("an answer has no Content-Length")
            self.skip = int(length) if self.bodies else 0
            self.found += not self.skip
        self.rest = data[at:]

    def count(self):
        return self.found


class Line:
    """An echo of lines."""

    short = [b"%d\n" % i for i in range(1000)]
    large = [b"x" * REQUEST + b"\n"]
    slow = [b"s" * 200 + b"\n"]

    def answers(self, pieces):
        return Exactly(Stream(pieces))


class Redis:
    """PING, which answers with its argument."""

    @staticmethod
    def ping(text):
        return b"*2\r\n$4\r\nPING\r\n$%d\r\n%s\r\n" % (len(text), text)

    def __init__(self):
        self.short = [self.ping(b"%d" % i) for i in range(1000)]
        self.large = [self.ping(b"x" * REQUEST)]
        self.slow = [self.ping(b"s" * 200)]

    def answers(self, pieces):
        return Exactly(Stream([piece[len(b"*2\r\n$4\r\nPING\r\n"):] for piece in pieces]))


class Memcached:
    """A get: of a key that is not there, and of one that is, four times."""

    key = b"card" * 50
    short = [b"get %d\r\n" % i for i in range(1000)]
    large = [b"get" + (b" " + key) * 4 + b"\r\n"]
    slow = [b"get " + b"s" * 200 + b"\r\n"]
    prepare = b"set " + key + b" 0 0 300\r\n" + b"x" * 300 + b"\r\n", b"STORED\r\n"

    def answers(self, pieces):
        value = b"VALUE " + self.key + b" 0 300\r\n" + b"x" * 300 + b"\r\n"
        return Exactly(Stream([value * piece.count(self.key) + b"END\r\n" for piece in pieces]))


class Http:
    """A file: its head in short requests."""

    def __init__(self, path):
        rest = f" {path} HTTP/1.1\r\nHost: card\r\n".encode()
        self.short = [b"HEAD" + rest + b"\r\n"]
        self.large = [b"GET" + rest + b"X-Card: " + b"x" * REQUEST + b"\r\n\r\n"]
        self.slow = [b"GET" + rest + b"X-Card: " + b"s" * 200 + b"\r\n\r\n"]

    def answers(self, pieces):
        return Responses(pieces is not self.short)


PROTOCOLS = {"line": lambda path: Line(), "http": Http, "redis": lambda path: Redis(), "memcached": lambda path: Memcached()}


# ---- the process, as far as it can be seen ------------------------------------------------------


class Process:
    """What /proc says of a process and of its descendants."""

    def __init__(self, pid):
        self.pid = pid

    def family(self):
        parents = {}
        for name in filter(str.isdigit, os.listdir("/proc")):
            with contextlib.suppress(OSError), open(f"/proc/{name}/stat", encoding="ascii", errors="replace") as file:
                parents[int(name)] = int(file.read().rsplit(")", 1)[1].split()[1])
        found = [self.pid]
        for one in found:
            found += [child for child, parent in parents.items() if parent == one]
        return found

    def memory(self):
        """Bytes that are its own, and no file's."""
        found = 0
        for one in self.family():
            with contextlib.suppress(OSError), open(f"/proc/{one}/status", encoding="ascii", errors="replace") as file:
                found += sum(int(line.split()[1]) * 1024 for line in file if line.startswith("RssAnon:"))
        return found

    def cpu(self, family=None):
        """Seconds that it has run."""
        ticks = 0
        for one in family or self.family():
            with contextlib.suppress(OSError), open(f"/proc/{one}/stat", encoding="ascii", errors="replace") as file:
                ticks += sum(map(int, file.read().rsplit(")", 1)[1].split()[11:13]))
        return ticks / os.sysconf("SC_CLK_TCK")

    def runs(self):
        """Whether a thread runs, or would if there were a processor for it, a moment after the call. None if it has waited
        for a processor until then, which says nothing of the server."""
        family = self.family()
        before = self.cpu(family)
        time.sleep(1 / LOOKS)
        for one in family:
            with contextlib.suppress(OSError):
                for thread in os.listdir(f"/proc/{one}/task"):
                    with open(f"/proc/{one}/task/{thread}/stat", encoding="ascii", errors="replace") as file:
                        if file.read().rsplit(")", 1)[1].split()[0] == "R":
                            return True if self.cpu(family) > before else None
        return False

    def descriptors(self):
        """Their numbers; none if it has ended."""
        with contextlib.suppress(OSError):
            return [int(name) for name in os.listdir(f"/proc/{self.pid}/fd")]
        return []

    def status(self):
        """None while it runs; how it ended, as far as its parent may know."""
        with contextlib.suppress(ChildProcessError):
            how = os.waitid(os.P_PID, self.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT)
            if how is None:
                return None
            return f"status {how.si_status}" if how.si_code == os.CLD_EXITED else f"by {signal.Signals(how.si_status).name}"
        try:
            with open(f"/proc/{self.pid}/stat", encoding="ascii", errors="replace") as file:
                return "ended" if file.read().rsplit(")", 1)[1].split()[0] in "ZX" else None
        except OSError:
            return "ended"

    def status_soon(self):
        """The same of one that answers nobody: it may be about to end, and its listener goes before it has."""
        end = time.monotonic() + DYING
        while self.status() is None and time.monotonic() < end:
            time.sleep(0.02)
        return self.status()


# ---- clients ------------------------------------------------------------------------------------


class Client:
    """A connection, what it asks, and what it is owed."""

    def __init__(self, card, pieces, count, receive=None, patience=PATIENCE):
        self.requests, self.count = Stream(pieces), count
        self.answers = card.protocol.answers(pieces)
        self.sent, self.end, self.size = 0, None, self.requests.length(count)
        self.socket = socket.socket(socket.AF_INET6 if ":" in card.address[0] else socket.AF_INET)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        if receive:
            self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive)
        self.socket.settimeout(patience)
        with contextlib.nullcontext() if patience else contextlib.suppress(BlockingIOError):
            self.socket.connect(card.address)  # without patience it may still be under way
        self.socket.setblocking(False)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.socket.close()

    def done(self):
        return self.answers.count() >= self.count

    def ask_no_more(self):
        """It sends the rest of a request that it has begun, and nothing else."""
        whole = self.requests.pieces(self.sent)
        self.count = whole + (self.requests.length(whole) < self.sent)
        self.size = self.requests.length(self.count)

    def receive(self):
        """Reads what is there. False at the end of the stream, and `end` says which."""
        try:
            data = self.socket.recv(MIB)
        except BlockingIOError:
            return True
        except OSError:
            self.end = "reset"
            return False
        if not data:
            self.end = "end"
            return False
        self.answers.feed(data)
        return True

    def send(self):
        """Sends what the socket takes. False if there is nobody any more."""
        try:
            self.sent += self.socket.send(self.requests.at(self.sent, min(self.size - self.sent, MIB)))
        except BlockingIOError:
            pass
        except OSError:
            self.end = "reset"
            return False
        return True

    def talk(self, seconds=PATIENCE, read=True, stalled=None):
        """Sends, and reads, until it has all answers; or, if it does not read, until all is sent. Says what ended that:
        done, end, reset, late, or stalled if nothing was taken for so many seconds."""
        poll = select.poll()
        poll.register(self.socket, 0)
        limit = time.monotonic() + seconds
        moved = time.monotonic()
        while not (self.done() if read else self.sent >= self.size):
            now = time.monotonic()
            if now > limit or stalled and now > moved + stalled:
                return "late" if now > limit else "stalled"
            wants_to_send = self.sent < self.size
            poll.modify(self.socket, (select.POLLIN if read else 0) | (select.POLLOUT if wants_to_send else 0))
            for _, events in poll.poll(min(200, max(1, 1000 * (limit - now)))):
                if read and events & ~select.POLLOUT:
                    if not self.receive():
                        return self.end
                elif not read and events & (select.POLLHUP | select.POLLERR):
                    self.end = "reset"
                    return self.end
                if wants_to_send and events & select.POLLOUT:
                    if not self.send():
                        if read:
                            self.read_what_came()
                        return self.end
                    moved = now
        return "done"

    def read_what_came(self):
        while self.receive() and select.select([self.socket], [], [], 0)[0]:
            pass

    def await_end(self, seconds):
        """How the stream ends, or None if it does not."""
        limit = time.monotonic() + seconds
        while self.end is None and time.monotonic() < limit:
            if select.select([self.socket], [], [], 0.2)[0]:
                self.receive()
        return self.end

    def reset(self):
        self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.socket.close()


class Witness(threading.Thread):
    """A client that asks every twentieth of a second, and remembers for how long it had to wait at most."""

    def __init__(self, card):
        super().__init__(daemon=True)
        self.card, self.over, self.worst, self.lost = card, threading.Event(), 0.0, False
        self.start()

    def run(self):
        try:
            with Client(self.card, self.card.protocol.short, 0) as client:
                while not self.over.wait(0.05) and not self.lost:
                    client.count += 1
                    client.size = client.requests.length(client.count)
                    begun = time.monotonic()
                    self.lost = client.talk() != "done"
                    self.worst = max(self.worst, time.monotonic() - begun)
        except (OSError, Wrong):
            self.lost = True

    def stop(self):
        self.over.set()
        self.join()
        return "another client lost its connection" if self.lost else f"another client waited {self.worst * 1000:.0f} ms at most"


# ---- the cases ----------------------------------------------------------------------------------


def size(number):
    return f"{number / MIB:.1f} MiB" if number >= MIB / 10 else f"{number / 1024:.0f} KiB"


def never_reads(card):
    before = card.process and card.process.memory()
    with Client(card, card.protocol.large, max(1, card.due // REQUEST), receive=4096) as client:
        how = client.talk(60, read=False, stalled=STALLED)
        numbers = [f"{size(client.sent)} taken"]
        more = max(0, card.process.memory() - before) if card.process else None
        numbers.append("memory: not run" if more is None else f"memory +{size(more)}")
        if how == "reset":
            return "disconnects it", numbers
        card.ask_one()
        client.ask_no_more()
        try:
            client.talk(60)
        except Wrong as wrong:
            return "loses answers", numbers + [str(wrong)]
        if not client.done():
            return "loses answers", numbers + [f"{client.answers.count():,} of {client.count:,} came"]
        # All may have gone into the buffers of the two systems (tcp_rmem): then the memory tells.
        keeps = how == "done" and (more is None or more > client.sent / 2)
        return "keeps all" if keeps else "stops reading", numbers


def byte_a_second(card):
    with Client(card, card.protocol.slow, 1) as client:
        whole, begun = client.size, time.monotonic()
        for client.size in range(1, whole):
            passed = time.monotonic() - begun
            if passed >= card.slow:
                break
            try:
                how = client.talk(1)
            except Wrong:  # its last words
                client.answers, how = card.protocol.answers(card.protocol.slow), client.await_end(1)
            if how in ("end", "reset"):
                return "disconnects it", [f"after {time.monotonic() - begun:.0f} s"]
        client.size = whole
        if client.talk() == "done":
            return "waits for it", [f"{card.slow} s, and answers"]
        return "gives no answer", [f"after {card.slow} s"]


def half_close(card):
    with Client(card, card.protocol.large, LARGE, receive=4096) as client:
        if client.talk(read=False) != "done":
            return "takes no requests", [f"{size(client.sent)} of {size(client.size)}"]
        client.socket.shutdown(socket.SHUT_WR)
        time.sleep(0.3)  # it does not read meanwhile, so that the server sees the end with answers due
        how = client.talk()
        came = f"{client.answers.count():,} of {LARGE:,} answers"
        if how != "done":
            return {"end": "cuts them off", "reset": "resets"}.get(how, "gives no answer"), [came]
        end = client.await_end(card.end)
        return {"end": "answers, then ends", "reset": "answers, then resets"}.get(end, "answers, never ends"), [came]


def reset(card):
    before = card.process and len(card.process.descriptors())
    for i in range(100):
        with Client(card, card.protocol.large, LARGE) as client:
            client.size = client.requests.length(1) // 2 if i % 2 else client.size
            client.talk(0.02, read=False)
            client.reset()
    card.ask_one()
    if not card.process:
        return "costs those clients only", ["100 resets", "descriptors: not run"]
    limit = time.monotonic() + PATIENCE
    while len(card.process.descriptors()) > before and time.monotonic() < limit:
        time.sleep(0.05)
    left = max(0, len(card.process.descriptors()) - before)
    return "keeps descriptors" if left else "costs those clients only", ["100 resets", f"{left} descriptors left behind"]


def million(card):
    before = card.process and card.process.cpu()
    witness = Witness(card)
    try:
        with Client(card, card.protocol.short, card.million) as client:
            how = client.talk(60)
            numbers = [f"{client.answers.count():,} of {card.million:,}"]
    finally:
        waited = witness.stop()
    numbers.append(waited)
    if card.process:
        numbers.append(f"{(card.process.cpu() - before) / card.million * 1e6:.1f} us of CPU each")
    return {"done": "answers all", "late": "is not done in 60 s"}.get(how, "cuts them off"), numbers


def word_for(client, seconds):
    """What becomes of its only request."""
    try:
        how = client.talk(max(0.001, seconds))
    except Wrong:
        return "refused"
    return {"done": "answered", "end": "closed", "reset": "closed"}.get(how, "waiting")


def words_for(card, clients):
    """What becomes of the request of each, until nobody hears anything any more although the server could run."""
    words, quiet, limit = ["waiting"] * len(clients), 0, time.monotonic() + PATIENCE
    while "waiting" in words and quiet < LOOKS and time.monotonic() < limit:
        could_run = card.process.runs() is not None
        before, words = words, [word_for(client, 0) if word == "waiting" else word for client, word in zip(clients, words)]
        quiet = 0 if words != before else quiet + could_run
    return words


def descriptors(card):
    pid = card.process.pid
    soft, hard = resource.prlimit(pid, resource.RLIMIT_NOFILE)
    there = set(card.process.descriptors())
    free = itertools.islice((number for number in itertools.count() if number not in there), FREE)
    clients = []
    try:
        resource.prlimit(pid, resource.RLIMIT_NOFILE, (max(free) + 1, hard))
        for _ in range(3 * FREE):
            clients.append(Client(card, card.protocol.short, 1, patience=0))
        words = words_for(card, clients)
        looks, limit = [], time.monotonic() + PATIENCE
        while len(looks) < LOOKS and time.monotonic() < limit:
            looks += [runs for runs in [card.process.runs()] if runs is not None]
        busy = sum(looks)
        waiting = [client for client, word in zip(clients, words) if word == "waiting"]
        for client in clients:
            if client not in waiting:
                client.socket.close()
        limit, later = time.monotonic() + PATIENCE, 0
        for client in waiting:
            later += word_for(client, limit - time.monotonic()) != "waiting"
            client.socket.close()
        numbers = [", ".join(f"{count} {word}" for word, count in sorted(collections.Counter(words).items())),
                   f"runs in {busy} of {len(looks)} looks"] + ([f"{later} of {len(waiting)} served later"] if waiting else [])
    finally:
        for client in clients:
            client.socket.close()
        resource.prlimit(pid, resource.RLIMIT_NOFILE, (soft, hard))
    card.ask_one()
    if busy > len(looks) / 2:
        return "spins", numbers
    if later < len(waiting):
        return "forgets some", numbers
    return "lets them wait" if 2 * len(waiting) > len(clients) - words.count("answered") else "refuses them", numbers


class Sender(threading.Thread):
    """Twenty requests at a time, without a pause, until the connection ends."""

    def __init__(self, card):
        super().__init__(daemon=True)
        self.client, self.wrong = Client(card, card.protocol.large, 0), None
        self.start()

    def run(self):
        try:
            while not self.client.end:
                self.client.count += 20
                self.client.size = self.client.requests.length(self.client.count)
                if self.client.talk() == "late":
                    break
        except Wrong as wrong:
            self.wrong = wrong
        self.client.socket.close()

    def stop(self):
        with contextlib.suppress(OSError):
            self.client.socket.shutdown(socket.SHUT_RDWR)
        self.join()


def sigterm(card):
    senders = [Sender(card) for _ in range(20)]
    try:
        time.sleep(0.5)
        due = [sender.client.requests.pieces(sender.client.sent) for sender in senders]
        os.kill(card.process.pid, signal.SIGTERM)
        begun = time.monotonic()
        while card.process.status() is None and time.monotonic() < begun + card.stop:
            time.sleep(0.01)
        how, took = card.process.status(), time.monotonic() - begun
        for sender in senders if how else ():  # what was on its way still arrives
            sender.join(2)
    finally:
        for sender in senders:
            sender.stop()
    for sender in senders:
        if sender.wrong:
            raise sender.wrong
    lost = [max(0, count - sender.client.answers.count()) for sender, count in zip(senders, due)]
    losers = sum(1 for count in lost if count)
    resets = sum(1 for sender in senders if sender.client.end == "reset")
    numbers = [f"{sum(lost)} answers of {losers} clients lost" if losers else "no answer lost",
               f"{resets} of {len(senders)} clients reset"]
    if how is None:
        return "does not end", numbers + [f"in {card.stop} s"]
    does = "leaves at once" if sum(lost) else "answers, then resets" if resets else "answers, then ends"
    return does, numbers + [f"{how}, after {took:.1f} s"]


CASES = {
    "never reads": never_reads, "byte a second": byte_a_second, "half-close": half_close, "reset": reset,
    "million": million, "descriptors": descriptors, "SIGTERM": sigterm,
}
NEED_PID = ("descriptors", "SIGTERM")


# ---- a card -------------------------------------------------------------------------------------


class Card:
    def __init__(self, address, protocol, pid=None, path="/", slow=10, short=False):
        self.address = address
        self.protocol = PROTOCOLS[protocol](path)
        self.process = Process(pid) if pid else None
        self.slow = slow  # seconds
        self.due = (16 if short else 64) * MIB
        self.million = 20000 if short else 1000000
        self.end, self.stop = (5, 8) if short else (10, 20)  # seconds for the end of a stream that is due, and of the process

    def ask_one(self):
        """Another client is served as if nothing had happened."""
        with Client(self, self.protocol.short, 1) as client:
            how = client.talk()
            if how != "done":
                raise Wrong(f"another client gets no answer ({how})")

    def begin(self):
        """The server speaks that protocol."""
        request, answer = getattr(self.protocol, "prepare", (b"", b""))
        with socket.create_connection(self.address, PATIENCE) as connection:
            connection.sendall(request)
            came = b""
            while len(came) < len(answer) and (data := connection.recv(4096)):
                came += data
            if came != answer:
                raise Wrong(f"expected {answer!r}, got {came!r}")
        for pieces in (self.protocol.short, self.protocol.large):
            with Client(self, pieces, 1) as client:
                how = client.talk()
                if how != "done":
                    raise Wrong(f"no answer to {pieces[0][:40]!r} ({how})")

    def one(self, name):
        if name in NEED_PID and not self.process:
            return Row(name, "not run", "needs PID")
        if self.process and self.process.status():
            return Row(name, "not run", "the server has ended")
        try:
            does, numbers = CASES[name](self)
        except (Wrong, OSError) as error:
            how = self.process and self.process.status_soon()
            return Row(name, "dies" if how else "no longer answers", f"{error}{f'; {how}' if how else ''}")
        how = self.process and name != "SIGTERM" and self.process.status()
        return Row(name, "dies", f"{how}; {does}") if how else Row(name, does, "; ".join(numbers))

    def rows(self, only=None, turn=None):
        """A row for each case, SIGTERM last. The slow client waits beside the others; `turn` is a lock for what is busy."""
        wanted = [name for name in CASES if not only or name in only]
        found = {}
        self.begin()
        slow = threading.Thread(target=lambda: found.update({"byte a second": self.one("byte a second")}), daemon=True)
        if "byte a second" in wanted:
            slow.start()
        for name in wanted:
            if name == "SIGTERM" and slow.ident:
                slow.join()
            if name != "byte a second":
                with turn or contextlib.nullcontext():
                    found[name] = self.one(name)
        if slow.ident:
            slow.join()
        return [found[name] for name in wanted]


def text(rows):
    return "\n".join(f"{row.case:14} {row.does:25} {row.numbers}" for row in rows)


def main():
    parser = argparse.ArgumentParser(description="What a server does with hostile clients.")
    parser.add_argument("server", metavar="HOST:PORT")
    parser.add_argument("protocol", choices=PROTOCOLS)
    parser.add_argument("--pid", type=int, help="of the process that accepts; without, some cases are not run")
    parser.add_argument("--path", default="/", help="http: what is asked for [/]")
    parser.add_argument("--slow", type=int, default=10, metavar="SEC", help="for how long to send a byte a second [10]")
    parser.add_argument("--only", action="append", choices=CASES, metavar="CASE", help="one case; may be given again")
    parser.add_argument("--json", action="store_true")
    arguments = parser.parse_args()
    host, _, port = arguments.server.rpartition(":")
    if not host or not port.isdigit():
        parser.error(f"expected HOST:PORT, got {arguments.server!r}")
    try:
        rows = Card((host.strip("[]"), int(port)), arguments.protocol, arguments.pid, arguments.path,
                    arguments.slow).rows(arguments.only)
    except (Wrong, OSError) as error:
        print(f"card: {arguments.server} does not speak {arguments.protocol}: {error}", file=sys.stderr)
        return 1
    print(json.dumps([row._asdict() for row in rows], indent=1) if arguments.json else text(rows))
    return 0


if __name__ == "__main__":
    sys.exit(main())
