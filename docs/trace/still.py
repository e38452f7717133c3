#!/usr/bin/env python3
"""Makes a still picture of traces, for a chapter: the same signs as on the page (page.html), as SVG.

  usage: docs/trace/still.py WHAT TITLE (NAME TRACE.json)... >PICTURE.svg

  costly   the handler run that takes longest, and some time around it
  resume   the longest time for which the guard is held
  life     one request, from the task that is queued to the interest that is on again: the shortest of those
           beside which least of other connections happens

The traces are drawn below each other, each with its name, at the same scale, from the moment that
they are about. In `life` every event gets the same room.
"""

import bisect
import json
import math
import sys
from html import escape

WIDTH, LEFT, ROW, MARKS, GAP = 760, 92, 18, 18, 6
WAITS = {"select", "barrier", "blocked in read", "blocked in write"}
LETTERS = {"wakeup": "w", "wakeup coalesced": "v", "register": "+", "interest": "i", "change queued": "c",
           "change applied": "C", "task queued": "t", "task dropped": "x", "receive": "r", "send": "s",
           "accept": "A", "close": "\u2715", "timer": "T"}
STYLE = """
    text { font: 12px system-ui, -apple-system, "Segoe UI", Roboto, "DejaVu Sans", sans-serif; fill: #1f2226 }
    .name { font-weight: 600 } .small { fill: #5a6068 } .mark { font-size: 10px; font-weight: 600; text-anchor: middle }
    .line { stroke: #dcdcd8 } .sign { fill: #ffffff; stroke: #1f2226 } .tick { stroke: #1f2226 }
    .wait { fill: url(#hatch); stroke: #8d939b } .task { fill: #cfe0f2; stroke: #1f2226; stroke-width: .6 }
    .guard { fill: #f5d9a8; stroke: #1f2226; stroke-width: .6 } .handler { stroke: #1f2226; stroke-width: 1.2 }
    .h0 { fill: #9cc7ee } .h1 { fill: #a9d8a2 } .h2 { fill: #f3c08e } .h3 { fill: #d4b3ea } .h4 { fill: #f0a9b4 } .h5 { fill: #a5dcd6 }
    .ground { fill: #e9e9e5 } .hatch { stroke: #b3b8be } .arrow { fill: none; stroke: #5a6068 } .tip { fill: #5a6068 }
    @media (prefers-color-scheme: dark) {
      text { fill: #e2e2de } .small { fill: #a3a9b1 }
      .line { stroke: #363b42 } .sign { fill: #16181b; stroke: #e2e2de } .tick { stroke: #e2e2de }
      .wait { stroke: #6d747d } .task { fill: #23384e; stroke: #e2e2de } .guard { fill: #5a4415; stroke: #e2e2de }
      .handler { stroke: #e2e2de }
      .h0 { fill: #2c5f8f } .h1 { fill: #356a2e } .h2 { fill: #855018 } .h3 { fill: #65418a } .h4 { fill: #8a3b4a } .h5 { fill: #23696a }
      .ground { fill: #24282d } .hatch { stroke: #4a5058 } .arrow { stroke: #a3a9b1 } .tip { fill: #a3a9b1 }
    }"""


class Trace:
    def __init__(self, document):
        self.names, self.events, self.slices, self.arrows = {}, [], [], []
        stacks, starts, last = {}, {}, None
        for each in document["traceEvents"]:
            if each["pid"] == 2:  # a client
                continue
            if each["ph"] == "M":
                if each["name"] == "thread_name":
                    self.names[each["tid"]] = each["args"]["name"]
                continue
            us, tid = each["ts"], each["tid"]
            if each["ph"] == "s":
                starts[each["id"]] = (last, each["name"])
            elif each["ph"] == "f" and each["id"] in starts:
                self.arrows.append((*starts[each["id"]], {"ts": us, "tid": tid}))
            elif each["ph"] == "B":
                slice = dict(each, depth=len(stacks.setdefault(tid, [])), end=math.inf)
                stacks[tid].append(slice)
                self.slices.append(slice)
            elif each["ph"] == "E" and stacks.get(tid):
                stacks[tid].pop()["end"] = us
            if each["ph"] in "BEiX":
                last = each
                self.events.append(each)

    def runs(self):
        return [slice for slice in self.slices if slice["name"] == "handler"]

    def longest(self, name):
        return max((slice for slice in self.slices if slice["name"] == name), key=lambda s: s["end"] - s["ts"])


