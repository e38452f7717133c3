"""Asks a server with docs/examples/metrics.c for its metrics, as Prometheus would.

    usage: python3 tests/running/metrics.py SERVER        (it serves --app metrics)

- Samples of one name stand together, behind their type, and say how many clients and messages there are: those
  of whoever asks are among them, as its listener is one of the server's.
- What is held for a client that does not read is there at once, whichever thread asks.
- Whoever connects and asks nothing does not keep the next one waiting.
- A server that is stopped and goes on (SIGSTOP, SIGCONT) answers whoever it waited for.
- A server that stops while it is asked all the time ends in order.
- promtool, Prometheus' own reader, finds nothing to say but that there is no help text. Without it that
  check is skipped, and counted.

Prints what is wrong, and "N passed, N failed, N skipped".
"""

import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import threading
import time

DEADLINE = 30.0
LINE = b"x" * 4000 + b"\n"
REQUEST = b"GET /metrics HTTP/1.1\r\nHost: metrics\r\n\r\n"  # three lines


def wait_until(question, what):
    """Asks until the answer is true."""
    end = time.monotonic() + DEADLINE
    while not question():
        if time.monotonic() > end:
            raise AssertionError(what() if callable(what) else what)
        time.sleep(0.02)


class Server:
    """A server that has printed its first line. Its second port was free a moment ago; if somebody has
    taken it since, the server does not start, and is started with another one."""

    def __init__(self, program):
        for _ in range(10):
            with socket.create_server(("127.0.0.1", 0)) as unused:
                self.metrics_port = unused.getsockname()[1]
            environment = dict(os.environ, METRICS_PORT=str(self.metrics_port))
            self.asked = 0
            self.process = subprocess.Popen(
                [program, "--app", "metrics", "--port", "0", "--send-buffer", "8192",
                 "--max-connections", "8"],
                env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
            first = self.process.stdout.readline()
            if first:
                self.port = int(first.rsplit(":", 1)[1])
                return
        raise AssertionError("the server does not start: " + self.process.stderr.read())

    def client(self):
        """Its system takes little for it, so what it does not read soon is held by the server."""
        client = socket.socket()
        client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 8192)
        client.settimeout(DEADLINE)
        client.connect(("127.0.0.1", self.port))
        client.sendall(b"here\n")
        assert client.makefile("rb").readline() == b"here\n", "the server echoes lines"
        return client

    def ask(self):
        """What the second listener says: status and text."""
        self.asked += 1
        with socket.create_connection(("127.0.0.1", self.metrics_port), DEADLINE) as asks:
            asks.sendall(REQUEST)
            answer = b""
            while piece := asks.recv(65536):
                answer += piece
        head, _, text = answer.decode().partition("\r\n\r\n")
        return int(head.split()[1]), text

    def has_place(self):
        """For whoever asks."""
        try:
            return self.ask()[0] == 200
        except (OSError, ValueError):
            return False

    def sum(self, name):
        """Of the samples of that name; None: there are none."""
        found = re.findall(r"^echo_%s\{part=\"[^\"]*\"\} (\S+)$" % name, self.ask()[1], re.M)
        return sum(map(float, found)) if found else None

    def expect(self, name, fits, what, meanwhile=lambda: None):
        """Asks until the sum fits. One look would be luck: a loop that is held up for 50 ms, be it by a busy
        machine, lets its last answer stand. Before each look `meanwhile` is called."""
        found = []

        def look():
            meanwhile()
            found[:] = [self.sum(name)]
            return found[0] is not None and fits(found[0])

        wait_until(look, lambda: f"{what}, and {name} is {found[0]}")

    def stop(self):
        self.process.send_signal(signal.SIGTERM)
        _, said = self.process.communicate(timeout=DEADLINE)
        assert self.process.returncode == 0, f"the server ends with {self.process.returncode}: {said}"


def says_what_there_is(server):
    clients = [server.client() for _ in range(3)]
    status, text = server.ask()
    assert status == 200 and text.endswith("\n"), f"expected an answer, got {status}: {text}"
    seen, before = set(), None
    for line in text.splitlines():
        name = line.split()[2] if line.startswith("# TYPE ") else line.split("{")[0]
        if name != before:
            assert line.startswith("# TYPE "), f"{name} has no type before it: {line}"
            assert name not in seen, f"{name} stands in two places:\n{text}"
            expected = "counter" if name.endswith("_total") else "gauge"
            assert line.split()[3] == expected, f"{name} should be a {expected}: {line}"
        seen.add(name)
        before = name
    for wanted in "open", "timers", "lag_p99_seconds", "output_held", "memory_held", "accepted_total":
        assert "echo_" + wanted in seen, f"no {wanted} in:\n{text}"
    server.expect("open", lambda sum: sum == 4, "three clients are there, and whoever asks")
    server.expect("messages_total", lambda sum: sum == 3 + 3 * server.asked, "each of three clients has sent a line")
    server.expect("lag_max_seconds", lambda sum: 0 < sum < DEADLINE, "the lag is in seconds")
    said = b""
    while not said.startswith(b"ERR"):
        clients.append(socket.create_connection(("127.0.0.1", server.port), DEADLINE))
        clients[-1].sendall(b"here\n")
        said = clients[-1].makefile("rb").readline()
    assert len(clients) <= 9, "eight have a place, and a ninth is turned away"
    while len(clients) > 2:
        clients.pop().close()
    wait_until(server.has_place, "those who have left are still counted")
    server.expect("open", lambda sum: sum == 3, "all but two have left, and whoever asks is there")
    server.expect("rejected_total", lambda sum: sum >= 1, "a client was turned away")
    for client in clients:
        client.close()


