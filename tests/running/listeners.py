"""Starts a server with tests/running/two.c: echo at its listener, and another application at a second one.

    usage: python3 tests/running/listeners.py SERVER

- Clients of each listener are served by its own application, all at once.
- Both take their clients in turns: a crowd at one does not keep out those at the other.
- A limit of connections counts both, whether those above it are turned away or wait.
- Without descriptors both rest, nobody spins, and both go on when there are some.
- A stop answers those who wait at either listener, ends the clients of both, and both are closed.
- A place in use, and what does not fit together, is an error in words with status 1; nobody is served then.
- A listener that was given is the first one.

Prints what is wrong, and "N passed, N failed".
"""

import contextlib
import os
import re
import resource
import select
import signal
import socket
import subprocess
import sys
import tempfile
import time

DEADLINE = 30.0
CROWD = 60  # more than any server accepts in a round
BUSY = b"ERR server busy\n"
TAKES_PID = ["sh", "-c", 'LISTEN_PID=$$ LISTEN_FDS=1 exec "$@"', "sh"]


class Server:
    def __init__(self, program, *options, second="0", wrong=None, given=None):
        environment = dict(os.environ, SECOND=second)
        if wrong is not None:
            environment["WRONG"] = wrong
        if given is not None:
            os.dup2(given, 3, inheritable=True)
        self.process = subprocess.Popen(
            (TAKES_PID if given is not None else []) +
            [program, "--app", "two", "--port", "0", "--log", "info", "--stats", *options], env=environment,
            pass_fds=() if given is None else (3,), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        self.first = self.process.stdout.readline()
        self.port = self.second = self.place = None
        if self.first:
            self.port = int(self.first.rsplit(":", 1)[1])
            said = self.process.stderr.readline()
            while "event=listens " not in said:
                assert said, "it does not say where its second listener is"
                said = self.process.stderr.readline()
            self.place = re.search(r"address=(\S+)", said)[1]
            if second[0] != "/":
                self.second = int(self.place.rsplit(":", 1)[1])

    def ports(self):
        assert self.first, "it does not serve: " + self.process.stderr.read()
        return self.port, self.second

    def signal(self, number):
        self.process.send_signal(number)

    def held(self):
        """While it stands still."""
        self.signal(signal.SIGSTOP)
        os.waitid(os.P_PID, self.process.pid, os.WSTOPPED | os.WNOWAIT)

    def processor_ticks(self):
        with open(f"/proc/{self.process.pid}/stat") as stat:
            fields = stat.read().rsplit(")", 1)[1].split()
        return int(fields[11]) + int(fields[12])

    def ended(self):
        """After a stop that was asked for: what it has said."""
        said = self.process.communicate(timeout=DEADLINE)[1]
        assert self.process.returncode == 0, f"a stop ends with status {self.process.returncode}: {said}"
        return said

    def refusal(self):
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


class Client:
    def __init__(self, port, first=b""):
        self.socket = socket.create_connection(("127.0.0.1", port), DEADLINE)
        self.file = self.socket.makefile("rb")
        self.say(first)

    def say(self, text):
        self.socket.sendall(text)

    def expect(self, text, why):
        got = self.file.readline()
        assert got == text, f"{why}: expected {text!r}, got {got!r}"

    def expect_end(self, why):
        """In order, so not with a reset."""
        try:
            got = self.file.read()
        except ConnectionError as error:
            raise AssertionError(f"{why}: {error}") from error
        assert got == b"", f"{why}: expected the end, got {got!r}"

    def expect_nothing(self, seconds, why):
        assert not select.select([self.socket], [], [], seconds)[0], f"{why}: got {self.socket.recv(100)!r}"

    def close(self):
        self.file.close()
        self.socket.close()


def clients(opened, ports, first=b""):
    """One at each of these."""
    return [opened.enter_context(contextlib.closing(Client(port, first))) for port in ports]


def expect_answers(both, text, why):
    both[0].expect(text, f"the first application's client {why}")
    both[1].expect(b"second: " + text, f"the second application's client {why}")


def is_closed(port):
    try:
        socket.create_connection(("127.0.0.1", port), DEADLINE).close()
    except ConnectionRefusedError:
        return True
    except ConnectionResetError:  # it was closed in the middle of this
        return False
    return False


def serves_each_with_its_own_application(program, opened):
    with Server(program) as server:
        all_of_them = [clients(opened, server.ports(), b"here %d\n" % i) for i in range(20)]
        for _ in range(3):
            for i, both in enumerate(all_of_them):
                expect_answers(both, b"here %d\n" % i, "is answered")
                for each in both:
                    each.say(b"here %d\n" % i)
        server.signal(signal.SIGTERM)
        said = server.ended()
        assert " second_ended=20" in said, f"expected 20 handlers of the second one to hear of their end: {said}"


def takes_clients_in_turns(program, opened):
    """A crowd has connected to one, and one client to the other, before the server looks."""
    for crowded in range(2):
        with Server(program, "--max-connections", str(CROWD // 2)) as server:
            server.held()
            clients(opened, [server.ports()[crowded]] * CROWD, b"one of many\n")
            alone, = clients(opened, [server.ports()[1 - crowded]], b"alone\n")
            server.signal(signal.SIGCONT)
            got = alone.file.readline()
            assert got.endswith(b"alone\n"), f"expected an answer although many are at the other, got {got!r}"


def counts_both(program, opened):
    with Server(program, "--max-connections", "2") as server:
        both = clients(opened, server.ports(), b"in\n")
        expect_answers(both, b"in\n", "is in")
        for port in server.ports():
            above, = clients(opened, [port])
            above.expect(BUSY, "above the limit")
            above.expect_end("above the limit")
        server.signal(signal.SIGTERM)
        assert " rejected=2" in server.ended()


def lets_both_wait(program, opened):
    with Server(program, "--max-connections", "1", "--overload", "wait") as server:
        alone, = clients(opened, server.ports()[1:], b"in\n")
        alone.expect(b"second: in\n", "is in")
        waiting = clients(opened, server.ports(), b"waits\n")
        for each in waiting:
            each.expect_nothing(0.2, "there is no place for it")
        alone.close()
        ready = select.select([each.socket for each in waiting], [], [], DEADLINE)[0]
        assert len(ready) == 1, f"expected one of those who wait to be served, got {len(ready)}"
        if ready[0] is waiting[1].socket:
            waiting[1].expect(b"second: waits\n", "there is a place now")
            waiting[1].close()
        else:
            waiting[0].expect(b"waits\n", "there is a place now")
            waiting[0].close()
            waiting[1].expect(b"second: waits\n", "there is a place again")
            return
        waiting[0].expect(b"waits\n", "there is a place again")


def rests_without_descriptors(program, opened):
    """The limit is below what it has open, so even its reserve is of no use."""
    with Server(program) as server:
        before = clients(opened, server.ports(), b"early\n")
        expect_answers(before, b"early\n", "comes early")
        usual = resource.prlimit(server.process.pid, resource.RLIMIT_NOFILE)
        resource.prlimit(server.process.pid, resource.RLIMIT_NOFILE, (4, usual[1]))
        both = clients(opened, server.ports(), b"late\n")
        begun, ticks = time.monotonic(), server.processor_ticks()
        for each in both:
            each.expect_nothing(0.5, "there is no descriptor for it")
        for each in before:
            each.say(b"still here\n")
        expect_answers(before, b"still here\n", "is served while others cannot be accepted")
        share = (server.processor_ticks() - ticks) / os.sysconf("SC_CLK_TCK") / (time.monotonic() - begun)
        assert share < 0.1, f"it is busy for {share:.0%} of the time, although it can accept nobody"
        resource.prlimit(server.process.pid, resource.RLIMIT_NOFILE, usual)
        expect_answers(both, b"late\n", "is served when there are descriptors again")


def answers_those_who_wait_when_it_stops(program, opened):
    """They have connected, to more than are accepted in a round, and are found together with SIGTERM."""
    with Server(program, "--drain-timeout", str(int(DEADLINE))) as server:
        early = clients(opened, server.ports(), b"early\n")
        expect_answers(early, b"early\n", "comes early")
        server.held()
        for each in early:
            each.say(b"last\nand half a li")
        waiting = [clients(opened, server.ports(), b"waits\n") for _ in range(CROWD)]
        server.signal(signal.SIGTERM)
        server.signal(signal.SIGCONT)
        expect_answers(early, b"last\n", "has sent a line before the stop")
        for both in waiting:
            expect_answers(both, b"waits\n", "has connected before the stop")
        for both in [early, *waiting]:
            for each in both:
                each.expect_end("the server has stopped")
        assert f" second_ended={1 + CROWD}" in server.ended(), "handlers of the second one did not hear of their end"


def closes_both_as_soon_as_it_stops(program, opened):
    """One client does not read, so the server is still there when its listeners are not."""
    with Server(program, "--send-buffer", "8192", "--drain-timeout", str(int(DEADLINE))) as server:
        with socket.socket() as stubborn:
            stubborn.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 8192)
            stubborn.connect(("127.0.0.1", server.port))
            stubborn.setblocking(False)
            with contextlib.suppress(BlockingIOError):
                while True:
                    stubborn.send(b"x" * 4000 + b"\n")
            server.signal(signal.SIGTERM)
            deadline = time.monotonic() + DEADLINE / 2
            for port, which in zip(server.ports(), ("first", "second")):
                while not is_closed(port):
                    assert time.monotonic() < deadline, f"the {which} listener is still there"
                    time.sleep(0.02)
            assert server.process.poll() is None, "it does not wait for the client that does not read"
        server.ended()


def refuses_a_place_in_use(program, opened):
    with Server(program) as server:
        for taken in server.ports():
            with Server(program, second=str(taken)) as late:
                said = late.refusal()
                wanted = f": cannot listen on 127.0.0.1:{taken} for second: Address already in use\n"
                assert wanted in said, f"expected `{wanted}`, got `{said}`"
        both = clients(opened, server.ports(), b"hello\n")
        expect_answers(both, b"hello\n", "is served as before")


def refuses_what_does_not_fit(program, opened):
    for wrong, wanted in (("needs", "among the needs of the application that has it listen"),
                          ("max_message", "expected the max_message of the application")):
        with Server(program, wrong=wrong) as server:
            said = server.refusal()
            assert ": cannot open second: " in said and wanted in said, f"expected `{wanted}`, got `{said}`"


def takes_a_place_in_the_file_system(program, opened):
    folder = opened.enter_context(tempfile.TemporaryDirectory())
    place = os.path.join(folder, "place")
    with Server(program, second=place) as server:
        assert server.place == place, f"it says {server.place}"
        near = opened.enter_context(socket.socket(socket.AF_UNIX))
        near.settimeout(DEADLINE)
        near.connect(place)
        near.sendall(b"hello\n")
        assert near.makefile("rb").readline() == b"second: hello\n", "the second application serves it"
        server.signal(signal.SIGTERM)
        server.ended()
        assert not os.path.exists(place), "the file of the second listener is still there"


def is_second_to_one_that_was_given(program, opened):
    given = opened.enter_context(socket.create_server(("127.0.0.1", 0)))
    with Server(program, given=given.fileno()) as server:
        assert server.port == given.getsockname()[1], f"it says {server.first}"
        both = clients(opened, server.ports(), b"hello\n")
        expect_answers(both, b"hello\n", "is served")
        server.signal(signal.SIGTERM)
        for each in both:
            each.expect_end("the server has stopped")
        server.ended()
        assert is_closed(server.second), "the second listener is still there"
        clients(opened, [server.port])  # waits for the next server


def main():
    failed = 0
    tests = (serves_each_with_its_own_application, takes_clients_in_turns, counts_both, lets_both_wait,
             rests_without_descriptors, answers_those_who_wait_when_it_stops, closes_both_as_soon_as_it_stops,
             refuses_a_place_in_use, refuses_what_does_not_fit, takes_a_place_in_the_file_system, is_second_to_one_that_was_given)
    os.dup2(os.open(os.devnull, os.O_RDONLY), 3)  # so nothing else of ours is descriptor 3
    for test in tests:
        try:
            with contextlib.ExitStack() as opened:
                test(sys.argv[1], opened)
        except (AssertionError, OSError, subprocess.TimeoutExpired) as error:
            print(f"listeners: FAILED: listeners/{test.__name__}: {error}")
            failed += 1
    print(f"{len(tests) - failed} passed, {failed} failed")
    return failed != 0


if __name__ == "__main__":
    sys.exit(main())
