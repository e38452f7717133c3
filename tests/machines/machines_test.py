#!/usr/bin/env python3
"""Tests the chat on several machines: HAProxy in front, redis behind, and every failure of them.

    usage: tests/machines/machines_test.py [--short] [--stage N] [NAME...]

Each test is a process with machines of its own (lab.py), several at a time because they mostly wait;
one that takes longer than its deadline is ended. --short leaves out those that are only in `make
test-machines`. A test that needs cables is skipped where network namespaces are not permitted; with
MACHINES_ON=namespaces in the environment that is a failure.
"""

import argparse
import concurrent.futures
import contextlib
import os
import re
import signal
import socket
import subprocess
import sys
import threading
import time

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import lab as labs  # noqa: E402
from lab import Lab, Missed, until  # noqa: E402

AT_A_TIME = 3
DEADLINE = 120  # seconds for one test, on a machine that is busy
SKIPPED = 77

TESTS = {}


def test(short=False, cables=False, stages=(5,)):
    """Marks a test: whether it is in the short form, whether it needs cables, with which stages."""
    def mark(function):
        function.short, function.cables, function.stages = short, cables, stages
        TESTS[function.__name__] = function
        return function
    return mark


def expect(condition, what):
    if not condition:
        raise Missed(what)


class Talk:
    """Somebody says a number every few milliseconds, in a thread of his own, until it is enough."""

    def __init__(self, user, every=0.01):
        self.user = user
        self.every = every
        self.over = threading.Event()
        self.fault = None
        self.thread = threading.Thread(target=self.run, daemon=True)

    def run(self):
        try:
            while not self.over.wait(self.every):
                self.user.say()
        except OSError as fault:
            self.fault = fault

    def __enter__(self):
        self.thread.start()
        return self

    def __exit__(self, *_):
        self.over.set()
        self.thread.join()

    def await_said(self, more):
        enough = self.user.said + more
        until(lambda: self.user.said >= enough or self.fault, f"{self.user.nick} talks")
        expect(not self.fault, f"{self.user.nick} cannot talk: {self.fault}")


def expect_all(hearer, speaker, first=1):
    """Everything from a number on was heard, in order and once."""
    wanted = list(range(first, speaker.said + 1))
    with_end = lambda: hearer.numbers_of(speaker)[-1:] == wanted[-1:]  # noqa: E731
    until(with_end, f"{hearer.nick} hears {speaker.nick}'s last line")
    heard = [number for number in hearer.numbers_of(speaker) if number >= first]
    expect(heard == wanted, f"{hearer.nick} has heard {len(heard)} of {len(wanted)} lines of "
                            f"{speaker.nick}: missing {sorted(set(wanted) - set(heard))[:5]}, "
                            f"more than once {len(heard) - len(set(heard))}, "
                            f"in order {heard == sorted(heard)}")


# ---- HAProxy in front ----------------------------------------------------------------------------


@test(short=True, stages=(4, 5))
def users_are_spread(stage):
    """Nine users on three servers: three each."""
    with Lab(stage=stage, broker=False) as lab:
        for i in range(9):
            lab.user(f"user_{i}", lab.balancer)
        found = [int(lab.balancer.table()[server.name]["scur"]) for server in lab.servers]
        expect(found == [3, 3, 3], f"three each, and not {found}")


@test(short=True)
def the_page_shows_the_configuration(stage):
    """What docs/balancer.md shows of it is in it."""
    del stage
    with open(os.path.join(labs.TOP, "docs", "balancer.md"), encoding="utf-8") as page, \
            open(labs.CONFIGURATION, encoding="utf-8") as file:
        shown = re.findall(r"^```haproxy\n(.*?)^```", page.read(), re.S | re.M)
        text = file.read()
    expect(shown and all(block in text for block in shown), "docs/balancer.md shows something else")


