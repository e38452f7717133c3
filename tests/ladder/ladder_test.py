#!/usr/bin/env python3
"""Tests the graders of the ladder: each fails what is wrong, by the test that names the mistake.

  usage: tests/ladder/ladder_test.py FOLDER

A wrong program is one of our solutions with a mistake: tests/ladder/PROBLEM_NAME.patch, of at most 20 lines. Its first
line says what is wrong, its second one which test fails. FOLDER has the programs, built, under the same names.
What a grader prints is tested with small servers of Python, below.

Prints what failed, and "N passed, N failed" at the end.
"""
import collections
import concurrent.futures
import glob
import importlib.util
import os
import re
import subprocess
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
SPEC = importlib.util.spec_from_file_location("ladder", os.path.join(HERE, "grader.py"))  # the store's has the same name
grader = importlib.util.module_from_spec(SPEC)
SPEC.loader.exec_module(grader)
LINES_MAX, WRONG_MIN = 20, 3
HINT = "usual mistake"
ECHO = "it_does_not_wait_for_an_end"

# Its REPLY has the connection and the bytes that came.
SERVER = """#!{python}
import os, socket, sys
listener = socket.create_server(("127.0.0.1", int(sys.argv[sys.argv.index("--port") + 1])))
def serve(connection):
    while data := connection.recv(4096):
        {reply}
while True:
    connection, _ = listener.accept()
    if os.fork() == 0:
        serve(connection)
        os._exit(0)
    connection.close()
"""
REPORT = "==7==ERROR: AddressSanitizer: heap-use-after-free on address 0x602"
DIES = (f'connection.sendall(data[:1]); sys.stderr.write("noise\\n" * 50 + "{REPORT}\\n" + "    #0 frame\\n" * 500); '
        "sys.stderr.flush(); os.kill(os.getppid(), 9); os.abort()")


def grade(problem, command, **settings):
    """Exit status, and what it prints; at once, where a test waits for nothing."""
    graded = subprocess.run([sys.executable, os.path.join(HERE, "grader.py"), str(problem), *command],
                            env=dict(os.environ, **dict(dict(PATIENCE="1"), **settings)), stdin=subprocess.DEVNULL,
                            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=300, check=False)
    return graded.returncode, graded.stdout


def written(folder, name, text, mode=0o755):
    path = os.path.join(folder, name)
    with open(path, "w", encoding="utf-8") as file:
        file.write(text)
    os.chmod(path, mode)
    return path


def what_is_no_program_is_refused(folder):
    """In one line, before any test."""
    script = SERVER.format(python=sys.executable, reply="pass")
    for name, path in (("no such file", os.path.join(folder, "none")), ("no command", "no-such-command"),
                       ("a folder", folder), ("not executable", written(folder, "plain", script, 0o644)),
                       ("no first line", written(folder, "bare", "print()\n")),
                       ("no interpreter", written(folder, "lost", "#!/no/such/python\n"))):
        status, said = grade(0, [path])
        if status != 2 or said.count("\n") != 1 or not said.startswith(f"ladder: cannot grade {path}: "):
            return f"{name}: status {status}\n{said}"
    return None


def one_that_does_not_start_fails_once(folder):
    path = written(folder, "ends", f"#!{sys.executable}\nimport sys\nsys.exit('no port of mine')\n")
    status, said = grade(0, [path])
    lines = said.splitlines()
    if status != 1 or HINT in said or lines[-1] != "0 passed, 1 failed" or lines[1].strip() != "no port of mine" \
            or "it ended before it listened, with status 1" not in said:
        return f"status {status}\n{said}"
    return None


def a_hint_is_for_one_that_has_answered(folder):
    for name, reply, hinted in ("mute", "pass", False), ("wrong", "connection.sendall(data.upper())", True):
        path = written(folder, name, SERVER.format(python=sys.executable, reply=reply))
        status, said = grade(0, [path], ONLY=ECHO)
        if status != 1 or (f"{HINT}: {grader.TESTS[0][ECHO][0]}" in said) != hinted or (HINT in said) != hinted:
            return f"{name}: status {status}\n{said}"
    return None


def what_was_sent_and_came_is_shown(folder):
    path = written(folder, "wrong", SERVER.format(python=sys.executable, reply='connection.sendall(b"\\x01" * len(data))'))
    status, said = grade(0, [path], ONLY=ECHO)
    if status != 1 or "expected `n`, got `\\x01`" not in said or "    sent `n`\n    got `\\x01`\n" not in said:
        return f"status {status}\n{said}"
    status, said = grade(0, [path], ONLY="all_bytes_come_back")
    if status != 1 or not re.search(r"^    sent `.{1,400}`( and \d+ bytes more)?$", said, re.M) or len(said) > 2000:
        return f"many bytes: status {status}\n{said}"
    reply = """connection.sendall(b'{"method":"isPrime","prime":true}\\n' * data.count(b"\\n"))"""
    path = written(folder, "primes", SERVER.format(python=sys.executable, reply=reply))
    status, said = grade(1, [path], ONLY="numbers_of_all_kinds")
    if status != 1 or not re.search(r'isPrime (-?[\d.]+): expected {"method":"isPrime","prime":false}, got `{"method":'
                                    r'"isPrime","prime":true}`\n    sent `{.*"number":\1}\\n`\n', said):
        return f"a prime: status {status}\n{said}"
    if "standard error" in said:
        return f"what a server says of clients that leave when their test is over:\n{said}"
    return None


