"""Draws line charts as SVG, with nothing but Python.

A chart follows the reader's theme, is narrow enough for a phone, and names each line where it ends; marks differ in
shape, too, so that it can be read in print. Its title and description say in words what it shows.
"""

import math
from xml.sax.saxutils import escape

WIDTH, HEIGHT = 460, 340
LEFT, RIGHT, TOP, BOTTOM = 50, 156, 40, 52  # margins; the names of the lines are in the right one
LABEL_GAP = 16

# Of each style: the colour in the light theme and in the dark one, and the shape of its marks.
STYLES = (
    ("#6b7078", "#a3a9b1", "circle"), ("#b3541e", "#e8a06a", "square"), ("#1f6fb5", "#6fb0ea", "circle"),
    ("#2e7d3c", "#74c483", "triangle"), ("#8246a8", "#c9a2e6", "diamond"), ("#b0305c", "#ef8bae", "square"),
    ("#7a6500", "#d6bd4a", "triangle"), ("#00766f", "#57c7bf", "diamond"),
)
SHAPES = {
    "circle": "M{x:.1f} {y:.1f}m-3.5 0a3.5 3.5 0 1 0 7 0a3.5 3.5 0 1 0-7 0z",
    "square": "M{x:.1f} {y:.1f}m-3.2-3.2h6.4v6.4h-6.4z",
    "triangle": "M{x:.1f} {y:.1f}m0-4.4l4.2 7.4h-8.4z",
    "diamond": "M{x:.1f} {y:.1f}m0-4.6l4.6 4.6l-4.6 4.6l-4.6-4.6z",
}


class Axis:
    """From which value to which, with what marks. `ticks` are (value, text)."""

    def __init__(self, label, log=False, ticks=None, low=None, high=None):
        self.label, self.log, self.ticks, self.low, self.high = label, log, ticks, low, high

    def fit(self, values):
        """Finds what was not given: ends that hold all values, and round numbers to mark."""
        given = [value for value, _ in self.ticks or ()]
        low, high = min(values + given), max(values + given)
        if self.log:
            low = min((value for value in values + given if value > 0), default=1)
        if not self.ticks:
            steps = self.powers(low, high) if self.log else self.steps(self.low or 0, self.high or high)
            self.ticks = [(value, f"{value:,.10g}") for value in steps]
            low, high = min(low, steps[0]), max(high, steps[-1])
        self.low = low if self.low is None else self.low
        self.high = high if self.high is None else self.high

    @staticmethod
    def powers(low, high):
        first, last = math.floor(math.log10(low)), math.floor(math.log10(high))
        return [float(f"1e{power}") for power in range(first, max(last, first + 1) + 1)]

    @staticmethod
    def steps(low, high):
        span = (high - low) or 1
        power = 10 ** math.floor(math.log10(span / 4))
        step = next(power * times for times in (1, 2, 5, 10) if span / (power * times) <= 6)
        return [round(low + i * step, 10) for i in range(math.ceil(span / step - 1e-9) + 1)]

    def part(self, value):
        """Where a value lies, from 0 to 1. On a logarithmic axis nothing is where it begins."""
        low, high = self.low, self.high
        if self.log:
            low, high, value = math.log(low), math.log(high), math.log(max(value, low))
        return (value - low) / (high - low) if high > low else 0.5


def spread(wanted, low, high):
    """Moves places apart until each has LABEL_GAP, as little as that takes; keeps their order, between low and high."""
    order = sorted(range(len(wanted)), key=lambda i: wanted[i])
    groups = []  # places that touch: the sum of where their first one wants to be, and how many they are
    for i in order:
        groups.append([wanted[i], 1])
        while len(groups) > 1 and groups[-2][0] / groups[-2][1] + groups[-2][1] * LABEL_GAP > \
                groups[-1][0] / groups[-1][1]:
            total, count = groups.pop()
            groups[-1][0] += total - count * groups[-1][1] * LABEL_GAP
            groups[-1][1] += count
    placed = [total / count + i * LABEL_GAP for total, count in groups for i in range(count)]
    placed = [max(place, low + i * LABEL_GAP) for i, place in enumerate(placed)]
    placed = [min(place, high - (len(placed) - 1 - i) * LABEL_GAP) for i, place in enumerate(placed)]
    return [placed[order.index(i)] for i in range(len(wanted))]