@test(short=True)
def servers_know_whose_connection_it_is(stage):
    """HAProxy says it in a PROXY header of version 2, and nobody else can."""
    with Lab(stage=stage, broker=False, options=["--log-traffic"]) as lab:
        ann = lab.user("ann", lab.balancer)
        source = "%s:%d" % ann.socket.getsockname()[:2]
        until(lambda: any(f"peer={source} " in server.said() for server in lab.servers),
              f"a server says that {source} has come")


@test(short=True)
def checks_are_no_users(stage):
    """HAProxy's checks come every second, and nobody in the chat hears of them."""
    with Lab(stage=stage, broker=False) as lab:
        ann = lab.user("ann", lab.servers[0])
        until(lambda: lab.balancer.table()["a"]["check_status"] == "L4OK", "a check has passed")
        before = len(ann.heard)
        time.sleep(1.2)  # one more, at least
        expect(len(ann.heard) == before, f"ann hears {ann.heard[before:]}")
        expect(not re.search("warn|proxy", lab.servers[0].said()), lab.servers[0].said())


@test(short=True)
def a_target_refuses(stage):
    """The server is gone and HAProxy does not know yet: the next one is tried, nobody is refused."""
    with Lab(stage=stage, broker=False) as lab:
        lab.servers[0].kill()
        for i in range(6):
            lab.user(f"user_{i}", lab.balancer)
        lab.balancer.expect_status(lab.servers[0], "DOWN")
        lab.servers[0].start()
        lab.balancer.expect_status(lab.servers[0], "UP$")
        lab.user("late", lab.balancer)
        expect(lab.balancer.table()["a"]["scur"] == "1", "the server that is back is the next one")


@test(short=True)
def haproxy_reloads(stage):
    """Ann talks through HAProxy, and others come, while it reloads three times."""
    with Lab(stage=stage, broker=False) as lab:
        for server in lab.servers[1:]:
            lab.balancer.drain(server)
        ann, bob = lab.user("ann", lab.balancer), lab.user("bob", lab.balancer)
        with Talk(ann) as talk:
            for _ in range(3):
                lab.balancer.reload()
                for _ in range(10):
                    lab.user("", lab.balancer)
                talk.await_said(20)
        expect_all(bob, ann)
        expect(ann.open and bob.open, "nobody was disconnected")


# ---- redis behind --------------------------------------------------------------------------------

OUT_OF_REACH = r"^\* the other servers are out of reach"
IN_REACH = r"^\* the other servers are in reach again"
NOT_SENT = r"(\d+) lines? from here did not reach the other servers$"
NOT_HEARD = r"(\d+) lines? from other servers did not arrive$"


def three_users(lab):
    """Ann and Amy on the first server, Bob on the second; all know of each other."""
    ann, amy = lab.user("ann", lab.servers[0]), lab.user("amy", lab.servers[0])
    bob = lab.user("bob", lab.servers[1])
    bob.say()
    ann.expect(r"^\[bob\] 1$")
    ann.say()
    bob.expect(r"^\[ann\] 1$")
    for user in (ann, bob):
        await_all(user, 3)  # a list of users follows the first line within 0.2 s
    return ann, amy, bob


def await_all(user, count):
    """Until the user's server knows of so many users, here and elsewhere."""
    def asked():
        user.send("/who")
        return int(re.search(r"\d+", user.expect(r"^\* \d+ here")).group()) == count
    until(asked, f"{user.nick} sees {count} users", pause=0.05)


def sum_of(user, pattern):
    return sum(int(re.search(pattern, line).group(1)) for line in user.lines(pattern))


def told_of(lost, ann, bob):
    """Of Ann's lines, for Bob; and of how many each of them has read that they were lost."""
    return f"{lost} of {ann.said}; {sum_of(ann, NOT_SENT)}; {sum_of(bob, NOT_HEARD)}"


