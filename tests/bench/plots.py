"""Pictures of what was measured, and the words below them. What a run has not measured is not drawn."""

import os

from chart import Axis, line_chart
from results import STAGE_5

# The same line for a program in all pictures; floors and peers are dashed.
STYLES = {"raw epoll": 0, "raw threads": -1, "raw io_uring": -6, "libevent": -7, "libuv": -5,
          "stage 1": 1, "stage 2": 2, "stage 3": 3, "stage 4": 4, STAGE_5: 5}
WITH_WORKERS = 7
PERCENTILES = ((0, "p50"), (1, "p90"), (2, "p99"), (3, "p99.9"))


def style_of(program):
    return STYLES.get(program, WITH_WORKERS)


def lines(results, figure, **wanted):
    """A line for each program; figure(program) is a list of (x, y), where y may be None."""
    found = []
    for program in results.values("program", **wanted):
        points = [(x, y) for x, y in figure(program) if y is not None]
        if len(points) > 1:
            found.append((program, style_of(program), points))
    return found


def in_words(series, x, digits, unit=""):
    """What the lines are at one place."""
    return ", ".join(f"{name} {dict(points)[x]:,.{digits}f}{unit}" for name, _, points in series
                     if x in dict(points))


def against_connections(results, depth):
    """CPU time as a ratio to the raw epoll loop."""
    def figure(program):
        for count in sorted(results.values("connections", experiment="echo", depth=depth)):
            here = {"experiment": "echo", "connections": count, "depth": depth}
            yield count, results.ratio("cpu_us_per_reply", dict(here, program=program),
                                       dict(here, program="raw epoll"))
    return lines(results, figure, experiment="echo", depth=depth)


def percentiles(results, **wanted):
    def figure(program):
        for place, name in PERCENTILES:
            value = results.median(f"latency_{name}_us", program=program, **wanted)
            yield place, value and value / 1000
    found = lines(results, figure, **wanted)
    return found if any(len(points) > 2 for _, _, points in found) else []


def memory(results):
    def figure(program):
        for idle in results.values("idle", experiment="idle"):
            yield idle + 100, results.median("bytes_per_connection", experiment="idle", program=program, idle=idle)
    return lines(results, figure, experiment="idle")


def counts(series):
    return [(x, f"{x:,}") for x in sorted({x for _, _, points in series for x, _ in points})]


def pictures(results):
    """Name, title, words about the figures, axes and lines of each picture."""
    for depth in (1, 16):
        series = against_connections(results, depth)
        if series:
            yield (f"cpu-{depth}",
                   f"CPU time for each message, as a ratio to the raw epoll loop, at depth {depth}",
                   f"at 100 connections: {in_words(series, 100, 2)}",
                   Axis("connections", log=True, ticks=counts(series)), Axis("ratio to the raw epoll loop"), series)
    series = percentiles(results, experiment="echo", connections=100, depth=1)
    if series:
        yield ("latency", "Latency of 100 connections in a closed loop, in milliseconds",
               f"the 99th percentile: {in_words(series, 2, 2)}",
               Axis("percentile of the replies", ticks=list(PERCENTILES)), Axis("milliseconds", log=True), series)
    series = memory(results)
    if series:
        most = series[0][2][-1][0]
        yield ("memory", "Memory of the server for each connection, nearly all of them idle",
               f"at {most:,} connections, in bytes: {in_words(series, most, 0)}",
               Axis("connections", log=True, ticks=counts(series)), Axis("bytes", log=True), series)
    series = percentiles(results, experiment="slow", variant="slow")
    if series:
        yield ("slow", "One message in a hundred blocks for 10 ms: the latency of the other messages",
               f"the 99th percentile, in milliseconds: {in_words(series, 2, 1)}",
               Axis("percentile of the replies", ticks=list(PERCENTILES)), Axis("milliseconds", log=True), series)


def draw(folder, name, title, words, x_axis, y_axis, series):
    """Writes a picture; the line of a document that shows it, with the words as its alternative text."""
    os.makedirs(folder, exist_ok=True)
    with open(os.path.join(folder, f"measured-{name}.svg"), "w", encoding="utf-8") as file:
        file.write(line_chart(title, f"{title}; {words}.", x_axis, y_axis, series))
    return f"![{title}; {words}](diagrams/measured-{name}.svg)"


def draw_all(results, folder):
    """Draws what can be drawn; the lines that show it, by name."""
    return {picture[0]: draw(folder, *picture) for picture in pictures(results)}
