"""Tests of the card: of our servers, and of servers that are wrong on purpose (wrong.py).

    usage: python3 -B tests/card/card_test.py SERVER...

Each server of ours has cards of all protocols that it speaks; a fault of wrong.py has to show in its case, and the
server without one has the card of a server that does all it can. In a short form: a million requests are 20,000.

Prints what failed, and "N passed, N failed".
"""

import contextlib
import io
import os
import re
import subprocess
import sys
import tempfile
import threading
import unittest.mock

import card

WRONG = os.path.join(os.path.dirname(__file__), "wrong.py")
GOOD = {"never reads": "stops reading", "byte a second": "waits for it", "half-close": "answers, then ends",
        "reset": "costs those clients only", "million": "answers all", "SIGTERM": "answers, then ends"}

# What a fault of wrong.py does to a case.
FAULTS = (("cuts", "half-close", "cuts them off"), ("drops", "never reads", "loses answers"),
          ("drops", "half-close", "cuts them off|no longer answers"), ("never_ends", "half-close", "answers, never ends"),
          ("never_ends", "SIGTERM", "does not end"), ("keeps", "never reads", "keeps all"), ("spins", "descriptors", "spins"),
          ("leaks", "reset", "keeps descriptors"), ("dies", "reset", "dies"), ("answers_less", "million", "no longer answers"))

passed, failed = [], []


def check(name, condition, said):
    (passed if condition else failed).append(name)
    if not condition:
        print(f"card: FAILED: {name}: {said}")


@contextlib.contextmanager
def running(command):
    """Its port and process; it is there no longer than this."""
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True) as process:
        try:
            yield int(process.stdout.readline().rsplit(":", 1)[1]), process
        finally:
            process.kill()


def card_of(command, protocol="line", only=None):
    """What the server did, by case; and each row, by case, before all of them."""
    with running(command) as (port, process):
        rows = card.Card(("127.0.0.1", port), protocol, process.pid, "/page.txt", 2, short=True).rows(only)
    return {row.case: row.does for row in rows}, {row.case: f"{card.text([row])}; all cases:\n{card.text(rows)}" for row in rows}


def ours(server, folder):
    """Each protocol of a server of ours."""
    name = os.path.basename(server)
    cards = [("line", ()), ("http", ("--app", "http", "--root", folder))]
    if re.match("stage[45]", name):
        cards.append(("redis", ("--app", "store")))
    for protocol, options in cards:
        does, said = card_of([server, "--port", "0", *options], protocol)
        for case, expected in GOOD.items():
            check(f"{name}, {protocol}, {case}", does[case] == expected, f"expected {expected!r}: {said[case]}")
        check(f"{name}, {protocol}, descriptors", does["descriptors"] == "refuses them", said["descriptors"])


def wrong():
    does, said = card_of([sys.executable, "-B", WRONG, "none"])
    for case, expected in dict(GOOD, descriptors="lets them wait").items():
        check(f"no fault, {case}", does[case] == expected, f"expected {expected!r}: {said[case]}")

    def one(fault, case, expected):
        does, said = card_of([sys.executable, "-B", WRONG, fault], only=[case])
        check(f"{fault}, {case}", re.fullmatch(expected, does[case]), f"expected {expected!r}: {said[case]}")

    threads = [threading.Thread(target=one, args=fault) for fault in FAULTS]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


def command_line(server):
    def says(*arguments):
        with unittest.mock.patch.object(sys, "argv", ["card.py", *arguments]), \
                contextlib.redirect_stdout(io.StringIO()) as out, contextlib.redirect_stderr(io.StringIO()) as error:
            try:
                status = card.main()
            except SystemExit as ended:
                status = ended.code
        return status, out.getvalue() + error.getvalue()

    with running([server, "--port", "0"]) as (port, process):
        address = f"127.0.0.1:{port}"
        status, said = says(address, "line", "--only", "SIGTERM", "--only", "descriptors", "--only", "half-close")
        check("without PID", status == 0 and said.count("not run") == 2 and "4,096 of 4,096" in said, said)
        check("the server goes on without PID", process.poll() is None, process.returncode)
        status, said = says(address, "redis")
        check("another protocol", status == 1 and "does not speak redis" in said, said)
        status, said = says("7005", "line")
        check("no address", status == 2 and "expected HOST:PORT, got '7005'" in said, said)
    status, said = says(address, "line")
    check("nobody listens", status == 1 and "refused" in said, said)


def main():
    with tempfile.TemporaryDirectory() as folder:
        with open(os.path.join(folder, "page.txt"), "w", encoding="ascii") as file:
            file.write("x" * 1023 + "\n")
        for server in sys.argv[1:]:
            ours(server, folder)
    wrong()
    command_line(sys.argv[1])
    print(f"{len(passed)} passed, {len(failed)} failed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
