#!/usr/bin/env python3
"""Sends the same random commands to redis-server and to a store, and compares the answers byte for byte.

  usage: tests/store/differential.py COMMAND...        (as `build/stage4-framework --app store`)

- One client uses all commands that the store has (it says which: COMMAND LIST). Then 200 at once use keys of their
  own, in rounds: each sends a few commands, cut anywhere, and all read. Then 20 use the same keys and channels in lockstep:
  the next command is sent when both servers have carried out the one before. They wait, subscribe, and leave.
- redis-cli prints the same of both, and redis-benchmark has no complaint, if they are installed.
- What a clock decides may differ a little: PTTL by 50 ms, TTL by a second, and by the time for which this program
  has kept one of the two servers waiting behind the other. What INFO, COMMAND and CONFIG answer is
  compared by its kind only, if it is no error. Both close a connection at a protocol error, and at nothing else.
- ONLY=LREM tests one command, beside those that give it something to work on and show it. It need not be one that
  our store has: LINDEX LREM LTRIM RENAME SCAN, and those of hashes and sets, are exercises.
- COUNT=100000 is how many commands are sent by each of the first two parts, and ten times as many as in lockstep. SEED=1
  says with which dice.
- It was written for redis 7.0. With another version, errors that differ in their words are listed and do not fail.

Prints what failed, and "N passed, N failed" at the end, with ", N skipped" without redis-server.
"""
import collections
import os
import random
import re
import shutil
import socket
import subprocess
import sys
import tempfile
import time

import grader

COUNT, SEED = int(os.environ.get("COUNT") or 100000), int(os.environ.get("SEED") or 1)
ONLY = os.environ.get("ONLY", "").upper()
CLIENTS = 200
PATIENCE = 60
BY_FORM = {"INFO", "COMMAND", "CONFIG"}
SHARED = {"DBSIZE", "FLUSHALL", "SCAN"}  # they see the keys of other clients
PROTOCOL_ERROR = b"-ERR Protocol error"


class Difference(Exception):
    pass


# ---- a server ----------------------------------------------------------------------------------------

class Server:
    def __init__(self, name, command, folder):
        self.name, self.port = name, grader.free_port()
        with open(os.path.join(folder, name), "wb") as output:
            self.process = subprocess.Popen([*command, "--port", str(self.port)], cwd=folder, stdin=subprocess.DEVNULL,
                                            stdout=output, stderr=output)
        until = time.monotonic() + PATIENCE
        while True:
            try:
                socket.create_connection(("127.0.0.1", self.port), PATIENCE).close()
                return
            except OSError:
                if time.monotonic() > until or self.process.poll() is not None:
                    raise Difference(f"{name} does not start") from None
                time.sleep(0.02)

    def stop(self):
        """Its status; a store that a sanitizer has complained of has one of its own."""
        self.process.terminate()
        return self.process.wait(PATIENCE)


class Client:
    def __init__(self, server):
        self.name, self.commands = server.name, collections.deque(maxlen=20)
        try:
            self.socket = socket.create_connection(("127.0.0.1", server.port), PATIENCE)
        except OSError as error:
            raise Difference(f"{self.name} takes no connection: {error}") from None
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.input, self.at, self.is_closed = bytearray(), 0, False

    def send(self, data):
        try:
            self.socket.sendall(data)
        except ConnectionError:
            pass  # what it has said before is there to be read, and then the end
        except socket.timeout:
            raise self.difference(f"{self.name} has read nothing for {PATIENCE} s of what came behind that") from None

    def reply(self):
        """The next answer as it came; None at the end of the stream."""
        while (end := self.reply_ends()) < 0:
            if self.is_closed:
                return None
            try:
                data = self.socket.recv(1 << 18)
            except ConnectionError:
                data = b""
            except socket.timeout:
                raise self.difference(f"{self.name} has neither answered nor closed the connection for {PATIENCE} s") from None
            del self.input[:self.at]
            self.at = 0
            self.input += data
            self.is_closed = not data
        reply, self.at = bytes(self.input[self.at:end]), end
        return reply

    def replies(self, expected):
        """Whether this comes next, which is whole: then it is taken, and nobody has to look where it ends."""
        is_next = self.input.startswith(expected, self.at)
        self.at += len(expected) if is_next else 0
        return is_next

    def reply_ends(self):
        try:
            return grader.reply_ends(self.input, self.at)
        except grader.Failure as failure:
            raise self.difference(f"{self.name}: {failure}") from None

    def ask(self, *arguments):
        """The answer to one command, which there has to be."""
        self.send(grader.words(*arguments))
        reply = self.reply()
        if reply is None:
            raise Difference(f"{self.name} closes the connection at {arguments[0]}")
        return reply

    def difference(self, what):
        """With the last of `commands`, at which it was seen, and those before it."""
        last = [shown(data) for data in self.commands]
        return Difference(f"{last[-1]}: {what}\n  The last commands of that connection:\n    " + "\n    ".join(last) if last else what)

    def close(self):
        self.socket.close()