def expect_more(hearer, speaker):
    """What is said from now on is heard, although nothing has healed yet."""
    said = speaker.said
    until(lambda: max(hearer.numbers_of(speaker), default=0) > said + 1,
          f"{hearer.nick} hears {speaker.nick} while the failure lasts")


def say_much(speaker, hearer, count, size):
    """
    Lines with much behind their numbers, as fast as the hearer, on the same server, takes them: somebody
    for whom more than --output-cap waits is disconnected.
    """
    for _ in range(count):
        speaker.said += 1
        speaker.send(f"{speaker.said} " + "x" * size)
        if speaker.said % 20 == 0:
            beginning = f"[{speaker.nick}] {speaker.said} "
            until(lambda: any(text.startswith(beginning) for _, text in hearer.heard[-50:]),
                  f"{hearer.nick} hears {beginning}")


def longest_pause(hearer, speaker):
    """Seconds between two lines of a speaker, at most."""
    moments = [moment for moment, text in hearer.heard if text.startswith(f"[{speaker.nick}")]
    return max((after - before for before, after in zip(moments, moments[1:])), default=0)


def missing(hearer, speaker):
    """How many lines never came; none came twice or in another order."""
    heard = hearer.numbers_of(speaker)
    expect(heard == sorted(set(heard)), f"{hearer.nick} hears {speaker.nick} in order and once")
    return speaker.said - len(heard)


def fail_and_heal(lab, fail, heal, lasts):
    """
    Ann talks while the broker is out of reach. Amy, beside her, hears all of it while it lasts; both
    servers' users are told once; what Bob has missed Ann is told. Returns what a table says of that.
    """
    ann, amy, bob = three_users(lab)
    with Talk(ann, 0.02) as talk:
        talk.await_said(20)
        fail()
        expect_more(amy, ann)  # before anybody knows
        ann.expect(OUT_OF_REACH)
        bob.expect(OUT_OF_REACH)
        time.sleep(lasts)
        expect_more(amy, ann)
        healed_at = time.monotonic()
        heal()
        ann.expect(IN_REACH)
        bob.expect(IN_REACH)
        until(lambda: bob.moment_of(r"^\[ann", healed_at), "Bob hears Ann again")
        heals = bob.moment_of(r"^\[ann", healed_at) - healed_at
        talk.await_said(20)
    until(lambda: bob.numbers_of(ann)[-1:] == [ann.said], "Bob hears Ann's last line")
    expect_all(amy, ann)
    lost = missing(bob, ann)
    until(lambda: sum_of(ann, NOT_SENT) + sum_of(bob, NOT_HEARD) >= lost,
          f"the {lost} lost lines are said")
    for user in (ann, amy, bob):
        told = len(user.lines(OUT_OF_REACH))
        expect(told == 1, f"{user.nick} is told once, and not {told} times")
    return f"{told_of(lost, ann, bob)}; {heals:.1f} s"


@test(short=True, stages=(4, 5))
def lines_cross(stage):
    """Three people on three servers talk at once: each hears each other one, in order, and once."""
    with Lab(stage=stage, balancer=False) as lab:
        users = [lab.user(name, server) for name, server in zip(("ann", "bob", "carl"), lab.servers)]
        for user in users:
            await_all(user, 3)
        talks = [Talk(user, 0.005) for user in users]
        for talk in talks:
            talk.__enter__()
        for talk in talks:
            talk.await_said(200)
        for talk in talks:
            talk.__exit__()
        for speaker in users:
            for hearer in users:
                if hearer is not speaker:
                    expect_all(hearer, speaker)
            expect(not speaker.numbers_of(speaker), "nobody hears himself")


@test(short=True)
def names_are_unique(stage):
    """Bob cannot be called as Ann on another server, until she leaves."""
    with Lab(servers=2, stage=stage, balancer=False) as lab:
        ann, _, bob = three_users(lab)
        bob.send("/who")
        bob.expect("ann on a")
        bob.send("/nick ann")
        bob.expect("^ERR somebody else is called ann")
        ann.close()
        bob.expect("ann has left")
        bob.send("/nick ann")
        bob.expect(r"\* you are ann$")


