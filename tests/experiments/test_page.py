"""A result page: tables, patterns and pictures in Markdown; complete or absent on disk."""

import numpy as np
import pytest

from credo.errors import CredoError
from credo.experiments.page import Page, Pattern, markdown_table, mean_and_spread, new_figure


@pytest.fixture
def page() -> Page:
    figure, axes = new_figure(columns=2)
    axes[0, 0].plot([0, 1], [0, 1])
    return Page(
        "some-table",
        "Some table",
        "Ten runs.",
        (("Accuracy", [["method", "ours"], ["base", "0.9"]]),),
        (Pattern("it rises", True, "+1"), Pattern("it falls", False, "+1")),
        {"A line": figure},
        "Nothing else.",
    )


def test_a_page_has_every_part_in_order(page):
    text = page.text()
    parts = [
        "# Some table",
        "Ten runs.",
        "**Accuracy**",
        "| base | 0.9 |",
        "| it rises | yes | +1 |",
    ]
    parts += ["| it falls | **no** | +1 |", "![A line](some-table-0.png)", "Nothing else."]
    places = [text.index(part) for part in [*parts, "`credo reproduce some-table`"]]
    assert places == sorted(places)


def test_a_page_without_parts_has_no_empty_headings():
    text = Page("name", "Title", "Setting.").text()
    assert "##" not in text and "|" not in text and "![" not in text


def test_a_table_has_a_rule_below_its_header():
    assert markdown_table([["a", "b"], ["1", "2"]]) == "| a | b |\n|---|---|\n| 1 | 2 |"


def test_a_page_is_written_with_its_pictures(page, tmp_path):
    path = page.write(tmp_path / "results" / "deep")
    assert path.read_text("utf-8") == page.text()
    names = {file.name for file in path.parent.iterdir()}
    assert names == {"some-table.md", "some-table-0.png"}
    assert (path.parent / "some-table-0.png").read_bytes().startswith(b"\x89PNG")
    before = (path.parent / "some-table-0.png").read_bytes()
    page.write(path.parent)
    assert (path.parent / "some-table-0.png").read_bytes() == before, "the same page, other bytes"


def test_a_page_never_replaces_a_folder(page, tmp_path):
    (tmp_path / "some-table.md").mkdir()
    with pytest.raises(CredoError, match="folder"):
        page.write(tmp_path)


def test_mean_and_spread():
    assert mean_and_spread(np.array([1.0, 3.0])) == "2.00 ± 1.41"
    assert mean_and_spread(np.array([1.0]), digits=1) == "1.0 ± 0.0"