# ---- commands ----------------------------------------------------------------------------------------

class Dice:
    """What a command is made of."""

    def __init__(self, seed, prefix=b""):
        self.random, self.prefix = random.Random(seed), prefix
        self.keys = [prefix + key for key in (b"a", b"b", b"c", b"d", b"list", b"queue", b"set", b"hash",
                                              b"with\r\nlines", bytes(range(256)), b"" if not prefix else b"e", b"k" * 300)]

    def pick(self, *things):
        return self.random.choice(things)

    def key(self):
        return self.random.choice(self.keys)

    def member(self):
        return self.pick(b"one", b"two", b"three", b"four", b"", b"\0\r\n")

    def number(self):
        return self.pick(b"0", b"1", b"-1", b"7", b"-3", b"100", b"2147483648", b"9223372036854775807",
                         b"-9223372036854775808", b"9223372036854775808", b"-9223372036854775809", b"x", b"", b"1.5",
                         b" 1", b"01", b"+1", b"-0", b"1 ", b"00")

    def small(self):
        return str(self.random.randrange(-6, 7)).encode() if self.random.random() < 0.9 else self.number()

    def value(self):
        kind = self.random.random()
        if ONLY and kind < 0.3:
            return self.pick(b"0", b"1", b"2")  # LREM and LINSERT have to find several of them in a list
        if kind < 0.4:
            return str(self.random.randrange(-1000, 1000)).encode()
        if kind < 0.5:
            return self.number()
        if kind < 0.9:
            return self.random.randbytes(self.random.randrange(40))
        return self.random.randbytes(self.random.choice((1000, 16383, 16384, 20000, 70000 if kind > 0.99 else 3000)))

    def some(self, make, least=1, most=5):
        return [make() for _ in range(self.random.randrange(least, most + 1))]

    def time(self):
        """Seconds or milliseconds, further away than the longest run: an answer must not depend on when it is given."""
        return self.pick(b"100000000", b"500000000", b"70000000", b"0", b"-1", b"-5", b"x", b"9223372036854775807",
                         b"9223372036854775", b"92233720368547758", b"-9223372036854775808", b"1.5", b"")

    def expire(self):
        """With conditions, no two times are near each other: which is later must not depend on when it is asked."""
        options = self.some(lambda: self.pick(b"NX", b"xx", b"GT", b"gt", b"LT", b"lt", b"no\nword", b"a\0NUL", b"long" * 300), 0, 2)
        far = str(self.random.randrange(10 ** 8, 10 ** 10)).encode()
        return [self.key(), self.pick(far, far, far, b"0", b"-1", b"x", b"9223372036854775807") if options else self.time(), *options]

    def set_options(self):
        options = []
        for _ in range(self.random.choice((0, 0, 0, 0, 1, 1, 1, 2, 2, 3))):
            options += self.pick([b"NX"], [b"xx"], [b"GET"], [b"KEEPTTL"], [b"EX", self.time()], [b"px", self.time()],
                                 [b"EX"], [b"bogus"], [b"EX", b"1000000"], [b"PX", b"90000000"])
        return options

    def line(self):
        """An inline request: of words, quotes and escapes; now and then of none."""
        pieces = self.some(lambda: self.pick(b"SET", b"GET", b"ECHO", b"a", b"b", b'"two words"', b"'it\\'s'", b'"\\x41\\n\\"q"',
                                             b'"\\xzz"', b"''", b'""', b"1", b"  ", b"\t", b'x"y z"w', b"a'b'", b'"a"b',
                                             b'"open', b"'open", b"back\\slash", b'"\\', b"\v", b"\f", b"a\vb", b'"a"\fb'), 0, 4)
        return b" ".join([self.pick(b"ECHO", b"SET", b"PING", b"EXISTS", b"nonsense", b"\vECHO", b"PING\f"), *pieces])


