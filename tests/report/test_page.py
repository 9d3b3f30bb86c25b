"""The page stands alone, shows everything, and runs nothing that came with the data."""

import json
import math
import re
from html.parser import HTMLParser

import numpy as np
import pytest

import credo
from credo.report import write_report
from credo.report.examples import examples
from credo.report.numbers import entropy_histogram, plain
from credo.report.page import CONTENTS, html_page
from credo.report.pictures import png
from credo.report.plots import settled, wilson
from credo.report.svg import TEXT, embedded, svg

from .conftest import HOSTILE


class Reader(HTMLParser):
    """Collects tags, ids and texts; checks that every element is closed in order."""

    def __init__(self) -> None:
        super().__init__()
        self.open, self.tags, self.ids, self.text = [], [], [], ""
        self.attributes: list[tuple[str, str, str]] = []

    def handle_starttag(self, tag, attrs):
        self.tags.append(tag)
        self.attributes += [(tag, name, value or "") for name, value in attrs]
        self.ids += [value for name, value in attrs if name == "id"]
        if tag not in {"meta", "img", "br"}:
            self.open.append(tag)

    def handle_startendtag(self, tag, attrs):
        self.tags.append(tag)
        self.attributes += [(tag, name, value or "") for name, value in attrs]
        self.ids += [value for name, value in attrs if name == "id"]

    def handle_endtag(self, tag):
        assert self.open and self.open.pop() == tag, f"</{tag}> closes nothing"

    def handle_data(self, data):
        self.text += data


def read(page: str) -> Reader:
    reader = Reader()
    reader.feed(page)
    reader.close()
    assert not reader.open
    return reader


@pytest.fixture(scope="session")
def pages(digits, diabetes, iris):
    found = {"digits": digits, "diabetes": diabetes, "iris": iris}
    return {name: html_page(comparison, "numbers.json") for name, comparison in found.items()}


@pytest.mark.parametrize("name", ["digits", "diabetes", "iris"])
def test_page_is_complete_and_needs_nothing_else(pages, name):
    page = pages[name]
    reader = read(page)
    assert [section for section in CONTENTS if section not in reader.ids] == []
    assert len(reader.ids) == len(set(reader.ids))
    links = [v for _, n, v in reader.attributes if n in ("src", "href", "xlink:href", "srcset")]
    assert all(link.startswith(("#", "data:image/png;base64,")) for link in links)
    assert {link[1:] for link in links if link[0] == "#"} <= set(reader.ids)
    assert not re.search(r"https?://|//[a-z]|@import", re.sub(r"base64,[^\"]*", "", page))
    assert all(target.startswith("#") for target in re.findall(r"url\(([^)]*)\)", page))
    assert not {"script", "link", "iframe", "object"} & set(reader.tags)


@pytest.mark.parametrize("name", ["digits", "diabetes", "iris"])
def test_every_picture_is_described(pages, name):
    reader = read(pages[name])
    described = {"img": "alt", "svg": "aria-label"}
    for tag, attribute in described.items():
        texts = [v for t, n, v in reader.attributes if (t, n) == (tag, attribute)]
        assert len(texts) == reader.tags.count(tag) and all(texts)
    num_methods = {"digits": 2, "diabetes": 2, "iris": 1}[name]
    assert reader.tags.count("svg") == 3 * num_methods
    assert ("img" in reader.tags) == (name == "digits")


def test_hostile_names_are_shown_not_run(pages):
    reader = read(pages["digits"])
    assert "<script" not in pages["digits"] and "script" not in reader.tags
    assert HOSTILE in reader.text


def test_an_unescaped_name_would_be_caught(pages, digits):
    planted = pages["digits"].replace("&lt;script&gt;", "<script>")
    with pytest.raises(AssertionError):
        read(planted)


def test_colors_follow_the_reader_scheme(pages):
    assert "prefers-color-scheme: dark" in pages["digits"]
    drawings = re.findall(r"<svg.*?</svg>", pages["digits"], re.DOTALL)
    assert all("var(--ink)" in drawing for drawing in drawings)
    assert not re.search(r"(fill|stroke): #(?!ffffff|000000)", "".join(drawings))


def test_a_method_equally_certain_of_all_rows_says_so(pages, diabetes):
    assert "equally certain of all inputs" in pages["diabetes"]
    assert examples(diabetes, "map")["Most certain"] == []
    assert len(examples(diabetes, "dropout")["Most certain"]) == 5


