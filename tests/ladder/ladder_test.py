#!/usr/bin/env python3
"""Tests the graders of the ladder: each fails what is wrong, by the test that names the mistake.

  usage: tests/ladder/ladder_test.py FOLDER

A wrong program is one of our solutions with a mistake: tests/ladder/PROBLEM_NAME.patch, of at most 20 lines. Its first
line says what is wrong, its second one which test fails. FOLDER has the programs, built, under the same names.

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

HERE = os.path.dirname(os.path.abspath(__file__))
SPEC = importlib.util.spec_from_file_location("ladder", os.path.join(HERE, "grader.py"))  # the store's has the same name
grader = importlib.util.module_from_spec(SPEC)
SPEC.loader.exec_module(grader)
LINES_MAX, WRONG_MIN = 20, 3


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
    graded = subprocess.run([sys.executable, os.path.join(HERE, "grader.py"), str(problem), os.path.join(folder, name),
                             "--app", solution], env=dict(os.environ, PATIENCE="3", ONLY=test), stdin=subprocess.DEVNULL,
                            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=300, check=False)
    if graded.returncode != 1 or f"problem {problem}, {test}: " not in graded.stdout:
        return f"{test} should fail:\n{graded.stdout}"
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
