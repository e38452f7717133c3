#!/usr/bin/env python3
"""Grades a solution of one of Protohackers' problems, in whatever language, without a network (docs/ladder.md).

  usage: tests/ladder/grader.py PROBLEM PROGRAM [ARGUMENT...]     (make test-ladder PROBLEM=1 SERVER=path)

PROBLEM is 0, 1, 2, 3, 5, 6 or 9. PROGRAM is a path, or a command like python3, in this folder. Each test starts it with
`--port N` behind its arguments (and for problem 5 with `--upstream 127.0.0.1:M`), waits until it can connect to
127.0.0.1, port N, and ends it with SIGKILL. Whatever is sent is cut at random; the tests of crowds have 5 clients, and
then 200.

  PATIENCE=10   seconds for any answer
  SEED=1        of what is cut, and of what is chosen, at random; a failure names its seed
  ONLY=name     this test only

Prints for each test that failed what PROGRAM wrote to standard error, what was expected and what came, what had been
sent, and, if PROGRAM has answered anything at all, the mistake that usually is the cause; then "N passed, N failed".
What cannot be started fails once, and ends the grading. Exit status: 0 if all passed, 1 if not, 2 if PROGRAM is no
program.
"""
import asyncio
import collections
import contextlib
import json
import os
import re
import resource
import shutil
import struct
import sys
import tempfile
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "store"))
import grader as base  # noqa: E402
from grader import Failure, crowd, shown  # noqa: E402

CROWDS = 5, 200
TESTS = collections.defaultdict(dict)


def test(problem, mistake):
    def add(function):
        TESTS[problem][function.__name__] = mistake, function
        return function
    return add


async def more(client, what, expected, sent):
    """Appends what comes next to the client's input."""
    so_far = f", after {shown(client.input)}" if client.input else ""
    try:
        data = await client.receive()
    except Failure as failure:
        raise Failure(f"{what}: expected {expected}, but {failure}{so_far}", sent=sent) from None
    except ConnectionError:
        await client.server.settles()
        raise Failure(f"{what}: expected {expected}, got a reset of the connection{so_far}", sent=sent) from None
    if not data:
        await client.server.settles()
        raise Failure(f"{what}: expected {expected}, got the end of the connection{so_far}", sent=sent)
    client.input += data


async def exactly(client, count, what, sent=None):
    """The next bytes, that many."""
    while len(client.input) < count:
        await more(client, what, f"{count} bytes" if count > 1 else "a byte", sent)
    base.Client.latest, taken = client, bytes(client.input[:count])
    del client.input[:count]
    return taken


async def line(client, what, expected="a line", sent=None):
    while b"\n" not in client.input:
        await more(client, what, expected, sent)
    base.Client.latest = client
    taken, _, rest = bytes(client.input).partition(b"\n")
    client.input[:] = rest
    return taken.rstrip(b"\r").decode("utf-8", "replace")


async def expect_line(client, expected, what):
    seen = await line(client, what, repr(expected))
    if seen != expected:
        raise Failure(f"{what}: expected {expected!r}, got {seen!r}")


def parsed(text, what, sent=None):
    """The members of an object of JSON."""
    with contextlib.suppress(ValueError):
        if isinstance(members := json.loads(text), dict):
            return members
    raise Failure(f"{what}: expected an object of JSON, got {shown(text.encode())}", sent=sent)


async def both(sending, reading):
    """A client sends and reads at the same time."""
    sending = asyncio.ensure_future(sending)
    try:
        await reading
        await sending
    finally:
        sending.cancel()
        await asyncio.gather(sending, return_exceptions=True)


async def at_each_size(server, work):
    for count in CROWDS:
        await crowd(server, work, count)


# ---- 0: Smoke Test ------------------------------------------------------------------------------------

