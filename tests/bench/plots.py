"""Draws what bench-full has measured, as SVG, where gnuplot is installed."""

import os
import shutil
import subprocess

HEAD = """
set terminal svg size 960,480 font 'sans-serif,13' background rgb 'white'
set key outside right top
set grid
set style data linespoints
"""


def blocks(path, lines):
    """One block of data for each line of a plot."""
    with open(path, "w", encoding="utf-8") as file:
        for name, points in lines:
            file.write(f'"{name}"\n')
            file.writelines(f"{x} {y}\n" for x, y in points if y is not None)
            file.write("\n\n")


def draw(folder, name, title, settings, lines, style="linespoints"):
    lines = [(label, points) for label, points in lines if points]
    if not lines:
        return None
    data = os.path.join(folder, name + ".data")
    picture = os.path.join(folder, name + ".svg")
    blocks(data, lines)
    script = HEAD + settings + f"""
set title "{title}"
set output '{picture}'
plot for [i=0:{len(lines) - 1}] '{data}' index i using 1:2 with {style} title columnheader(1)
"""
    subprocess.run(["gnuplot"], input=script, text=True, check=True)
    return picture


def against_connections(results, field, scale, depth):
    for program in results.values("program", experiment="echo"):
        wanted = {"experiment": "echo", "program": program, "depth": depth}
        points = sorted((connections, results.median(field, connections=connections, **wanted))
                        for connections in results.values("connections", **wanted))
        yield program, [(x, y * scale) for x, y in points]


def memory(results):
    for program in results.values("program", experiment="idle"):
        wanted = {"experiment": "idle", "program": program}
        yield program, sorted((idle, results.median("bytes_per_connection", idle=idle, **wanted) / 1024
                               * (idle + 100) / 1024)
                              for idle in results.values("idle", **wanted))


def slow(results):
    for program in results.values("program", experiment="slow"):
        yield program, [(part, results.median(f"latency_{name}_us", experiment="slow",
                                              program=program, variant="slow"))
                        for part, name in ((50, "p50"), (90, "p90"), (99, "p99"), (99.9, "p99.9"))]


def draw_all(results, folder):
    """The pictures' paths; none without gnuplot."""
    if shutil.which("gnuplot") is None:
        return []
    connections = "set logscale x\nset xlabel 'connections'\n"
    pictures = []
    for depth in results.values("depth", experiment="echo"):
        pictures.append(draw(
            folder, f"throughput-depth-{depth}", f"Throughput, depth {depth}",
            connections + "set ylabel 'thousand replies a second'\nset yrange [0:*]\n",
            against_connections(results, "replies_per_second", 1e-3, depth)))
        pictures.append(draw(
            folder, f"latency-depth-{depth}", f"Latency, p99, depth {depth}",
            connections + "set ylabel 'milliseconds'\nset logscale y\n",
            against_connections(results, "latency_p99_us", 1e-3, depth)))
    pictures.append(draw(
        folder, "memory", "Memory of the server against idle connections",
        "set xlabel 'idle connections'\nset ylabel 'MiB'\nset logscale y\n", memory(results)))
    pictures.append(draw(
        folder, "slow", "One message in a hundred takes 10 ms: the other messages",
        "set xlabel 'percentile'\nset ylabel 'latency, microseconds'\nset logscale y\n"
        "set xtics (50, 90, 99)\n", slow(results)))
    return [picture for picture in pictures if picture]
