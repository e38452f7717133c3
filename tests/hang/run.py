#!/usr/bin/env python3
"""Shows that the servers of `make hang` and `make race` do what docs/inside.md says of them.

  usage: OUT=build tests/hang/run.py [race]      (from the top; wants the servers built)

Each scenario is played with the server that has the fault and with the stage itself, which has to
answer. A hang is an answer that is not there after SILENCE seconds; that the server burns a processor
meanwhile, or does nothing at all, is looked up in /proc. All are played at the same time, because they
mostly wait. With `race`: ThreadSanitizer has to report the race, with both threads in it.

Prints what failed, and "N passed, N failed" at the end.
"""

import concurrent.futures
import glob
import os
import select
import signal
import socket
import subprocess
import sys
import time

OUT = os.environ["OUT"]
DEADLINE = 20  # s for whatever has to happen
SILENCE = 1    # s without an answer, where one would come at once


class Failure(Exception):
    pass


def expect(condition, what):
    if not condition:
        raise Failure(what)


class Client:
    def __init__(self, port):
        self.socket = socket.create_connection(("127.0.0.1", port), DEADLINE)

    def say(self, line):
        self.socket.settimeout(DEADLINE)
        self.socket.sendall(line + b"\n")

    def hears(self, seconds):
        """What comes next; empty at the end, None if nothing comes in time."""
        if not select.select([self.socket], [], [], seconds)[0]:
            return None
        try:
            return self.socket.recv(65536)
        except ConnectionError:
            return b""

    def hears_until(self, end, seconds):
        """Whether a line comes that ends so, with no silence before it that is longer."""
        tail = b""
        while (heard := self.hears(seconds)):
            tail = (tail + heard)[-1000:]
            if tail.endswith(end + b"\n"):
                return True
        return False

    def close(self):
        self.socket.close()


class Server:
    """A server that runs; the one with the fault, or the stage."""

    def __init__(self, stage, faulty, options):
        program = f"{OUT}/hang/stage{stage}" if faulty else glob.glob(f"{OUT}/stage{stage}-*")[0]
        self.process = subprocess.Popen([program, "--port", "0", *options], stdout=subprocess.PIPE)
        self.port = int(self.process.stdout.readline().rsplit(b":", 1)[1])
        self.patience = SILENCE if faulty else DEADLINE

    def answers(self, client, line=b"hello"):
        client.say(line)
        return client.hears_until(line, self.patience)

    def serves(self):
        """Whether a new client is served."""
        client = Client(self.port)
        answered = self.answers(client)
        client.close()
        return answered

    def ticks(self):
        """Processor time used so far."""
        with open(f"/proc/{self.process.pid}/stat", encoding="ascii") as stat:
            return sum(map(int, stat.read().rsplit(")", 1)[1].split()[11:13]))

    def settle(self):
        """Waits until all of its threads sleep."""
        deadline = time.monotonic() + DEADLINE
        while time.monotonic() < deadline:
            states = set()
            for path in glob.glob(f"/proc/{self.process.pid}/task/*/stat"):
                with open(path, encoding="ascii") as stat:
                    states.add(stat.read().rsplit(")", 1)[1].split()[0])
            if states == {"S"}:
                return
            time.sleep(0.01)
        raise Failure("its threads do not come to rest")

    def event_masks(self):
        """What the kernel watches the sockets of clients for: all but the eventfd, which is edge-triggered."""
        masks = []
        for path in glob.glob(f"/proc/{self.process.pid}/fdinfo/*"):
            with open(path, encoding="ascii") as info:
                masks += [int(line.split()[3], 16) for line in info if line.startswith("tfd:")]
        return [mask for mask in masks if not mask & 0x80000000]

    def end(self, faulty):
        self.process.send_signal(signal.SIGKILL if faulty else signal.SIGTERM)
        status = self.process.wait(DEADLINE)
        expect(faulty or status == 0, f"it ended with status {status}")


def lock_kept(server, faulty):
    expect(server.serves(), "the first client got no answer")
    answered = server.serves()  # and so on: a client may still find the lock free
    deadline = time.monotonic() + DEADLINE
    while faulty and answered and time.monotonic() < deadline:
        answered = server.serves()
    return answered


def loop_without_end(server, faulty):
    deadline = time.monotonic() + (DEADLINE if faulty else 1.5)
    ann, answered = Client(server.port), True
    while answered and time.monotonic() < deadline:
        ann.say(b"ann")
        if ann.hears(SILENCE) == b"":  # too late on a busy machine, so her timer did not fire too early
            ann.close()
            ann = Client(server.port)
        answered = server.serves()
        time.sleep(0.3)
    ann.close()
    return answered