@test(0, "bytes were taken for text, or the rest was dropped when the client ended its half")
async def all_bytes_come_back(server):
    async def talk(client, _):
        data = server.random.randbytes(server.random.choice((1, 1000, 20000)))

        async def send():
            await client.send_in_pieces(data)
            client.half_close()
        async def read():
            seen = await exactly(client, len(data), "an echo")
            if seen != data:
                at = next(i for i in range(len(data)) if seen[i] != data[i])
                raise Failure(f"an echo of {len(data)} bytes: expected byte {at} and those behind it as they were sent, "
                              f"got {shown(seen[at:], 20)}", sent=data[at:])
            await client.expect_end("all that was sent, and the end of the client's stream")
        await both(send(), read())
    await at_each_size(server, talk)


@test(0, "bytes are answered at the end of a line, or of the stream")
async def it_does_not_wait_for_an_end(server):
    client = await server.client()
    for byte in b"no end\0":
        await client.send(bytes([byte]))
        seen = await exactly(client, 1, f"the echo of {shown(bytes([byte]))}")
        if seen != bytes([byte]):
            raise Failure(f"the echo of a byte: expected {shown(bytes([byte]))}, got {shown(seen)}")


@test(0, "a client that does not read stops the others, or one that leaves ends the server")
async def one_that_does_not_read(server):
    eve, ann = await server.client(room=4096), await server.client()
    with contextlib.suppress(asyncio.TimeoutError):
        await asyncio.wait_for(eve.loop.sock_sendall(eve.socket, bytes(16 << 20)), 1)
    await ann.send(b"hello")
    await exactly(ann, 5, "an echo, while somebody else does not read")
    eve.reset()
    await ann.send(b"again")
    await exactly(ann, 5, "an echo, when somebody else has left")


# ---- 1: Prime Time ------------------------------------------------------------------------------------

NUMBERS = {0: False, 1: False, 2: True, 3: True, 4: False, 7: True, 561: False, 7919: True, 104729: True, 104730: False,
           2147483647: True, 3215031751: False, 999999999989: True, 999999999987: False, -7: False, 7.5: False,
           10 ** 40: False, 2 ** 200: False}


async def ask(client, number, extra=""):
    await client.send_in_pieces(request(number, extra))


def request(number, extra=""):
    return b'{%s"method":"isPrime","number":%s}\n' % (extra.encode(), json.dumps(number).encode())


async def expect_prime(client, number, expected, extra=""):
    sent, what = request(number, extra), f"isPrime {number}" if len(str(number)) < 25 else "isPrime, of many digits"
    wanted = '{"method":"isPrime","prime":%s}' % json.dumps(expected)
    seen = await line(client, what, wanted, sent)
    members = parsed(seen, what, sent)
    if members.get("method") != "isPrime" or members.get("prime") is not expected:
        raise Failure(f"{what}: expected {wanted}, got {shown(seen.encode())}", sent=sent)


@test(1, "one read was taken for one line, or answers were lost when the client ended its half")
async def numbers_of_all_kinds(server):
    async def talk(client, _):
        numbers = server.random.choices(list(NUMBERS), k=10) if _ else list(NUMBERS)
        numbers = [(number, server.random.choice(("", '"x":[{"number":"}"}],', '"y":"\\"",'))) for number in numbers]

        async def send():
            for number, extra in numbers:
                await ask(client, number, extra)
            client.half_close()

        async def read():
            for number, extra in numbers:
                await expect_prime(client, number, NUMBERS[number], extra)
            await client.expect_end("the answers, and the end of the client's stream")
        await both(send(), read())
    await at_each_size(server, talk)


@test(1, "a number that does not fit a variable of the language is cut, or refused")
async def big_numbers(server):
    client = await server.client()
    for number in (2 ** 64 + 2, 2 ** 32 * 7919, 3 ** 300, 10 ** 500):
        await ask(client, number)
        await expect_prime(client, number, False)


