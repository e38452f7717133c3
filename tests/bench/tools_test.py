"""Tests of the tools that draw and judge what was measured.

    usage: python3 tests/bench/tools_test.py
"""

import contextlib
import io
import os
import re
import signal
import subprocess
import tempfile
import time
import unittest
import unittest.mock
import xml.etree.ElementTree as xml

import chart
import demo
import latency
import long_output
import measure
import overload
import passed
import processors
import real
import results
from chart import Axis
from results import Results, target_table

SVG = "{http://www.w3.org/2000/svg}"


def drawn(**y_axis):
    series = [(f"line {i}", i - 2, [(1, 5 + i), (10, 50), (100, 900 + i)]) for i in range(6)]
    return xml.fromstring(chart.line_chart("A <title>", "What it shows", Axis("clients", log=True),
                                           Axis("us", **y_axis), series))


class Demo(unittest.TestCase):
    def slow_messages(self, waited):
        """What is printed for servers whose quick messages waited as many ms."""
        programs = unittest.mock.Mock(**{"with_workers.return_value": {name: [name] for name in waited}})

        def run_load(_tools, _load, command):
            return {"latency_p50_us": 550, "latency_p90_us": 1000 * waited[command[1]]}

        with unittest.mock.patch.object(measure, "run_load", run_load), \
                contextlib.redirect_stdout(io.StringIO()) as printed:
            demo.show_slow_messages(programs)
        return printed.getvalue()

    def test_figures_that_differ_are_shown(self):
        printed = self.slow_messages({"stage 1": 0.1, "stage 2": 5.2})
        self.assertIn("0.55 ms, 90 % within   5.20 ms", printed)
        self.assertIn("In stage 2 quick messages waited", printed)

    def test_figures_that_do_not_are_not(self):
        printed = self.slow_messages({"stage 1": 9.3, "stage 2": 9.7})
        self.assertNotIn("90 %", printed)
        self.assertIn("do not differ clearly", printed)