def lock_held_while_waiting(server, faulty):
    clients = [Client(server.port) for _ in range(3)]
    deadline, answered = time.monotonic() + DEADLINE, True
    while answered and time.monotonic() < deadline:  # until the third finds the queue full
        for client in clients:
            client.say(b"one")
        answered = server.serves()
        if not faulty:
            break
    return answered


def not_armed_again(server, faulty):
    client = Client(server.port)
    client.say(b"one")
    expect(client.hears_until(b"one", DEADLINE), "the first line got no answer")
    answered = server.answers(client, b"two")
    deadline = time.monotonic() + DEADLINE
    while (server.event_masks() == [0x40000000]) != faulty:  # the stage arms it soon after the answer
        expect(time.monotonic() < deadline, f"the kernel's masks: {server.event_masks()}")
        time.sleep(0.01)
    return answered


def wakeup_lost(server, faulty):
    ann = Client(server.port)
    ann.say(b"/nobody")  # what is no command gets an answer, which says that the lines before it were handled
    expect(ann.hears_until(b"tells which there are", DEADLINE), "Ann got no answer")
    bob = Client(server.port)
    bob.say(b"here")
    expect(ann.hears_until(b"here", DEADLINE), "Ann did not hear Bob")
    server.settle()
    ann.say(b"\n".join(b"%d" % n for n in range(1, 50001)))
    ann.say(b"/nobody")
    expect(ann.hears_until(b"tells which there are", DEADLINE), "Ann got no answer")
    answered = bob.hears_until(b" 50000", server.patience)
    if faulty:
        bob.say(b"I")
        expect(bob.hears_until(b" 50000", DEADLINE), "Bob spoke, and heard nothing")
    return answered


SCENARIOS = [
    (1, lock_kept, []),
    (2, loop_without_end, ["--idle-timeout", "1"]),
    (3, lock_held_while_waiting,
     ["--workers", "1", "--queue", "bounded:1", "--saturation", "block", "--block-ms", "300"]),
    (4, not_armed_again, []),
    (5, wakeup_lost,
     ["--app", "chat", "--workers", "0", "--dispatchers", "2", "--send-buffer", "4096", "--talk-rate", "0"]),
]
SPINS = 2  # the stage whose server does not sleep while it hangs


def play(stage, scenario, options, faulty):
    server = Server(stage, faulty, options)
    try:
        answered = scenario(server, faulty)
        expect(answered != faulty, "a client was answered" if answered else "a client got no answer")
        before = server.ticks()
        if faulty and stage == SPINS:  # which may have to wait for a processor
            deadline = time.monotonic() + DEADLINE
            while server.ticks() == before and time.monotonic() < deadline:
                time.sleep(0.02)
            expect(server.ticks() > before, f"it used no processor in {DEADLINE} s")
        elif faulty:
            time.sleep(0.5)
            burnt = server.ticks() - before
            expect(burnt < 10, f"it used {burnt} ticks of a processor")
        server.end(faulty)
    finally:
        server.process.kill()
        server.process.wait()


def race():
    """A second line comes while a worker has the first: then two threads have the connection."""
    server = subprocess.Popen([f"{OUT}/hang/race", "--port", "0", "--workers", "1", "--block-ms", "5000"],
                              stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                              env=dict(os.environ, TSAN_OPTIONS="halt_on_error=1"))
    try:
        client = Client(int(server.stdout.readline().rsplit(b":", 1)[1]))
        client.say(b"one")
        deadline = time.monotonic() + DEADLINE
        while server.poll() is None and time.monotonic() < deadline:
            time.sleep(0.1)
            try:
                client.say(b"two")
            except ConnectionError:
                break
        report = server.communicate(timeout=DEADLINE)[1].decode()
    finally:
        server.kill()
        server.wait()
    for what in "data race", "main thread", "'worker 1'", "connection_receive", "handler_run_task":
        expect(what in report, f"the report has no {what}:\n{report}")


def main():
    jobs = {}
    with concurrent.futures.ThreadPoolExecutor(len(SCENARIOS) * 2) as pool:
        if sys.argv[1:] == ["race"]:
            jobs[pool.submit(race)] = "race"
        else:
            for stage, scenario, options in SCENARIOS:
                for faulty in True, False:
                    name = f"stage {stage}, {scenario.__name__}, {'the fault' if faulty else 'the stage itself'}"
                    jobs[pool.submit(play, stage, scenario, options, faulty)] = name
    failed = 0
    for job, name in jobs.items():
        if job.exception() is not None:
            failed += 1
            print(f"hang: FAILED: {name}: {job.exception() or repr(job.exception())}")
    print(f"{len(jobs) - failed} passed, {failed} failed")
    sys.exit(failed > 0)


if __name__ == "__main__":
    main()
