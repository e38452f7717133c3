#!/usr/bin/env python3
"""Grades a solution of one of Protohackers' problems, in whatever language, without a network (docs/ladder.md).

  usage: tests/ladder/grader.py PROBLEM PROGRAM [ARGUMENT...]     (make test-ladder PROBLEM=1 SERVER=path)

PROBLEM is 0, 1, 2, 3, 5, 6 or 9. Each test starts PROGRAM with `--port N` behind its arguments (and for problem 5
with `--upstream 127.0.0.1:M`), waits until it can connect to 127.0.0.1, port N, and ends it with SIGKILL. Whatever is
sent is cut at random; the tests of crowds have 5 clients, and then 200.

  PATIENCE=10   seconds for any answer
  SEED=1        of what is cut, and of what is chosen, at random; a failure names its seed
  ONLY=name     this test only

Prints what failed, with the mistake that usually is its cause, and "N passed, N failed".
"""
import asyncio
import collections
import contextlib
import json
import os
import resource
import struct
import sys
import tempfile

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


async def exactly(client, count, what):
    """The next bytes, that many."""
    while len(client.input) < count:
        data = await client.receive()
        if not data:
            raise Failure(f"{what}: the connection was closed after {shown(client.input)}")
        client.input += data
    taken = bytes(client.input[:count])
    del client.input[:count]
    return taken


async def line(client, what):
    while b"\n" not in client.input:
        data = await client.receive()
        if not data:
            raise Failure(f"{what}: the connection was closed" + (f" after {shown(client.input)}" if client.input else ""))
        client.input += data
    taken, _, rest = bytes(client.input).partition(b"\n")
    client.input[:] = rest
    return taken.rstrip(b"\r").decode("utf-8", "replace")


async def expect_line(client, expected, what):
    seen = await line(client, what)
    if seen != expected:
        raise Failure(f"{what}: got {seen!r}, expected {expected!r}")


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
                raise Failure("what came back are other bytes")
            await client.expect_end("all that was sent, and the end of the client's stream")
        await both(send(), read())
    await at_each_size(server, talk)


@test(0, "bytes are answered at the end of a line, or of the stream")
async def it_does_not_wait_for_an_end(server):
    client = await server.client()
    for byte in b"no end\0":
        await client.send(bytes([byte]))
        if await exactly(client, 1, "a byte") != bytes([byte]):
            raise Failure("another byte came back")


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
    await client.send_in_pieces(b'{%s"method":"isPrime","number":%s}\n' % (extra.encode(), json.dumps(number).encode()))


async def expect_prime(client, number, expected):
    seen = await line(client, f"isPrime {number}")
    try:
        answer = json.loads(seen)
    except ValueError:
        raise Failure(f"isPrime {number}: {seen!r} is no JSON") from None
    if answer.get("method") != "isPrime" or answer.get("prime") is not expected:
        raise Failure(f"isPrime {number}: got {seen!r}, expected {'true' if expected else 'false'}")


@test(1, "one read was taken for one line, or answers were lost when the client ended its half")
async def numbers_of_all_kinds(server):
    async def talk(client, _):
        numbers = server.random.choices(list(NUMBERS), k=10) if _ else list(NUMBERS)

        async def send():
            for number in numbers:
                await ask(client, number, server.random.choice(("", '"x":[{"number":"}"}],', '"y":"\\"",')))
            client.half_close()

        async def read():
            for number in numbers:
                await expect_prime(client, number, NUMBERS[number])
            await client.expect_end("the answers, and the end of the client's stream")
        await both(send(), read())
    await at_each_size(server, talk)


@test(1, "a number that does not fit a variable of the language is cut, or refused")
async def big_numbers(server):
    client = await server.client()
    for number in (2 ** 64 + 2, 2 ** 32 * 7919, 3 ** 300, 10 ** 500):
        await ask(client, number)
        await expect_prime(client, "of many digits", False)