class Passed(unittest.TestCase):
    def test_what_a_run_has_once_does_not_count(self):
        """A start of 500 lines, and for each line a call of two lines, and one in another file every tenth time."""
        runs = [{("a.c", 1): 500, ("a.c", "start"): 1, ("a.c", 7): n, ("a.c", 8): n, ("a.c", "each"): n,
                 ("b.c", 3): n // 10, ("b.c", "seldom"): n // 10} for n in (passed.FEW, passed.MANY)]
        with unittest.mock.patch.object(passed, "serve"), unittest.mock.patch.object(passed, "counters", return_value=[]), \
                unittest.mock.patch.object(passed, "executions", side_effect=runs):
            found = passed.a_line(".", ["server"], [])
        self.assertEqual((round(found.calls, 3), found.files, round(found.lines, 3)), (1.1, 1, 2.1))
        self.assertEqual(found.by_file.most_common(1), [("a.c", 2.0)])

    def test_files_are_summed_by_what_they_are_part_of(self):
        lines = {"common/base/log.c": 5, "common/bytes/input_queue.c": 20, "common/server/connection_turn.c": 300}
        self.assertEqual(list(passed.sums({"stage 1": lines})["stage 1"].values()), [3, 325, 320, 320])


class Mutexes(unittest.TestCase):
    def test_what_a_run_has_once_does_not_count(self):
        def run(load):
            return {"mutexes": 500 + 3 * load["requests"]}, load["requests"]
        self.assertEqual(measure.a_line(run, {}), {"mutexes": 3})

    def test_they_have_rows_among_the_targets(self):
        found = Results({"mutexes": {"stage 4": 6.08, "stage 5, no workers": 3.06}}, [])
        rows = target_table(found, True)
        self.assertIn("| stage 4, mutexes taken for a message, depth 1 | 8.0 | 6.1 | reached |", rows)
        self.assertIn("| stage 5, no workers, mutexes taken for a message, depth 1 | 3.0 | 3.1 | missed |", rows)
        self.assertNotIn("4 workers", rows)


class Chart(unittest.TestCase):
    def test_says_in_words_what_it_shows(self):
        picture = drawn()
        self.assertEqual(picture.find(SVG + "title").text, "A <title>")
        self.assertEqual(picture.find(SVG + "desc").text, "What it shows")
        self.assertEqual(picture.get("aria-labelledby"), "title desc")
        self.assertIn("prefers-color-scheme: dark", picture.find(SVG + "style").text)

    def test_lines_lie_within_the_axes(self):
        for y_axis in ({}, {"log": True}):
            paths = [path.get("d") for path in drawn(**y_axis).iter(SVG + "path")
                     if path.get("class").startswith("line")]
            self.assertEqual(len(paths), 6)
            for x, y in (map(float, point.split()) for path in paths for point in path[1:].split("L")):
                self.assertTrue(chart.LEFT <= x <= chart.WIDTH - chart.RIGHT, x)
                self.assertTrue(chart.TOP <= y <= chart.HEIGHT - chart.BOTTOM, y)

    def test_a_larger_figure_is_higher_and_a_mark_is_where_its_value_is(self):
        axis = Axis("us", log=True)
        axis.fit([2, 1000])
        self.assertEqual([value for value, _ in axis.ticks], [1, 10, 100, 1000])
        self.assertAlmostEqual(axis.part(10), 1 / 3)
        axis = Axis("us")
        axis.fit([3, 47])
        self.assertEqual([value for value, _ in axis.ticks], [0, 10, 20, 30, 40, 50])
        self.assertAlmostEqual(axis.part(40), 0.8)

    def test_nothing_is_at_the_beginning_of_a_logarithmic_axis(self):
        axis = Axis("bytes", log=True)
        axis.fit([0, 40, 3000])
        self.assertEqual((axis.low, axis.part(0)), (10, 0))

    def test_names_do_not_cover_each_other_and_stay_in_the_picture(self):
        for wanted in ([100, 101, 99, 250], [300] * 10, [41] * 10, [50, 90, 60, 61]):
            placed = chart.spread(wanted, 40, 320)
            ordered = sorted(placed)
            self.assertTrue(all(b - a > chart.LABEL_GAP - 1e-6 for a, b in zip(ordered, ordered[1:])), placed)
            self.assertTrue(40 <= ordered[0] and ordered[-1] <= 320, placed)
            for i, place in enumerate(wanted):
                self.assertFalse(any(place < wanted[j] and placed[i] > placed[j] for j in range(len(wanted))))
        self.assertEqual(chart.spread([250, 100], 40, 320), [250, 100])

    def test_all_styles_have_a_colour_in_both_themes(self):
        light, dark = chart.style_sheet().split("@media")
        for i in range(len(chart.STYLES)):
            self.assertRegex(light, rf"\.s{i} {{ --c: #")
            self.assertTrue(re.search(rf"\.s{i} {{ --c: #", dark))


class Overload(unittest.TestCase):
    def results(self, *shares):
        """One program in two rounds; a pair of shares for each load."""
        rows = [{"program": "stage 4, abort", "load": load, "share": share, "served": load * share, "refusals": 0}
                for load, pair in zip(overload.LOADS, shares) for share in pair]
        return Results({}, rows)

    def test_a_load_is_held_with_all_below_it_and_in_every_round(self):
        good, bad = (1, 0.99), (1, 0.98)
        for shares, most in (((good,) * 6, 2), ((good, good, bad, good, good, good), 0.8), ((bad,) * 6, 0)):
            self.assertEqual(overload.held(self.results(*shares), "stage 4, abort"), most)

    def test_the_table_has_each_load(self):
        self.assertIn("| stage 4, abort | 100% | 99% | 98% | 50% | 40% | 30% | 0.8 | 0% |", overload.table(
            self.results((1, 1), (0.99, 0.99), (0.98, 0.98), (0.5, 0.5), (0.4, 0.4), (0.3, 0.3))))


class Processors(unittest.TestCase):
    def test_a_verdict_needs_pairs_that_agree(self):
        self.assertEqual(processors.verdict([1.01, 1.05, 1.05]), "reached")
        self.assertEqual(processors.verdict([1.07, 1.06, 1.1]), "missed")
        self.assertEqual(processors.verdict([0.9, 1.0, 1.02]), "not measurable here")

    def test_what_a_lock_lets_more_processors_do(self):
        self.assertAlmostEqual(processors.speedup(10, 0, 16), 16)
        self.assertAlmostEqual(processors.speedup(10, 5, 1), 1)
        self.assertAlmostEqual(processors.speedup(10, 10, 16), 1)  # nothing but the lock
        self.assertAlmostEqual(processors.speedup(10, 1, 2), 20 / 10.1)
        self.assertAlmostEqual(processors.speedup(10, 1, 1000), 10)
        self.assertAlmostEqual(processors.expected_ratio(10, 2, 50000, 2), 1.01)  # a tenth of the time, 1 us
        self.assertAlmostEqual(processors.expected_ratio(10, 2, 50000, 1), 1)


class Crowds(unittest.TestCase):
    def rows(self, experiment, program, costs, idle=0):
        return [{"experiment": experiment, "program": program, "round": number, "connections": 10, "idle": idle,
                 "cpu_us_per_reply": cost} for number, cost in enumerate(costs)]

    def test_a_crowd_is_compared_within_a_round(self):
        found = Results({}, self.rows("few", "stage 2", (5, 10, 20)) + self.rows("few", "stage 2", (5, 11, 24), 10000))
        self.assertIn("| stage 2 | 10.00 | 11.00 | 1.10 | 1.00 to 1.20 |", results.few_table(found))
        self.assertIn("| stage 2, 10 clients beside 10,000 idle ones, to 10 alone | 1.05x | 1.10x | missed |",
                      results.target_table(found, True))

    def test_a_stage_with_a_thread_each_has_another_floor(self):
        found = Results({}, self.rows("visits", "raw threads", (100,)) + self.rows("visits", "raw epoll", (10,)) +
                        self.rows("visits", "stage 1", (120,)) + self.rows("visits", "stage 2", (12,)))
        for line in "| stage 1 | 120.00 | 1.20 | raw threads |", "| stage 2 | 12.00 | 1.20 | raw epoll |":
            self.assertIn(line, results.visits_table(found))


class Latency(unittest.TestCase):
    def test_half_of_what_a_processor_can_do_and_not_more_than_was_got_out_of_it(self):
        self.assertEqual(latency.rate_of({"cpu_us_per_reply": 5, "replies_per_second": 300000}), 100000)
        self.assertEqual(latency.rate_of({"cpu_us_per_reply": 5, "replies_per_second": 90000}), 45000)

    def test_lines_and_files_have_a_picture_and_a_table_each(self):
        rows = [{"experiment": "half", "program": "stage 2", "variant": what, "round": 0, "rate": 1000, "processors": 0.5,
                 "load_processors": 0.25, **{f"latency_{name}_us": 10 * us for us, name in enumerate(
                     ("p50", "p90", "p99", "p99.9"), 1)}} for what in latency.TITLES]
        with tempfile.TemporaryDirectory() as folder:
            text = latency.text(Results({}, rows), folder)
            self.assertEqual(sorted(os.listdir(folder)), ["measured-half-files.svg", "measured-half-lines.svg"])
        self.assertEqual(text.count("| stage 2 | 1000 | 10 | 30 | 40 | 50% | 25% |"), 2)


class LongOutput(unittest.TestCase):
    def test_a_verdict_is_of_the_ratios_within_a_round(self):
        rows = [{"experiment": "long", "program": name, "variant": what, "round": number, "cpu_us_per_reply": cost}
                for what in long_output.SIZES for name, costs in (("nginx", (1000, 2000)), ("stage 2", (900, 2300)))
                for number, cost in enumerate(costs)]
        rows.append({"experiment": "held", "program": "stage 2", "bytes": 98304})
        self.assertIn("| stage 2 | 1.600 | 1.02 | missed | 1.600 | 1.02 | missed | 96 |",
                      long_output.table(Results({}, rows)))
        self.assertEqual(long_output.verdict([0.9, 1.0, 1.1]), "reached")


class RealWork(unittest.TestCase):
    def test_what_is_missing_is_said_and_ratios_are_within_a_round(self):
        rows = [{"experiment": "relay", "program": name, "variant": "depth 1", "round": number, "cpu_us_per_reply": cost}
                for name, costs in (("nginx, stream", (10, 20)), ("stage 4", (12, 22)))
                for number, cost in enumerate(costs)]
        text = real.beside(Results({}, rows), "relay", ["HAProxy", "nginx, stream"])
        self.assertIn("| stage 4 | 17.00 us (1.15) |", text)
        self.assertIn("HAProxy is not installed here (haproxy), so it was not measured.", text)
        self.assertIn("these cost more than nginx, stream in every round: stage 4.", text)
        self.assertIn("dovecot is not installed", real.beside(Results({}, rows), "pop3", ["dovecot"]))

    def test_a_process_has_a_family(self):
        with subprocess.Popen(["sh", "-c", "sleep 60 & wait"]) as process:
            deadline = time.monotonic() + 10
            while len(real.family(process.pid)) < 2 and time.monotonic() < deadline:
                time.sleep(0.01)
            found = real.family(process.pid)
            for one in found:
                os.kill(one, signal.SIGKILL)
        self.assertEqual((len(found), found[0]), (2, process.pid))


if __name__ == "__main__":
    unittest.main()
