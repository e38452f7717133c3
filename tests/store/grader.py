#!/usr/bin/env python3
"""Grades a store that somebody has built by docs/build-a-store.md, in whatever language.

  usage: tests/store/grader.py TASKS PROGRAM [ARGUMENT...]     (make test-store TASK=3 SERVER=path)

TASKS is 3, or 1-8. Each test starts PROGRAM with `--port N` behind its arguments, in an empty folder, waits until
it can connect to 127.0.0.1, port N, and ends it with SIGKILL. What PROGRAM prints is shown if it ends by itself.

  PATIENCE=10   seconds for any answer
  SEED=1        of what is cut, and of what is chosen, at random; a failure names its seed
  ONLY=name     this test only

A test is named for what it asks for. What fails is told with the mistake that usually is its cause, unless an error
answers a command of the task's table: then that one is still missing, and the others fail for want of it. Prints "N passed, N failed" at
the end.
"""
import asyncio
import collections
import contextlib
import os
import random
import re
import resource
import signal
import socket
import struct
import subprocess
import sys
import tempfile
import time

HERE = os.path.dirname(os.path.abspath(__file__))
PAGE = os.path.join(HERE, "..", "..", "docs", "build-a-store.md")
PATIENCE = float(os.environ.get("PATIENCE", "10"))
SEED = int(os.environ.get("SEED", "1"))
CROWD = 200
TESTS = collections.defaultdict(dict)  # task: name: (mistake, function)


class Failure(Exception):
    """What came instead of what a test expects, and the mistake if it is another one than the test's.

    `client` is the one that was read last, `sent` the request that was answered, where a test knows it, and `moment` how
    far the server was: what it says later may come from the test's end."""

    def __init__(self, what, mistake=None, sent=None):
        super().__init__(what)
        self.mistake, self.sent, self.client = mistake, sent, Client.latest
        self.moment = Client.latest.server.moment() if Client.latest else None


class Unknown(Failure):
    """An error is the answer to a command of the task's table."""


class NotStarted(Failure):
    """Then no other test can do better."""


def test(task, mistake):
    def add(function):
        TESTS[task][function.__name__] = mistake, function
        return function
    return add


def shown(data, most=100):
    text = "".join(chr(byte) if 32 <= byte < 127 else {10: "\\n", 13: "\\r"}.get(byte, f"\\x{byte:02x}")
                   for byte in data[:most])
    return f"`{text}`" + (f" and {len(data) - most} bytes more" if len(data) > most else "")


# ---- bytes --------------------------------------------------------------------------------------------

OK, NULL, NULL_ARRAY, QUEUED, PONG = b"+OK\r\n", b"$-1\r\n", b"*-1\r\n", b"+QUEUED\r\n", b"+PONG\r\n"


def words(*arguments):
    """A command, as redis-cli sends it."""
    arguments = [word if isinstance(word, bytes) else str(word).encode() for word in arguments]
    return b"*%d\r\n" % len(arguments) + b"".join(b"$%d\r\n%s\r\n" % (len(word), word) for word in arguments)


def bulk(data):
    return b"$%d\r\n%s\r\n" % (len(data), data)


def integer(number):
    return b":%d\r\n" % number


def array(*replies):
    return b"*%d\r\n" % len(replies) + b"".join(replies)


def reply_ends(data, at=0):
    """Where the reply that begins there ends; -1 if it is not whole."""
    size, left = len(data), 1
    while left:
        end = data.find(b"\r\n", at)
        if end < 0:
            return -1
        kind, left = data[at], left - 1
        if kind not in b"+-":
            try:
                number = int(data[at + 1:end])
            except ValueError:
                kind = ord("?")
            if kind not in b":$*":
                raise Failure(f"an answer begins with {shown(data[at:end])}")
        at = end + 2
        if kind == ord("*"):
            left += max(number, 0)
        elif kind == ord("$") and number >= 0:
            at += number + 2
            if at > size:
                return -1
    return at


# ---- a server, and clients ----------------------------------------------------------------------------

