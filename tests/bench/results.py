"""Medians, ratios, files and tables out of the rows that measure.py brings."""

import csv
import json
import os
import statistics

KEYS = ("experiment", "program", "variant", "connections", "idle", "depth", "rate")


def key_of(row):
    return tuple(row[name] for name in KEYS)


class Results:
    """Rows of several rounds, to be asked for figures. What was not measured is None."""

    def __init__(self, about, rows):
        self.about = about
        self.rows = rows

    def select(self, **wanted):
        return [row for row in self.rows
                if all(row.get(name) == value for name, value in wanted.items())]

    def median(self, field, **wanted):
        values = [row[field] for row in self.select(**wanted) if field in row]
        return statistics.median(values) if values else None

    def ratios(self, field, wanted, to):
        """The ratios of two things that were measured in the same rounds."""
        base = {row["round"]: row[field] for row in self.select(**to)}
        return [row[field] / base[row["round"]] for row in self.select(**wanted)
                if base.get(row["round"])]

    def ratio(self, field, wanted, to):
        """Their median."""
        pairs = self.ratios(field, wanted, to)
        return statistics.median(pairs) if pairs else None

    def values(self, name, **wanted):
        """The different values of a field, in the order in which they were measured."""
        return list(dict.fromkeys(row[name] for row in self.select(**wanted)))

    def rounds(self):
        """How often each cell was measured."""
        found = {}
        for row in self.rows:
            found[key_of(row)] = found.get(key_of(row), 0) + 1
        return found

    def cells(self):
        """The medians of all rounds, one row for each cell."""
        found = {}
        for row in self.rows:
            found.setdefault(key_of(row), []).append(row)
        for rows in found.values():
            yield {name: statistics.median(row[name] for row in rows)
                   if isinstance(value, (int, float)) else value
                   for name, value in rows[0].items() if name != "round"}


# ---- files ------------------------------------------------------------------------------------


def save(results, folder, kind):
    os.makedirs(folder, exist_ok=True)
    names = list(dict.fromkeys(name for row in results.rows for name in row))
    with open(os.path.join(folder, f"{kind}.csv"), "w", encoding="utf-8", newline="") as file:
        writer = csv.DictWriter(file, names)
        writer.writeheader()
        writer.writerows(results.rows)
    with open(os.path.join(folder, f"{kind}.json"), "w", encoding="utf-8") as file:
        json.dump({"about": results.about, "medians": list(results.cells()),
                   "rows": results.rows}, file, indent=1)


def load(folder, kind):
    with open(os.path.join(folder, f"{kind}.json"), encoding="utf-8") as file:
        found = json.load(file)
    return Results(found["about"], found["rows"])


# ---- tables, in Markdown ----------------------------------------------------------------------


def table(head, rows):
    lines = ["| " + " | ".join(row) + " |" for row in [head] + rows]
    lines.insert(1, "|" + "---|" * len(head))
    return "\n".join(lines)


def number(value, digits=2, unit=""):
    return "-" if value is None else f"{value:.{digits}f}{unit}"


def machine_text(about, where=" The server runs on one processor, the load on another."):
    system = about.get("system", "")
    text = (f"{about.get('processors')} processors ({about.get('processor', 'unknown')}), "
            f"{about.get('memory_gib')} GiB, {system}; {about.get('compiler')}; {about.get('date')}; "
            f"{'one round' if about.get('rounds') == 1 else 'medians of ' + str(about.get('rounds')) + ' rounds each'}.")
    if about.get("processors", 0) > 1:
        text += where
    if about.get("load_average", 0) > 1:
        text += (f" The machine was busy with other things when this began (load average "
                 f"{about['load_average']}): ratios and CPU times hold, latencies and replies a second "
                 f"do not say much.")
    return text