@test(1, "a malformed request got an answer as if it were none, or the connection stayed open")
async def malformed_ones_end_the_connection(server):
    for bad in ('{"method":"isPrime","number":"7"}', '{"method":"isprime","number":7}', '{"method":"isPrime"}', "7", "",
                '{"number":7}', '{"method":"isPrime","number":7', "[]", '{"method":"isPrime","number":true}'):
        client = await server.client()
        await client.send(bad.encode() + b"\n")
        seen = await line(client, f"malformed: {bad!r}", "an answer that is malformed too")
        with contextlib.suppress(ValueError, AttributeError):
            answer = json.loads(seen)
            if answer.get("method") == "isPrime" and isinstance(answer.get("prime"), bool):
                raise Failure(f"malformed: {bad!r}: expected an answer that is malformed too, got {shown(seen.encode())}")
        await client.expect_end(f"malformed: {bad!r}")
    client = await server.client()
    await ask(client, 7)
    await expect_prime(client, 7, True)


# ---- 2: Means to an End -------------------------------------------------------------------------------

def insert(moment, price):
    return struct.pack(">cii", b"I", moment, price)


async def query(client, prices, first, last):
    await client.send_in_pieces(struct.pack(">cii", b"Q", first, last))
    chosen = [price for moment, price in prices if first <= moment <= last]
    mean = sum(chosen) / len(chosen) if chosen else 0
    what = f"the mean of {len(chosen)} prices from {first} to {last}, which is {mean:.2f}"
    answer = await exactly(client, 4, what)
    seen, = struct.unpack(">i", answer)
    if abs(seen - mean) >= 1:
        raise Failure(f"{what}: expected {shown(struct.pack('>i', int(mean)))}, got {shown(answer)}, which is {seen}")


@test(2, "prices belong to all clients instead of each, or nine bytes were expected in one read")
async def means_of_each_client(server):
    async def talk(client, _):
        prices = [(server.random.randrange(1000), server.random.randrange(-1000, 100000)) for _ in range(50)]
        await client.send_in_pieces(b"".join(insert(*price) for price in prices))
        for _ in range(5):
            await query(client, prices, *(server.random.randrange(1000) for _ in range(2)))
        await query(client, prices, 0, 1000)
    await at_each_size(server, talk)


@test(2, "the sum is too large for 32 bits")
async def large_prices(server):
    client = await server.client()
    for sign in 1, -1:
        prices = [(n * sign, (2 ** 31 - 1 - n) * sign) for n in range(1, 100)]
        await client.send_in_pieces(b"".join(insert(*price) for price in prices))
        await query(client, prices, *sorted((sign, 99 * sign)))


@test(2, "without a price, or with a time that ends before it begins, the mean is 0")
async def of_no_prices(server):
    client = await server.client()
    await query(client, [], 0, 1000)
    await client.send(insert(5, 101))
    await query(client, [(5, 101)], 6, 4)
    await query(client, [(5, 101)], 5, 5)


# ---- 3: Budget Chat -----------------------------------------------------------------------------------

async def come_in(server, name):
    client = await server.client()
    await line(client, "the welcome")
    await client.send_in_pieces(name.encode() + b"\n")
    seen = await line(client, f"the list for {name}")
    if not seen.startswith("*"):
        raise Failure(f"the list for {name}: expected a line that begins with a *, got {seen!r}")
    return client, {word.strip(",.;:()'\"") for word in seen.split()}, seen