def style_sheet():
    light = "".join(f"\n    .s{i} {{ --c: {light} }}" for i, (light, _, _) in enumerate(STYLES))
    dark = "".join(f"\n      .s{i} {{ --c: {dark} }}" for i, (_, dark, _) in enumerate(STYLES))
    return f"""  <style>
    text {{ font: 13px system-ui, -apple-system, "Segoe UI", Roboto, "DejaVu Sans", sans-serif; fill: #1f2226 }}
    .axis {{ fill: #5a6068 }}
    .grid {{ fill: none; stroke: #d9dbde }}
    .lead {{ fill: none; stroke: #b3b8be; stroke-dasharray: 2 3 }}
    .line {{ fill: none; stroke: var(--c); stroke-width: 2; stroke-linejoin: round }}
    .dash {{ stroke-dasharray: 6 4 }}
    .mark {{ fill: var(--c) }}{light}
    @media (prefers-color-scheme: dark) {{
      text {{ fill: #e2e2de }}
      .axis {{ fill: #a3a9b1 }}
      .grid {{ stroke: #3a4048 }}
      .lead {{ stroke: #5a6068 }}{dark}
    }}
  </style>"""


def mark(style, x, y):
    return f'<path class="mark s{style}" d="{SHAPES[STYLES[style][2]].format(x=x, y=y)}"/>'


def line_chart(title, description, x_axis, y_axis, series):
    """The text of an SVG. `series` are (name, style, points); a style below zero is dashed, and a point is (x, y)."""
    points = [point for _, _, line in series for point in line]
    x_axis.fit([x for x, _ in points])
    y_axis.fit([y for _, y in points])
    right, bottom = WIDTH - RIGHT, HEIGHT - BOTTOM

    def place(x, y):
        return LEFT + x_axis.part(x) * (right - LEFT), bottom - y_axis.part(y) * (bottom - TOP)

    out = [f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" width="{WIDTH}" '
           f'height="{HEIGHT}" role="img" aria-labelledby="title desc">',
           f'  <title id="title">{escape(title)}</title>', f'  <desc id="desc">{escape(description)}</desc>',
           style_sheet()]
    for value, text in y_axis.ticks:
        _, y = place(x_axis.low, value)
        out.append(f'  <path class="grid" d="M{LEFT} {y:.1f}H{right}"/>'
                   f'<text class="axis" x="{LEFT - 6}" y="{y + 4.5:.1f}" text-anchor="end">{escape(text)}</text>')
    for value, text in x_axis.ticks:
        x, _ = place(value, y_axis.low)
        out.append(f'  <path class="grid" d="M{x:.1f} {TOP}V{bottom}"/>'
                   f'<text class="axis" x="{x:.1f}" y="{bottom + 18}" text-anchor="middle">{escape(text)}</text>')
    out.append(f'  <text class="axis" x="4" y="20">{escape(y_axis.label)}</text>')
    out.append(f'  <text class="axis" x="{(LEFT + right) / 2}" y="{HEIGHT - 10}" text-anchor="middle">'
               f'{escape(x_axis.label)}</text>')
    names = spread([place(*line[-1])[1] for _, _, line in series], TOP, HEIGHT - 12)
    for (name, style, line), label in zip(series, names):
        dashed = " dash" if style < 0 else ""
        style = abs(style)
        places = [place(*point) for point in line]
        path = "L".join(f"{x:.1f} {y:.1f}" for x, y in places)
        out.append(f'  <path class="lead" d="M{places[-1][0]:.1f} {places[-1][1]:.1f}L{right + 14} {label:.1f}"/>')
        out.append(f'  <path class="line s{style}{dashed}" d="M{path}"/>' +
                   "".join(mark(style, x, y) for x, y in places))
        out.append(f'  {mark(style, right + 14, label)}<text x="{right + 22}" y="{label + 4.5:.1f}">'
                   f'{escape(name)}</text>')
    return "\n".join(out + ["</svg>", ""])