def knows_what_is_held(server):
    with server.client() as client:
        client.setblocking(False)

        def send_what_it_takes():
            """Not only once: a server that has no processor for a while takes nothing either."""
            try:
                for _ in range(1000):
                    client.send(LINE)
            except BlockingIOError:
                pass

        server.expect("output_held", lambda sum: sum > 32768, "nobody reads 64 KiB of answers", send_what_it_takes)
    server.expect("open", lambda sum: sum == 1, "the client has left, and whoever asks is there")
    server.expect("output_held", lambda sum: sum == 0, "nobody is there for whom anything could be held")


def waits_for_nobody(server):
    silent = [socket.create_connection(("127.0.0.1", server.metrics_port), DEADLINE) for _ in range(2)]
    begun = time.monotonic()
    assert server.ask()[0] == 200, "the third one is answered"
    assert time.monotonic() - begun < DEADLINE
    for each in silent:
        each.close()


def waits_in_the_queue(port):
    """How many clients have connected there, and nobody has accepted them: Recv-Q of the listener."""
    with open("/proc/net/tcp", encoding="ascii") as sockets:
        for words in map(str.split, sockets):
            if words[1].endswith(f":{port:04X}") and words[3] == "0A":
                return int(words[4].split(":")[1], 16)
    return 0


def answers_although_it_was_stopped(server):
    """Several times, because the first one may come before the thread is in recv(2)."""
    with server.client() as client, socket.create_connection(("127.0.0.1", server.metrics_port), DEADLINE) as asks:
        wait_until(lambda: waits_in_the_queue(server.metrics_port) == 0, "the client is not accepted")
        for _ in range(5):
            client.sendall(b"goes on\n")
            assert client.makefile("rb").readline() == b"goes on\n"
            server.process.send_signal(signal.SIGSTOP)
            os.waitid(os.P_PID, server.process.pid, os.WSTOPPED | os.WNOWAIT)
            server.process.send_signal(signal.SIGCONT)
        asks.sendall(b"GET /metrics HTTP/1.1\r\n\r\n")
        answer = asks.makefile("rb").read()
    assert answer.startswith(b"HTTP/1.0 200 OK\r\n"), f"got {answer[:80]!r}"


def stops_while_it_is_asked(server):
    over, wrong = threading.Event(), []

    def ask_always():
        while not over.is_set():
            try:
                status = server.ask()[0]
                if status not in (200, 503):
                    wrong.append(status)
            except (OSError, IndexError):
                pass  # it has ended

    askers = [threading.Thread(target=ask_always) for _ in range(3)]
    for asker in askers:
        asker.start()
    with server.client():
        try:
            server.stop()
        finally:
            over.set()
            for asker in askers:
                asker.join()
    assert not wrong, f"got {wrong[0]}"


def promtool_reads_it(server):
    result = subprocess.run(["promtool", "check", "metrics"], input=server.ask()[1], text=True,
                            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False, timeout=DEADLINE)
    rest = [line for line in result.stdout.splitlines() if not line.endswith(" no help text")]
    assert not rest and result.returncode in (0, 3), f"promtool ends with {result.returncode}: {rest}"


def main():
    passed = failed = skipped = 0
    for test in (says_what_there_is, knows_what_is_held, waits_for_nobody, answers_although_it_was_stopped,
                 promtool_reads_it, stops_while_it_is_asked):
        if test is promtool_reads_it and not shutil.which("promtool"):
            print("skipped: metrics/promtool_reads_it: promtool is not installed (package prometheus)")
            skipped += 1
            continue
        server = Server(sys.argv[1])
        try:
            test(server)
            if server.process.returncode is None:
                server.stop()
            passed += 1
        except (AssertionError, OSError, subprocess.TimeoutExpired) as error:
            print(f"metrics: FAILED: metrics/{test.__name__}: {error}")
            failed += 1
        finally:
            if server.process.poll() is None:
                server.process.kill()
                server.process.wait()
    print(f"{passed} passed, {failed} failed, {skipped} skipped")
    return failed != 0


if __name__ == "__main__":
    sys.exit(main())