def echo_table(results, field, digits, of=None):
    """One line a program, one column a load; with `of`, ratios to that program."""
    loads = list(dict.fromkeys((row["connections"], row["depth"])
                               for row in results.select(experiment="echo")))
    head = ["connections, depth"] + [f"{c}, {d}" for c, d in loads]
    lines = []
    for program in results.values("program", experiment="echo"):
        line = [program]
        for connections, depth in loads:
            here = {"experiment": "echo", "connections": connections, "depth": depth}
            wanted = dict(here, program=program)
            value = (results.ratio(field, wanted, dict(here, program=of)) if of
                     else results.median(field, **wanted))
            line.append(number(value, digits))
        lines.append(line)
    return table(head, lines)


# ---- targets ----------------------------------------------------------------------------------


def echo_ratio(program, to, depth):
    here = {"experiment": "echo", "connections": 100, "depth": depth}
    return lambda results: results.ratio("cpu_us_per_reply", dict(here, program=program),
                                         dict(here, program=to))


def beside_table(results, there, floor):
    """Each program beside what `there` makes of its name: costs, their ratio, how far the rounds lie apart, and the floor."""
    lines = []
    for depth in results.values("depth"):
        for variant in results.values("variant"):
            here = {"depth": depth, "variant": variant}
            for program in results.values("program"):
                ratios = results.ratios("cpu_us_per_reply", dict(here, program=program), dict(here, program=there(program)))
                if ratios:
                    costs = [results.median("cpu_us_per_reply", program=name, **here) for name in (there(program), program)]
                    to_floor = results.ratio("cpu_us_per_reply", dict(here, program=program), dict(here, program=floor))
                    lines.append([program, str(depth), variant] + [number(cost) for cost in costs] + [
                        number(median(ratios)), f"{min(ratios):.2f} to {max(ratios):.2f}", number(to_floor)])
    return table(["program", "depth", "processors", "before, us", "now, us", "ratio", "rounds", "to the floor"], lines)


def crowd_ratio(program):
    here = {"experiment": "idle", "program": program}
    return lambda results: results.ratio("cpu_us_per_reply", dict(here, idle=10000),
                                         dict(here, idle=0))


def few_ratios(results, program):
    """Of each round: what a message of ten clients costs beside a silent crowd, to what it costs without."""
    here = {"experiment": "few", "program": program}
    crowd = max(results.values("idle", **here), default=0)
    return results.ratios("cpu_us_per_reply", dict(here, idle=crowd), dict(here, idle=0)) if crowd else []


def few_ratio(program):
    return lambda results: median(few_ratios(results, program))


def median(values):
    return statistics.median(values) if values else None


def few_table(results):
    """What a message costs alone and beside the crowd, and how far the rounds lie apart."""
    lines = []
    for program in results.values("program", experiment="few"):
        costs = [results.median("cpu_us_per_reply", experiment="few", program=program, idle=idle)
                 for idle in sorted(results.values("idle", experiment="few"))]
        ratios = few_ratios(results, program)
        spread = f"{min(ratios):.2f} to {max(ratios):.2f}" if ratios else "-"
        lines.append([program] + [number(cost) for cost in costs] + [number(median(ratios)), spread])
    return table(["program", "alone"] + [f"beside {idle:,} idle ones" for idle in sorted(
        results.values("idle", experiment="few"))[1:]] + ["ratio", "rounds"], lines)


FLOORS = {"raw threads": "raw threads", "stage 1": "raw threads"}


def visits_table(results):
    """What a connection costs, and its ratio to the floor of its kind."""
    lines = []
    for program in results.values("program", experiment="visits"):
        floor = FLOORS.get(program, "raw epoll")
        here = {"experiment": "visits", "program": program}
        ratios = results.ratios("cpu_us_per_reply", here, dict(here, program=floor))
        lines.append([program, number(results.median("cpu_us_per_reply", **here)), number(median(ratios)), floor])
    return table(["program", f"CPU, us for each of {results.values('connections', experiment='visits')[0]:,} connections",
                  "ratio", "to"], lines)


def idle_memory(program):
    return lambda results: results.median("bytes_per_connection", experiment="idle",
                                          program=program, idle=10000)


def slow_ratio(program):
    here = {"experiment": "slow", "program": program}
    return lambda results: results.ratio("latency_p99_us", dict(here, variant="slow"),
                                         dict(here, variant=""))


