"""The report: one HTML file that needs nothing else, and its numbers as JSON beside it."""

import json
import os
from html import escape
from pathlib import Path

from credo.errors import CredoError
from credo.files import atomic_path, check_writable
from credo.report.conclusion import conclusion
from credo.report.facts import cost_section, headline_section, made_section
from credo.report.notes import data_note
from credo.report.numbers import as_numbers
from credo.report.pictures import example_section
from credo.report.results import Comparison
from credo.report.sections import (
    rejection_section,
    reliability_section,
    training_section,
    uncertainty_section,
)

SECTIONS = (
    headline_section,
    reliability_section,
    uncertainty_section,
    rejection_section,
    example_section,
    training_section,
    cost_section,
    made_section,
)
CONTENTS = {
    "headline": "At a glance",
    "reliability": "Confidence",
    "uncertainty": "Uncertainty",
    "rejection": "Rejection",
    "examples": "Inputs",
    "training": "Training",
    "cost": "Cost",
    "made": "How it was made",
}


def write_report(comparison: Comparison, path: str | os.PathLike) -> None:
    """Write the page to `path`, and the same numbers as JSON beside it (suffix .json).

    Example:
        >>> write_report(comparison, "digits.html")  # doctest: +SKIP
    """
    page_path = Path(path)
    json_path = page_path.with_suffix(".json")
    if page_path == json_path:
        raise CredoError(f"the page cannot be written to {page_path}; name a file ending in .html")
    check_writable(page_path)
    check_writable(json_path)
    numbers = json.dumps(as_numbers(comparison), allow_nan=False, indent=1, ensure_ascii=False)
    page = html_page(comparison, json_path.name)
    with atomic_path(page_path) as page_file, atomic_path(json_path) as json_file:
        page_file.write_text(page, "utf-8")
        json_file.write_text(numbers + "\n", "utf-8")


def html_page(comparison: Comparison, numbers_name: str) -> str:
    """The page as text."""
    title = f"{comparison.data.name}: {', '.join(comparison.runs)}"
    note = f'<strong class="conclusion">{escape(conclusion(comparison))}</strong>'
    note += f"</p><p>{escape(data_note(comparison))}"
    note += f" The same numbers as JSON: <code>{escape(numbers_name)}</code>."
    who = "which method knows what it does not know?"
    if len(comparison.runs) == 1:
        who = f"does {next(iter(comparison.runs))} know what it does not know?"
    heading = f"{comparison.data.name}: {who}"
    body = "\n".join(make(comparison) for make in SECTIONS)
    return document(title, heading, note, CONTENTS, body)


def document(title: str, heading: str, note: str, contents: dict[str, str], body: str) -> str:
    """A page that needs no other; `note` and `body` are HTML, the rest is text."""
    style = Path(__file__).with_name("style.css").read_text("utf-8")
    links = "".join(f'<li><a href="#{name}">{text}</a></li>' for name, text in contents.items())
    return f"""<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>{escape(title)} – credo</title>
<style>{style}</style>
</head>
<body>
<header>
<h1>{escape(heading)}</h1>
<p>{note}</p>
<nav aria-label="Contents"><ul>{links}</ul></nav>
</header>
<main>
{body}
</main>
</body>
</html>
"""
