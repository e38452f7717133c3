#!/usr/bin/env python3
"""Tests servers in slow motion (docs/slow.md): replays each schedule, and looks at the terminal itself.

  usage: OUT=build tests/slow/slow_test.py FILE...       (make test-slow)

Prints what failed, and "N passed, N failed" at the end.
"""
import contextlib
import glob
import io
import os
import re
import signal
import subprocess
import sys
import tempfile

sys.dont_write_bytecode = True
import slow

CODE_MOST = 600  # lines of code, without comments: a tool that one can read
HUNG = ["connect", "run", "send 1 first", "run to worker: before processing", "send 1 second", "run but worker 1", "go worker 1",
        "go worker 1", "run"]


def expect(condition, what):
    if not condition:
        raise AssertionError(what)


def play(stage, options, lines):
    """What the terminal prints when a pipe says these lines, and its exit status."""
    ran = subprocess.run([os.path.join(os.path.dirname(__file__), "slow.py"), "by-hand", str(stage), *options],
                         input="".join(f"{line}\n" for line in lines), text=True, capture_output=True, timeout=120, check=False)
    return ran.stdout + ran.stderr, ran.returncode


def says_who_waits_for_whom():
    said, status = play(3, ["--workers", "1", "--guard", "none"], [*HUNG, "go worker 1", "go reactor", "expect rest"])
    expect(status == 0, said)
    expect("worker 1 is not stopped at a test point: it waits for selector->lock in selector_interest, common/events/selector.c:" in said, said)
    expect("; reactor has it, and sleeps in select, until something wakes it" in said, said)
    expect("reactor is not stopped at a test point: it sleeps in select" in said, said)


def says_that_a_stopped_thread_has_the_lock():
    said, _ = play(3, ["--workers", "1"], [*HUNG[:-1], "run but worker 1"])
    expect("reactor      waits for reactor->guard.lock in take_back, stage3-workers/reactor.c:" in said, said)
    expect('; worker 1 has it, and is stopped at "worker: guard held"' in said, said)
    expect("holds guard->lock" in said, said)


def shows_places_queue_sleep_and_clients():
    said, _ = play(4, ["--workers", "1"], ["connect", "run", "send 1 hello", "run to adapter: before done", "go worker 1"])
    for what in ('1 acceptor ', '2 dispatcher ', 'is stopped at "adapter: before done", handler_adapter_done, stage4-framework/handler_adapter.c:',
                 "next: mutex_lock(&adapter->state_lock);", "selector 1: asleep", "selector 1: awake", "status-change queue: client 1",
                 "status-change queue: empty", "client 1: sent 'hello\\n', got 'hello\\n'; in the server 0 bytes of input",
                 "interest in reading and one event", "interest in nothing"):
        expect(what in said, f"there is no {what} in\n{said}")


def refuses_what_cannot_be_done():
    said, status = play(3, [], ["", "jump", "go 9", "go nobody", "send 3 x", "half x", "expect 4 x", "run but nobody", "help"])
    expect(status == 0, said)
    for what in ("expected one of connect, expect, go, half, help, run, save, send, stop, quit", "no thread 9; there are: reactor",
                 "no client 3; there are: none yet", "no client x", "no thread nobody", "> \n1 reactor ", "run [but THREAD, ...] [to POINT]: ", "quit: "):
        expect(what in said, f"there is no {what} in\n{said}")
    said, status = play(3, ["--no-such-option"], [])
    expect(status == 1 and "does not start with these options: --no-such-option" in said, said)


def fails_if_what_is_expected_does_not_happen():
    for line in "expect 1 hello", "expect 1 end", "expect reactor sleeps", "expect rest", "expect nobody idle", "run to worker: guard held":
        said, status = play(3, [], ["connect", line])
        expect(status == 1, f"{line}: {said}")


def stays_where_it_is_if_there_is_no_such_point():
    said, status = play(3, [], ["run to nowhere"])
    expect(status == 1 and 'no test point "nowhere"' in said and said.count('is stopped at "reactor: at the barrier"') == 2, said)


def survives_the_end_of_the_server():
    said, status = play(3, [], ["stop", "run", "go reactor", "run"])
    expect(status == 1 and said.count("the server has ended, with status 0") == 2, said)
    expect("no thread reactor; there are: \n" in said and said.count(" reactor ") == 2, said)


def survives_an_end_before_it_was_read():
    server = slow.Server(f"{slow.OUT}/slow/stage3", 3, [])
    os.kill(server.process.pid, signal.SIGSTOP)
    os.waitid(os.P_PID, server.process.pid, os.WSTOPPED | os.WNOWAIT)
    server.ask("state")
    server.process.kill()
    try:
        server.look()
    except slow.Failure as failure:
        expect(str(failure) == "the server has ended, with status -9", failure)
        return
    raise AssertionError("a server that was killed has answered")