@test(1, "a malformed request got an answer as if it were none, or the connection stayed open")
async def malformed_ones_end_the_connection(server):
    for bad in ('{"method":"isPrime","number":"7"}', '{"method":"isprime","number":7}', '{"method":"isPrime"}', "7", "",
                '{"number":7}', '{"method":"isPrime","number":7', "[]", '{"method":"isPrime","number":true}'):
        client = await server.client()
        await client.send(bad.encode() + b"\n")
        seen = await line(client, f"malformed: {bad!r}")
        with contextlib.suppress(ValueError, AttributeError):
            answer = json.loads(seen)
            if answer.get("method") == "isPrime" and isinstance(answer.get("prime"), bool):
                raise Failure(f"malformed: {bad!r} is answered by {seen!r}")
        await client.expect_end(f"malformed: {bad!r}")
    client = await server.client()
    await ask(client, 7)
    await expect_prime(client, 7, True)


# ---- 2: Means to an End -------------------------------------------------------------------------------

def insert(moment, price):
    return struct.pack(">cii", b"I", moment, price)


async def query(client, prices, first, last):
    await client.send_in_pieces(struct.pack(">cii", b"Q", first, last))
    seen, = struct.unpack(">i", await exactly(client, 4, "a mean"))
    chosen = [price for moment, price in prices if first <= moment <= last]
    mean = sum(chosen) / len(chosen) if chosen else 0
    if abs(seen - mean) >= 1:
        raise Failure(f"the mean of {len(chosen)} prices from {first} to {last} is {mean:.2f}, got {seen}")


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
        raise Failure(f"the list for {name} begins with a *, got {seen!r}")
    return client, {word.strip(",.;:()'\"") for word in seen.split()}


@test(3, "a room that all share: somebody is missing in a list, is not told, or hears himself")
async def all_hear_all_others(server):
    for count in CROWDS:
        names, clients = [f"u{count}x{n}" for n in range(count)], []
        for n, name in enumerate(names):
            client, there = await come_in(server, name)
            if not set(names[:n]) <= there or there & set(names[n:]):
                raise Failure(f"the list for {name} is not of those who were there")
            clients.append(client)
            for other in clients[:-1]:
                seen = await line(other, f"that {name} has come")
                if not seen.startswith("*") or name not in seen:
                    raise Failure(f"that {name} has come: got {seen!r}")

        async def talk(n):
            await clients[n].send_in_pieces(b"hello from %d\n" % n)
            expected = {f"[{name}] hello from {i}" for i, name in enumerate(names) if i != n}
            for _ in range(count - 1):
                seen = await line(clients[n], "what others say")
                if seen not in expected:
                    raise Failure(f"{names[n]} hears {seen!r}, which nobody has said to him, or twice")
                expected.remove(seen)
        await asyncio.gather(*(talk(n) for n in range(count)))
        for n in range(count - 1):
            if n % 2:
                clients[n].reset()
            else:
                clients[n].close()
            seen = await line(clients[-1], f"that {names[n]} has left")
            if not seen.startswith("*") or names[n] not in seen:
                raise Failure(f"that {names[n]} has left: got {seen!r}")
        clients[-1].close()
        await clients[-1].is_forgotten()


@test(3, "who has not said a name is told what is said, or counted")
async def who_has_no_name_is_not_there(server):
    ann, _ = await come_in(server, "ann")
    bob = await server.client()
    await line(bob, "the welcome")
    await ann.send(b"is somebody here?\n")
    await ann.is_read()
    bob.close()
    await bob.is_forgotten()
    carl, there = await come_in(server, "carl")
    if "ann" not in there:
        raise Failure("ann is not in the list")
    await carl.send(b"yes\n")
    seen = await line(ann, "that carl has come")
    if "carl" not in seen or not seen.startswith("*"):
        raise Failure(f"somebody without a name came and left, and ann reads {seen!r}")
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
                raise Failure(f"the name {shown(bad)} is let in")


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
                    raise Failure(f"the chat says {there!r}: got {seen!r}")
                await client.send_in_pieces(f"to you: {there}".encode() + b"\n")
                await line(client, "a line from the chat")
                if f"to you: {expected}" not in server.seen:
                    raise Failure(f"{there!r} is said to the chat, which reads {server.seen[-1]!r}")
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
                raise Failure("the client has left, and the chat's connection stays")


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
        raise Failure(f"a ticket begins with 0x21, got {kind:#x}")
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
                raise Failure(f"a ticket for {name}: got {seen}")
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
            raise Failure(f"the next ticket is for BOB, {expected}: got {seen}")


