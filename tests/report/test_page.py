"""The page stands alone, shows everything, and runs nothing that came with the data."""

import json
import math
import re
from dataclasses import replace
from html.parser import HTMLParser

import numpy as np
import pytest

import credo
from credo.report import conclusion, write_report
from credo.report.examples import TEST, UNFAMILIAR, examples
from credo.report.notes import warning_notes
from credo.report.numbers import REJECTED, entropy_histogram, plain, rejection
from credo.report.page import CONTENTS, html_page
from credo.report.pictures import example_section, png
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
    assert reader.tags.count("svg") == 4 * num_methods
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


def test_the_page_opens_with_the_conclusion(pages, digits):
    text = read(pages["digits"]).text
    assert conclusion(digits) in text
    assert text.index(conclusion(digits)) < text.index("At a glance")


def test_a_warning_stands_on_the_page_once(pages, digits):
    (note,) = (note for note in warning_notes(digits) if "chains disagree" in note)
    text = read(pages["digits"]).text
    assert text.count("chains disagree") == 1 and note in text


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
    assert found["conclusion"] == conclusion(digits)
    (above,) = found["nll_above_best"].values()
    assert above["value"] > 0
    assert len(found["methods"]["map"]["kept_after_rejection"]) == len(found["rejected_shares"])
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


def test_pictures_are_of_inputs_about_which_methods_disagree(digits):
    groups = examples(digits)
    assert list(groups) == [TEST, UNFAMILIAR]
    predicted = {name: runs[0].predicted for name, runs in digits.runs.items()}
    for example in groups[TEST]:
        for name, answer in example.answers.items():
            code = predicted[name].codes[example.row]
            assert answer.predicted == digits.data.classes[code]
            assert answer.right == (code == digits.data.test.y[example.row])
        assert len({answer.predicted for answer in example.answers.values()}) > 1
    scores = [example.score for example in groups[TEST]]
    assert scores and scores == sorted(scores, reverse=True)
    assert {example.truth for example in groups[UNFAMILIAR]} <= {"4", "9"}
    assert all(example.is_ood for example in groups[UNFAMILIAR])


def test_methods_that_say_the_same_have_no_pictures(digits, diabetes):
    for comparison in (digits, diabetes):
        runs = comparison.runs["map"]
        same = replace(comparison, runs={"one": runs, "other": runs})
        assert not any(examples(same).values())
        assert "None: they agree." in example_section(same)


def test_a_single_method_shows_its_mistakes(iris, diabetes):
    (mistakes,) = examples(iris).values()
    predicted = iris.runs["map"][0].predicted
    wrong = predicted.codes != iris.data.test.y
    assert mistakes and all(wrong[example.row] for example in mistakes)
    assert mistakes[0].score == predicted.probs.max(axis=1)[wrong].max()
    alone = replace(diabetes, runs={"map": diabetes.runs["map"]})
    (surprises,) = examples(alone).values()
    predicted, truth = diabetes.runs["map"][0].predicted, diabetes.data.test.y
    assert surprises[0].row == np.argmax(np.abs(truth - predicted.mean) / predicted.std)


def test_quantities_about_which_methods_disagree(diabetes):
    (group,) = examples(diabetes).values()
    means = [runs[0].predicted.mean for runs in diabetes.runs.values()]
    assert group[0].answers["map"].predicted == f"{means[0][group[0].row]:.4g}"
    scores = [example.score for example in group]
    assert scores == sorted(scores, reverse=True)


def test_rejection_follows_the_uncertainty(digits, diabetes):
    y = digits.data.test.y
    kept = round(0.9 * len(y))
    accuracies = [
        np.mean((run.predicted.codes == y)[np.argsort(run.predicted.entropy)][:kept])
        for run in digits.runs["map"]
    ]
    found = rejection(digits, "map")
    tenth = np.argmin(np.abs(REJECTED - 0.1))
    assert found[0] == pytest.approx(digits.summary("map", "accuracy").value)
    assert found[tenth] == pytest.approx(np.mean(accuracies))
    flat = rejection(diabetes, "map")  # equally certain of all rows
    np.testing.assert_allclose(flat, diabetes.summary("map", "rmse").value, rtol=1e-6)


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