@test(short=True, stages=(4, 5))
def broker_is_absent_at_the_start(stage):
    """Two servers without a broker are two chats; when it comes they are one."""
    with Lab(servers=2, stage=stage, balancer=False, start=False) as lab:
        for server in lab.servers:
            server.start()
        ann, amy = lab.user("ann", lab.servers[0]), lab.user("amy", lab.servers[0])
        bob = lab.user("bob", lab.servers[1])
        ann.say()
        amy.expect(r"^\[ann~a\] 1$")
        for user in (ann, amy, bob):
            until(lambda: len(user.lines(OUT_OF_REACH)) == 1, f"{user.nick} is told once")
        began = time.monotonic()
        lab.broker.start()
        for user in (ann, bob):
            user.expect(IN_REACH)
        heals = time.monotonic() - began
        until(lambda: ann.lines(r"\* you are ann$"), "ann has her name")  # before IN_REACH, perhaps
        ann.say()
        bob.expect(r"^\[ann\] 2$")
        return f"{told_of(1, ann, bob)}; {heals:.1f} s"


@test(short=True)
def broker_is_killed(stage):
    """And started again two seconds later."""
    with Lab(servers=2, stage=stage, balancer=False) as lab:
        return fail_and_heal(lab, lab.broker.kill, lab.broker.start, 2)


@test()
def broker_is_restarted(stage):
    """As an operator does it."""
    def restart():
        lab.broker.signal(signal.SIGTERM)
        lab.broker.process.wait(labs.PATIENCE)

    with Lab(servers=2, stage=stage, balancer=False) as lab:
        return fail_and_heal(lab, restart, lab.broker.start, 0)


@test()
def broker_is_stopped(stage):
    """SIGSTOP: connections stay open, and nothing answers."""
    with Lab(servers=2, stage=stage, balancer=False) as lab:
        return fail_and_heal(lab, lambda: lab.broker.signal(signal.SIGSTOP),
                             lambda: lab.broker.signal(signal.SIGCONT), 3)


@test()
def broker_is_slow(stage):
    """Stopped, but for less than the servers' patience: lines are late, and none is lost."""
    with Lab(servers=2, stage=stage, balancer=False) as lab:
        ann, amy, bob = three_users(lab)
        with Talk(ann, 0.02) as talk:
            for _ in range(3):
                lab.broker.signal(signal.SIGSTOP)
                time.sleep(labs.LEASE / 8)
                lab.broker.signal(signal.SIGCONT)
                talk.await_said(30)
        expect_all(bob, ann)
        expect_all(amy, ann)
        late = longest_pause(bob, ann)
        for user in (ann, bob):
            expect(not user.lines(OUT_OF_REACH), "nobody is told anything")
        return f"none of {ann.said}; 0; 0; {late:.1f} s"


@test(short=True, cables=True)
def cable_is_pulled(stage):
    """That of the broker's machine: no packet goes in or out, and nobody is told."""
    with Lab(servers=2, stage=stage, balancer=False) as lab:
        return fail_and_heal(lab, lab.broker.host.pull_cable,
                             lambda: lab.broker.host.pull_cable(False), 3)