def the_cause_comes_first(folder):
    """A report, from its first line on, before what a client saw of it."""
    path = written(folder, "dies", SERVER.format(python=sys.executable, reply=DIES))
    status, said = grade(0, [path], ONLY=ECHO)
    lines = said.splitlines()
    seen = [n for n, text in enumerate(lines) if "expected a byte, " in text]
    if status != 1 or lines[1].strip() != REPORT or "noise" in said or not seen \
            or "it ended meanwhile, by SIGKILL" not in said or lines[2].strip() != "#0 frame" or len(lines) > 25:
        return f"status {status}\n{said}"
    reply = "connection.shutdown(2); os.read(-1, 1)"
    path = written(folder, "late", SERVER.format(python=sys.executable, reply=reply))
    status, said = grade(0, [path], ONLY=ECHO)
    if status != 1 or said.find("OSError: ") > said.find("expected a byte, got ") or "OSError: " not in said:
        return f"one that closes, and then says why: status {status}\n{said}"
    return None


def another_object_is_no_crash_of_the_grader(folder):
    path = written(folder, "list", SERVER.format(python=sys.executable, reply='connection.sendall(b"[]\\n")'))
    for problem, test in (1, "big_numbers"), (9, "the_most_urgent_first"):
        status, said = grade(problem, [path], ONLY=test)
        if status != 1 or "Traceback" in said or "expected an object of JSON, got `[]`" not in said:
            return f"problem {problem}: status {status}\n{said}"
    return None


def a_command_finds_its_files_here(folder):
    """An interpreter from PATH, with a file that is named from where the grader is called."""
    path = written(folder, "echo.py", SERVER.format(python=sys.executable, reply="connection.sendall(data)"), 0o644)
    status, said = grade(0, ["python3", os.path.relpath(path)], ONLY=ECHO, PATIENCE="10")
    return None if status == 0 else f"status {status}\n{said}"


PRINTED = (what_is_no_program_is_refused, one_that_does_not_start_fails_once, a_hint_is_for_one_that_has_answered,
           what_was_sent_and_came_is_shown, the_cause_comes_first, another_object_is_no_crash_of_the_grader,
           a_command_finds_its_files_here)


def in_a_folder(function):
    with tempfile.TemporaryDirectory(prefix="ladder.") as folder:
        return function(folder)


def check(path, folder):
    """None, or what is not as it should be."""
    name = os.path.basename(path)[:-len(".patch")]
    problem, solution = int(name.partition("_")[0]), None
    with open(path, encoding="utf-8") as patch:
        text = patch.read()
    test, solution = re.search(r"^Fails: (\w+)$", text, re.M)[1], re.search(r"^--- (\w+)\.c$", text, re.M)[1]
    if text.count("\n") > LINES_MAX:
        return f"it has {text.count(chr(10))} lines, at most {LINES_MAX} are allowed"
    if test not in grader.TESTS[problem]:
        return f"the grader has no test {test}"
    status, said = grade(problem, [os.path.join(folder, name), "--app", solution], PATIENCE="3", ONLY=test)
    if status != 1 or f"problem {problem}, {test}: " not in said or "Traceback" in said:
        return f"{test} should fail:\n{said}"
    return None


def main():
    folder = os.path.abspath(sys.argv[1])
    counted = collections.Counter()
    passed = failed = 0
    with concurrent.futures.ThreadPoolExecutor(4) as pool:
        jobs = {}
        for path in sorted(glob.glob(os.path.join(HERE, "*.patch"))):
            counted[int(os.path.basename(path).partition("_")[0])] += 1
            jobs[pool.submit(check, path, folder)] = os.path.basename(path)
        jobs.update((pool.submit(in_a_folder, function), function.__name__) for function in PRINTED)
        for problem in grader.TESTS:
            jobs[pool.submit(lambda problem: counted[problem] < WRONG_MIN and f"has {counted[problem]} wrong programs, "
                             f"expected {WRONG_MIN}", problem)] = f"problem {problem}"
        for job, name in jobs.items():
            wrong = job.result()
            passed, failed = passed + (not wrong), failed + bool(wrong)
            if wrong:
                print(f"ladder: FAILED: {name}: {wrong}", flush=True)
    print(f"{passed} passed, {failed} failed")
    sys.exit(failed > 0)


if __name__ == "__main__":
    main()