COMMANDS = {
    "PING": lambda d: d.some(d.value, 0, 2),
    "ECHO": lambda d: [d.value()],
    "SELECT": lambda d: [d.pick(b"0", b"0", b"99999", b"-1", b"x", b"")],
    "INFO": lambda d: [],
    "COMMAND": lambda d: d.pick([], [b"LIST"], [b"DOCS"], [b"nonsense"]),
    "CONFIG": lambda d: d.pick([b"GET", b"save"], [b"GET", b"nonsense"], [b"nonsense"]),
    "CLIENT": lambda d: d.pick([b"SETNAME", d.pick(b"ann", b"", b"a b", b"a\n")], [b"GETNAME"], [b"non\r\nsense"], [d.value()], []),
    "GET": lambda d: [d.key()],
    "SET": lambda d: [d.key(), d.value(), *d.set_options()],
    "GETDEL": lambda d: [d.key()],
    "MGET": lambda d: d.some(d.key),
    "MSET": lambda d: [word for _ in range(d.random.randrange(1, 4)) for word in (d.key(), d.value())] + d.some(d.key, 0, 1),
    "APPEND": lambda d: [d.key(), d.value()],
    "STRLEN": lambda d: [d.key()],
    "INCR": lambda d: [d.key()],
    "DECR": lambda d: [d.key()],
    "INCRBY": lambda d: [d.key(), d.number()],
    "DECRBY": lambda d: [d.key(), d.number()],
    "DEL": lambda d: d.some(d.key, 1, 3),
    "EXISTS": lambda d: d.some(d.key),
    "TYPE": lambda d: [d.key()],
    "EXPIRE": lambda d: d.expire(),
    "PEXPIRE": lambda d: d.expire(),
    "PERSIST": lambda d: [d.key()],
    "TTL": lambda d: [d.key()],
    "PTTL": lambda d: [d.key()],
    "DBSIZE": lambda d: [],
    "FLUSHALL": lambda d: d.pick([], [b"nonsense"]) if d.random.random() < 0.1 else [b"nonsense"],
    "LPUSH": lambda d: [d.key(), *d.some(d.value)],
    "RPUSH": lambda d: [d.key(), *d.some(d.value)],
    "LPOP": lambda d: [d.key(), *d.some(d.small, 0, 1)],
    "RPOP": lambda d: [d.key(), *d.some(d.small, 0, 1)],
    "LLEN": lambda d: [d.key()],
    "LRANGE": lambda d: [d.key(), d.small(), d.small()],
    "BLPOP": lambda d: [*d.some(d.key, 1, 3), d.pick(b"0.01", b"0.005", b"-1", b"x", b"", b"1e400", b"nan", b"-0.5", b" 1", b"1 ")],
    "BRPOP": lambda d: [*d.some(d.key, 1, 3), d.pick(b"0.001", b"-1", b"1e30", b"inf")],
    # One answer for each, and none in between: nobody subscribes to what is published.
    "PUBLISH": lambda d: [b"nobody's", d.value()],
    "SUBSCRIBE": lambda d: [d.key()],
    "UNSUBSCRIBE": lambda d: [d.key()],
    "MULTI": lambda d: [],
    "EXEC": lambda d: [],
    "DISCARD": lambda d: [],
    "RESET": lambda d: [],
    # Exercises.
    "LINDEX": lambda d: [d.key(), d.small()],
    "LREM": lambda d: [d.key(), d.small(), d.pick(b"0", b"1", b"2", d.value())],
    "LTRIM": lambda d: [d.key(), d.small(), d.small()],
    "LSET": lambda d: [d.key(), d.small(), d.value()],
    "LINSERT": lambda d: [d.key(), d.pick(b"BEFORE", b"after", b"x"), d.pick(b"0", b"1", d.value()), d.value()],
    "RENAME": lambda d: [d.key(), d.key()],
    "RENAMENX": lambda d: [d.key(), d.key()],
    "SADD": lambda d: [d.key(), *d.some(d.member)],
    "SREM": lambda d: [d.key(), *d.some(d.member)],
    "SISMEMBER": lambda d: [d.key(), d.member()],
    "SCARD": lambda d: [d.key()],
    "HSET": lambda d: [d.key(), *[word for _ in range(d.random.randrange(1, 3)) for word in (d.member(), d.value())]],
    "HGET": lambda d: [d.key(), d.member()],
    "HDEL": lambda d: [d.key(), *d.some(d.member)],
    "HLEN": lambda d: [d.key()],
    "HEXISTS": lambda d: [d.key(), d.member()],
    "HINCRBY": lambda d: [d.key(), d.member(), d.number()],
    "SCAN": lambda d: [b"0", b"COUNT", b"1000000"],
}