class Server:
    """The program that is graded, running."""

    def __init__(self, command, folder):
        self.command, self.folder, self.process, self.stopping = command, folder, None, False
        self.random, self.clients, self.turns, self.has_answered = random.Random(SEED), [], 0, False
        self.place, self.output, self.errors = folder, os.path.join(folder, "output"), os.path.join(folder, "errors")

    async def start(self):
        for _ in range(3):  # somebody may take the port before the program does
            self.port = free_port()
            with open(self.output, "wb") as output, open(self.errors, "wb") as errors:
                try:
                    self.process = subprocess.Popen([*self.command, "--port", str(self.port)], cwd=self.place,
                                                    stdin=subprocess.DEVNULL, stdout=output, stderr=errors,
                                                    start_new_session=True)
                except OSError as error:
                    raise NotStarted(f"the system cannot start {self.command[0]}: {error.strerror}") from None
            until = time.monotonic() + max(PATIENCE, 30)
            while self.process.poll() is None and time.monotonic() < until:
                try:
                    socket.create_connection(("127.0.0.1", self.port), 1).close()
                    return
                except OSError:
                    await asyncio.sleep(0.02)
            if self.process.poll() is None:
                raise NotStarted("it does not listen at 127.0.0.1, on the port that --port says")
        raise NotStarted(self.how_it_ended("before it listened"))

    def last_said(self):
        """The last lines on standard error, or, if there are none, on standard output."""
        for path in self.errors, self.output:
            with open(path, "rb") as output:
                said = output.read()[-2000:].decode(errors="replace").strip().splitlines()[-4:]
            if said:
                break
        return said

    def moment(self):
        """The bytes that it has written to standard error, and whether it has ended."""
        return os.path.getsize(self.errors), self.process.poll() is not None

    def how_it_ended(self, when):
        said = self.last_said()
        status = self.process.poll()
        how = f"by {signal.Signals(-status).name}" if status < 0 else f"with status {status}"
        return f"it ended {when}, {how}" + (f"; the last that it said: {' / '.join(said)}" if said else "")

    def stop(self):
        self.stopping = True
        self.process.terminate()

    def check(self):
        """That it has not ended without being asked to."""
        if not self.stopping and self.process.poll() is not None:
            raise Failure(self.how_it_ended("meanwhile"))

    def kill(self):
        if self.process:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self.process.pid, signal.SIGKILL)
            self.process.wait()

    async def client(self, **options):
        client = Client(self, **options)
        await client.connect()
        return client

    async def ends(self, seconds):
        until = time.monotonic() + seconds
        while self.process.poll() is None:
            if time.monotonic() > until:
                raise Failure(f"{seconds:.0f} s after SIGTERM it still runs")
            await asyncio.sleep(0.01)
        if self.process.returncode != 0:
            raise Failure(self.how_it_ended("at SIGTERM"), TESTS[8]["it_ends_with_0"][0])

    def ticks(self):
        """Hundredths of a second of processor time used so far."""
        with open(f"/proc/{self.process.pid}/stat", encoding="ascii") as stat:
            return sum(map(int, stat.read().rsplit(")", 1)[1].split()[11:13]))

    def unread(self):
        """The bytes that it has not read yet, for the port of each client whose socket it has not closed."""
        ports = {}
        for path in "/proc/net/tcp", "/proc/net/tcp6":
            with contextlib.suppress(OSError), open(path, "rb") as table:
                for port, unread in re.findall(rb":%04X [0-9A-F]+:([0-9A-F]+) .. [0-9A-F]+:([0-9A-F]+) " % self.port,
                                               table.read()):
                    ports[int(port, 16)] = int(unread, 16)
        return ports

    async def reads_all(self, *clients):
        """Waits until it has read all that these clients have sent, or that all have."""
        until, ports = time.monotonic() + PATIENCE, {client.port for client in clients}
        while any(unread for port, unread in self.unread().items() if port in ports or not ports):
            if time.monotonic() > until:
                raise Failure("the server does not read what was sent")
            await asyncio.sleep(0.001)

    async def forgets(self, *clients):
        """Waits until it has closed its side of the connections of clients that have left."""
        until, ports = time.monotonic() + PATIENCE, {client.port for client in clients}
        while kept := ports & self.unread().keys():
            if time.monotonic() > until:
                Client.latest = next(client for client in clients if client.port in kept)
                raise Failure("a client has left, and the server keeps its connection")
            await asyncio.sleep(0.005)

    def descriptors(self):
        return len(os.listdir(f"/proc/{self.process.pid}/fd"))


def free_port():
    """One that no client is given by the kernel."""
    while True:
        port = random.SystemRandom().randrange(15000, 32000)
        with socket.socket() as attempt:
            with contextlib.suppress(OSError):
                attempt.bind(("127.0.0.1", port))
                return port


class Client:
    latest = None  # the one that a test has looked at last
    KEPT = 200  # bytes of each turn, for what a failure shows

    def __init__(self, server, room=None):
        self.server, self.input, self.turns = server, bytearray(), collections.deque(maxlen=6)
        server.clients.append(self)
        self.socket = socket.socket()
        self.socket.setblocking(False)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        if room:
            self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, room)
        self.loop = asyncio.get_running_loop()

    async def within(self, work, what):
        try:
            return await asyncio.wait_for(work, PATIENCE)
        except asyncio.TimeoutError:
            Client.latest = self
            self.server.check()
            raise Failure(f"{what} within {PATIENCE:g} s") from None
        except ConnectionError as error:
            Client.latest = error.client = self
            self.server.check()
            raise

    def note(self, verb, data):
        """A turn of its talk with the server; a failure shows the last ones."""
        Client.latest = self
        if data and not (self.turns and self.turns[-1][1] == verb):
            self.server.turns += 1
            self.turns.append([self.server.turns, verb, bytearray(), 0])
        if data:
            turn = self.turns[-1]
            turn[2] += data[-self.KEPT:]
            del turn[2][:-self.KEPT]
            turn[3] += len(data)

    async def connect(self):
        await self.within(self.loop.sock_connect(self.socket, ("127.0.0.1", self.server.port)), "no connection")
        self.port = self.socket.getsockname()[1]

    async def send(self, data):
        self.note("sent", data)
        await self.within(self.loop.sock_sendall(self.socket, data), "the server does not read what is sent")

    async def send_in_pieces(self, data):
        """Cuts at random, and lets others have their turns between the pieces."""
        chance, at = self.server.random, 0
        while at < len(data):
            size = chance.choice((1, 2, 3, 7, 20, 100, 1000, 20000))
            try:
                await self.send(data[at:at + size])
            except OSError:
                if self.socket.fileno() < 0:
                    return  # its test is over, and before Python 3.12 wait_for can lose that this was cancelled
                raise
            at += size
            for _ in range(chance.randrange(3)):
                await asyncio.sleep(0)

    async def receive(self, most=65536):
        """What comes next; empty at the end."""
        data = await self.within(self.loop.sock_recv(self.socket, most), "no answer")
        self.note("got", data)
        self.server.has_answered = self.server.has_answered or bool(data)
        return data

    async def reply(self, what="the command"):
        while (end := reply_ends(self.input)) < 0:
            try:
                data = await self.receive()
            except ConnectionError:
                raise Failure(f"{what}: instead of an answer, the connection was reset") from None
            except Failure as failure:
                so_far = f"; so far {shown(self.input)}" if self.input else ""
                raise Failure(f"{what}: {failure}{so_far}") from None
            if not data:
                raise Failure(f"{what}: instead of an answer, the connection was closed"
                              + (f" after {shown(self.input)}" if self.input else ""))
            self.input += data
        reply = bytes(self.input[:end])
        del self.input[:end]
        return reply

    async def call(self, *arguments):
        await self.send(words(*arguments))
        return await self.reply(name_of(arguments))

    async def expect(self, expected, *arguments):
        """Sends a command, if there is one, and compares the answer."""
        seen = await self.call(*arguments) if arguments else await self.reply("the next answer")
        compare(seen, expected, name_of(arguments) if arguments else "the next answer")

    async def expect_error(self, *arguments, kind=b"-ERR"):
        seen = await self.call(*arguments)
        if not seen.startswith(kind):
            raise Failure(f"{name_of(arguments)}: expected {kind.decode()} and a reason, got {shown(seen)}")

    async def expect_end(self, after):
        """The end of the stream, and nothing before it."""
        try:
            data = bytes(self.input) or await self.receive()
        except ConnectionError:
            raise Failure(f"{after}: expected the end of the connection, got a reset") from None
        except Failure as failure:
            raise Failure(f"{after}: expected the end of the connection, but {failure}") from None
        if data:
            raise Failure(f"{after}: expected the end of the connection, got {shown(data)}")

    async def expect_silence(self, why):
        """That nothing has come, although the server has had its turn: another client was answered."""
        other = await self.server.client()
        await other.expect(PONG, "PING")
        other.close()
        with contextlib.suppress(BlockingIOError):
            self.input += self.socket.recv(65536)
        if self.input:
            raise Failure(f"{why}: {shown(self.input)}")

    def has_unread(self):
        """Whether something has come that is not read yet; it may be the end of the stream."""
        with contextlib.suppress(BlockingIOError):
            self.socket.recv(1, socket.MSG_PEEK)
            return True
        return False

    def half_close(self):
        self.socket.shutdown(socket.SHUT_WR)

    def reset(self):
        self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.socket.close()

    def close(self):
        self.socket.close()

    async def is_read(self):
        await self.server.reads_all(self)

    async def is_forgotten(self):
        await self.server.forgets(self)


