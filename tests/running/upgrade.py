"""Restarts a server under load by docs/examples/upgrade.c, and shows that nobody is lost.

    usage: python3 tests/running/upgrade.py UPGRADE SERVER [OPTION...]

Short clients connect, send a line, get it back and leave, one after the other; long ones send lines all
the time. Meanwhile the server is restarted five times, back to back, once of them to a program that fails
to start.

- No short client is refused or reset, and each gets its answer.
- A long client that sends its first line at once gets an answer to it.
- A long client gets the answers to all that the old server has read, in order: to each line that it sent
  before the restart was asked for; and all clients together get as many answers as the servers count
  messages.
- Then it gets the end of the stream, within the drain timeout, and never a reset. It comes again and is
  served.

With CLIENTS=few in the environment there are a tenth of them. Prints what it has seen, and ends with status
1 if anything was lost.
"""

import asyncio
import heapq
import json
import os
import re
import selectors
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time

SHORT, AT_ONCE, LONG = (1000, 8, 50) if os.environ.get("CLIENTS") == "few" else (10000, 8, 500)
PAUSE = 0.2  # from a long client's line to its next
RESTARTS, BROKEN = 5, 2  # the third one fails
DRAIN = 5.0
DEADLINE = 240.0


# ---- Short clients ------------------------------------------------------------------------------

def short_client(port, line):
    """What went wrong; None: nothing."""
    try:
        with socket.create_connection(("127.0.0.1", port), 30) as client:
            client.sendall(line)
            answer = client.makefile("rb").readline()
    except OSError as error:
        return f"a short client: {error}"
    return None if answer == line else f"a short client got {answer!r}"