def plain_ratio(experiment, program, to):
    return lambda results: results.ratio("cpu_us_per_reply",
                                         {"experiment": experiment, "program": program},
                                         {"experiment": experiment, "program": to})


def mutexes(program):
    return lambda results: results.about.get("mutexes", {}).get(program)


STAGE_5 = "stage 5, no workers"


def targets():
    """What is to be reached: (what, at most, unit, figure of the results)."""
    yield ("stage 1 to the raw thread loop, depth 1", 1.05, "x",
           echo_ratio("stage 1", "raw threads", 1))
    yield ("stage 2 to the raw epoll loop, depth 1", 1.10, "x",
           echo_ratio("stage 2", "raw epoll", 1))
    yield ("stage 2 to libuv's echo, depth 1", 1.00, "x", echo_ratio("stage 2", "libuv", 1))
    yield ("stage 2 to the raw epoll loop, depth 16", 1.20, "x",
           echo_ratio("stage 2", "raw epoll", 16))
    for stage, depth, most in (("stage 3", 1, 1.25), ("stage 3", 16, 1.35), ("stage 4", 1, 1.25),
                               ("stage 4", 16, 1.25)):
        yield f"{stage} to stage 2, depth {depth}", most, "x", echo_ratio(stage, "stage 2", depth)
    yield (f"{STAGE_5}, to stage 2", 1.10, "x", echo_ratio(STAGE_5, "stage 2", 1))
    for program, depth, most in (("stage 4", 1, 1.08), ("stage 4", 16, 1.41), ("stage 5, 4 workers", 1, 1.20),
                                 (STAGE_5, 1, 1.05)):
        yield f"{program}, to the raw epoll loop, depth {depth}", most, "x", echo_ratio(program, "raw epoll", depth)
    for program, most in (("stage 4", 8), ("stage 5, 4 workers", 9), (STAGE_5, 3)):
        yield f"{program}, mutexes taken for a message, depth 1", most, "", mutexes(program)
    yield ("stage 5, two dispatchers on two processors, replies a second to one", 1.80,
           "x or more", lambda results: None)
    for stage in ("stage 2", "stage 3", "stage 4", STAGE_5):
        yield f"{stage}, 100 clients beside 10,000 idle ones, to 100 alone", 1.10, "x", crowd_ratio(stage)
    for stage in ("stage 2", "stage 3", "stage 4", STAGE_5):
        yield f"{stage}, 10 clients beside 10,000 idle ones, to 10 alone", 1.05, "x", few_ratio(stage)
    for stage, most in (("stage 1", 13 * 1024), ("stage 2", 256), ("stage 3", 304),
                        ("stage 4", 512), (STAGE_5, 512)):
        yield f"{stage}, memory of an idle connection", most, " bytes", idle_memory(stage)
    for stage in ("stage 3", "stage 4", "stage 5, 8 workers"):
        yield f"{stage}, p99 of the others beside slow messages", 3, "x", slow_ratio(stage)
    for stage in ("stage 4", STAGE_5):
        yield (f"{stage}, chat, 1,000 users, to raw send calls", 2, "x",
               plain_ratio("chat", stage, "raw epoll"))


def target_table(results, only_measured=False):
    lines = []
    for what, most, unit, figure in targets():
        value = figure(results)
        if value is None and only_measured:
            continue
        digits = 2 if unit.startswith("x") else 0 if unit else 1
        if value is None:
            verdict = "not measured"
        else:
            verdict = "reached" if round(value, digits) <= most else "missed"
        lines.append([what, number(most, digits, unit), number(value, digits, unit), verdict])
    return table(["what", "at most", "measured", ""], lines)


def experiment_table(results, experiment, columns):
    """One line a cell of an experiment: columns are (title, field, digits)."""
    lines = []
    for cell in results.cells():
        if cell["experiment"] == experiment:
            lines.append([cell["program"]] + [
                cell[field] or "without" if digits is None else number(cell.get(field), digits)
                for _, field, digits in columns])
    return table(["program"] + [title for title, _, _ in columns], lines)