def costly(trace):
    run = trace.longest("handler")
    return run["ts"], run["ts"] - 3000, run["end"] + 7000, None


def resume(trace):
    guard = trace.longest("guard held")
    return guard["ts"], guard["ts"] - 400, guard["end"] + 500, None


def life(trace):
    """The shortest way from a task to the interest that is on again, of one with bytes in and out."""
    best = None
    for queued in (event for event in trace.events if event["name"] == "task queued"):
        own = [event for event in trace.events if event["ts"] >= queued["ts"] and
               event["args"].get("connection") == queued["args"].get("connection")]
        end = next((i for i, event in enumerate(own) if i > 0 and event["name"] in ("interest", "task queued")), None)
        names = {event["name"] for event in own[:end]}
        if end is None or own[end]["name"] != "interest" or not {"receive", "send", "change applied"} <= names:
            continue
        tids = {event["tid"] for event in own[:end + 1]}
        wakes = any(event["name"] == "wakeup" and event["tid"] in tids and
                    queued["ts"] < event["ts"] < own[end]["ts"] for event in trace.events)
        if not wakes or len(tids) != 2:
            continue
        others = sum(queued["ts"] - 12 < event["ts"] < own[end]["ts"] and event["tid"] in tids and
                     event["args"].get("connection", queued["args"]["connection"]) != queued["args"]["connection"]
                     for event in trace.events)
        worth = others, own[end]["ts"] - queued["ts"]
        if best is None or worth < best[0]:
            best = worth, queued["ts"], own[end]["ts"], tids
    _, start, end, tids = best
    zero = start
    return zero, start - 12, end + 4, tids


def time(us):
    return f"{us / 1000:g} ms" if abs(us) >= 1000 else f"{us:g} \u00b5s"