@test(3, "a room that all share: somebody is missing in a list, is not told, or hears himself")
async def all_hear_all_others(server):
    for count in CROWDS:
        names, clients = [f"u{count}x{n}" for n in range(count)], []
        for n, name in enumerate(names):
            client, there, seen = await come_in(server, name)
            if not set(names[:n]) <= there or there & set(names[n:]):
                raise Failure(f"the list for {name}: expected {n} names ({', '.join(names[:n][:10])}), "
                              f"got {shown(seen.encode())}")
            clients.append(client)
            for other in clients[:-1]:
                seen = await line(other, f"that {name} has come")
                if not seen.startswith("*") or name not in seen:
                    raise Failure(f"that {name} has come: expected a line with * and his name, got {seen!r}")

        async def talk(n):
            await clients[n].send_in_pieces(b"hello from %d\n" % n)
            expected = {f"[{name}] hello from {i}" for i, name in enumerate(names) if i != n}
            for _ in range(count - 1):
                seen = await line(clients[n], "what others say")
                if seen not in expected:
                    raise Failure(f"{names[n]} hears: expected {len(expected)} more lines like {min(expected)!r}, each "
                                  f"once, got {seen!r}")
                expected.remove(seen)
        await asyncio.gather(*(talk(n) for n in range(count)))
        for n in range(count - 1):
            if n % 2:
                clients[n].reset()
            else:
                clients[n].close()
            seen = await line(clients[-1], f"that {names[n]} has left")
            if not seen.startswith("*") or names[n] not in seen:
                raise Failure(f"that {names[n]} has left: expected a line with * and his name, got {seen!r}")
        clients[-1].close()
        await clients[-1].is_forgotten()


@test(3, "who has not said a name is told what is said, or counted")
async def who_has_no_name_is_not_there(server):
    ann, *_ = await come_in(server, "ann")
    bob = await server.client()
    await line(bob, "the welcome")
    await ann.send(b"is somebody here?\n")
    await ann.is_read()
    bob.close()
    await bob.is_forgotten()
    carl, there, seen = await come_in(server, "carl")
    if "ann" not in there:
        raise Failure(f"the list for carl: expected ann in it, got {shown(seen.encode())}")
    await carl.send(b"yes\n")
    seen = await line(ann, "that carl has come")
    if "carl" not in seen or not seen.startswith("*"):
        raise Failure("somebody without a name came and left, then carl came: expected that ann reads of carl, "
                      f"got {seen!r}")
    await expect_line(ann, "[carl] yes", "what carl says")


@test(3, "a name that is none is let in, or its connection stays open")
async def names_that_are_none(server):
    for bad in b"", b"no name", b"caf\xc3\xa9", b"x!":
        client = await server.client()
        await line(client, "the welcome")
        await client.send(bad + b"\n")
        while True:  # it may be told why
            data = await client.receive()
            if not data:
                break
            if data.startswith(b"*"):
                raise Failure(f"the name {shown(bad)}: expected the end of the connection, got {shown(data)}")


# ---- 5: Mob in the Middle -----------------------------------------------------------------------------

OURS = "7YWHMfk9JZe0LM0g1ZauHuiSxhI"


def address(chance):
    return "7" + "".join(chance.choices("abcXYZ0189", k=chance.randrange(25, 35)))


@contextlib.asynccontextmanager
async def upstream(server):
    """A chat that answers each line with the same backwards: so an address that it says was hidden on the way there."""
    server.seen, server.there = [], 0

    async def serve(reader, writer):
        server.there += 1
        with contextlib.suppress(OSError, asyncio.IncompleteReadError, asyncio.CancelledError):
            while said := await reader.readuntil():
                server.seen.append(said[:-1].decode())
                writer.write(said[-2::-1] + b"\n")
        server.there -= 1
        writer.close()
    chat = await asyncio.start_server(serve, "127.0.0.1", 0)
    server.command = [*server.command, "--upstream", "127.0.0.1:%d" % chat.sockets[0].getsockname()[1]]
    await server.start()
    try:
        yield
    finally:
        chat.close()