def name_of(arguments):
    return shown(b" ".join(word if isinstance(word, bytes) else str(word).encode() for word in arguments), 50)


def compare(seen, expected, what):
    if seen != expected:
        raise Failure(f"{what}: expected {shown(expected)}, got {shown(seen)}")


async def crowd(server, work, count=CROWD):
    """All of them at the same time; work(client, n) is what each does."""
    clients = [await server.client() for _ in range(count)]
    tasks = [asyncio.ensure_future(work(client, n)) for n, client in enumerate(clients)]
    try:
        await asyncio.gather(*tasks)
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        for client in clients:
            client.close()


async def in_pieces(client, exchanges):
    """Sends commands, cut at random, while their answers are compared. They are (words, expected)."""
    sending = asyncio.ensure_future(client.send_in_pieces(b"".join(words(*command) for command, _ in exchanges)))
    try:
        for command, expected in exchanges:
            compare(await client.reply(name_of(command)), expected, name_of(command))
        await sending
    finally:
        sending.cancel()


# ---- what the page shows ------------------------------------------------------------------------------

def page_rows(task):
    """(client, sends, expects) of each row of the task's table."""
    with open(PAGE, encoding="utf-8") as page:
        section = re.split(r"^## ", page.read(), flags=re.M)
    section = next(text for text in section if text.startswith(f"Task {task}:"))

    def unquote(cell):
        return "".join(re.findall(r"`([^`]*)`", cell)).encode().replace(b"\\r", b"\r").replace(b"\\n", b"\n")
    for line in section.splitlines():
        cells = [cell.strip() for cell in line.strip("|").split("|")]
        if len(cells) == 3 and re.search("`", line):
            yield cells[0], unquote(cells[1]), unquote(cells[2])


async def the_page(server):
    clients = {}
    for who, sends, expects in page_rows(server.task):
        if who not in clients:
            clients[who] = await server.client()
        await clients[who].send(sends)
        seen, what = b"", f"{who}: {shown(sends)}" if sends else f"{who}, who has sent nothing more"
        while expects.startswith(seen) and seen != expects:
            seen += await clients[who].reply(what)
            if seen.startswith(b"-") and not expects.startswith(b"-") and sends.startswith(b"*"):
                raise Unknown(f"{what}: expected {shown(expects)}, got {shown(seen)}")
        compare(seen, expects, what)
        if not expects and sends:
            await clients[who].is_read()


for number in range(1, 9):
    test(number, "the bytes are not those of the task's table")(the_page)


# ---- 1: PING ------------------------------------------------------------------------------------------

@test(1, "one read was taken for one command")
async def a_command_in_pieces(server):
    client = await server.client()
    for _ in range(2):
        for byte in words("PING"):
            await client.send(bytes([byte]))
            await client.is_read()
        await client.expect(PONG)


@test(1, "one client is served at a time, so one that is slow stops all others")
async def half_a_command(server):
    ann, bob = await server.client(), await server.client()
    await ann.send(b"*1\r\n$4\r\nPI")
    await bob.expect(PONG, "PING")
    await ann.send(b"NG\r\n")
    await ann.expect(PONG)


@test(1, "names of commands were compared as they stand; redis-cli sends what its user typed")
async def small_letters(server):
    client = await server.client()
    await client.expect(PONG, "ping")
    await client.expect(bulk(b"Hello"), "Ping", "Hello")


