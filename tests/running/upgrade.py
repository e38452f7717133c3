"""Restarts a server under load by docs/examples/upgrade.c, and shows that nobody is lost.

    usage: python3 tests/running/upgrade.py UPGRADE SERVER [OPTION...]

Short clients connect, send a line, get it back and leave, one after the other; long ones send lines all
the time. Meanwhile the server is restarted five times, back to back, once of them to a program that fails
to start.

- No short client is refused or reset, and each gets its answer.
- A long client gets the answers to all that the old server has read, in order, and then the end of the
  stream, within the drain timeout. It comes again and is served. It may send its next line at the moment at
  which the server closes, and then its system hears a reset: these are counted, and at most one in twenty.

Prints what it has seen, and ends with status 1 if anything was lost.
"""

import asyncio
import os
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time

SHORT, AT_ONCE, LONG = 10000, 8, 500
RESTARTS, BROKEN = 5, 2  # the third one fails
DRAIN = 5.0
DEADLINE = 240.0


class Seen:
    """What the clients have seen."""

    def __init__(self):
        self.short = self.ends = self.answers = self.crossed = 0
        self.lost = []  # what should not have happened

    def lose(self, what):
        self.lost.append(what)


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


async def watch_short_clients(port, seen):
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-B", __file__, "--short", str(port), stdout=subprocess.PIPE)
    while line := await process.stdout.readline():
        seen.short += 1
        if line != b"\n":
            seen.lose(line.decode().strip())
    await process.wait()


class LongClient:
    """Sends numbered lines, and compares what comes back."""

    def __init__(self, port, name, seen):
        self.port, self.name, self.seen = port, name, seen
        self.goes_on = True

    async def send(self, writer, sent):
        try:
            while self.goes_on and not self.over:
                line = b"%s %d\n" % (self.name, len(sent))
                sent.append(line)
                writer.write(line)
                await writer.drain()
                await asyncio.sleep(0.2)
            if not self.goes_on and not self.over:
                writer.write_eof()
        except ConnectionError:
            pass  # the reader hears of it, too
        except OSError as error:
            self.seen.lose(f"a long client, sending: {error}")

    async def connection(self):
        """One connection, to its end."""
        self.over = False
        reader, writer = await asyncio.open_connection("127.0.0.1", self.port)
        sent, got = [], 0
        sender = asyncio.create_task(self.send(writer, sent))
        try:
            while answer := await reader.readline():
                if got >= len(sent) or answer != sent[got]:
                    self.seen.lose(f"a long client got {answer!r} as answer {got}")
                    break
                got += 1
        except ConnectionResetError:
            self.seen.crossed += 1
        except OSError as error:
            self.seen.lose(f"a long client, reading: {error}")
        self.over = True
        if self.goes_on:
            self.seen.ends += 1
        elif got != len(sent):
            self.seen.lose(f"a long client got {got} answers for {len(sent)} lines")
        self.seen.answers += got
        writer.close()
        await sender

    async def live(self):
        while self.goes_on:
            try:
                await self.connection()
            except OSError as error:
                self.seen.lose(f"a long client, connecting: {error}")
                return


async def ready_port(process):
    line = await process.stdout.readline()
    return int(line.rsplit(b":", 1)[1])


async def restart(process, program, server, broken):
    """Asks for a restart, and waits for what becomes of it."""
    os.unlink(program)
    os.symlink("/bin/false" if broken else server, program)
    process.send_signal(signal.SIGHUP)
    stream = process.stderr if broken else process.stdout
    line = await asyncio.wait_for(stream.readline(), 30)
    expected = b"does not serve" if broken else b" on 127.0.0.1:"
    while broken and expected not in line:
        line = await asyncio.wait_for(stream.readline(), 30)
    if expected not in line:
        raise SystemExit(f"expected a line with {expected!r}, got {line!r}")


async def run(upgrade, server, options, folder):
    seen = Seen()
    program = os.path.join(folder, "server")
    os.symlink(server, program)
    process = await asyncio.create_subprocess_exec(
        upgrade, "0", program, *options, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    try:
        port = await asyncio.wait_for(ready_port(process), 30)
        clients = [LongClient(port, b"long %d" % number, seen) for number in range(LONG)]
        lives = [asyncio.create_task(client.live()) for client in clients]
        shorts = asyncio.create_task(watch_short_clients(port, seen))
        for number in range(RESTARTS):
            while seen.short < SHORT * (number + 1) // (RESTARTS + 2):
                await asyncio.sleep(0.01)
            await restart(process, program, server, number == BROKEN)
        await shorts
        begun = time.monotonic()
        while seen.ends < LONG and time.monotonic() < begun + DRAIN:
            await asyncio.sleep(0.1)
        for client in clients:
            client.goes_on = False
        await asyncio.gather(*lives)
        process.send_signal(signal.SIGTERM)
        status = await asyncio.wait_for(process.wait(), 30)
    finally:
        if process.returncode is None:
            process.kill()
    if status != 0:
        seen.lose(f"the last server ended with {status}")
    if seen.short != SHORT:
        seen.lose(f"{seen.short} of {SHORT} short clients were served")
    if seen.crossed * 20 > seen.ends:
        seen.lose(f"{seen.crossed} of {seen.ends} ends were resets")
    if seen.ends < LONG:
        seen.lose(f"only {seen.ends} long connections have heard the end of a server")
    return seen


def main():
    if sys.argv[1] == "--short":
        short_clients(int(sys.argv[2]))
        return 0
    upgrade, server, options = sys.argv[1], os.path.abspath(sys.argv[2]), sys.argv[3:]
    with tempfile.TemporaryDirectory() as folder:
        seen = asyncio.run(asyncio.wait_for(run(upgrade, server, options, folder), DEADLINE))
    print(f"{os.path.basename(server)}: {seen.short} short clients, {LONG} long ones with {seen.answers} answers "
          f"and {seen.ends} ends, {seen.crossed} of them resets, {len(seen.lost)} losses")
    for what in sorted(set(seen.lost))[:10]:
        print(f"  {seen.lost.count(what)} times: {what}")
    return 1 if seen.lost else 0


if __name__ == "__main__":
    sys.exit(main())