@test(cables=True)
def route_leads_nowhere(stage):
    """From one server to the broker. The others see its users leave, and come again."""
    with Lab(servers=2, stage=stage, balancer=False) as lab:
        ann, amy, bob = three_users(lab)
        first = lab.servers[0].host
        with Talk(ann, 0.02) as talk:
            talk.await_said(20)
            first.lose_route(lab.broker.host.address)
            ann.expect(OUT_OF_REACH)
            bob.expect(r"^\* (ann|amy) has left|^\* 2 people left")
            healed_at = time.monotonic()
            first.lose_route(lab.broker.host.address, False)
            ann.expect(IN_REACH)
            until(lambda: bob.moment_of(r"^\[ann", healed_at), "Bob hears Ann again")
            heals = bob.moment_of(r"^\[ann", healed_at) - healed_at
            talk.await_said(20)
        until(lambda: bob.numbers_of(ann)[-1:] == [ann.said], "Bob hears Ann's last line")
        expect_all(amy, ann)
        expect(not bob.lines(OUT_OF_REACH), "Bob's server has lost nothing")
        lost = missing(bob, ann)
        until(lambda: sum_of(ann, NOT_SENT) >= lost, f"the {lost} lost lines are said")
        return f"{told_of(lost, ann, bob)}; {heals:.1f} s"


@test()
def output_buffer_is_full(stage):
    """redis disconnects a server that does not read; its users are told how much they missed."""
    with Lab(servers=2, stage=stage, balancer=False, options=["--talk-rate", "0"]) as lab:
        ann, amy, bob = three_users(lab)
        lab.broker.ask("config", "set", "client-output-buffer-limit", "pubsub 200000 0 0")
        lab.servers[1].signal(signal.SIGSTOP)
        def subscribers():
            return len(lab.broker.ask("client", "list", "type", "pubsub").splitlines())

        def disconnected():
            say_much(ann, amy, 500, 2000)  # kernels keep some megabytes, too
            return subscribers() == 1
        until(disconnected, "redis disconnects the server that does not read", 2 * labs.PATIENCE)
        began = time.monotonic()
        lab.servers[1].signal(signal.SIGCONT)
        bob.expect(NOT_HEARD)
        heals = time.monotonic() - began
        until(lambda: subscribers() == 2, "it has subscribed again", pause=0.1)
        ann.say()
        bob.expect(rf"^\[ann\] {ann.said}$")
        lost = ann.said - len(bob.lines(r"^\[ann\] \d+"))
        until(lambda: sum_of(bob, NOT_HEARD) == lost,
              f"{lost} lines are missing, and {sum_of(bob, NOT_HEARD)} are said")
        expect(len(amy.lines(r"^\[ann\] \d+")) == ann.said, "Amy hears all of them")
        return f"{told_of(lost, ann, bob)}; {heals:.1f} s"


@test(short=True, stages=(4, 5))
def another_server_dies(stage):
    """Its users leave, each once; the lines of all others go on, and none is lost."""
    with Lab(stage=stage, balancer=False) as lab:
        ann, amy, bob = three_users(lab)
        for nick in ("carl", "cleo"):
            lab.user(nick, lab.servers[2])
        ann.expect("cleo")
        with Talk(ann, 0.02) as talk:
            talk.await_said(20)
            began = time.monotonic()
            lab.servers[2].kill()
            for user in (ann, amy, bob):
                user.expect("(carl|cleo) has left")
                user.expect("(carl|cleo) has left")
            heals = time.monotonic() - began
            talk.await_said(20)
        expect_all(bob, ann)
        expect_all(amy, ann)
        for user in (ann, amy, bob):
            for nick in ("carl", "cleo"):
                told = len(user.lines(f"{nick} has left"))
                expect(told == 1, f"{user.nick} reads once that {nick} has left, not {told} times")
        dave = lab.user("carl", lab.servers[1])
        expect(dave.lines(r"you are carl$"), "the dead one's name is free")
        return f"none of {ann.said}; 0; 0; {heals:.1f} s"