@test(1, "an unknown command cost the connection, or got no answer")
async def a_command_that_is_none(server):
    client = await server.client()
    await client.expect_error("NONSENSE", "1", "2")
    await client.expect(PONG, "PING")


@test(1, "the end of a client's stream was taken for its departure, before its commands were answered")
async def half_close(server):
    async def ping_and_end(client, _):
        await client.send(words("PING"))
        client.half_close()
        await client.expect(PONG)
        await client.expect_end("PING, and the end of the client's stream")
    await crowd(server, ping_and_end)


@test(1, "a client that leaves ended the server, or its descriptor was never closed")
async def clients_that_leave(server):
    ann = await server.client()
    await ann.expect(PONG, "PING")
    before, leaving = server.descriptors(), []

    async def leave(client, n):
        await client.send((b"", b"*1\r\n$4\r\nPI", words("PING"), words("PING") * 100)[n % 4])
        leaving.append(client)
        if n % 2:
            client.reset()
        else:
            client.close()
    await crowd(server, leave)
    await server.forgets(*leaving)
    server.check()
    await ann.expect(PONG, "PING")
    until = time.monotonic() + PATIENCE
    while server.descriptors() > before + 5:
        if time.monotonic() > until:
            raise Failure(f"{CROWD} clients came and went: {server.descriptors()} descriptors, {before} before")
        await asyncio.sleep(0.05)


@test(1, "state that each client needs for itself is shared")
async def two_hundred_at_once(server):
    async def ping(client, n):
        await in_pieces(client, [(("PING", f"{n}.{i}"), bulk(b"%d.%d" % (n, i))) for i in range(20)])
    await crowd(server, ping)


# ---- 2: SET and GET -----------------------------------------------------------------------------------

@test(2, "values were searched for an end instead of counted")
async def values_are_bytes(server):
    client = await server.client()
    for value in b"two\r\nlines", b"\r\n", b"$3\r\nfoo\r\n", b"*1\r\n$4\r\nPING\r\n", b"\0\xff\0", b"", bytes(range(256)):
        await client.expect(OK, "SET", "key", value)
        await client.expect(bulk(value), "GET", "key")


@test(2, "a length counts bytes, not characters")
async def lengths_count_bytes(server):
    client = await server.client()
    for value in "grün", "日本", "€":
        await client.expect(OK, "SET", value, value)
        await client.expect(bulk(value.encode()), "GET", value)


@test(2, "a key that is missing and one with an empty value are two things: $-1 and $0")
async def missing_is_not_empty(server):
    client = await server.client()
    await client.expect(NULL, "GET", "missing")
    await client.expect(OK, "SET", "empty", "")
    await client.expect(b"$0\r\n\r\n", "GET", "empty")
    await client.expect(integer(1), "DEL", "empty", "missing")
    await client.expect(NULL, "GET", "empty")


@test(2, "a command was answered although words are missing, or cost the connection")
async def words_are_missing(server):
    client = await server.client()
    await client.expect_error("SET", "key")
    await client.expect_error("GET")
    await client.expect_error("GET", "one", "two")
    await client.expect(PONG, "PING")


@test(2, "a length was believed as it came, so a client can make the server reserve any memory, or wait forever")
async def lengths_that_nobody_means(server):
    for hostile in b"*2\r\n$3\r\nGET\r\n$99999999999\r\n", b"*2\r\n$3\r\nGET\r\n$-7\r\n", b"*99999999999\r\n", b"*1\r\n$x\r\n":
        client = await server.client()
        await client.send(hostile)
        seen = await client.reply(shown(hostile))
        if not seen.startswith(b"-ERR"):
            raise Failure(f"{shown(hostile)}: expected -ERR and a reason, got {shown(seen)}")
        await client.expect_end(shown(hostile))
    other = await server.client()
    await other.expect(PONG, "PING")


@test(2, "what one read returns was taken for the whole value")
async def a_big_value(server):
    client, value = await server.client(), server.random.randbytes(4 << 20)
    await client.expect(OK, "SET", "big", value)
    await client.expect(bulk(value), "GET", "big")


@test(2, "state that each client needs for itself is shared")
async def two_hundred_with_keys(server):
    async def set_and_get(client, n):
        exchanges = []
        for i in range(10):
            value = server.random.randbytes(server.random.choice((0, 1, 10, 1000, 5000)))
            exchanges += [(("SET", f"{n}.{i}", value), OK), (("GET", f"{n}.{i}"), bulk(value))]
        await in_pieces(client, exchanges)
    await crowd(server, set_and_get)


# ---- 3: pipelining ------------------------------------------------------------------------------------

@test(3, "one command was carried out for each read; the others stay in the buffer until more comes")
async def a_thousand_in_one_write(server):
    client = await server.client()
    await client.send(b"".join(words("PING", n) for n in range(1000)))
    for n in range(1000):
        await client.expect(bulk(b"%d" % n))


@test(3, "what was left of a write, half a command, was lost or read as the beginning of one")
async def a_write_that_ends_in_a_command(server):
    client, data = await server.client(), b"".join(words("PING", n) for n in range(100))
    for at in range(0, len(data), 333):
        await client.send(data[at:at + 333])
        await client.is_read()
    for n in range(100):
        await client.expect(bulk(b"%d" % n))


@test(3, "send() took less than it was given, and the rest was lost; or the server waited for this client")
async def one_that_reads_late(server):
    bob, ann, value = await server.client(), await server.client(), server.random.randbytes(1 << 20)
    await bob.expect(OK, "SET", "big", value)
    await bob.send(words("GET", "big") * 32)
    for _ in range(10):
        await ann.expect(PONG, "PING")
    for n in range(32):
        seen = await bob.reply(f"answer {n + 1} of 32")
        if seen != bulk(value):
            raise Failure(f"answer {n + 1} of 32, a megabyte each, is not the value")