class Picture:
    def __init__(self, title):
        self.parts, self.title, self.y = [], title, 8

    def add(self, text):
        self.parts.append(text)

    def text(self, x, y, text, kind=""):
        self.add(f'<text x="{x:.1f}" y="{y:.1f}"{f" class={chr(34)}{kind}{chr(34)}" if kind else ""}>{escape(text)}</text>')

    def draw(self, name, trace, window, longest, even):
        zero, start, _, tids = window
        scale = (WIDTH - LEFT - 6) / longest
        x = lambda us: LEFT + (us - start) * scale
        if even:
            times = [e["ts"] for e in trace.events if e["tid"] in tids and start <= e["ts"] <= start + longest]
            room = (WIDTH - LEFT) / (len(times) + 1)
            x = lambda us: LEFT + room * (bisect.bisect_left(times, us) + 1)
        inside = lambda us: start <= us <= start + longest
        self.text(0, self.y + 10, name, "name")
        self.y += 20
        top, rows = self.y, {}
        self.y += 16
        for tid, thread in self.names_of(trace, tids, start, start + longest):
            depth = 1 + max((s["depth"] for s in trace.slices if s["tid"] == tid and s["end"] > start and
                             s["ts"] < start + longest), default=0)
            rows[tid] = self.y
            self.text(2, self.y + MARKS + ROW / 2 + 3, thread, "name")
            self.y += MARKS + depth * ROW + GAP
        for step in [] if even else self.steps(longest):
            at = zero + step
            if inside(at) and x(at) < WIDTH - 36:
                self.add(f'<path class="line" d="M{x(at):.1f} {top} V{self.y}"/>')
                self.text(x(at) + 3, top + 11, time(step), "small")
        for y in rows.values():
            self.add(f'<path class="line" d="M0 {y - 2} H{WIDTH}"/>')
        for slice in trace.slices:
            if slice["tid"] in rows and slice["end"] >= start and slice["ts"] <= start + longest:
                self.block(slice, max(x(slice["ts"]), LEFT), min(x(slice["end"]), WIDTH), rows[slice["tid"]])
        for event, kind, effect in trace.arrows:
            if event and event["tid"] in rows and effect["tid"] in rows and inside(event["ts"]) and inside(effect["ts"]):
                self.arrow(trace, event, kind, effect, x, rows, longest)
        for tid, y in rows.items():
            self.marks([e for e in trace.events if e["tid"] == tid and inside(e["ts"])], x, y)
        self.y += 10

    def names_of(self, trace, tids, start, end):
        for tid, name in sorted(trace.names.items()):
            busy = any(e["tid"] == tid and start <= e["ts"] <= end for e in trace.events)
            if (tids is None and busy) or (tids is not None and tid in tids):
                yield tid, name

    @staticmethod
    def steps(longest):
        step = 10 ** math.floor(math.log10(longest / 6))
        step *= next(factor for factor in (1, 2, 5, 10) if longest / (step * factor) <= 7)
        return [i * step for i in range(-20, 60)]

    def block(self, slice, left, right, y):
        serial = int(slice["args"].get("connection", "#0").split("#")[1])
        name = slice["name"]
        kind = "wait" if name in WAITS else f"handler h{serial % 6}" if name == "handler" else \
            "guard" if name == "guard held" else "task"
        top, width = y + MARKS + slice["depth"] * ROW, max(right - left, 1)
        self.add(f'<rect class="{kind}" x="{left:.1f}" y="{top}" width="{width:.1f}" height="{ROW - 3}"/>')
        label = name + (f" #{serial}" if serial else "")
        if width > 6.8 * len(label) + 6:
            if kind == "wait":
                self.add(f'<rect class="ground" x="{left + 2:.1f}" y="{top + 2}" width="{6.4 * len(label) + 3:.1f}" height="{ROW - 7}"/>')
            self.text(left + 4, top + 11.5, label)

    def arrow(self, trace, event, kind, effect, x, rows, longest):
        def height(tid, ts, name):
            over = [s for s in trace.slices if s["tid"] == tid and s["ts"] <= ts <= s["end"] and s["name"] == name]
            return rows[tid] + (MARKS + over[-1]["depth"] * ROW + ROW / 2 if over else MARKS / 2)
        x1, y1 = x(event["ts"]), height(event["tid"], event["ts"], event["name"])
        x2, y2 = x(effect["ts"]), height(effect["tid"], effect["ts"], {"wakeup": "select", "task": "task"}.get(kind, ""))
        if x2 - x1 < 4 and longest > 3000:
            return  # a forest otherwise
        dash = {"wakeup": ' stroke-dasharray="6 4"', "change": ' stroke-dasharray="2 3"'}.get(kind, "")
        bend = min(40, max(6, (x2 - x1) / 2))
        self.add(f'<path class="arrow"{dash} d="M{x1:.1f} {y1:.1f} C{x1 + bend:.1f} {y1:.1f} {x2 - bend:.1f} {y2:.1f} {x2 - 4:.1f} {y2:.1f}"/>'
                 f'<path class="tip" d="M{x2:.1f} {y2:.1f} l-7 -4 v8 z"/>')

    def marks(self, events, x, y):
        free = -math.inf
        for event in events:
            letter, at = LETTERS.get(event["name"]), x(event["ts"])
            if letter is None or event["ph"] in "BE":
                continue
            if at - free < 13:
                if at - free > 7:
                    self.add(f'<path class="tick" d="M{at:.1f} {y + 5} v8"/>')
                continue
            free = at
            shape = f'<circle class="sign" cx="{at:.1f}" cy="{y + 9}" r="6.5"/>' if letter.islower() else \
                f'<rect class="sign" x="{at - 6:.1f}" y="{y + 3}" width="12" height="12"/>'
            self.add(shape)
            self.text(at, y + 12.5, letter, "mark")

    def svg(self):
        return (f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {self.y}" width="{WIDTH}" height="{self.y}" role="img">\n'
                f'  <title>{escape(self.title)}</title>\n  <style>{STYLE}\n  </style>\n'
                '  <defs><pattern id="hatch" width="7" height="7" patternUnits="userSpaceOnUse" patternTransform="rotate(45)">'
                '<rect class="ground" width="7" height="7"/><path class="hatch" d="M0 0 V7"/></pattern></defs>\n  '
                + "\n  ".join(self.parts) + "\n</svg>\n")


def main(what, title, *rest):
    pictures = []
    for name, file in zip(rest[::2], rest[1::2]):
        with open(file, encoding="ascii") as text:
            trace = Trace(json.load(text))
        pictures.append((name, trace, {"costly": costly, "resume": resume, "life": life}[what](trace)))
    longest = max(window[2] - window[1] for _, _, window in pictures)
    picture = Picture(title)
    for name, trace, window in pictures:
        picture.draw(name, trace, window, longest, what == "life")
    sys.stdout.write(picture.svg())


if __name__ == "__main__":
    main(*sys.argv[1:])
