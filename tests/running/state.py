"""Restarts a chat and a store by docs/examples/upgrade.c, and shows what is lost and who is told (docs/running.md).

    usage: python3 tests/running/state.py UPGRADE SERVER

The old server is stopped (SIGSTOP) while the new one starts, so both are there for as long as a test wants. When
the old one goes on, SIGTERM and what its clients have sent meanwhile wait for it.

- Chat: each member reads that the server stops, and then the end of the stream. Each of the two servers has
  members of its own, who do not hear the others. Names are free on the new one at once.
- Store: whoever waits, subscribes or is in a transaction reads the end of the stream and nothing else. All
  keys are gone, and as long as both servers run each has its own.

Prints what is wrong, and "N passed, N failed".
"""

import os
import signal
import socket
import subprocess
import sys

DEADLINE = 30.0


class Servers:
    """A server that runs below the parent, and the one that follows it."""

    def __init__(self, upgrade, program, *options):
        self.parent = subprocess.Popen([upgrade, "0", program, *options], stdout=subprocess.PIPE, text=True)
        self.port = int(self.first_line().rsplit(":", 1)[1])
        self.old = self.children()[0]

    def first_line(self):
        line = self.parent.stdout.readline()
        assert line, "it does not serve"
        return line

    def children(self):
        pid = self.parent.pid
        with open(f"/proc/{pid}/task/{pid}/children", encoding="ascii") as children:
            return [int(child) for child in children.read().split()]

    def start_the_new_one(self):
        """The old one stands still, and has not seen yet that it is to stop."""
        os.kill(self.old, signal.SIGSTOP)
        while open(f"/proc/{self.old}/stat", encoding="ascii").read().rpartition(")")[2].split()[0] != "T":
            pass
        self.parent.send_signal(signal.SIGHUP)
        self.first_line()

    def let_the_old_one_stop(self):
        os.kill(self.old, signal.SIGCONT)

    def __enter__(self):
        return self

    def __exit__(self, kind, *_):
        if kind is not None:
            for child in self.children():
                os.kill(child, signal.SIGKILL)
        self.parent.send_signal(signal.SIGTERM)
        status = self.parent.wait(DEADLINE)
        self.parent.stdout.close()
        assert kind is not None or status == 0, f"it ends with status {status}"


class Client:
    def __init__(self, port):
        self.socket = socket.create_connection(("127.0.0.1", port), DEADLINE)
        self.input = self.socket.makefile("rb")

    def send(self, text):
        self.socket.sendall(text)

    def expect(self, *lines):
        for line in lines:
            got = self.input.readline()
            assert got == line, f"expected {line!r}, got {got!r}"

    def expect_end(self):
        rest = self.input.read()
        assert rest == b"", f"expected the end of the stream, got {rest!r}"
        self.socket.close()
        self.input.close()


STOPS = b"* this server stops; come again\n"


def member(port, number, nick):
    """Has said its name. `number` is the one that the server gives it first."""
    client = Client(port)
    client.send(b"/nick %s\n" % nick)
    client.expect(b"* welcome, you are user%d; /help tells more\n" % number, b"* you are %s\n" % nick)
    return client


def members_are_told_and_come_again(upgrade, program):
    with Servers(upgrade, program, "--app", "chat") as servers:
        ann = member(servers.port, 1, b"Ann")
        bob = member(servers.port, 2, b"Bob")
        ann.expect(b"* user2 is here\n", b"* user2 is now Bob\n")
        ann.send(b"hello\n")
        bob.expect(b"[Ann] hello\n")
        servers.start_the_new_one()
        ann_again = member(servers.port, 1, b"Ann")
        bob.send(b"is anybody here?\n")
        ann_again.send(b"I am\n")
        ann_again.send(b"/who\n")
        ann_again.expect(b"* 1 here\n", b"* Ann\n")
        servers.let_the_old_one_stop()
        bob.expect(STOPS)
        bob.expect_end()
        heard = ann.input.read().replace(b"[Bob] is anybody here?\n", b"", 1)  # what meets the stop she hears or not
        assert heard == STOPS, f"Ann reads {heard!r}"
        bob_again = member(servers.port, 2, b"Bob")
        ann_again.expect(b"* user2 is here\n", b"* user2 is now Bob\n")
        ann_again.send(b"here I am\n")
        bob_again.expect(b"[Ann] here I am\n")
        for each in ann_again, bob_again:
            each.send(b"/quit\n")


def keys_are_gone_and_nobody_is_told(upgrade, program):
    with Servers(upgrade, program, "--app", "store") as servers:
        writer, waiter, subscriber, half = (Client(servers.port) for _ in range(4))
        writer.send(b"SET k old\r\n")
        writer.expect(b"+OK\r\n")
        waiter.send(b"ECHO waits\r\nBLPOP q 0\r\n")
        waiter.expect(b"$5\r\n", b"waits\r\n")
        subscriber.send(b"SUBSCRIBE c\r\n")
        subscriber.expect(b"*3\r\n", b"$9\r\n", b"subscribe\r\n", b"$1\r\n", b"c\r\n", b":1\r\n")
        half.send(b"MULTI\r\nSET k half\r\n")
        half.expect(b"+OK\r\n", b"+QUEUED\r\n")
        servers.start_the_new_one()
        late = Client(servers.port)
        late.send(b"GET k\r\nRPUSH q new\r\nPUBLISH c new\r\n")
        late.expect(b"$-1\r\n", b":1\r\n", b":0\r\n")
        writer.send(b"GET k\r\nSET k lost\r\n")
        servers.let_the_old_one_stop()
        writer.expect(b"$3\r\n", b"old\r\n", b"+OK\r\n")
        for each in writer, waiter, subscriber, half:
            each.expect_end()
        late.send(b"GET k\r\nLLEN q\r\nQUIT\r\n")
        late.expect(b"$-1\r\n", b":1\r\n", b"+OK\r\n")
        late.expect_end()


def main():
    upgrade, program = map(os.path.abspath, sys.argv[1:3])
    tests = members_are_told_and_come_again, keys_are_gone_and_nobody_is_told
    failed = 0
    for test in tests:
        try:
            test(upgrade, program)
        except (AssertionError, OSError, ValueError, subprocess.TimeoutExpired) as error:
            print(f"state: FAILED: state/{test.__name__}: {error}")
            failed += 1
    print(f"{len(tests) - failed} passed, {failed} failed")
    return failed != 0


if __name__ == "__main__":
    sys.exit(main())
