"""Tests of the tools that draw and judge what was measured.

    usage: python3 tests/bench/tools_test.py
"""

import re
import unittest
import xml.etree.ElementTree as xml

import chart
from chart import Axis

SVG = "{http://www.w3.org/2000/svg}"


def drawn(**y_axis):
    series = [(f"line {i}", i - 2, [(1, 5 + i), (10, 50), (100, 900 + i)]) for i in range(6)]
    return xml.fromstring(chart.line_chart("A <title>", "What it shows", Axis("clients", log=True),
                                           Axis("us", **y_axis), series))


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


if __name__ == "__main__":
    unittest.main()
