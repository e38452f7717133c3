#!/usr/bin/env python3
"""Tests the grader of stores: right programs pass it, and each wrong one fails by the test that names its mistake.

  usage: tests/store/store_test.py [TASKS]        (3, or 1-8)

- tests/store/reference.py passes all eight tasks.
- redis-server passes the first seven; of the eighth it fails the test that docs/build-a-store.md shows. Without
  redis-server these are skipped, and counted.
- Each program of tests/store/mistakes.py fails its task, and the test that is named for it is among those that
  fail; each task has three or more.
- A file that is no program is refused in one sentence.
- A task on the page has at most 400 words, a table, and no code.

Prints what failed, and "N passed, N failed" at the end, with ", N skipped" if any were.
"""
import collections
import concurrent.futures
import os
import re
import shutil
import subprocess
import sys

import grader
import mistakes

HERE = os.path.dirname(os.path.abspath(__file__))
WORDS_MAX = 400
RED = "clients_that_send_are_not_reset"  # at SIGTERM redis resets clients that send


def grade(task, *command, patience):
    """Exit status, the names of the tests that failed, and all that the grader said."""
    graded = subprocess.run([sys.executable, os.path.join(HERE, "grader.py"), str(task), *command], timeout=500,
                            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                            env=dict(os.environ, PATIENCE=str(patience)), check=False)
    return graded.returncode, re.findall(r"FAILED: task \d, (\w+):", graded.stdout), graded.stdout


def right(task, *command):
    status, failed, said = grade(task, *command, patience=30)
    if status != 0 or failed:
        return said
    return None


def red(task, *command):
    status, failed, said = grade(task, *command, patience=30)
    if status != 1 or failed != [RED]:
        return f"only {RED} should fail:\n{said}"
    return None


def wrong(task, test, name):
    status, failed, said = grade(task, sys.executable, os.path.join(HERE, "mistakes.py"), name, patience=3)
    if status != 1 or test not in failed or grader.TESTS[task][test][0] not in said or "Traceback" in said:
        return f"{test} should fail, and say no more than that:\n{said}"
    return None


def unstartable():
    """A file that is no program is told so, and once."""
    status, failed, said = grade(1, __file__.replace("store_test.py", "requests.c"), patience=3)
    if status != 1 or failed or "the system cannot start" not in said or "Traceback" in said:
        return f"the grader should say that it cannot be started:\n{said}"
    return None


def page():
    with open(grader.PAGE, encoding="utf-8") as file:
        sections = re.split(r"^## ", file.read(), flags=re.M)
    tasks = {int(text[5]): text for text in sections if text.startswith("Task ")}
    for task in range(1, 9):
        text = tasks[task]
        words = sum(1 for word in re.sub(r"\]\([^)]*\)", "]", text).split() if re.search(r"[A-Za-z0-9]", word))
        if words > WORDS_MAX:
            return f"task {task} has {words} words, at most {WORDS_MAX} are allowed"
        if not list(grader.page_rows(task)):
            return f"task {task} shows no bytes"
        if set(re.findall(r"^```(.*)$", text, flags=re.M)) - {"", "console"}:
            return f"task {task} shows code"
    return None


def main():
    first, _, last = (sys.argv[1:] or ["1-8"])[0].partition("-")
    tasks = range(int(first), int(last or first) + 1)
    redis = shutil.which("redis-server")
    skipped = 0
    counted = collections.Counter(task for task, _, _ in mistakes.MISTAKES)
    with concurrent.futures.ThreadPoolExecutor(4) as pool:
        jobs = {pool.submit(page): "the page", pool.submit(unstartable): "a file that is no program"}
        for task, test, kind in mistakes.MISTAKES:
            if task in tasks:
                jobs[pool.submit(wrong, task, test, kind.__name__)] = f"task {task}, {kind.__name__}"
        for task in tasks:
            jobs[pool.submit(lambda task: counted[task] < 3 and "fewer than three wrong programs", task)] = f"task {task}"
            jobs[pool.submit(right, task, sys.executable, os.path.join(HERE, "reference.py"))] = f"task {task}, the reference"
            if redis:
                jobs[pool.submit(red if task == 8 else right, task, redis)] = f"task {task}, redis-server"
            else:
                skipped += 1
                print(f"skipped: store, task {task}: redis-server is not installed")
        failed = 0
        for job, name in jobs.items():
            if job.result():
                failed += 1
                print(f"store: FAILED: {name}: {job.result()}", flush=True)
    print(f"{len(jobs) - failed} passed, {failed} failed" + (f", {skipped} skipped" if skipped else ""))
    sys.exit(failed > 0)


if __name__ == "__main__":
    main()