def moves_to_another_server(lab, end):
    """
    Ann talks on one server, Bob's server ends, and he comes again through HAProxy. What he has missed
    is one gap: what Ann said while he was not there.
    """
    lab.balancer.drain(lab.servers[0])
    stays = [lab.user(nick, lab.balancer) for nick in ("ann", "carl")]
    ann = stays[0]
    expect(lab.balancer.table()["a"]["scur"] == "0", "nobody new comes to a drained server")
    bob = lab.user("bob", lab.servers[0])
    bob.say()
    ann.expect(r"^\[bob\] 1$")
    with Talk(ann, 0.02) as talk:
        talk.await_said(20)
        until(lambda: bob.numbers_of(ann), "Bob hears Ann")
        end(lab.servers[0], bob)
        bob.expect_end()
        left = time.monotonic()
        bob.nick, bob.via = "robert", lab.balancer
        bob.come_again()
        heals = time.monotonic() - left
        talk.await_said(20)
    until(lambda: bob.numbers_of(ann)[-1:] == [ann.said], "Bob hears Ann's last line")
    heard = bob.numbers_of(ann)
    gaps = sum(after != before + 1 for before, after in zip(heard, heard[1:]))
    expect(gaps <= 1, f"Bob's lines have {gaps} gaps")
    expect(all(user.open for user in stays), "the others stay connected")
    lost = ann.said - heard[0] + 1 - len(heard)
    return f"{lost} of {ann.said - heard[0] + 1}; 0; 0; {heals:.1f} s"


@test(short=True, stages=(4, 5))
def a_server_is_drained(stage):
    """HAProxy sends nobody there any more; then the server stops, and its users come again."""
    def end(server, bob):
        server.signal(signal.SIGTERM)
        bob.expect(r"\* this server stops; come again")
        expect(server.process.wait(labs.PATIENCE) == 0, "the server ends well")

    with Lab(stage=stage) as lab:
        return moves_to_another_server(lab, end)


@test()
def own_server_dies(stage):
    """Without a word; his client comes again all the same."""
    with Lab(stage=stage) as lab:
        return moves_to_another_server(lab, lambda server, _: server.kill())


@test()
def a_stopped_broker_costs_no_memory(stage):
    """Thirty megabytes are said while it does not answer."""
    with Lab(servers=2, stage=stage, balancer=False, options=["--talk-rate", "0"]) as lab:
        ann, amy, _ = three_users(lab)
        lab.broker.signal(signal.SIGSTOP)
        before = lab.servers[0].resident_kib()
        say_much(ann, amy, 3000, 10000)
        amy.say()
        ann.expect(r"^\[amy\] 1$")
        grown = lab.servers[0].resident_kib() - before
        expect(grown < 8192, f"the server has grown by {grown} KiB")
        lab.broker.signal(signal.SIGCONT)


class Impostor(threading.Thread):
    """Listens where the broker should be, and answers every connection with the same bytes."""

    def __init__(self, machine, answer, times):
        super().__init__(daemon=True)
        self.answer, self.times = answer, times
        self.served = 0
        self.listener = socket.create_server((machine.lab.network.own_address, 0))
        self.listener.settimeout(labs.PATIENCE)
        self.at = "%s:%d" % self.listener.getsockname()
        self.start()

    def run(self):
        with self.listener, contextlib.suppress(OSError):
            while True:
                connection, _ = self.listener.accept()
                threading.Thread(target=self.serve, args=(connection,), daemon=True).start()

    def serve(self, connection):
        with connection, contextlib.suppress(OSError):
            connection.recv(65536)
            for _ in range(self.times):
                connection.sendall(self.answer)
            self.served += 1
            while connection.recv(65536):
                pass
        self.served += 1