@test(5, "an address is not seen at an end of the line, or among others, or what only looks like one is replaced")
async def addresses_both_ways(server):
    async with upstream(server):
        async def talk(client, n):
            for _ in range(5):
                real, fake = address(server.random), "7" + "a" * server.random.choice((24, 35))
                form = server.random.choice(("%s", "%s and more", "more and %s", "a %s b", "%s %s", "x%s", "%s-1", "%s,"))
                there = form.replace("%s", real)
                changes = form[-2:] == "%s" or "%s " in form
                expected = form.replace("%s", OURS) if changes and form != "x%s" else there
                hidden = f"c{n} {fake} " + there[::-1]
                await client.send_in_pieces(hidden.encode() + b"\n")
                clean = there[::-1].startswith("7") or " 7" in there[::-1]  # it may be one backwards, too
                seen = await line(client, "a line from the chat")
                if not clean and seen != f"{expected} {fake[::-1]} {f'c{n}'[::-1]}":
                    raise Failure(f"the chat says {there!r}: expected {expected + ' ' + fake[::-1]!r} and a name, "
                                  f"got {seen!r}")
                await client.send_in_pieces(f"to you: {there}".encode() + b"\n")
                await line(client, "a line from the chat")
                if f"to you: {expected}" not in server.seen:
                    raise Failure(f"{there!r} is said to the chat: expected that it reads {expected!r}, "
                                  f"got {server.seen[-1]!r}")
        await at_each_size(server, talk)


@test(5, "one of two connections ends, and the other one stays")
async def both_ends_end(server):
    async with upstream(server):
        for leave in base.Client.close, base.Client.reset:
            client = await server.client()
            await client.send(b"hello\n")
            await expect_line(client, "olleh", "a line from the chat")
            leave(client)
            for _ in range(int(base.PATIENCE * 100)):
                if server.there == 0:
                    break
                await asyncio.sleep(0.01)
            else:
                raise Failure("the client has left: expected the end of the chat's connection, got none")


# ---- 6: Speed Daemon ----------------------------------------------------------------------------------

def camera(road, mile, limit):
    return struct.pack(">BHHH", 0x80, road, mile, limit)


def plate(name, moment):
    return struct.pack(">BB", 0x20, len(name)) + name + struct.pack(">I", moment)


def dispatcher(*roads):
    return struct.pack(">BB", 0x81, len(roads)) + b"".join(struct.pack(">H", road) for road in roads)


async def ticket(client):
    kind, length = await exactly(client, 2, "a ticket")
    if kind != 0x21:
        raise Failure(f"a ticket: expected that it begins with 0x21, got {kind:#x}")
    return await exactly(client, length, "a ticket"), struct.unpack(">HHIHIH", await exactly(client, 16, "a ticket"))


@test(6, "state that all clients share: cars are compared with those of another road, or tickets go to nobody")
async def cars_that_are_too_fast(server):
    for count in (5, 100):
        there = []

        async def talk(client, n):
            first, second = await server.client(), await server.client()
            there.extend((client, first, second))
            name, road = b"CAR%d OF %d" % (n, count), 1000 + n  # one ticket a day
            for each, mile, moment in (first, 8, 0), (second, 9, 45):
                await each.send_in_pieces(camera(road, mile, 60) + plate(name, moment) + plate(b"SLOW", moment * 100))
            await client.send_in_pieces(dispatcher(road))
            seen = await ticket(client)
            if seen != (name, (road, 8, 0, 9, 45, 8000)):
                raise Failure(f"a ticket: expected {(name, (road, 8, 0, 9, 45, 8000))}, got {seen}")
            first.close()
            second.close()
        await crowd(server, talk, count)
        await server.forgets(*there)  # a dispatcher that has left must not be given the tickets of the next crowd


@test(6, "a car is compared with what was seen on other roads, or only in the order in which it was seen, or fined twice a day")
async def roads_and_days(server):
    office, first, second, other = [await server.client() for _ in range(4)]
    await office.send_in_pieces(dispatcher(1, 2))
    await first.send(camera(1, 10, 60))
    await second.send(camera(1, 20, 60))
    await other.send(camera(2, 500, 60) + plate(b"ANN", 0))
    day = 86400
    for each, name, moment in ((other, b"ANN", 0), (first, b"ANN", 1), (second, b"BOB", 100), (first, b"BOB", 0),
                               (first, b"BOB", 200), (second, b"BOB", 2 * day - 50), (first, b"BOB", 2 * day + 50),
                               (second, b"BOB", 2 * day + 200), (second, b"BOB", 4 * day), (first, b"BOB", 4 * day + 100)):
        await each.send(plate(name, moment))
        await each.is_read()
    for expected in ((1, 10, 0, 20, 100, 36000), (1, 20, 2 * day - 50, 10, 2 * day + 50, 36000),
                     (1, 20, 4 * day, 10, 4 * day + 100, 36000)):
        seen = await ticket(office)
        if seen != (b"BOB", expected):
            raise Failure(f"the next ticket: expected {(b'BOB', expected)}, got {seen}")