def saves_what_can_be_replayed():
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "x.schedule")
        said, status = play(3, ["--workers", "1"], [*HUNG, "expect 1 first\\nsecond", f"save {path}", "quit"])
        expect(status == 0 and f"saved: make slow SCHEDULE={path}\n" in said, said)
        with open(path, encoding="utf-8") as file:
            text = file.read()
        expect("options --workers 1\n" in text and "go worker 1 = worker: guard held\n" in text, text)
        expect(slow.Schedule(path).play("") is None, "it does not replay")
        for right, wrong in ("= worker: guard held", "= worker: before hand-back"), ("first\\nsecond", "first"):
            with open(path, "w", encoding="utf-8") as file:
                file.write(text.replace(right, wrong))
            expect(slow.Schedule(path).play("") is not None, f"it replays although it says {wrong}")


def is_small():
    text = ""
    for path in "slow.py", "slow.c", "framework.c":
        with open(os.path.join(os.path.dirname(__file__), path), encoding="utf-8") as file:
            text += re.sub(r'"""[\s\S]*?"""|/\*[\s\S]*?\*/|^ *#(?![dei]).*', "", file.read(), flags=re.M)
    lines = sum(bool(line.strip()) for line in text.split("\n"))
    expect(lines <= CODE_MOST, f"{lines} lines of code, at most {CODE_MOST}")


def servers_have_nothing_of_it():
    for server in glob.glob(f"{slow.OUT}/stage[1-5]-*"):
        names = subprocess.run(["nm", server], capture_output=True, text=True, check=True).stdout
        expect(" main" in names and "test_point" not in names and "__wrap_" not in names, f"{server} has test points")


def each_erratum_is_in_the_table():
    with open("docs/errata.md", encoding="utf-8") as errata, open("docs/slow.md", encoding="utf-8") as page:
        numbers, text = re.findall(r"^## (\d+)\. ", errata.read(), re.M), page.read()
    rows = re.findall(r"^\| (\d+) \| (no|\[yes\]\(../tests/slow/erratum_(\d\d).schedule\)) \| (.+) \|$", text, re.M)
    expect([row[0] for row in rows] == numbers, f"errata {numbers}, rows {[row[0] for row in rows]}")
    for number, answer, named, why in rows:
        path = f"tests/slow/erratum_{int(number):02}"
        expect(os.path.exists(f"{path}.schedule") == (answer != "no"), f"{number}: {answer}, and there is a schedule or none")
        if answer != "no":
            expect(int(named) == int(number) and f"(../{path}.patch)" in why, f"{number}: another one's schedule or patch")
            expect(os.path.basename(path) in slow.Schedule(f"{path}.schedule").fails, f"{number}: it fails without its patch")


def patches_serve_a_client_that_is_alone():
    """So what goes wrong is the order, and not the server altogether."""
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "alone.schedule")
        for patch in sorted(glob.glob("tests/slow/*.patch")):
            with open(patch, encoding="utf-8") as file:
                stage = re.match(r"--- stage(\d)-", file.read())[1]
            with open(path, "w", encoding="utf-8") as file:
                file.write(f"stage {stage}\noptions --workers 1\nconnect\nrun\nsend 1 hello\nrun\nexpect 1 hello\n")
            wrong = slow.Schedule(path).play(os.path.basename(patch)[:-len(".patch")])
            expect(wrong is None, f"{patch}: {wrong}")


TESTS = [says_who_waits_for_whom, says_that_a_stopped_thread_has_the_lock, shows_places_queue_sleep_and_clients,
         refuses_what_cannot_be_done, each_erratum_is_in_the_table, patches_serve_a_client_that_is_alone,
         fails_if_what_is_expected_does_not_happen, stays_where_it_is_if_there_is_no_such_point, survives_the_end_of_the_server,
         survives_an_end_before_it_was_read,
         saves_what_can_be_replayed, is_small, servers_have_nothing_of_it]


def main():
    failed = 0
    for check in TESTS:
        try:
            check()
        except (AssertionError, OSError, subprocess.SubprocessError) as error:
            failed += 1
            print(f"slow: FAILED: {check.__name__}: {error}")
    replayed = io.StringIO()
    with contextlib.redirect_stdout(replayed):
        slow.test(sys.argv[1:])
    *wrong, counts = replayed.getvalue().splitlines()
    print(*wrong, sep="\n", end="\n" * bool(wrong))
    passed, failed = len(TESTS) - failed + int(counts.split()[0]), failed + int(counts.split()[2])
    print(f"{passed} passed, {failed} failed")
    sys.exit(failed > 0)


if __name__ == "__main__":
    main()