@test(3, "a client that sends without a pause was served until nothing came from it any more")
async def a_flood_and_a_question(server):
    eve, ann = await server.client(), await server.client()
    await ann.expect(PONG, "PING")

    async def send():
        while True:
            await eve.loop.sock_sendall(eve.socket, words("PING") * 10000)

    async def drop():
        while await eve.loop.sock_recv(eve.socket, 1 << 20):
            pass
    flood = [asyncio.ensure_future(send()), asyncio.ensure_future(drop())]
    try:
        for _ in range(20):
            await ann.expect(PONG, "PING")
        for task in flood:
            if task.done():
                raise Failure(f"the one that sends without a pause was disconnected: {task.exception()}")
    finally:
        for task in flood:
            task.cancel()
        await asyncio.gather(*flood, return_exceptions=True)
        eve.reset()


@test(3, "commands that had come before the end of the stream were dropped with it")
async def a_pipeline_and_the_end(server):
    async def pipeline(client, n):
        await client.send(b"".join(words("PING", f"{n}.{i}") for i in range(50)))
        client.half_close()
        for i in range(50):
            await client.expect(bulk(b"%d.%d" % (n, i)))
        await client.expect_end("50 commands, and the end of the client's stream")
    await crowd(server, pipeline)


# ---- 4: expiry ----------------------------------------------------------------------------------------
#
# A server reads its clock between the moment before a SET is sent and the moment after its answer came. So a key
# has to be there if the answer to a GET comes before the first plus its time, and gone if GET is sent after the
# second plus its time; and no machine is too slow for that.

async def lives_as_long(client, key, unit, amount):
    seconds = amount / (1 if unit == "EX" else 1000)
    before = time.monotonic()
    await client.expect(OK, "SET", key, "v", unit, amount)
    after = time.monotonic()
    while True:
        sent = time.monotonic()
        seen = await client.call("GET", key)
        came = time.monotonic()
        if seen == NULL and came < before + seconds - 0.002:
            raise Failure(f"SET {key} v {unit} {amount}: gone after {came - before:.3f} s")
        if seen != NULL and sent > after + seconds + 0.002:
            raise Failure(f"SET {key} v {unit} {amount}: still there {sent - after:.3f} s later")
        if seen == NULL:
            break
        await asyncio.sleep(0.02)


@test(4, "EX counts seconds, and PX milliseconds")
async def seconds_and_milliseconds(server):
    client, amounts = await server.client(), (("EX", 50, 50000), ("PX", 50000, 50000), ("px", 1500000, 1500000))
    for unit, amount, expected in amounts:
        before = time.monotonic()
        await client.expect(OK, "SET", "key", "v", unit, amount)
        left = int((await client.call("PTTL", "key"))[1:])
        passed = (time.monotonic() - before) * 1000
        if not expected - passed - 2 <= left <= expected:
            raise Failure(f"SET key v {unit} {amount}, then PTTL: {left}")


@test(4, "the time was looked at now and then, not when the key was asked for")
async def gone_when_it_is_time(server):
    client = await server.client()
    for n in range(5):
        await lives_as_long(client, f"key{n}", "PX", 60 + 20 * n)
    await lives_as_long(client, "key", "EX", 1)


@test(4, "the timer of the value before removed the new one")
async def a_new_value_has_no_old_timer(server):
    client = await server.client()
    await client.expect(OK, "SET", "key", "old", "PX", 100)
    await client.expect(OK, "SET", "key", "new")
    await client.expect(OK, "SET", "other", "old", "PX", 100)
    await client.expect(OK, "SET", "other", "new", "EX", 100)
    await client.expect(OK, "SET", "clock", "v", "PX", 150)  # its timer is the last of the three
    until = time.monotonic() + PATIENCE
    while await client.call("GET", "clock") != NULL:
        if time.monotonic() > until:
            raise Failure("SET clock v PX 150: it does not go")
        await asyncio.sleep(0.02)
    await client.expect(bulk(b"new"), "GET", "key")
    await client.expect(integer(-1), "TTL", "key")
    await client.expect(bulk(b"new"), "GET", "other")


@test(4, "a time that is no whole number above 0 was accepted")
async def times_that_are_none(server):
    client = await server.client()
    for bad in "0", "-1", "soon", "1.5", "":
        await client.expect_error("SET", "key", "v", "EX", bad)
    await client.expect_error("SET", "key", "v", "EX")
    await client.expect(NULL, "GET", "key")


@test(4, "the server looks at its keys all the time instead of sleeping until the next one is due")
async def it_sleeps_until_then(server):
    client = await server.client()
    await in_pieces(client, [(("SET", n, "v", "EX", 1000), OK) for n in range(1000)])
    before, began = server.ticks(), time.monotonic()
    await asyncio.sleep(1)
    used, passed = server.ticks() - before, time.monotonic() - began
    if used > 20 * passed:
        raise Failure(f"in {passed:.1f} s in which nobody asks, it uses {used / 100:.2f} s of a processor")


@test(4, "state that each client needs for itself is shared")
async def two_hundred_that_expire(server):
    async def expire(client, n):
        await lives_as_long(client, f"key{n}", "PX", server.random.randrange(50, 400))
    await crowd(server, expire)


# ---- 5: BLPOP -----------------------------------------------------------------------------------------

async def waits(server, *arguments):
    """A client that waits, and the server knows."""
    client = await server.client()
    await client.send(words(*arguments))
    await client.is_read()
    await client.expect_silence(f"{name_of(arguments)} was answered at once")
    return client