# What each command needs to find when it is tested alone, and what shows how it has left that.
# More is put in than is taken out, else lists have hardly two elements.
FEEDS = ["SET", "DEL", "GET"] + ["RPUSH", "LPUSH", "LRANGE"] * 3
KINDS = {"H": ["HSET", "HGET"] * 3, "S": ["SADD", "SISMEMBER"] * 3}


def command(dice, names):
    """A name, and the bytes. Some have words too many or too few, or are inline."""
    name = dice.random.choice(names)
    words = COMMANDS[name](dice)
    odd = dice.random.random() if name != "CONFIG" else 1
    if odd < 0.01:
        words = words[:-1] if name != "UNSUBSCRIBE" else words
    elif odd < 0.02:
        words = words + ([b"more"] if name not in ("SUBSCRIBE", "UNSUBSCRIBE") else [])
    if 0.02 < odd < 0.03 and not ONLY:
        return "line", dice.line() + dice.pick(b"\r\n", b"\n")
    if 0.03 < odd < 0.035:
        return "nonsense", grader.words(dice.pick(b"NONSENSE", b"x" * 200, b"no\r\nsense", b""), *words)
    written = dice.pick(name, name.lower(), name.title())
    return name, grader.words(written, *words)


def names_of(server):
    """All that it has, or the one that is to be tested, and those that feed it."""
    client = Client(server)
    has = set(re.findall(r"\$\d+\r\n([a-z]+)\r\n", client.ask("COMMAND", "LIST").decode()))
    client.close()
    if ONLY and ONLY not in COMMANDS:
        raise Difference(f"ONLY={ONLY}: expected one of {' '.join(sorted(COMMANDS))}")
    if ONLY and ONLY.lower() not in has:
        raise Difference(f"COMMAND LIST of the store does not name {ONLY.lower()}")
    if ONLY:
        feeds = [name for name in FEEDS + KINDS.get(ONLY[0], []) if name.lower() in has and name != ONLY]
        return [ONLY] * (len(feeds) // 3) + feeds
    return sorted(name for name in COMMANDS if name.lower() in has)


# ---- comparing ---------------------------------------------------------------------------------------

def is_same(name, expected, seen, waited):
    if expected == seen:
        return True
    if name in BY_FORM:
        return expected[:1] == seen[:1] != b"-"
    slack = {"PTTL": 50 + waited * 1000, "TTL": 1 + waited}.get(name)
    if slack and expected[:1] == seen[:1] == b":" and int(expected[1:]) > 0 and int(seen[1:]) > 0:
        return abs(int(expected[1:]) - int(seen[1:])) <= slack
    if name == "SCAN":
        return sorted(expected.split(b"\r\n")) == sorted(seen.split(b"\r\n"))
    return False


def shown(data):
    """Its beginning and its end."""
    return grader.shown(data) if len(data) < 100 else f"{grader.shown(data[:50])} ... {grader.shown(data[-80:])}"


def says(reply):
    return "closes the connection" if reply is None else f"answers {shown(reply)}"


def elements(array):
    """The answers in an array."""
    at = array.index(b"\n") + 1
    while at < len(array):
        end = grader.reply_ends(array, at)
        yield array[at:end]
        at = end


class Comparison:
    def __init__(self, is_written_for):
        self.is_written_for, self.words, self.waited = is_written_for, collections.Counter(), 0

    def begin(self):
        """A round: what it takes lies between the clocks of the two servers."""
        self.begun = time.monotonic()

    def end(self):
        self.waited = max(self.waited, time.monotonic() - self.begun)

    def answer(self, clients, name, sent, queue=None):
        """What both answer to what they have been sent; `queue` has the names of what the client has sent since MULTI."""
        for client in clients[:2]:
            client.commands.append(sent)
        expected = clients[0].reply()
        seen = expected if expected and clients[1].replies(expected) else clients[1].reply()
        try:
            self.check(name, expected, seen, queue)
        except Difference as difference:
            raise clients[0].difference(str(difference)) from None
        return expected

    def close(self, clients):
        """Both have answered with a protocol error: the end of the stream comes behind it."""
        for client in clients:
            if (more := client.reply()) is not None:
                raise client.difference(f"{client.name} {says(more)} behind a protocol error")
            client.close()

    def check(self, name, expected, seen, queue):
        self.end()
        if expected is None or seen is None:
            raise Difference(f"redis {says(expected)}, the store {says(seen)}")
        if queue is not None and expected == grader.QUEUED:
            queue.append(name)
        elif queue and name in ("EXEC", "DISCARD", "RESET"):
            names, queue[:] = queue[:], []
            if name == "EXEC" and expected[:1] == seen[:1] == b"*":
                for each in zip(names, elements(expected), elements(seen)):
                    self.check(*each, None)
                return
        if is_same(name, expected, seen, self.waited):
            return
        if not self.is_written_for and expected[:1] == seen[:1] == b"-":
            self.words[(expected, seen)] += 1
            return
        raise Difference(f"redis {says(expected)}, the store {says(seen)}")


def send_in_pieces(dice, client, data):
    while data:
        cut = dice.pick(1, 3, 100, 1500, len(data), len(data))
        client.send(data[:cut])
        data = data[cut:]


def batch_of(dice, names, most):
    """A line is the last one: it may be an error, at which redis resets a client that has sent more."""
    batch = []
    while len(batch) < most and not (batch and batch[-1][0] == "line"):
        batch.append(command(dice, names))
    return batch


def run_one(redis, store, names, comparison):
    """One client after the other: after a protocol error both have closed it."""
    dice, clients, sent, queue = Dice(SEED), (Client(redis), Client(store)), 0, []
    while sent < COUNT:
        batch = batch_of(dice, names, dice.pick(1, 5, 50, 200))
        data = b"".join(data for _, data in batch)
        comparison.begin()
        for client in clients:
            send_in_pieces(dice, client, data)
        for name, data in batch:
            reply = comparison.answer(clients, name, data, queue)
        if reply.startswith(PROTOCOL_ERROR):
            comparison.close(clients)
            clients, queue = (Client(redis), Client(store)), []
        sent += len(batch)


def run_many(redis, store, names, comparison):
    """Each on keys of its own."""
    names = [name for name in names if name not in SHARED]
    all_dice = [Dice(SEED * 1000 + i, b"%d:" % i) for i in range(CLIENTS)]
    all_clients = [(Client(redis), Client(store), []) for _ in all_dice]
    sent = 0
    while names and sent < COUNT:
        batches = []
        comparison.begin()
        for dice, clients in zip(all_dice, all_clients):
            batch = [item for item in (command(dice, names) for _ in range(dice.pick(1, 2, 10))) if item[0] != "line"]
            batches.append(batch)
            for client in clients[:2]:
                client.send(b"".join(data for _, data in batch))
            sent += len(batch)
        for batch, clients in zip(batches, all_clients):
            for name, data in batch:
                comparison.answer(clients, name, data, clients[2])
    for clients in all_clients:
        for client in clients[:2]:
            client.close()


# ---- in lockstep -------------------------------------------------------------------------------------

SHARING, LEAVES = 20, 0.01
NOT_IN_LOCKSTEP = BY_FORM | {"TTL", "PTTL", "SCAN"}  # their answers need not be the same to the byte


class Pair:
    """A client of both, of which all bytes are compared."""

    def __init__(self, redis, store):
        self.redis, self.store = Client(redis), Client(store)
        self.is_subscriber, self.waits = False, False

    def arrived(self):
        """What redis has sent by now."""
        data = b""
        self.redis.socket.setblocking(False)
        try:
            while True:
                more = self.redis.socket.recv(1 << 18)
                if not more:
                    self.redis.is_closed = True
                    break
                data += more
        except BlockingIOError:
            pass
        except ConnectionError:
            self.redis.is_closed = True
        self.redis.socket.settimeout(PATIENCE)
        return data

    def seen(self, length):
        """As many bytes of the store; fewer if it ends."""
        data = b""
        while len(data) < length:
            try:
                more = self.store.socket.recv(length - len(data))
            except OSError:
                more = b""
            if not more:
                break
            data += more
        return data

    def leave(self):
        self.redis.close()
        self.store.close()


class Lockstep:
    def __init__(self, redis, store, names):
        self.servers, self.dice = (redis, store), Dice(SEED)
        self.names = [name for name in names if name not in NOT_IN_LOCKSTEP] + [
            name for name in ("BLPOP", "BRPOP", "LPUSH", "RPUSH", "PUBLISH", "MULTI", "EXEC", "DEL") if name in names] * 2
        self.controls = Client(redis), Client(store)
        self.pairs = [Pair(redis, store) for _ in range(SHARING)]
        self.last, self.dice.keys = [], self.dice.keys[:5]

    def settle(self):
        """redis has carried out what was sent, and written its answers: it does one thing after the other."""
        self.controls[0].ask("PING")
        self.controls[0].ask("PING")

    def count(self, control, which=b"connected"):
        found = re.search(which + rb"_clients:(\d+)", control.ask("INFO", "clients"))
        return int(found[1]) if found else None

    def settle_store(self):
        """The store, whose threads do things at the same time, has a client wait, too: it answers nothing by which one could tell."""
        until = time.monotonic() + PATIENCE
        while self.count(self.controls[1], b"blocked") not in (None, self.count(self.controls[0], b"blocked")):
            if time.monotonic() > until:
                raise self.last[0].redis.difference("redis has the client wait, the store does not")
            time.sleep(0.001)

    def leave(self, pair):
        """Both have to know before anything else happens."""
        pair.leave()
        self.pairs[self.pairs.index(pair)] = Pair(*self.servers)
        until = time.monotonic() + PATIENCE
        for control in self.controls:
            while self.count(control) != SHARING + 1:
                if time.monotonic() > until:
                    raise Difference("a client has left, and is still counted")
                time.sleep(0.001)

    def command(self, pair):
        if pair.is_subscriber or self.dice.random.random() < 0.02:
            name = self.dice.pick("SUBSCRIBE", "UNSUBSCRIBE", "PING", "GET", "SUBSCRIBE", "RESET")
            if name in self.names:
                return grader.words(name, *self.dice.some(lambda: self.dice.pick(b"one", b"two", b"three"), name in ("SUBSCRIBE", "UNSUBSCRIBE"), 3))
        name = self.dice.random.choice(self.names)
        if name in ("BLPOP", "BRPOP"):
            return grader.words(name, *self.dice.some(self.dice.key, 1, 3), b"0")
        if name == "PUBLISH":
            return grader.words(name, self.dice.pick(b"one", b"two", b"three"), self.dice.value())
        return command(self.dice, [name])[1]

    def compare(self, expected, pair):
        seen = pair.seen(len(expected))
        if seen != expected:
            who = "" if pair is self.last[0] else "to another client "
            raise self.last[0].redis.difference(f"{who}redis answers {shown(expected)}, the store {shown(seen)}")

    def step(self):
        able = [pair for pair in self.pairs if not pair.waits]
        if not able or self.dice.random.random() < LEAVES:
            self.leave(self.dice.random.choice(self.pairs))
            return
        pair = self.dice.random.choice(able)
        data = self.command(pair)
        self.last = [pair]
        for client in pair.redis, pair.store:
            client.commands.append(data)
        pair.redis.send(data)
        self.settle()
        arrived = [(each, each.arrived()) for each in self.pairs]
        pair.store.send(data)
        for each, expected in sorted(arrived, key=lambda item: item[0] is not pair):
            if expected:
                self.compare(expected, each)
                each.waits = False
                changes = re.findall(rb"\$(?:9|11)\r\n(?:un)?subscribe\r\n(?:\$-1|\$\d+\r\n\w*)\r\n:(\d+)", expected)
                each.is_subscriber = changes[-1] != b"0" if changes else each.is_subscriber and b"+RESET" not in expected
        if not dict(arrived)[pair] and not pair.redis.is_closed:
            pair.waits = True
            self.settle_store()
        if pair.redis.is_closed:
            if (more := pair.store.reply()) is not None:
                raise pair.redis.difference(f"redis closes the connection, the store {says(more)}")
            self.leave(pair)

    def end(self):
        """Nothing has come behind what was compared."""
        self.controls[1].ask("PING")
        for pair in self.pairs:
            pair.store.socket.setblocking(False)
            try:
                more = pair.store.socket.recv(100)
                raise Difference(f"the store says {shown(more)} behind all that redis says")
            except BlockingIOError:
                pair.leave()
        for control in self.controls:
            control.close()


def run_shared(redis, store, names, _comparison):
    """The same keys and channels."""
    lockstep = Lockstep(redis, store, names)
    for _ in range(COUNT // 10):
        lockstep.step()
    lockstep.end()


# ---- redis' own clients --------------------------------------------------------------------------------

SCRIPT = """PING
SET name "Ann B."
GET name
SET n 41
INCR n
GET nothing
LPUSH list a b c
LRANGE list 0 -1
LPOP list 2
INCR name
NONSENSE 1 2
MULTI
SET n 1
INCR n
EXEC
BLPOP list 0
BLPOP list 0.01
TYPE list
EXPIRE n 100
TTL n
DBSIZE
"""


def run_tools(redis, store, names, _comparison):
    """What people type, and what measures."""
    if not shutil.which("redis-cli") or not {"MULTI", "BLPOP", "INCR"} <= set(names):
        return
    said = [subprocess.run(["redis-cli", "-p", str(server.port)], input=SCRIPT, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                           text=True, timeout=PATIENCE, check=False) for server in (redis, store)]
    if said[0].stdout != said[1].stdout or said[1].returncode != said[0].returncode:
        raise Difference(f"redis-cli prints of redis {said[0].stdout!r}, of the store {said[1].stdout!r}")
    for pipeline in "1", "16":
        done = subprocess.run(["redis-benchmark", "-p", str(store.port), "-c", "50", "-n", "2000", "-P", pipeline, "-q", "-r", "100", "-t",
                               "ping,set,get,incr,lpush,rpush,lpop,rpop,lrange_100,mset"], stdout=subprocess.PIPE,
                              stderr=subprocess.STDOUT, text=True, timeout=PATIENCE * 5, check=False)
        if done.returncode != 0 or done.stdout.count("requests per second") < 11 or "rror" in done.stdout:
            raise Difference(f"redis-benchmark -P {pipeline} ends with {done.returncode}: {done.stdout[-1000:]}")


# ---- single cases ------------------------------------------------------------------------------------

FAULTS = [b"*1\r\n:3\r\n", b"*x\r\n", b"*1\r\n$x\r\n", b"*1\r\n$-1\r\n", b"*1\r\n$99999999999\r\n", b"*99999999999\r\n",
          b"*1\r\n$4\r\nPING\r\n*1\r\nPING\r\n", b"GET \"open\r\n", b"*2\r\n$4\r\nECHO\r\n+\r\n", b"*\r\n", b"x" * 70000,
          b"PING\0\r\n" + b"x" * 70000]
# Where a byte can stand in a line.
PLACES = "@ECHO x", "ECHO@x", "ECHO @x", "ECHO x@", "ECHO x@y", "ECHO x@\"y\"", "ECHO \"x\"@", "ECHO 'x'@y", "ECHO \"x@y\"", "ECHO 'x@y'", "ECHO \"\\@x\""


def run_faults(redis, store, _names, comparison):
    """What is no request: an error, and the end of the stream. Nothing of it is answered later."""
    comparison.begin()
    for fault in FAULTS:
        clients = (Client(redis), Client(store))
        for client in clients:
            client.send(grader.words("PING") + fault)
        while not comparison.answer(clients, "fault", fault).startswith(PROTOCOL_ERROR):
            pass
        comparison.close(clients)
    for nothing in b"*0\r\n", b"*-1\r\n", b"\r\n", b"   \n":
        clients = (Client(redis), Client(store))
        for client in clients:
            client.send(nothing + grader.words("ECHO", "x"))
        if (reply := comparison.answer(clients, "nothing", nothing)) != grader.bulk(b"x"):
            raise Difference(f"{shown(nothing)}, and an ECHO: both answer {shown(reply)}")


def run_lines(redis, store, _names, comparison):
    """What each byte means in a line: it is white space, a quote, or a part of a word. A NUL hides the line's end, and is a fault."""
    comparison.begin()
    clients = (Client(redis), Client(store))
    for byte in sorted(set(range(1, 256)) - {ord("\n")}):
        for place in PLACES:
            line = place.encode().replace(b"@", bytes([byte])) + b"\r\n"
            for client in clients:
                client.send(line)
            if comparison.answer(clients, "line", line).startswith(PROTOCOL_ERROR):
                comparison.close(clients)
                clients = (Client(redis), Client(store))


def run_expiry(redis, store, names, _comparison):
    """Times that pass while the test runs: a key is there before, and gone after."""
    if "SET" not in names:
        return
    for server in redis, store:
        client = Client(server)
        for i in range(50):
            before = time.monotonic()
            client.ask("SET", b"t%d" % i, "v", "PX", 20 + i)
            after = time.monotonic()
            while True:
                asked = time.monotonic()
                seen = client.ask("GET", b"t%d" % i)
                answered = time.monotonic()
                if seen == grader.NULL and answered - before < (20 + i) / 1000:
                    raise Difference(f"{server.name}: a key is gone too early")
                if seen != grader.NULL and asked - after > (21 + i) / 1000:
                    raise Difference(f"{server.name}: a key is there too long")
                if seen == grader.NULL:
                    break
        client.close()


# ---- all of it ---------------------------------------------------------------------------------------

PARTS = run_one, run_many, run_shared, run_faults, run_lines, run_expiry, run_tools


def compare(command_of_store, folder):
    version = subprocess.run(["redis-server", "--version"], stdout=subprocess.PIPE, text=True, check=True).stdout
    version = re.search(r"v=(\d+\.\d+)", version).group(1)
    comparison = Comparison(version == "7.0")
    passed = failed = 0
    redis = Server("redis-server", ["redis-server", "--save", "", "--appendonly", "no"], folder)
    store = None
    try:
        store = Server("store", command_of_store, folder)
        names = names_of(store)
        for part in (run_one, run_many) if ONLY else PARTS:
            try:
                for server in redis, store:
                    client = Client(server)
                    client.ask("FLUSHALL")
                    client.close()
                part(redis, store, names, comparison)
                passed += 1
            except (Difference, OSError, grader.Failure) as difference:
                failed += 1
                print(f"differential: FAILED: {part.__name__}, SEED={SEED}: {difference}", flush=True)
    finally:
        redis.stop()
        status = store.stop() if store else 0
    if status != 0:
        failed += 1
        with open(os.path.join(folder, "store"), encoding="utf-8", errors="replace") as output:
            print(f"differential: FAILED: the store ended with {status}: {output.read()[-3000:]}")
    for (expected, seen), count in comparison.words.items():
        print(f"redis {version} says {shown(expected)} where the store says {shown(seen)}, {count} times")
    return passed, failed


def main():
    if not shutil.which("redis-server"):
        print("skipped: differential: redis-server is not installed\n0 passed, 0 failed, 1 skipped")
        return 0
    with tempfile.TemporaryDirectory(prefix="differential.") as folder:
        try:
            passed, failed = compare([os.path.abspath(sys.argv[1]), *sys.argv[2:]], folder)
        except Difference as difference:
            passed, failed = 0, 1
            print(f"differential: FAILED: {difference}")
    print(f"{passed} passed, {failed} failed")
    return failed > 0


if __name__ == "__main__":
    sys.exit(main())
