#!/usr/bin/env python3
"""Reads traces (--trace FILE) and proves what has to hold in each.

  usage: tests/trace_check.py FILE...

  ends      whatever begins in a thread ends there, the inner before the outer
  time      no thread's time runs backwards
  runs      no two runs of one connection's handler overlap, in whatever threads
  tasks     a queued task is started or dropped, once, before it is queued again
  wakeups   a wakeup that was written is followed by a return of that selector's select, in time
  closed    after the last close of a connection nothing of it appears, but a task that a helper begins

A thread keeps its last events only. Where some were overwritten, rules that look at several threads
hold from the moment on from which all of them are complete; where a thread was left out altogether,
they are not looked at. An empty file is that of a server that was killed, and is passed over.

Prints what is wrong, and "N passed, N failed" for the files at the end, with ", N skipped" where
some were empty. Exit status 0 if nothing is wrong.
"""

import collections
import json
import sys

WAKEUP_LIMIT = 5_000_000_000  # ns: longer than a busy machine keeps a thread waiting
SHOWN = 10                    # faults of one file

Event = collections.namedtuple("Event", "phase tid ns name args")


class Trace:
    def __init__(self, document):
        self.program = document["otherData"]["program"]
        self.whole = document["otherData"]["threads_left_out"] == 0
        self.names = {}
        self.events = []  # in the order of the file: of time, and for each thread its own
        overwritten = set()
        for each in document["traceEvents"]:
            if each["ph"] == "M":
                if each["name"] == "thread_name":
                    self.names[each["tid"]] = each["args"]["name"]
                    if each["args"]["overwritten"] > 0:
                        overwritten.add(each["tid"])
            elif each["ph"] in "BEiX" and each["pid"] == 1:  # 2: clients of a scene
                self.events.append(Event(each["ph"], each["tid"], round(each["ts"] * 1000),
                                         each["name"], each["args"]))
        first = {}
        for event in self.events:
            first.setdefault(event.tid, event.ns)
        self.complete_from = max((first.get(tid, 0) for tid in overwritten), default=-1)

    def of_all_threads(self):
        """The events of all threads from the moment on from which none is missing."""
        if not self.whole:
            return []
        return [event for event in self.events if event.ns >= self.complete_from]

    def say(self, rule, event, what):
        thread = self.names.get(event.tid, event.tid)
        return f"{rule}: [{thread}] {event.ns / 1000:.3f} us: {what}"


def check_ends(trace):
    open_in = collections.defaultdict(list)
    for event in trace.events:
        stack = open_in[event.tid]
        if event.phase == "B":
            stack.append(event)
        elif event.phase == "E":
            if not stack:
                yield trace.say("ends", event, f"'{event.name}' ends and had not begun")
            elif stack[-1].name != event.name:
                yield trace.say("ends", event, f"'{event.name}' ends inside '{stack[-1].name}'")
            if stack:
                stack.pop()
    for stack in open_in.values():
        for event in stack:
            yield trace.say("ends", event, f"'{event.name}' begins and does not end")


def check_time(trace):
    latest = {}
    for event in trace.events:
        if event.ns < latest.get(event.tid, event.ns):
            yield trace.say("time", event, f"'{event.name}' comes after {latest[event.tid] / 1000:.3f} us")
        latest[event.tid] = max(event.ns, latest.get(event.tid, event.ns))


def check_runs(trace):
    runs = collections.defaultdict(list)  # of a connection: begin and end
    open_in = collections.defaultdict(list)
    for event in trace.events:
        stack = open_in[event.tid]
        if event.phase == "B":
            stack.append(event)
        elif event.phase == "E" and stack:
            begin = stack.pop()
            if begin.name == "handler" and "connection" in begin.args:
                runs[begin.args["connection"]].append((begin.ns, event.ns, begin))
    for connection, intervals in runs.items():
        intervals.sort(key=lambda run: run[:2])
        until = -1
        for begin, end, event in intervals:
            if begin < until:
                yield trace.say("runs", event, f"the handler of {connection} runs already")
            until = max(until, end)


def check_tasks(trace):
    queued = {}
    for event in trace.of_all_threads():
        task = event.args.get("task")
        if event.name == "task queued":
            if task in queued:
                yield trace.say("tasks", event, f"task {task} is queued already")
            queued[task] = event
        elif event.name == "task dropped" or (event.name == "task" and event.phase == "B"):
            queued.pop(task, None)  # one that the submitter runs itself was never queued
    for task, event in queued.items():
        yield trace.say("tasks", event, f"task {task} is queued, and neither started nor dropped")


def check_wakeups(trace):
    selecting = {}  # of a thread: the selector
    busy = set()    # selectors
    waiting = collections.defaultdict(list)
    for event in trace.of_all_threads():
        selector = event.args.get("selector")
        if event.name == "wakeup":
            waiting[selector].append(event)
        elif event.name == "select" and event.phase == "B":
            selecting[event.tid] = selector
            busy.add(selector)
        elif event.name == "select" and event.phase == "E":
            selector = selecting.pop(event.tid, None)
            busy.discard(selector)
            for wakeup in waiting.pop(selector, []):
                if event.ns - wakeup.ns > WAKEUP_LIMIT:
                    yield trace.say("wakeups", wakeup, f"select returned {(event.ns - wakeup.ns) / 1e9:.1f} s later")
    # Who does not select any more needs no wakeup.
    for selector, wakeups in waiting.items():
        if selector in busy:
            for wakeup in wakeups:
                yield trace.say("wakeups", wakeup, "no select returned after it")


def check_closed(trace):
    closed = {}
    for event in trace.events:
        if event.name == "close" and "connection" in event.args:
            closed[event.args["connection"]] = event.ns
    for event in trace.events:
        connection = event.args.get("connection")
        if event.name == "task" and trace.names.get(event.tid, "").startswith("helper"):
            continue  # it was queued while the client was there, and its result is dropped
        if event.ns > closed.get(connection, event.ns):
            yield trace.say("closed", event, f"'{event.name}' of {connection}, which was closed at "
                                             f"{closed[connection] / 1000:.3f} us")


RULES = (check_ends, check_time, check_runs, check_tasks, check_wakeups, check_closed)


def faults_of(text):
    try:
        trace = Trace(json.loads(text))
    except (ValueError, KeyError, TypeError) as error:
        return [f"not a whole trace: {error!r}"]
    return [fault for rule in RULES for fault in rule(trace)]


def main(names):
    passed = failed = skipped = 0
    for name in names:
        with open(name, encoding="ascii") as file:
            text = file.read()
        if not text:
            skipped += 1
            continue
        faults = faults_of(text)
        for fault in faults[:SHOWN]:
            print(f"{name}: {fault}")
        if len(faults) > SHOWN:
            print(f"{name}: and {len(faults) - SHOWN} more")
        failed += bool(faults)
        passed += not faults
    print(f"{passed} passed, {failed} failed" + (f", {skipped} skipped" if skipped else ""))
    return failed > 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