@test(5, "the thread that serves the clients waited")
async def others_go_on(server):
    ann = await waits(server, "BLPOP", "queue", 0)
    bob = await server.client()
    await bob.expect(integer(1), "RPUSH", "queue", "one")
    await ann.expect(array(bulk(b"queue"), bulk(b"one")))
    await bob.expect(integer(0), "LLEN", "queue")


@test(5, "commands behind one that waits were answered before it")
async def answers_keep_their_order(server):
    ann = await waits(server, "BLPOP", "queue", 0)
    await ann.send(words("PING") + words("BLPOP", "queue", 0) + words("PING", "behind"))
    await ann.is_read()
    await ann.expect_silence("PING behind a BLPOP that waits was answered")
    bob = await server.client()
    await bob.expect(integer(1), "RPUSH", "queue", "one")
    await ann.expect(array(bulk(b"queue"), bulk(b"one")))
    await ann.expect(PONG)
    await bob.call("RPUSH", "queue", "two")
    await ann.expect(array(bulk(b"queue"), bulk(b"two")))
    await ann.expect(bulk(b"behind"))


@test(5, "the element went to a client that had left, and was lost")
async def one_that_left_gets_nothing(server):
    for leave in Client.close, Client.reset:
        ann = await waits(server, "BLPOP", "queue", 0)
        leave(ann)
        await ann.is_forgotten()
        bob = await server.client()
        await bob.expect(integer(1), "RPUSH", "queue", "one")
        await bob.expect(bulk(b"one"), "LPOP", "queue")


@test(5, "those that wait are not served in the order in which they came")
async def the_first_one_first(server):
    clients = [await waits(server, "BLPOP", "queue", 0) for _ in range(5)]
    bob = await server.client()
    await bob.call("RPUSH", "queue", *"12345")
    for n, client in enumerate(clients):
        await client.expect(array(bulk(b"queue"), bulk(b"%d" % (n + 1))))
    ann = await waits(server, "BLPOP", "queue", 0)
    await bob.send(words("RPUSH", "queue", "one") + words("LPOP", "queue"))
    await bob.expect(integer(1))
    compare(await bob.reply(), NULL, "LPOP behind an RPUSH for which a client waits")
    await ann.expect(array(bulk(b"queue"), bulk(b"one")))


@test(5, "the timeout was ignored, or taken for something else than seconds")
async def it_waits_as_long_as_asked(server):
    client = await server.client()
    for seconds in "0.1", "1":
        before = time.monotonic()
        await client.expect(NULL_ARRAY, "BLPOP", "queue", "other", seconds)
        passed = time.monotonic() - before
        if passed < float(seconds) - 0.002:
            raise Failure(f"BLPOP queue other {seconds}: answered after {passed:.3f} s")
    await client.expect_error("BLPOP", "queue", "-1")
    await client.expect_error("BLPOP", "queue", "soon")
    await client.expect(integer(2), "RPUSH", "queue", "one", "two")
    await client.expect(array(bulk(b"queue"), bulk(b"one")), "BLPOP", "other", "queue", 0)
    await client.expect(bulk(b"two"), "LPOP", "queue")


@test(5, "an element was lost, or given to two clients")
async def each_element_once(server):
    half, seen = CROWD // 2, []

    async def push_or_pop(client, n):
        if n < half:
            for i in range(10):
                await client.send_in_pieces(words("BLPOP", f"queue{n % 7}", f"queue{(n + 1) % 7}", 0))
                reply = await client.reply("BLPOP")
                if not reply.startswith(b"*2\r\n"):
                    raise Failure(f"BLPOP of two lists: expected a list and its element, got {shown(reply)}")
                seen.append(reply.split(b"\r\n")[-2])
        else:
            for i in range(10):
                await client.send_in_pieces(words("RPUSH", f"queue{i % 7}", f"{n}.{i}"))
                reply = await client.reply("RPUSH")
                if not reply.startswith(b":"):
                    raise Failure(f"RPUSH: expected the length of the list, got {shown(reply)}")
    pushing = asyncio.ensure_future(crowd(server, push_or_pop))
    # A client takes from two of seven queues, so some may be left when the pushing is over.
    bob = await server.client()
    try:
        until = time.monotonic() + PATIENCE * 3
        while not pushing.done() and time.monotonic() < until:
            for queue in range(7):
                moved = await bob.call("LPOP", f"queue{queue}")
                if moved != NULL:
                    await bob.call("RPUSH", f"queue{server.random.randrange(7)}", moved.split(b"\r\n")[1])
            await asyncio.sleep(0.01)
        if pushing.done():
            pushing.result()
    finally:
        pushing.cancel()
        await asyncio.gather(pushing, return_exceptions=True)
    expected = sorted(b"%d.%d" % (n, i) for n in range(half, CROWD) for i in range(10))
    if sorted(seen) != expected:
        raise Failure(f"{len(expected)} elements went in, and {len(set(seen))} came out, {len(seen) - len(set(seen))} twice")


# ---- 6: a subscriber that does not read ---------------------------------------------------------------

def message(channel, data):
    return array(bulk(b"message"), bulk(channel), bulk(data))


async def subscriber(server, channel, **options):
    client = await server.client(**options)
    await client.expect(array(bulk(b"subscribe"), bulk(channel), integer(1)), "SUBSCRIBE", channel)
    return client


@test(6, "messages to subscribers were lost, or overtook each other")
async def two_hundred_hear_all(server):
    ann, there = await server.client(), asyncio.Event()

    async def hear(client, n):
        await client.send_in_pieces(words("SUBSCRIBE", "news"))
        await client.expect(array(bulk(b"subscribe"), bulk(b"news"), integer(1)))
        hear.count += 1
        if hear.count == CROWD:
            there.set()
        for i in range(50):
            await client.expect(message(b"news", b"%d" % i))
    hear.count = 0

    async def tell():
        await asyncio.wait_for(there.wait(), PATIENCE)
        for i in range(50):
            await ann.expect(integer(CROWD), "PUBLISH", "news", i)
    await asyncio.gather(crowd(server, hear), tell())


