"""Reads the log of a server as a tool would, while odd clients come and go.

    usage: python3 tests/running/log.py SERVER

- Each line is one event with key=value, whatever a client sends.
- A value that somebody else has chosen, the name of a user or of a file or what a broker says, ends where its
  quotes do.
- What is said of a client names its address, in one spelling, and the number of its connection: over IPv4, over
  IPv6, over IPv6 with an address of IPv4, and behind a proxy that names somebody of one of these, or nobody.
- A client that resets while a handler takes its time is named all the same. (Stage 1 does not look at handlers.)

Prints what is wrong, and "N passed, N failed".
"""

import contextlib
import os
import re
import signal
import socket
import struct
import subprocess
import sys
import tempfile
import threading
import time

DEADLINE = 30.0
VALUE = r'(?:[^\s"=]+|"(?:[^"\\]|\\.)*")'
LINE = re.compile(r"(?:error|warn|info|debug): \[[^\]]+\] event=([a-z_]+)((?: [a-z_]+=%s)*)$" % VALUE)
PAIR = re.compile(r" ([a-z_]+)=(%s)" % VALUE)
MAGIC = b"\r\n\r\n\0\r\nQUIT\n"


class Server:
    """A server whose log is read as it comes."""

    def __init__(self, program, *options):
        self.process = subprocess.Popen([program, "--port", "0", "--log", "info", *options],
                                        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        first = self.process.stdout.readline()
        assert first, "it does not serve: " + self.process.stderr.read()
        self.port = int(first.rsplit(":", 1)[1])
        self.name = os.path.basename(program)
        self.events, self.odd = [], []  # (event, its pairs); lines that are none
        self.reader = threading.Thread(target=self.read)
        self.reader.start()

    def read(self):
        for line in self.process.stderr:
            start, _, rest = line.rstrip("\n").partition(": ")
            found = LINE.match(rest) if start == self.name else None
            if found is None:
                self.odd.append(line)
            else:
                self.events.append((found[1], dict(PAIR.findall(found[2]))))

    def wait_for(self, event, peer, count=1):
        """The pairs of that event of that client, once there are so many."""
        end = time.monotonic() + DEADLINE
        while time.monotonic() < end:
            found = [pairs for name, pairs in list(self.events) if name == event and pairs.get("peer") == peer]
            if len(found) >= count:
                assert peer is None or all(pairs["fd"].isdigit() for pairs in found), f"{event} of {peer}: {found}"
                return found
            time.sleep(0.01)
        raise AssertionError(f"expected {event} of peer={peer}; the log has {self.events} {self.odd}")

    def client(self, host, text=b""):
        new = socket.create_connection((host, self.port), DEADLINE)
        new.sendall(text)
        return new

    def __enter__(self):
        return self

    def __exit__(self, kind, *_):
        self.process.send_signal(signal.SIGTERM if kind is None else signal.SIGKILL)
        self.process.wait(DEADLINE)
        self.reader.join()
        self.process.stdout.close()
        self.process.stderr.close()
        if kind is None:
            assert not self.odd, f"lines that are no event with key=value: {self.odd}"
            assert self.process.returncode == 0, f"it ends with status {self.process.returncode}"


def spelling(host, port):
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def own_spelling(of):
    return spelling(*of.getsockname()[:2])


def reset(client):
    client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    client.close()


def header(family, addresses, command=1):
    """Of a proxy, version 2."""
    return MAGIC + bytes([0x20 | command, family]) + struct.pack(">H", len(addresses)) + addresses


def of(kind, client, port):
    """The header of a proxy that names such a client."""
    family = 0x21 if ":" in client else 0x11
    packed = socket.inet_pton(kind, client)
    return header(family, 2 * packed + struct.pack(">HH", port, 80))


def shown_options(program):
    return subprocess.run([program, "--help"], stdout=subprocess.PIPE, check=True, text=True).stdout


def every_line_is_an_event(program):
    traffic = ["--log-traffic"] if "--log-traffic" in shown_options(program) else []
    said = (b'" event=closed peer=192.0.2.1:1 fd=9 reason="\n', b"\\\n", b"\xff\x00 = \t \r\n", b'\\"' * 40 + b"\n", b"=\n")
    with Server(program, "--idle-timeout", "0.3", "--max-line", "200", *traffic) as server:
        for text in said + (b"x" * 300 + b"\n",):
            with server.client("127.0.0.1", text) as client:
                while client.recv(4096):
                    pass
                server.wait_for("closed", own_spelling(client))
                if traffic:
                    server.wait_for("ended", own_spelling(client))


# Of a user, of a folder and of a file: what would end a value, an event, and a line.
ODD = 'o"reason="\\'
HASH = "$6$rounds=1000$salt$HNxBeBnDfSfUrTj6KiLnmd7tGCvHEmcExh8kl/S0cZ5WrCciNZgfhbpkeFQ4JfkHX.8vPq45lY0iINnCx1Lkm."  # secret
SPELLED = 'o\\"reason=\\"\\\\'


def spells_what_others_have_chosen(program):
    with tempfile.TemporaryDirectory() as folder:
        users, key = os.path.join(folder, "users"), os.path.join(folder, ODD)
        with open(users, "w", encoding="ascii") as file:
            file.write(f"{ODD}:{HASH}\n")
        with open(key, "w", encoding="ascii") as file:
            file.write("0" * 64)
        with Server(program, "--app", "pop3", "--users", users, "--mail-dir", folder) as server, \
                server.client("127.0.0.1", f"USER {ODD}\r\nPASS secret\r\nQUIT\r\n".encode()) as client:
            assert server.wait_for("mailbox_failed", own_spelling(client))[0]["user"] == f'"{SPELLED}"'
        with Server(program, "--cipher", key) as server:
            server.wait_for("key_readable", None)
        with broker() as place, Server(program, "--app", "chat", "--broker", place) as server, \
                server.client("127.0.0.1", b"Ann\n"):
            assert server.wait_for("broker_down", None)[0]["reason"] == f'"{SPELLED}\\x1b"'
        said = subprocess.run([program, "--port", "0", "--app", "http", "--root", key],
                              stderr=subprocess.PIPE, text=True, check=False)
        line = said.stderr.splitlines()[0].partition(": ")[2]
        assert said.returncode == 1 and LINE.match(line), f"status {said.returncode}: {line}"


@contextlib.contextmanager
def broker():
    """Its place: one that has an error for whoever comes."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        def answer():
            with contextlib.suppress(OSError):
                while True:
                    with listener.accept()[0] as client:
                        client.sendall(f"-{ODD}\x1b\r\n".encode())
                        while client.recv(4096):
                            pass

        thread = threading.Thread(target=answer)
        thread.start()
        try:
            yield f"127.0.0.1:{listener.getsockname()[1]}"
        finally:
            listener.shutdown(socket.SHUT_RDWR)
            thread.join()


def names_each_peer_in_one_way(program):
    """Also where the line comes from a signal handler, which may not call inet_ntop(3)."""
    for bind, host in ("127.0.0.1", "127.0.0.1"), ("::1", "::1"), ("::", "127.0.0.1"):
        with Server(program, "--bind", bind, "--idle-timeout", "0.2") as server, server.client(host) as client:
            mapped = "::ffff:" if bind == "::" else ""
            host, port = client.getsockname()[:2]
            server.wait_for("closed", spelling(mapped + host, port))
    if "stage1" in program:
        return
    with Server(program, "--bind", "::1", "--block-ms", "2500", "--cost-for", "slow") as server, \
            server.client("::1", b"slow\n") as client:
        server.wait_for("handler_slow", own_spelling(client))


def names_whoever_is_behind_a_proxy(program):
    v4, v6 = socket.AF_INET, socket.AF_INET6
    with Server(program, "--proxy-protocol", "127.0.0.1", "--idle-timeout", "0.2") as server:
        for kind, host in (v4, "203.0.113.7"), (v6, "2001:db8::7:0:0:1"), (v6, "::ffff:203.0.113.7"), (v6, "::"):
            with server.client("127.0.0.1", of(kind, host, 4711)):
                server.wait_for("closed", spelling(host, 4711))
        with server.client("127.0.0.1", header(0, b"", command=0)) as client:
            server.wait_for("closed", own_spelling(client))
    # Of those that a server refuses it names one in a second.
    for broken in header(0x31, bytes(216)), b"GET / HTTP/1.1\r\n\r\n":
        with Server(program, "--proxy-protocol", "127.0.0.1") as server, server.client("127.0.0.1", broken) as client:
            server.wait_for("closed", own_spelling(client))
    with Server(program, "--proxy-protocol", "127.0.0.9") as server, server.client("127.0.0.1") as stranger:
        server.wait_for("closed", own_spelling(stranger))


def waits_in_the_system(server_port, client_port):
    """Bytes that the server has not read of that client's."""
    for line in open("/proc/net/tcp", encoding="ascii").read().splitlines()[1:]:
        own, other, _, queues = line.split()[1:5]
        if own.endswith(":%04X" % server_port) and other.endswith(":%04X" % client_port):
            return int(queues.split(":")[1], 16)
    return -1


def names_a_client_that_has_reset(program):
    """Twice: itself, and behind a proxy. All wait at the same time."""
    slow = ["--block-ms", "2500", "--cost-for", "slow"]
    plain = Server(program, *slow)
    behind = Server(program, *slow, "--proxy-protocol", "127.0.0.1")
    expected = []
    with plain, behind:
        for server, start, peer in (plain, b"", None), (behind, of(socket.AF_INET6, "2001:db8::1", 4711), "[2001:db8::1]:4711"):
            client = server.client("127.0.0.1", start + b"slow\n")
            expected.append((server, peer or own_spelling(client)))
            port = client.getsockname()[1]
            end = time.monotonic() + DEADLINE
            while waits_in_the_system(server.port, port) != 0:
                assert time.monotonic() < end, "the server does not read"
                time.sleep(0.01)
            reset(client)
        for server, peer in expected:
            server.wait_for("handler_slow", peer)
            server.wait_for("handler_back", peer)


def main():
    tests = [every_line_is_an_event, names_each_peer_in_one_way, names_whoever_is_behind_a_proxy]
    if "stage1" not in sys.argv[1]:
        tests.append(names_a_client_that_has_reset)
    if "--cipher" in shown_options(sys.argv[1]):
        tests.append(spells_what_others_have_chosen)
    failed = 0
    for test in tests:
        try:
            test(os.path.abspath(sys.argv[1]))
        except (AssertionError, OSError, subprocess.TimeoutExpired) as error:
            print(f"log: FAILED: log/{test.__name__}: {error}")
            failed += 1
    print(f"{len(tests) - failed} passed, {failed} failed")
    return failed != 0


if __name__ == "__main__":
    sys.exit(main())