def short_clients(port):
    """In a process of their own, so that nobody holds one up between its connect and its line: that is
    the second that a server which stops waits for. Prints a line for each client."""
    def live(count):
        for number in range(count):
            print(short_client(port, b"short %d\n" % number) or "", flush=True)

    threads = [threading.Thread(target=live, args=(SHORT // AT_ONCE,)) for _ in range(AT_ONCE)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


# ---- Long clients -------------------------------------------------------------------------------

class Connection:
    """One connection of a long client. It is watched for reading only: a line that cannot be sent is not
    sent, and what there is to read is read first, so that nothing of this program's hides what came."""

    def __init__(self, port, name):
        self.name, self.port = name, port
        self.sent, self.got, self.rest = [], 0, b""  # when each line was sent; answers; half a line
        self.end = None
        self.begun = time.monotonic()
        self.socket = socket.create_connection(("127.0.0.1", port), 30)
        self.send()
        self.socket.setblocking(False)

    def line(self, number):
        return b"%s %d\n" % (self.name, number)

    def send(self):
        try:
            self.socket.sendall(self.line(len(self.sent)))
            self.sent.append(time.monotonic())
        except OSError:
            pass  # what has happened, reading tells

    def receive(self):
        """Takes what there is. True: this is the end."""
        try:
            data = self.socket.recv(65536)
        except OSError as error:
            data, self.end = b"", error.strerror
        self.rest += data
        while (length := self.rest.find(b"\n") + 1) > 0:
            line, self.rest = self.rest[:length], self.rest[length:]
            if line != self.line(self.got):
                self.end = f"{line!r} instead of {self.line(self.got)!r}"
            self.got += 1
        if data == b"" and self.end is None:
            self.end = f"{self.rest!r} and no more" if self.rest else ""
        return self.end is not None

    def record(self):
        return {"begun": self.begun, "sent": self.sent, "got": self.got, "ended": time.monotonic(), "end": self.end,
                "place": str(self.socket.getsockname())}


def long_clients(port):
    """In a process of their own, too. Lives until its input ends, when only one server is left. Prints "begun"
    when all are connected, a line for each connection that has ended, and "last" before those that it has ended itself."""
    watched = selectors.DefaultSelector()
    watched.register(sys.stdin, selectors.EVENT_READ, None)
    due = []  # when a connection sends its next line

    def begin(name):
        connection = Connection(port, name)
        watched.register(connection.socket, selectors.EVENT_READ, connection)
        heapq.heappush(due, (time.monotonic() + PAUSE, id(connection), connection))

    def end(connection):
        print(json.dumps(connection.record()), flush=True)
        watched.unregister(connection.socket)
        connection.socket.close()

    for number in range(LONG):
        begin(b"long %d" % number)
    print('"begun"', flush=True)
    goes_on = True
    while goes_on:
        for key, _ in watched.select(max(0, due[0][0] - time.monotonic())):
            if key.data is None:
                goes_on = False
            elif key.data.receive():
                end(key.data)
                begin(key.data.name)
        while due[0][0] <= time.monotonic():
            _, _, connection = heapq.heappop(due)
            if connection.end is None:
                connection.send()
                heapq.heappush(due, (time.monotonic() + PAUSE, id(connection), connection))
    watched.unregister(sys.stdin)
    while ready := watched.select(0):  # nothing more is sent, so what old servers have said comes to its end
        for key, _ in ready:
            if key.data.receive():
                end(key.data)
    print('"last"')
    for key in list(watched.get_map().values()):
        key.data.socket.shutdown(socket.SHUT_WR)
        key.data.socket.settimeout(30)
        while not key.data.receive():
            pass
        end(key.data)


# ---- The restarts, and what became of all -------------------------------------------------------

class Seen:
    """What the clients have seen."""

    def __init__(self):
        self.short = self.ends = self.answers = self.messages = 0
        self.restarts = []  # when each was asked for, and when the new program was ready
        self.records = []
        self.lost = []  # what should not have happened

    def lose(self, what):
        self.lost.append(what)

    def look_at(self, record, is_last):
        """Of a connection that a server has ended; or, if it is one of the last ones, the client."""
        self.answers += record["got"]
        self.ends += not is_last
        if record["end"] != "":
            self.lose(f"a long client's connection ended with: {record['end']}")
        if record["got"] == 0 and record["sent"] and record["sent"][0] < record["begun"] + 1:
            self.lose("a long client's connection got no answer")
        unanswered = record["sent"][record["got"]:]
        if is_last:
            if unanswered:
                self.lose(f"a long client got no answer to {len(unanswered)} of its last lines")
            return
        since = min(unanswered + [record["ended"]])
        if not any(asked <= since and record["ended"] <= ready + DRAIN for asked, ready in self.restarts):
            self.lose("a long client's line was lost that was sent before the restart, or its end came late")


async def watch_short_clients(port, seen):
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-B", __file__, "--short", str(port), stdout=subprocess.PIPE)
    while line := await process.stdout.readline():
        seen.short += 1
        if line != b"\n":
            seen.lose(line.decode().strip())
    await process.wait()


async def watch_long_clients(process, seen, begun):
    is_last = False
    while line := await process.stdout.readline():
        record = json.loads(line)
        if record == "begun":
            begun.set()
        elif record == "last":
            is_last = True
        else:
            seen.records.append((record, is_last))
    if await process.wait() != 0:
        seen.lose("the long clients have not come to their end")


async def watch_errors(stream, seen, failed):
    """The servers' last lines, and what is said about one that does not serve."""
    while line := await stream.readline():
        counted = re.match(rb"[^:]+: stats .*\bmessages=(\d+)", line)
        seen.messages += int(counted[1]) if counted else 0
        if b"does not serve" in line:
            failed.set()
        elif b": gauges " not in line and b": stats " not in line:
            print("  " + line.decode().rstrip())


def servers_below(parent):
    with open(f"/proc/{parent.pid}/task/{parent.pid}/children", encoding="ascii") as children:
        return len(children.read().split())


async def ready_port(process):
    line = await process.stdout.readline()
    return int(line.rsplit(b":", 1)[1])


async def restart(process, program, server, broken, seen, failed):
    """Asks for a restart, and waits for what becomes of it."""
    os.unlink(program)
    os.symlink("/bin/false" if broken else server, program)
    asked = time.monotonic()
    process.send_signal(signal.SIGHUP)
    await asyncio.wait_for(failed.wait() if broken else ready_port(process), 30)
    if not broken:
        seen.restarts.append((asked, time.monotonic()))


async def run(upgrade, server, options, folder):
    seen = Seen()
    program = os.path.join(folder, "server")
    os.symlink(server, program)
    process = await asyncio.create_subprocess_exec(
        upgrade, "0", program, "--stats", *options, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    failed = asyncio.Event()
    errors = asyncio.create_task(watch_errors(process.stderr, seen, failed))
    try:
        port = await asyncio.wait_for(ready_port(process), 30)
        longs = await asyncio.create_subprocess_exec(
            sys.executable, "-B", __file__, "--long", str(port), stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        all_begun = asyncio.Event()
        lives = asyncio.create_task(watch_long_clients(longs, seen, all_begun))
        await asyncio.wait_for(all_begun.wait(), 60)  # the restarts follow the short clients, who may be quicker
        shorts = asyncio.create_task(watch_short_clients(port, seen))
        for number in range(RESTARTS):
            while seen.short < SHORT * (number + 1) // (RESTARTS + 2):
                await asyncio.sleep(0.01)
            await restart(process, program, server, number == BROKEN, seen, failed)
        await shorts
        begun = time.monotonic()
        while (len(seen.records) < LONG or servers_below(process) > 1) and time.monotonic() < begun + 6 * DRAIN:
            await asyncio.sleep(0.1)
        longs.stdin.close()
        await lives
        process.send_signal(signal.SIGTERM)
        status = await asyncio.wait_for(process.wait(), 30)
        await asyncio.wait_for(errors, 30)
    finally:
        if process.returncode is None:
            process.kill()
    if status != 0:
        seen.lose(f"the last server ended with {status}")
    for record, is_last in seen.records:
        seen.look_at(record, is_last)
    if seen.short != SHORT:
        seen.lose(f"{seen.short} of {SHORT} short clients were served")
    if seen.ends < LONG:
        seen.lose(f"only {seen.ends} long connections have heard the end of a server")
    if seen.messages != seen.short + seen.answers:
        seen.lose(f"the servers have handled {seen.messages} messages, and {seen.short + seen.answers} answers came")
    return seen


def main():
    if sys.argv[1] in ("--short", "--long"):
        {"--short": short_clients, "--long": long_clients}[sys.argv[1]](int(sys.argv[2]))
        return 0
    upgrade, server, options = sys.argv[1], os.path.abspath(sys.argv[2]), sys.argv[3:]
    with tempfile.TemporaryDirectory() as folder:
        seen = asyncio.run(asyncio.wait_for(run(upgrade, server, options, folder), DEADLINE))
    print(f"{os.path.basename(server)}: {seen.short} short clients, {LONG} long ones with {seen.answers} answers "
          f"and {seen.ends} ends, {len(seen.lost)} losses")
    for what in sorted(set(seen.lost))[:10]:
        print(f"upgrade: FAILED: {seen.lost.count(what)} times: {what}")
    print("0 passed, 1 failed" if seen.lost else "1 passed, 0 failed")
    return 1 if seen.lost else 0


if __name__ == "__main__":
    sys.exit(main())