@test(6, "an error has to be said before the close")
async def who_is_nobody_or_two(server):
    for wrong in plate(b"X", 1), b"\x21\x00", camera(1, 1, 1) + dispatcher(1), dispatcher(1) + camera(1, 1, 1), b"\xff":
        client = await server.client()
        await client.send(wrong)
        kind, length = await exactly(client, 2, "an error")
        if kind != 0x10:
            raise Failure(f"an error: expected that it begins with 0x10, got {kind:#x}")
        await exactly(client, length, "an error")
        await client.expect_end("an error")


@test(6, "a heartbeat's number counts tenths of a second")
async def heartbeats(server):
    client, silent = await server.client(), await server.client()
    await client.send(struct.pack(">BI", 0x40, 2))
    await silent.send(struct.pack(">BI", 0x40, 0))
    before = client.loop.time()
    for _ in range(3):
        if (kind := await exactly(client, 1, "a heartbeat")) != b"\x41":
            raise Failure(f"a heartbeat: expected 0x41, got {kind[0]:#x}")
    if client.loop.time() - before < 0.55:
        raise Failure("three heartbeats, one each 0.2 s: expected 0.6 s for them, "
                      f"got {client.loop.time() - before:.2f} s")
    await client.send(struct.pack(">BI", 0x40, 2))
    while (kind := await exactly(client, 1, "an error: a second wish")) == b"\x41":
        continue
    if kind != b"\x10":
        raise Failure(f"a second wish for heartbeats: expected an error, 0x10, got {kind[0]:#x}")


# ---- 9: Job Centre ------------------------------------------------------------------------------------

async def job(client, **request):
    await client.send_in_pieces(json.dumps(request).encode() + b"\n")


async def answer(client, status, **members):
    wanted = json.dumps(dict(status=status, **members))
    seen = parsed(await line(client, "an answer", wanted), "an answer")
    if seen.get("status") != status or any(seen.get(name) != value for name, value in members.items()):
        raise Failure(f"an answer: expected {wanted}, got {json.dumps(seen)}")
    return seen


@test(9, "jobs are not given by their priority, or twice")
async def the_most_urgent_first(server):
    async def talk(client, n):
        queue = f"q{n}"
        for priority in server.random.sample(range(1000), 5):
            await job(client, request="put", queue=queue, job={"title": f"{priority}"}, pri=priority)
            await answer(client, "ok")
        last = 1000
        for _ in range(5):
            await job(client, request="get", queues=["none", queue])
            seen = await answer(client, "ok", queue=queue)
            if not seen["pri"] < last or seen["job"] != {"title": str(seen["pri"])}:
                raise Failure(f"the next job: expected the one of the highest priority, which is less than {last}, "
                              f"got {json.dumps(seen)}")
            last = seen["pri"]
            await job(client, request="delete", id=seen["id"])
            await answer(client, "ok")
        await job(client, request="get", queues=[queue])
        await answer(client, "no-job")
    await at_each_size(server, talk)


