"""Starts a server as a service manager does, which has opened its listener: LISTEN_PID, LISTEN_FDS, descriptor 3.

    usage: python3 tests/running/listener.py SERVER

- A listener that is given is taken, whatever --bind and --port say, and with whoever waits in it.
- When the server stops, those who wait in it are the next server's, and get their answer there.
- It serves below systemd-socket-activate, which opens listeners as systemd does, over TCP and in the file system.
  Without that tool this check is skipped, and counted.
- What was meant for another process is left alone: the server opens its own listener.
- Another number than one descriptor, or a descriptor 3 on which nobody can listen, is an error that names the
  cause, with status 1, and nothing on standard output.

Prints what is wrong, and "N passed, N failed, N skipped".
"""

import contextlib
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import tempfile

DEADLINE = 30.0
GIVEN = 3
OWN = "$$"  # of the shell that becomes the server
WAITING = 100  # more than any server accepts in a round


class Server:
    """A server that was started with that as its descriptor 3 (None: closed)."""

    def __init__(self, program, given, pid=OWN, count="1", options=()):
        environment = {name: value for name, value in os.environ.items() if not name.startswith("LISTEN_")}
        if count is not None:
            environment["LISTEN_FDS"] = count
        takes_pid = ["sh", "-c", f'LISTEN_PID="{pid}" exec "$@"', "sh"] if pid is not None else []
        if given is not None:
            os.dup2(given, GIVEN, inheritable=True)
        self.process = subprocess.Popen(
            [*takes_pid, program, "--port", "0", *options], env=environment,
            pass_fds=() if given is None else (GIVEN,), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        self.first = self.process.stdout.readline()

    def port(self):
        assert self.first, "it does not serve: " + self.process.stderr.read()
        return int(self.first.rsplit(":", 1)[1])

    def stop(self, is_told=False):
        """SIGTERM, unless that was sent already: a second one kills. What it has said."""
        if not is_told:
            self.process.send_signal(signal.SIGTERM)
        said = self.process.communicate(timeout=DEADLINE)[1]
        assert self.process.returncode == 0, f"a stop ends with status {self.process.returncode}: {said}"
        return said

    def refusal(self):
        """What it says; it must not serve."""
        assert self.first == "", f"it says: {self.first}"
        said = self.process.communicate(timeout=DEADLINE)[1]
        assert self.process.returncode == 1, f"expected status 1, got {self.process.returncode}: {said}"
        return said

    def __enter__(self):
        return self

    def __exit__(self, *_):
        if self.process.poll() is None:
            self.process.kill()
            self.process.wait()
        self.process.stdout.close()
        self.process.stderr.close()


@contextlib.contextmanager
def listening(family=socket.AF_INET, place=("127.0.0.1", 0)):
    with socket.socket(family) as listener:
        listener.bind(place)
        listener.listen(WAITING)
        yield listener


def port_of(listener):
    return listener.getsockname()[1]


def client(port, text):
    """Has connected and sent it."""
    new = socket.create_connection(("127.0.0.1", port), DEADLINE)
    new.sendall(text)
    return new


def expect_echo(of, text):
    got = of.makefile("rb").readline()
    assert got == text, f"sent {text!r}, got {got!r}"


def takes_what_is_given_with_whoever_waits_in_it(program):
    with listening() as listener, client(port_of(listener), b"I was here first\n") as early:
        with Server(program, listener.fileno(), options=["--bind", "127.0.0.99"]) as server:
            assert server.port() == port_of(listener), f"it says {server.first}"
            expect_echo(early, b"I was here first\n")
            with client(port_of(listener), b"hello\n") as late:
                expect_echo(late, b"hello\n")
            early.close()
            server.stop()


def takes_one_in_the_file_system(program):
    with tempfile.TemporaryDirectory() as folder:
        place = os.path.join(folder, "place")
        with listening(socket.AF_UNIX, place) as listener, Server(program, listener.fileno()) as server:
            assert server.first, "it does not serve"
            with socket.socket(socket.AF_UNIX) as near:
                near.settimeout(DEADLINE)
                near.connect(place)
                near.sendall(b"hello\n")
                expect_echo(near, b"hello\n")
            server.stop()


def below_systemd(program, place, *options):
    """The server that systemd-socket-activate becomes when the first client comes; None: somebody listens there."""
    process = subprocess.Popen(["systemd-socket-activate", "--listen", place, program, "--stats", *options],
                               stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    for line in process.stderr:
        if line.startswith("Listening on "):
            return process
    process.communicate(timeout=DEADLINE)
    return None


def serves_below(process, new):
    with process:
        try:
            with new() as first, new() as second:
                for each, text in (first, b"I start it\n"), (second, b"I do not\n"):
                    each.sendall(text)
                    expect_echo(each, text)
                assert process.stdout.readline(), "no first line"
            process.send_signal(signal.SIGTERM)
            said = process.communicate(timeout=DEADLINE)[1]
            assert process.returncode == 0 and " messages=2 " in said, f"status {process.returncode}: {said}"
        finally:
            process.kill()


def serves_below_a_service_manager(program):
    with tempfile.TemporaryDirectory() as folder:
        place = os.path.join(folder, "place")

        def near():
            client = socket.socket(socket.AF_UNIX)
            client.settimeout(DEADLINE)
            client.connect(place)
            return client

        serves_below(below_systemd(program, place), near)
    for _ in range(10):
        with listening() as unused:
            port = port_of(unused)
        if process := below_systemd(program, f"127.0.0.1:{port}", "--port", "1", "--bind", "127.0.0.99"):
            serves_below(process, lambda: socket.create_connection(("127.0.0.1", port), DEADLINE))
            return
    raise AssertionError("systemd-socket-activate does not listen")


def leaves_whoever_waits_to_the_next_one(program):
    """They have connected, and when the server goes on it finds them and SIGTERM at the same moment. It may still
    accept as many as it accepts in a round, and answers those."""
    with listening() as listener, contextlib.ExitStack() as opened:
        with Server(program, listener.fileno(), options=["--stats"]) as server:
            server.port()
            server.process.send_signal(signal.SIGSTOP)
            os.waitid(os.P_PID, server.process.pid, os.WSTOPPED | os.WNOWAIT)
            clients = [opened.enter_context(client(port_of(listener), b"number %d\n" % i)) for i in range(WAITING)]
            server.process.send_signal(signal.SIGTERM)
            server.process.send_signal(signal.SIGCONT)
            answered = int(re.search(r" messages=(\d+)", server.stop(is_told=True))[1])
        assert answered < WAITING, "it has emptied the queue, although the next server would have done so"
        with Server(program, listener.fileno()) as following:
            following.port()
            for i, each in enumerate(clients):
                expect_echo(each, b"number %d\n" % i)
                each.close()
            following.stop()


def leaves_alone_what_is_for_another_process(program):
    for pid in (None, "", "1", "-1", "0", "none", str(os.getpid()), "99999999999999999999", OWN + "x", OWN + " ", " " + OWN,
                "+" + OWN):
        with listening() as listener:
            with Server(program, listener.fileno(), pid) as server:
                assert server.port() != port_of(listener), f"it takes what LISTEN_PID={pid} was given"
                server.stop()


def leaves_alone_what_is_for_nobody(program):
    with listening() as listener:
        with Server(program, listener.fileno(), count=None) as server:
            assert server.port() != port_of(listener), "it takes a descriptor without LISTEN_FDS"
            server.stop()


def refuses_another_number_than_one(program):
    for count in ("0", "2", "-1", "", "one", "1 ", "10", "99999999999999999999"):
        with listening() as listener:
            with Server(program, listener.fileno(), count=count) as server:
                wanted = f": LISTEN_FDS: expected 1 descriptor, got '{count}'\n"
                said = server.refusal()
                assert said.endswith(wanted) and said.count("\n") == 1, f"expected `{wanted}`, got `{said}`"


def refuses_what_is_no_listener(program):
    with contextlib.ExitStack() as opened:
        keep = opened.enter_context
        bound = keep(socket.socket())
        bound.bind(("127.0.0.1", 0))
        connected = keep(client(port_of(keep(listening())), b""))
        datagrams = keep(socket.socket(socket.AF_INET, socket.SOCK_DGRAM))
        datagrams.bind(("127.0.0.1", 0))
        pipe = os.pipe()
        opened.callback(lambda: [os.close(end) for end in pipe])
        cases = {
            "nothing": None,
            "a file": keep(open(__file__, "rb")).fileno(),
            "a pipe": pipe[0],
            "a socket for datagrams": datagrams.fileno(),
            "a socket that only has its address": bound.fileno(),
            "a connection": connected.fileno(),
        }
        for what, given in cases.items():
            with Server(program, given) as server:
                said = server.refusal()
                assert ": cannot listen on descriptor 3, which LISTEN_FDS names: " in said and said.count("\n") == 1, \
                    f"descriptor 3 is {what}; it says `{said}`"


def main():
    tests = (takes_what_is_given_with_whoever_waits_in_it, takes_one_in_the_file_system, serves_below_a_service_manager,
             leaves_whoever_waits_to_the_next_one, leaves_alone_what_is_for_another_process, leaves_alone_what_is_for_nobody,
             refuses_another_number_than_one, refuses_what_is_no_listener)
    os.dup2(os.open(os.devnull, os.O_RDONLY), GIVEN)  # so nothing else of ours is descriptor 3
    failed = skipped = 0
    for test in tests:
        if test is serves_below_a_service_manager and not shutil.which("systemd-socket-activate"):
            print(f"skipped: listener/{test.__name__}: systemd-socket-activate is not installed (package systemd)")
            skipped += 1
            continue
        try:
            test(os.path.abspath(sys.argv[1]))
        except (AssertionError, OSError, ValueError, subprocess.TimeoutExpired) as error:
            print(f"listener: FAILED: listener/{test.__name__}: {error}")
            failed += 1
    print(f"{len(tests) - failed - skipped} passed, {failed} failed, {skipped} skipped")
    return failed != 0


if __name__ == "__main__":
    sys.exit(main())
