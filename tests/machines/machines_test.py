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
import os
import re
import signal
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
def servers_know_whose_connection_it_is(stage):
    """HAProxy says it in a PROXY header of version 2, and nobody else can."""
    with Lab(stage=stage, broker=False, options=["--log-traffic"]) as lab:
        ann = lab.user("ann", lab.balancer)
        source = "%s:%d" % ann.socket.getsockname()[:2]
        until(lambda: any(f"{source} has come" in server.said() for server in lab.servers),
              f"a server says that {source} has come")


@test(short=True)
def checks_are_no_users(stage):
    """HAProxy's checks come twice a second, and nobody in the chat hears of them."""
    with Lab(stage=stage, broker=False) as lab:
        ann = lab.user("ann", lab.servers[0])
        until(lambda: lab.balancer.table()["a"]["check_status"] == "L4OK", "a check has passed")
        before = len(ann.heard)
        time.sleep(1.2)  # two more
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


@test(short=True, stages=(4, 5))
def a_server_is_drained(stage):
    """HAProxy sends nobody there any more; then the server stops, and its users come again."""
    with Lab(stage=stage, broker=False) as lab:
        first = lab.servers[0]
        lab.balancer.drain(first)
        lab.balancer.expect_status(first, "DRAIN")
        stays = [lab.user(f"stays_{i}", lab.balancer) for i in range(4)]
        expect(lab.balancer.table()["a"]["scur"] == "0", "nobody new comes to a drained server")
        moves = lab.user("moves", first)
        first.signal(signal.SIGTERM)
        moves.expect(r"\* this server stops; come again")
        moves.expect_end()
        expect(first.process.wait(labs.PATIENCE) == 0, "the server ends well")
        moves.via = lab.balancer
        moves.come_again()
        expect(all(user.open for user in stays), "the others stay connected")


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
        function(stage)
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