@test(9, "a get that waits stops others, or its job goes to a client that has left")
async def those_who_wait(server):
    for count in CROWDS:
        waiting = [await server.client() for _ in range(count)]
        for client in waiting:
            await job(client, request="get", queues=["w"], wait=True)
        await server.reads_all(*waiting)
        for n, client in enumerate(waiting[::2]):
            if n % 2:
                client.reset()
            else:
                client.close()
        await server.forgets(*waiting[::2])
        ann = await server.client()
        for n in range(count // 2):
            await job(ann, request="put", queue="w", job={"n": n}, pri=1)
            await answer(ann, "ok")
        seen = [(await answer(client, "ok", queue="w"))["job"]["n"] for client in waiting[1::2]]
        if sorted(seen) != list(range(count // 2)):
            raise Failure(f"{count // 2} jobs for as many clients that wait: expected that each gets one, "
                          f"got {sorted(seen)}")
        for client in waiting[1::2]:
            client.close()
        await server.forgets(*waiting[1::2])
        for _ in range(count // 2):  # who leaves gives back what he has
            await job(ann, request="get", queues=["w"])
            seen = await answer(ann, "ok")
            await job(ann, request="delete", id=seen["id"])
            await answer(ann, "ok")


@test(9, "any client may delete a job, but only its own may be given back")
async def whose_job_it_is(server):
    ann, bob = await server.client(), await server.client()
    await job(ann, request="put", queue="q", job={}, pri=1)
    number = (await answer(ann, "ok"))["id"]
    await job(ann, request="get", queues=["q"])
    await answer(ann, "ok", id=number)
    await job(bob, request="abort", id=number)
    seen = parsed(await line(bob, "abort of another's job"), "abort of another's job")
    if seen.get("status") == "ok":
        raise Failure(f"abort of another's job: expected status error or no-job, got {json.dumps(seen)}")
    await job(ann, request="abort", id=number)
    await answer(ann, "ok")
    await job(bob, request="delete", id=number)
    await answer(bob, "ok")
    await job(ann, request="get", queues=["q"])
    await answer(ann, "no-job")
    for bad in b"nonsense\n", b'{"request":"none"}\n', b'{"request":"put","queue":"q"}\n':
        await ann.send(bad)
        await answer(ann, "error")


# ---- grading ------------------------------------------------------------------------------------------

# What says more than the last line does: all of a sanitizer's, or of a panic, is below its first line.
REPORT = re.compile(r"(ERROR|WARNING): \w+Sanitizer|: runtime error: |^panic: |panicked at |Assertion .*failed")
LINES, MUCH = 12, 1 << 20  # that are shown at most of what it said; bytes that are searched from each end
TURNS, CLIENTS = 6, 4  # of a talk that are shown at most; more clients are a crowd, of which one is shown


class Server(base.Server):
    def __init__(self, command, folder):
        super().__init__(command, folder)
        self.place = None  # where this was called: its arguments may name files there

    def last_said(self):
        return []  # explained() shows it

    async def settles(self):
        """It may close a connection before it says why, or ends: waits until it has nothing to add for a moment."""
        seen, changed = self.moment(), time.monotonic()
        until = changed + 2
        while time.monotonic() < min(until, changed + 0.3):
            await asyncio.sleep(0.01)
            if self.moment() != seen:
                seen, changed = self.moment(), time.monotonic()

    def complaint(self, size):
        """What it has written to standard error, up to there: the first report in it, or its last lines."""
        try:
            with open(self.errors, "rb") as errors:
                said = errors.read(min(size, MUCH))
                if size > MUCH:
                    errors.seek(max(MUCH, size - MUCH))
                    said += errors.read(min(MUCH, size - MUCH))
        except FileNotFoundError:
            return []
        said = [shown(text[:160], 160)[1:-1] for text in said.splitlines() if text.strip()]
        first = next((n for n, text in enumerate(said) if REPORT.search(text)), max(0, len(said) - LINES))
        left = len(said) - LINES
        return said[first:first + LINES] + ([f"({left} more lines on standard error)"] if left > 0 else [])


def talk_of(server, failure):
    """What was sent, and what came: by all clients if they are few, or by the one that was read last."""
    if failure.sent is not None:
        return [f"sent {shown(failure.sent)}"]
    clients = server.clients if len(server.clients) <= CLIENTS else [failure.client] * (failure.client in server.clients)
    turns = sorted((turn, n) for n, client in enumerate(server.clients, 1) if client in clients for turn in client.turns)
    return [(f"client {n} " if len(clients) > 1 else "") + f"{verb} {shown(data[-100:])}"
            + (f", the last of {count} bytes" if count > 100 else "") for (_, verb, data, count), n in turns[-TURNS:]]


def explained(server, failure):
    """The cause before what followed from it."""
    size, has_ended = failure.moment or (MUCH, False)
    said, lines = server.complaint(size), [str(failure)]
    if has_ended and "it ended " not in lines[0]:
        lines.insert(0, server.how_it_ended("meanwhile"))
    if said:
        lines = ["the server wrote on standard error", *said, f"and then: {lines[0]}", *lines[1:]]
    return "\n    ".join(lines + talk_of(server, failure))


async def play(command, problem, function):
    """Whether the server has answered anything, and the failure, or None, with all that explains it."""
    with tempfile.TemporaryDirectory(prefix="ladder.") as folder:
        server, base.Client.latest, failed = Server(command, folder), None, None
        try:
            if problem != 5:
                await server.start()
            await function(server)
            server.check()
        except OSError as error:
            await server.settles()
            failed = Failure(f"a connection failed: {error.strerror}")
            failed.client = getattr(error, "client", failed.client)
        except asyncio.TimeoutError:
            failed = Failure(f"no answer within {base.PATIENCE:g} s")
        except (ValueError, LookupError, TypeError) as error:
            failed = Failure(f"an answer is not what it should be: {error!r}")
        except Failure as failure:
            failed = failure
        finally:
            text = failed and explained(server, failed)
            server.kill()
    return server.has_answered, failed, text


def refusal(command):
    """Why this cannot be started; None if it can, as far as one sees."""
    name = command[0]
    if os.sep not in name and not os.path.isfile(name) and not os.path.isdir(name):
        return None if shutil.which(name) else "it is neither a file here nor a command"
    if not os.path.exists(name):
        return "there is no such file"
    if not os.path.isfile(name):
        return "it is no file"
    if not os.access(name, os.X_OK):
        return f"it is not executable (chmod +x {name})"
    with open(name, "rb") as program:
        first = program.readline(200)
    if first.startswith(b"#!"):
        interpreter = first[2:].decode(errors="replace").rstrip("\n").split(" ")
        interpreter = next((word for word in interpreter if word), "")
        return None if os.path.exists(interpreter) else f"its first line names {interpreter!r}, which is not there"
    return None if first.startswith(b"\x7fELF") else "it is neither a program nor a script, whose first line begins with #!"


def main():
    if len(sys.argv) < 3 or not sys.argv[1].isdigit() or int(sys.argv[1]) not in TESTS:
        sys.exit("usage: tests/ladder/grader.py PROBLEM PROGRAM [ARGUMENT...]; PROBLEM is one of "
                 + ", ".join(map(str, TESTS)))
    problem, command = int(sys.argv[1]), sys.argv[2:]
    if reason := refusal(command):
        print(f"ladder: cannot grade {command[0]}: {reason}", flush=True)
        sys.exit(2)
    if os.path.exists(command[0]):
        command[0] = os.path.abspath(command[0])
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, min(hard, 4096)), hard))
    passed = failed = 0
    has_answered = False
    for name, (mistake, function) in TESTS[problem].items():
        if os.environ.get("ONLY", name) != name:
            continue
        answered, failure, text = asyncio.run(play(command, problem, function))
        has_answered = has_answered or answered
        if failure is None:
            passed += 1
            continue
        failed += 1
        print(f"ladder: FAILED: problem {problem}, {name}: {text}", flush=True)
        if isinstance(failure, base.NotStarted):
            break
        print(f"    the usual mistake: {mistake} (SEED={base.SEED})" if has_answered else
              f"    it has not answered anything so far (SEED={base.SEED})", flush=True)
    print(f"{passed} passed, {failed} failed")
    sys.exit(failed > 0)


if __name__ == "__main__":
    main()