@test(6, "the publisher, and with it all others, waited for a subscriber that does not read")
async def one_that_does_not_read(server):
    bob, ann = await subscriber(server, b"news", room=4096), await subscriber(server, b"news")
    carl, text = await server.client(), b"x" * 65536
    for _ in range(192):
        await carl.call("PUBLISH", "news", text)
        await ann.expect(message(b"news", text))
    bob.close()


@test(6, "a message that the socket does not take at once was dropped, or cut, or cost the connection")
async def one_that_reads_late(server):
    bob, carl = await subscriber(server, b"news", room=4096), await server.client()
    for n in range(96):
        await carl.expect(integer(1), "PUBLISH", "news", b"%3d " % n * 32768)
    for n in range(96):
        await bob.expect(message(b"news", b"%3d " % n * 32768))


@test(6, "what waits for a subscriber that never reads has no limit, so it takes all memory")
async def one_that_never_reads(server):
    bob, carl = await subscriber(server, b"news", room=4096), await server.client()
    for n in range(1536):
        if await carl.call("PUBLISH", "news", b"%04d" % n + b"x" * 65532) == integer(0):
            break
    else:
        raise Failure("96 MiB were published for a subscriber that never reads, and it is still connected")
    with contextlib.suppress(ConnectionError):
        for n in range(1536):
            while (end := reply_ends(bob.input)) < 0:
                data = await bob.receive(1 << 20)
                if not data:
                    return
                bob.input += data
            compare(bytes(bob.input[:end]), message(b"news", b"%04d" % n + b"x" * 65532), f"message {n}")
            del bob.input[:end]


@test(6, "a subscriber that has left is still counted, or its departure spoils the round of the others")
async def subscribers_that_leave(server):
    clients = [await subscriber(server, b"news") for _ in range(20)]
    carl = await server.client()
    for n in range(0, 20, 4):
        clients[n].close()
        clients[n + 1].reset()
        await clients[n + 2].expect(array(bulk(b"unsubscribe"), bulk(b"news"), integer(0)), "UNSUBSCRIBE", "news")
        await server.forgets(clients[n], clients[n + 1])
    await carl.expect(integer(5), "PUBLISH", "news", "hello")
    for n in range(3, 20, 4):
        await clients[n].expect(message(b"news", b"hello"))


# ---- 7: MULTI -----------------------------------------------------------------------------------------

@test(7, "there is one queue of commands for all clients")
async def each_has_a_queue(server):
    ann, bob = await server.client(), await server.client()
    await ann.expect(OK, "MULTI")
    await bob.expect(OK, "SET", "key", "bob")
    await ann.expect(QUEUED, "SET", "key", "ann")
    await bob.expect(bulk(b"bob"), "GET", "key")
    await bob.expect_error("EXEC")
    await ann.expect(array(OK), "EXEC")
    await bob.expect(bulk(b"ann"), "GET", "key")


@test(7, "commands were carried out when they came, not at EXEC")
async def nothing_happens_before_exec(server):
    ann, bob = await server.client(), await server.client()
    await ann.expect(OK, "MULTI")
    await ann.expect(QUEUED, "SET", "key", "one")
    await ann.expect(QUEUED, "RPUSH", "list", "one")
    await bob.expect(NULL, "GET", "key")
    await ann.expect(OK, "DISCARD")
    await bob.expect(NULL, "GET", "key")
    await ann.expect_error("EXEC")
    await ann.expect(OK, "MULTI")
    await ann.expect(QUEUED, "SET", "key", "two")
    ann.close()
    await ann.is_forgotten()
    await bob.expect(NULL, "GET", "key")
    await bob.expect(integer(0), "LLEN", "list")


@test(7, "EXEC carried out the rest after one command had been refused")
async def a_refused_command_spoils_it(server):
    for wrong in (("NONSENSE",), ("GET",)):
        client = await server.client()
        await client.expect(OK, "MULTI")
        await client.expect(QUEUED, "SET", "key", "value")
        await client.expect_error(*wrong)
        await client.expect_error("EXEC", kind=b"-EXECABORT")
        await client.expect(NULL, "GET", "key")


@test(7, "a BLPOP in a transaction waited; nothing can come while EXEC has the store")
async def exec_does_not_wait(server):
    ann, bob = await server.client(), await server.client()
    for command, expected in (("MULTI", OK), ("BLPOP queue 0", QUEUED), ("PING", QUEUED),
                              ("EXEC", array(NULL_ARRAY, PONG))):
        await ann.expect(expected, *command.split())
    bob = await waits(server, "BLPOP", "queue", 0)
    await ann.expect(OK, "MULTI")
    await ann.expect(QUEUED, "RPUSH", "queue", "one")
    await ann.expect(QUEUED, "LPOP", "queue")
    await ann.expect(array(integer(1), bulk(b"one")), "EXEC")
    await bob.expect_silence("what a transaction pushed and popped again was given to one that waits")


