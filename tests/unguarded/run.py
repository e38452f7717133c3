#!/usr/bin/env python3
"""Shows that stages 4 and 5 would do without the guard, and that docs/guard.md says what that changes.

  usage: OUT=build tests/unguarded/run.py       (make test-unguarded)

The stages' own tests run on what tests/unguarded/*.patch makes of them. Those that ask for the guard itself have
to fail (or else the guard would still be there), and the others to pass. A registration is one wakeup with the guard and without, counted by a server
whose dispatchers run the handlers, so that nothing else wakes them. And the lines of the patches are counted.

Prints what failed, and "N passed, N failed" at the end.
"""

import os
import re
import signal
import socket
import subprocess
import sys
import threading

OUT = os.environ["OUT"]
DEADLINE = 20  # s for whatever has to happen
CLIENTS = 20
STAGES = {4: "stage4-framework", 5: "stage5-multireactor"}

NOTICE = {"lesson_without_the_guard_it_waits_until_something_happens", "is_one_wakeup",
          "an_early_event_waits_until_the_connection_has_begun"}
NOTICE_TOO = {4: {"many_registrations_share_one_wakeup"}, 5: set()}
# These talk to a program, and wait long; and what stage 5 has of stage 4's suites, each twice, would be a third time.
LEFT_OUT = {4: "outside|long_answers",
            5: "outside|pool|dispatchers|cipher|throttle|chain|logins|bursts|facade|posts|saturation|strand*"}

passed = failed = 0


def check(holds, what):
    global passed, failed
    passed, failed = passed + bool(holds), failed + (not holds)
    if not holds:
        print(f"unguarded: FAILED: {what}")


def run_tests(stage, pattern, **environment):
    """How many tests have passed, and the names of those that have failed."""
    program = f"{OUT}/unguarded/{STAGES[stage]}"
    output = subprocess.run(["tests/gate.sh", program + "-suite"], capture_output=True, text=True, check=False,
                            stdin=subprocess.DEVNULL, env=dict(os.environ, SERVER=program,
                            CRITERION_TEST_PATTERN=pattern, **environment))
    text = output.stdout + output.stderr
    count = re.search(r"Synthesis: .* Passing: (\d+)", text)
    return int(count.group(1)) if count else 0, set(re.findall(r"^\[FAIL\] stage\d_(\w+::\w+)", text, re.M)), text


def tests_notice(stage):
    notice = NOTICE | NOTICE_TOO[stage]
    names = "|".join(sorted(notice))
    count, bad, text = run_tests(stage, f"!(stage?_@({LEFT_OUT[stage]})/*|stage?_registration/@({names}))")
    if bad or count < 50:
        print(text)
    check(count >= 50, f"stage {stage}: expected at least 50 tests that pass, got {count}")
    check(not bad, f"stage {stage}: {', '.join(sorted(bad))}: failed without the guard, and asks for none")
    count, bad, text = run_tests(stage, f"stage?_registration/@({names})", TEST_DEADLINE_MS="1500")
    for name in sorted(notice):
        check(f"registration::{name}" in bad, f"stage {stage}: {name} passed, but the guard is not there")


def wakeups(program):
    """So many wakeups the server has asked for when CLIENTS have come, one after the other."""
    server = subprocess.Popen([program, "--port", "0", "--dispatchers", "1"], stdin=subprocess.DEVNULL,
                              stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    end = threading.Timer(DEADLINE, server.kill)
    end.start()
    try:
        port = int(server.stdout.readline().rsplit(":", 1)[1])
        for _ in range(CLIENTS):
            with socket.create_connection(("127.0.0.1", port), DEADLINE) as client:
                client.sendall(b"hello\n")
                client.recv(16)
        server.send_signal(signal.SIGUSR1)
        for line in server.stderr:
            asked = re.search(r": stats .* wakeups_asked=(\d+)", line)
            if asked:
                return int(asked.group(1))
        return None
    finally:
        end.cancel()
        server.kill()
        server.communicate()


def lines_of(patch):
    """How many lines of code it adds, and takes away."""
    text = re.sub(r"^(---|\+\+\+) .*\n", "", open(patch, encoding="ascii").read(), flags=re.M)
    code = [line[0] for line in text.split("\n") if re.match(r"[-+] *[^ /*]", line)]
    return code.count("+"), code.count("-")


def main():
    page = open("docs/guard.md", encoding="utf-8").read()
    more, fewer = lines_of(f"tests/unguarded/{STAGES[4]}.patch")
    more5, fewer5 = lines_of(f"tests/unguarded/{STAGES[5]}.patch")
    says = f"{more} lines more and {fewer} fewer in stage 4, {more5} and {fewer5} in stage 5"
    check(f" {says}" in page, f"docs/guard.md: expected `{says}`")
    for program in f"{OUT}/{STAGES[5]}", f"{OUT}/unguarded/{STAGES[5]}":
        count = wakeups(program)
        check(count == CLIENTS, f"{program}: expected {CLIENTS} wakeups for {CLIENTS} clients, got {count}")
    for stage in STAGES:
        tests_notice(stage)
    print(f"{passed} passed, {failed} failed")
    return failed > 0


if __name__ == "__main__":
    sys.exit(main())