@test()
def broker_is_hostile(stage):
    """Wrong RESP, lengths without an end, endless lines: users are told once, and nothing grows."""
    answers = {"no RESP": (b"HTTP/1.1 400 Bad Request\r\n\r\n", 1),
               "a length of 18 digits": (b"$999999999999999999\r\n", 1),
               "an array of a billion": (b"*1000000000\r\n", 1),
               "arrays in arrays": (b"*1\r\n", 1000000),
               "a line without an end": (b"+" + b"x" * 65536, 1000),
               "nothing": (b"", 1)}
    with Lab(servers=1, stage=stage, broker=False, balancer=False, start=False) as lab:
        for name, (answer, times) in answers.items():
            server = lab.servers[0]
            impostor = Impostor(server, answer, times)
            server.start("--broker", impostor.at, "--broker-name", "a", "--broker-lease", "2")
            before = server.resident_kib()
            ann, amy = lab.user("ann", server), lab.user("amy", server)
            ann.say()
            amy.expect(r"^\[ann~a\] 1$")
            until(lambda: ann.lines(OUT_OF_REACH), f"{name}: Ann is told")
            until(lambda: impostor.served >= 2, f"{name}: the server has hung up, and tries again")
            ann.say()
            amy.expect(r"^\[ann~a\] 2$")
            expect(len(amy.lines(OUT_OF_REACH)) == 1, f"{name}: Amy is told once")
            grown = server.resident_kib() - before
            expect(grown < 8192, f"{name}: the server has grown by {grown} KiB")
            impostor.listener.close()
            server.signal(signal.SIGTERM)
            expect(server.process.wait(labs.PATIENCE) == 0, f"{name}: the server ends well")


# ---- all of them ---------------------------------------------------------------------------------


def run_here(name, stage):
    """One test, in this process."""
    function = TESTS[name]
    labs.enter()
    if os.environ["MACHINES_IN"] == "loopback" and function.cables:
        if os.environ.get("MACHINES_ON") == "namespaces":
            print("network namespaces are not permitted, and this must not be skipped")
            return 1
        print("network namespaces are not permitted here")
        return SKIPPED
    try:
        print(function(stage) or "")
    except (Missed, OSError, subprocess.SubprocessError) as fault:
        print(fault)
        return 1
    return 0


def run_elsewhere(name, stage):
    began = time.monotonic()
    command = [sys.executable, "-B", os.path.abspath(__file__), "--here", "--stage", str(stage),
               name]
    with subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT, text=True) as process:
        try:
            text, _ = process.communicate(timeout=DEADLINE)
        except subprocess.TimeoutExpired:
            process.kill()
            text = process.communicate()[0] + f"\nended after {DEADLINE} s"
        return process.returncode, text.strip(), time.monotonic() - began


def main():
    parser = argparse.ArgumentParser(description="Tests the chat on several machines.")
    parser.add_argument("--short", action="store_true")
    parser.add_argument("--here", action="store_true", help="one test, in this process")
    parser.add_argument("--stage", type=int)
    parser.add_argument("names", nargs="*")
    arguments = parser.parse_args()
    if arguments.here:
        return run_here(arguments.names[0], arguments.stage)
    chosen = [(name, stage) for name, function in TESTS.items() for stage in function.stages
              if (not arguments.names or name in arguments.names) and
              (function.short or not arguments.short) and arguments.stage in (None, stage)]
    if labs.missing():
        print(f"skipped: machines: {labs.missing()} is not installed")
        print(f"0 passed, 0 failed, {len(chosen)} skipped")
        return 0
    counts = {"passed": 0, "failed": 0, "skipped": 0}
    with concurrent.futures.ThreadPoolExecutor(AT_A_TIME) as pool:
        results = list(pool.map(lambda one: run_elsewhere(*one), chosen))
    for (name, stage), (status, text, seconds) in zip(chosen, results):
        full_name = f"{name} (stage {stage})"
        if status == 0:
            counts["passed"] += 1
            print(f"machines: {full_name}: {seconds:.1f} s" + (f"; {text}" if text else ""))
        elif status == SKIPPED:
            counts["skipped"] += 1
            print(f"skipped: machines/{name}: {text}")
        else:
            counts["failed"] += 1
            print(f"machines: FAILED: {full_name}: " + text.replace("\n", "\n    "))
    print("{passed} passed, {failed} failed, {skipped} skipped".format(**counts))
    return 1 if counts["failed"] else 0


if __name__ == "__main__":
    sys.exit(main())