@test(7, "somebody saw a transaction half done")
async def all_or_nothing(server):
    async def write_or_read(client, n):
        for i in range(10):
            if n % 2:
                value = b"%d.%d" % (n, i)
                await in_pieces(client, [(("MULTI",), OK), (("SET", "a", value), QUEUED), (("SET", "b", value), QUEUED),
                                         (("EXEC",), array(OK, OK))])
            else:
                await client.send_in_pieces(words("MULTI") + words("GET", "a") + words("GET", "b") + words("EXEC"))
                for expected in OK, QUEUED, QUEUED:
                    await client.expect(expected)
                both = (await client.reply("EXEC"))[4:]
                if both[:len(both) // 2] != both[len(both) // 2:]:
                    raise Failure(f"two keys that are always set together differ: {shown(both)}")
    await crowd(server, write_or_read)


# ---- 8: an orderly stop -------------------------------------------------------------------------------

STOP = 10  # s that a stop may take


@test(8, "SIGTERM ended it there and then; status 0 says that it has put things in order")
async def it_ends_with_0(server):
    ann = await server.client()
    bob = await waits(server, "BLPOP", "queue", 0)
    await ann.expect(PONG, "PING")
    server.stop()
    await ann.expect_end("SIGTERM")
    await bob.expect_end("SIGTERM, while it waits")
    ann.close()
    bob.close()
    await server.ends(STOP)
    with contextlib.suppress(ConnectionRefusedError):
        socket.create_connection(("127.0.0.1", server.port), 1).close()
        raise Failure("it has ended, and something still listens on its port")


@test(8, "connections were closed with unread bytes in them, so the kernel sent a reset, which destroys answers on their way")
async def clients_that_send_are_not_reset(server):
    heard, clients = [], []

    def stop():
        """They go on sending, and do not look for a while whether something has come."""
        for turn in range(30):
            for each in clients:
                with contextlib.suppress(BlockingIOError):
                    each.socket.send(words("PING") * 5)
            if turn == 0:
                server.stop()
            time.sleep(0.01)

    async def send_until_the_end(client, n):
        answers, ended = [0], asyncio.Event()
        clients.append(client)

        async def send():
            sent = 0
            while not ended.is_set():
                if client.has_unread():  # it may be the end, behind which a client sends nothing
                    await asyncio.sleep(0)
                    continue
                await client.loop.sock_sendall(client.socket, words("PING") * 20)
                sent += 20
                while sent - answers[0] > 200 and not ended.is_set():
                    await asyncio.sleep(0.001)
        sending = asyncio.ensure_future(send())
        try:
            while data := await client.receive():
                client.input += data
                whole = len(client.input) // len(PONG)
                if client.input[:whole * len(PONG)] != PONG * whole:
                    raise Failure(f"an answer was spoilt: {shown(client.input)}")
                if answers[0] < 100 <= answers[0] + whole:
                    heard.append(n)
                    if len(heard) == CROWD:
                        stop()
                answers[0] += whole
                del client.input[:whole * len(PONG)]
            if client.input:
                raise Failure(f"at the end half an answer came: {shown(client.input)}")
            ended.set()
            await client.within(sending, "the server does not read what is sent")
        except ConnectionError:
            raise Failure("a client that was sending was reset at SIGTERM") from None
        finally:
            sending.cancel()
            await asyncio.gather(sending, return_exceptions=True)
        client.close()
    await crowd(server, send_until_the_end)
    await server.ends(STOP)


@test(8, "the stop waits for a client that neither reads nor leaves")
async def one_that_stays_does_not_keep_it(server):
    bob, ann = await server.client(room=4096), await server.client()
    await ann.expect(OK, "SET", "big", b"x" * (1 << 20))
    await bob.send(words("GET", "big") * 20)
    await bob.is_read()
    await ann.expect(PONG, "PING")
    server.stop()
    await ann.expect_end("SIGTERM")
    await server.ends(STOP)


@test(8, "answers that were owed at SIGTERM were dropped")
async def what_was_read_is_answered(server):
    clients = [await server.client() for _ in range(CROWD)]
    for n, client in enumerate(clients):
        await client.send(words("SET", n, n) + words("GET", n))
    await server.reads_all()
    server.stop()
    for n, client in enumerate(clients):
        await client.expect(OK)
        await client.expect(bulk(b"%d" % n))
        await client.expect_end("SIGTERM")
        client.close()
    await server.ends(STOP)


# ---- grading ------------------------------------------------------------------------------------------

async def play(command, task, function):
    with tempfile.TemporaryDirectory(prefix="store.") as folder:
        server = Server(command, folder)
        server.task = task
        try:
            await server.start()
            try:
                await function(server)
            except OSError as error:
                server.check()
                raise Failure(f"a connection failed: {error.strerror}") from None
            except asyncio.TimeoutError:
                raise Failure(f"no answer within {PATIENCE:g} s") from None
            server.check()
        finally:
            server.kill()


def main():
    tasks, command = sys.argv[1], sys.argv[2:]
    if os.sep in command[0]:
        command[0] = os.path.abspath(command[0])  # it is started in another folder
    first, _, last = tasks.partition("-")
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, min(hard, 4096)), hard))
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    counts = [0, 0]
    for task in range(int(first), int(last or first) + 1):
        before, unknown = counts[0], False
        tests = {name: each for name, each in TESTS[task].items() if os.environ.get("ONLY", name) == name}
        for name, (mistake, function) in tests.items():
            try:
                asyncio.run(play(command, task, function))
                counts[0] += 1
            except NotStarted as failure:
                print(f"store: FAILED: {failure}\n{counts[0]} passed, 1 failed")
                sys.exit(1)
            except Failure as failure:
                counts[1] += 1
                unknown = unknown or isinstance(failure, Unknown)
                hint = "first answer the task's table" if unknown else f"the usual mistake: {failure.mistake or mistake}"
                print(f"store: FAILED: task {task}, {name}: {failure}\n    {hint} (SEED={SEED})", flush=True)
        print(f"task {task}: {counts[0] - before} of {len(tests)} tests passed", flush=True)
    print(f"{counts[0]} passed, {counts[1]} failed")
    sys.exit(counts[1] > 0)


if __name__ == "__main__":
    main()
