"""Pictures: they are XML, they say what they show, and places follow values."""

import re
import xml.etree.ElementTree as ET

import pytest

from relmo.lab.reports.plots import (
    HEAD,
    WIDTH,
    PlotRow,
    Series,
    _Scale,
    curves,
    dots,
    dumbbells,
    heat_map,
    standalone,
)

PICTURES = {
    "dumbbells": lambda: dumbbells(
        "d", "A & B", [PlotRow("x < y", [("s0", 50.0), ("s1", 90.0)], (40.0, 60.0)),
                       PlotRow("y", [("s1", 70.0)])], [("s0", "none"), ("s1", "some")]
    ),
    "dots": lambda: dots("d", "T", [("x", "s2", 3.0), ("y", "paper", 3.0)], []),
    "curves": lambda: curves(
        "c", "T", "D", [Series("x", "s3", [(0.01, 1, 0, 2), (1.0, 2, 2, 2)])], "share",
        [(0.01, "1 %"), (1.0, "100 %")], is_log=True,
    ),
    "one point": lambda: curves(
        "c", "T", "D", [Series("x", "s0", [(1, 5, 5, 5)])], "x", [(1, "1")]
    ),
    "heat_map": lambda: heat_map("h", "T", [("x", [0.1, 0.9], "γ")], ["0", "1"], "γ"),
}  # fmt: skip


@pytest.mark.parametrize("kind", PICTURES)
def test_a_picture_is_named_and_keeps_inside_its_frame(kind):
    root = ET.fromstring(PICTURES[kind]())
    assert root.get("role") == "img"
    ids = [root.find(tag).get("id") for tag in ("title", "desc")]
    assert root.get("aria-labelledby").split() == ids
    height = float(root.get("height"))
    for element in root.iter():
        for key in ("x", "x1", "x2"):
            assert -5 <= float(element.get(key, 0)) <= WIDTH, ET.tostring(element)
        for key in ("y", "y1", "y2"):
            assert -HEAD <= float(element.get(key, 0)) <= height - HEAD, ET.tostring(element)


def test_text_is_escaped():
    root = ET.fromstring(PICTURES["dumbbells"]())
    assert root.find("title").text == "A & B"
    assert root.find("desc").text == "x < y: none 50.0, some 90.0; y: some 70.0."


def test_descriptions_contain_the_numbers():
    assert ET.fromstring(PICTURES["dots"]()).find("desc").text == "x 3.0, y 3.0."
    assert ET.fromstring(PICTURES["heat_map"]()).find("desc").text == "x 0.10, 0.90."


def test_a_file_of_its_own_has_its_colours_and_asks_for_nothing():
    text = standalone(PICTURES["heat_map"]())
    assert ET.fromstring(text).tag == "{http://www.w3.org/2000/svg}svg"
    assert "prefers-color-scheme: dark" in text
    assert re.findall(r"https?://[^\"]+", text) == ["http://www.w3.org/2000/svg"]


@pytest.mark.parametrize(
    "values", [(45.2, 91.9), (0.31, 0.34), (5.0, 5.0), (0.0, 0.0), (-3.0, 8.0)]
)
def test_a_scale_holds_all_values_between_round_ticks(values):
    scale = _Scale(values, 100, 0)
    assert scale.ticks[0] <= min(values)
    assert scale.ticks[-1] >= max(values)
    assert 2 <= len(scale.ticks) <= 8
    assert (scale(scale.ticks[0]), scale(scale.ticks[-1])) == (100, 0)
