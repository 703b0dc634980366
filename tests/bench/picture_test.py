#!/usr/bin/env python3
"""The picture of a run shows every point where it belongs, and nothing else."""
import os
import re
import sys
import unittest
import xml.etree.ElementTree

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "bench"))
from figures import picture  # noqa: E402
from figures.figure import Row  # noqa: E402

SVG = "{http://www.w3.org/2000/svg}"


def row(figure, ours=3.0, reference=4.0, low=0.7, high=0.8):
    return Row(figure, ours, reference, 0.75, low, high, ">= 0.85", False, "GB per CPU second")


def point(size, ours=3.0, reference=4.0, low=0.7, high=0.8):
    return {"batch_bytes": size, "ours": ours, "reference": reference, "low": low, "high": high}


class PointsTest(unittest.TestCase):
    def test_rows_of_batch_sizes_are_points_the_smallest_first(self):
        points = picture.points_of([row("mirror-1m"), row("mirror-16k", ours=2.5), row("mirror-4k")])
        self.assertEqual([each["batch_bytes"] for each in points], [4096, 16384, 1 << 20])
        self.assertEqual(points[1], point(16384, ours=2.5))

    def test_other_figures_are_none(self):
        others = ["start-latency", "mirror-16k-from-kafka", "mirror-fast", "a-mirror-16k", "mirror-16K", "mirror-k"]
        self.assertEqual(picture.points_of([row(name) for name in others]), [])

    def test_a_row_without_a_reference_is_none(self):
        self.assertEqual(picture.points_of([row("mirror-4k", reference=None)]), [])

    def test_of_two_rows_for_a_size_the_later_counts(self):
        points = picture.points_of([row("mirror-16k", ours=1.0), row("mirror-16k", ours=2.0)])
        self.assertEqual([each["ours"] for each in points], [2.0])

    def test_sizes_are_read_as_people_write_them(self):
        self.assertEqual([picture.size_text(size) for size in (512, 1024, 16384, 1 << 20, 3 << 19)],
                         ["512 B", "1 KiB", "16 KiB", "1 MiB", "1.5 MiB"])


class PictureTest(unittest.TestCase):
    SIZES = [1 << 10, 1 << 12, 1 << 14, 1 << 16, 1 << 18, 1 << 20]

    def draw(self, points):
        return xml.etree.ElementTree.fromstring(picture.svg(points))

    def marks(self, root, name, across, down):
        """The plot's, without the one of the legend."""
        found = [each for each in root.iter() if each.get("class") == name]
        places = [(float(each.get(across)), float(each.get(down))) for each in found]
        return [place for place in places if place[1] > picture.TOP - 6]

    def test_every_point_is_drawn_within_the_plot(self):
        root = self.draw([point(size, ours=0.5 + number, reference=1 + number)
                          for number, size in enumerate(self.SIZES)])
        ours = self.marks(root, "ours", "cx", "cy")
        self.assertEqual(len(ours), len(self.SIZES))
        self.assertEqual(len(self.marks(root, "reference", "x", "y")), len(self.SIZES))
        for x, y in ours:
            self.assertTrue(picture.LEFT < x < picture.WIDTH - picture.RIGHT)
            self.assertTrue(picture.TOP < y < picture.HEIGHT - picture.BOTTOM)

    def test_sizes_are_as_far_apart_as_their_logarithms(self):
        places = [x for x, _ in self.marks(self.draw([point(size) for size in self.SIZES]), "ours", "cx", "cy")]
        steps = [right - left for left, right in zip(places, places[1:])]
        self.assertGreater(min(steps), 50)
        self.assertLess(max(steps) - min(steps), 0.3)  # each is four times the last

    def test_heights_are_rates_from_zero(self):
        root = self.draw([point(1024, ours=2.0, reference=4.0), point(4096, ours=3.0, reference=4.0)])
        floor = picture.HEIGHT - picture.BOTTOM
        low, high = (floor - y for _, y in self.marks(root, "ours", "cx", "cy"))
        self.assertAlmostEqual(high / low, 1.5, places=2)

    def test_bars_are_the_range_of_the_ratio_at_the_reference(self):
        points = [point(1024, ours=3.0, reference=4.0, low=0.5, high=1.0)]
        root = self.draw(points)
        (bar,) = [each for each in root.iter(SVG + "path") if each.get("class") == "bar"]
        low, high = map(float, re.match(r"M[\d.]+,([\d.]+)V([\d.]+)", bar.get("d")).groups())
        plot = picture.Plot(points)
        self.assertAlmostEqual(low, plot.y(2.0), places=1)
        self.assertAlmostEqual(high, plot.y(4.0), places=1)

    def test_a_point_without_a_range_has_no_bar(self):
        root = self.draw([point(1024, low=None, high=None)])
        self.assertEqual([each for each in root.iter() if each.get("class") == "bar"], [])

    def test_a_range_above_everything_stays_on_the_page(self):
        plot = picture.Plot([point(1024, ours=1.0, reference=1.0, low=0.5, high=3.0)])
        self.assertGreaterEqual(plot.y(3.0), picture.TOP)

    def test_axes_name_their_units_and_every_size(self):
        root = self.draw([point(size) for size in self.SIZES])
        words = [each.text for each in root.iter(SVG + "text")]
        self.assertIn("GB per CPU second", words)
        self.assertTrue(any("batch size" in each for each in words))
        for size in ("1 KiB", "4 KiB", "16 KiB", "64 KiB", "256 KiB", "1 MiB"):
            self.assertIn(size, words)
        for name in (picture.OURS, picture.REFERENCE):
            self.assertIn(name, words)

    def test_steps_of_the_axis_are_round_and_few(self):
        for top, step in ((4.4, 1), (0.9, 0.2), (16, 2), (8, 1), (41, 10), (0.004, 0.0005)):
            self.assertAlmostEqual(picture.nice_step(top, 8), step)

    def test_nothing_to_draw_is_refused(self):
        with self.assertRaises(ValueError):
            picture.svg([])


if __name__ == "__main__":
    unittest.main()