@test(6, "an error has to be said before the close")
async def who_is_nobody_or_two(server):
    for wrong in plate(b"X", 1), b"\x21\x00", camera(1, 1, 1) + dispatcher(1), dispatcher(1) + camera(1, 1, 1), b"\xff":
        client = await server.client()
        await client.send(wrong)
        kind, length = await exactly(client, 2, "an error")
        if kind != 0x10:
            raise Failure(f"an error begins with 0x10, got {kind:#x}")
        await exactly(client, length, "an error")
        await client.expect_end("an error")


@test(6, "a heartbeat's number counts tenths of a second")
async def heartbeats(server):
    client, silent = await server.client(), await server.client()
    await client.send(struct.pack(">BI", 0x40, 2))
    await silent.send(struct.pack(">BI", 0x40, 0))
    before = client.loop.time()
    for _ in range(3):
        if await exactly(client, 1, "a heartbeat") != b"\x41":
            raise Failure("a heartbeat is 0x41")
    if client.loop.time() - before < 0.55:
        raise Failure("three heartbeats of 0.2 s came too early")
    await client.send(struct.pack(">BI", 0x40, 2))
    while (kind := await exactly(client, 1, "an error: a second wish")) == b"\x41":
        continue
    if kind != b"\x10":
        raise Failure("a second wish for heartbeats is an error")


# ---- 9: Job Centre ------------------------------------------------------------------------------------

async def job(client, **request):
    await client.send_in_pieces(json.dumps(request).encode() + b"\n")


async def answer(client, status, **members):
    seen = json.loads(await line(client, "an answer"))
    if seen.get("status") != status or any(seen.get(name) != value for name, value in members.items()):
        raise Failure(f"got {seen}, expected status {status}, {members}")
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
                raise Failure(f"a job of priority {seen['pri']} came behind one of {last}")
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
            raise Failure(f"{count // 2} jobs for as many clients that wait: they got {sorted(seen)}")
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
    seen = json.loads(await line(bob, "abort of another's job"))
    if seen.get("status") == "ok":
        raise Failure("another client has given ann's job back")
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

async def play(command, problem, function):
    with tempfile.TemporaryDirectory(prefix="ladder.") as folder:
        server = base.Server(command, folder)
        try:
            if problem != 5:
                await server.start()
            await function(server)
            server.check()
        except OSError as error:
            raise Failure(f"a connection failed: {error.strerror}") from None
        except asyncio.TimeoutError:
            raise Failure(f"no answer within {base.PATIENCE:g} s") from None
        except ValueError as error:
            raise Failure(f"an answer is not what it should be: {error}") from None
        finally:
            server.kill()


def main():
    problem, command = int(sys.argv[1]), sys.argv[2:]
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, min(hard, 4096)), hard))
    passed = failed = 0
    for name, (mistake, function) in TESTS[problem].items():
        if os.environ.get("ONLY", name) != name:
            continue
        try:
            asyncio.run(play(command, problem, function))
            passed += 1
        except Failure as failure:
            failed += 1
            print(f"ladder: FAILED: problem {problem}, {name}: {failure}\n"
                  f"    the usual mistake: {mistake} (SEED={base.SEED})", flush=True)
    print(f"{passed} passed, {failed} failed")
    sys.exit(failed > 0)


if __name__ == "__main__":
    main()