def test_json_has_the_numbers_of_the_comparison(digits, tmp_path):
    write_report(digits, tmp_path / "page.html")
    found = json.loads((tmp_path / "page.json").read_text("utf-8"))
    assert set(found["methods"]) == set(digits.runs)
    for name, runs in digits.runs.items():
        stored = found["methods"][name]
        for metric, value in stored["summary"].items():
            assert value == plain(digits.summary(name, metric))
        for run, kept in zip(runs, stored["runs"], strict=True):
            assert kept["metrics"] == plain(run.metrics)
            assert kept["fit_seconds"] == run.fit_seconds
            assert kept["reliability"]["count"] == run.reliability.count.tolist()
            assert kept["training"]["values"] == run.training.values.tolist()
            assert kept["warnings"] == list(run.warnings)
    assert found["data"]["name"] == digits.data.name
    assert found["methods"]["map"]["settings"]["num_steps"] == 30
    assert (tmp_path / "page.html").read_text("utf-8").startswith("<!DOCTYPE html>")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["page.html", "page.json"]


def test_regression_json_has_the_predictions(diabetes, tmp_path):
    write_report(diabetes, tmp_path / "page.html")
    found = json.loads((tmp_path / "page.json").read_text("utf-8"))
    shown = found["methods"]["map"]["predictions"]
    assert shown["truth"] == diabetes.data.test.y.tolist()
    assert shown["mean"] == diabetes.runs["map"][0].predicted.mean.tolist()


def test_numbers_that_json_lacks():
    values = {"a": math.nan, "b": [math.inf, -math.inf], "c": np.float32(0.5), "d": np.arange(2)}
    assert plain(values) == {"a": None, "b": ["inf", "-inf"], "c": 0.5, "d": [0, 1]}


@pytest.mark.parametrize("path", ["missing/page.html", ".", "page.json"])
def test_unwritable_paths_are_refused(digits, tmp_path, path):
    with pytest.raises(credo.CredoError):
        write_report(digits, tmp_path / path)
    assert not list(tmp_path.iterdir())


def test_a_failure_leaves_the_old_files(digits, tmp_path, monkeypatch):
    (tmp_path / "page.html").write_text("old")

    def fail(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("pathlib.Path.write_text", fail)
    with pytest.raises(credo.CredoError, match="No space left"):
        write_report(digits, tmp_path / "page.html")
    assert [path.name for path in tmp_path.iterdir()] == ["page.html"]
    assert (tmp_path / "page.html").read_bytes() == b"old"


def test_examples_are_sorted_by_certainty(digits):
    run = digits.runs["map"][0]
    groups = examples(digits, "map")
    entropy = run.predicted.entropy
    assert groups["Most certain"][0].uncertainty == entropy.min()
    assert groups["Least certain"][0].uncertainty == entropy.max()
    mistakes = groups["Most confident mistakes"]
    wrong = run.predicted.labels != digits.data.test.y
    assert all(wrong[example.row] and not example.right for example in mistakes)
    assert mistakes[0].row in np.flatnonzero(wrong)
    surest = run.predicted.probs.max(axis=1)[wrong].max()
    assert run.predicted.probs[mistakes[0].row].max() == surest
    unfamiliar = groups["Unfamiliar, yet most certain"]
    assert {example.truth for example in unfamiliar} <= {"4", "9"}
    assert all(example.is_ood and not example.right for example in unfamiliar)


def test_histogram_counts_every_input_of_every_seed(digits, iris):
    found = entropy_histogram(digits, "map")
    assert found.counts["test set"].sum() == 2 * len(digits.data.test.y)
    assert found.counts["unfamiliar"].sum() == 2 * len(digits.ood.x)
    found = entropy_histogram(iris, "map")
    assert found.counts["right"].sum() + found.counts["wrong"].sum() == len(iris.data.test.y)


def test_wilson_interval():
    # Solves |p − share| = z √(p (1 − p) / n).
    share, count = np.array([0.0, 0.3, 1.0]), np.array([5.0, 20.0, 3.0])
    for bound in wilson(share, count):
        gap = np.abs(bound - share)
        spread = np.sqrt(np.maximum(bound * (1 - bound), 0) / count)
        np.testing.assert_allclose(gap, 1.96 * spread, atol=1e-7)


def test_the_start_of_a_run_may_leave_the_picture():
    assert settled(np.arange(100.0)).sum() == 90
    assert settled(np.array([0.0])).all()


def test_pictures_survive_the_round_trip():
    import base64
    import io

    from PIL import Image

    color = np.random.default_rng(0).integers(0, 256, (3, 4, 3)) / 255
    for image in (color, color[..., :1]):
        with Image.open(io.BytesIO(base64.b64decode(png(image)))) as picture:
            pixels = np.asarray(picture).reshape(image.shape)
        np.testing.assert_array_equal(pixels, np.round(image * 255))


def test_drawings_are_the_same_every_time():
    def draw(figure):
        figure.add_subplot().plot([0, 1], color=TEXT)

    first, second = (svg(draw, "a line", (2, 2)) for _ in range(2))
    assert first == second and first.startswith('<svg role="img" aria-label="a line"')
    assert "<style" not in embedded("<?xml?><svg><style>*{}</style></svg>", "x")
