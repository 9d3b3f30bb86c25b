"""The results as a table on the terminal and as a Markdown page."""

import datetime
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

HEADINGS = ("row", "side", "measured", "credo against it", "of peak", "target", "met", "compile")


def cells(entry: dict[str, Any]) -> list[str]:
    """One line of the table."""
    if entry["error"]:
        return [entry["row"], entry["side"], f"did not run: {entry['error']}", *[""] * 5]
    measured = f"{_digits(entry['value'])} {entry['unit']} (best {_digits(entry['best'])})"
    ratio = ""
    if "ratio" in entry:
        low, high = entry["spread"]
        ratio = f"{entry['ratio']:.2f} × ({low:.2f} – {high:.2f})"
    share = f"{entry['share']:.0%}" if "share" in entry else ""
    met = {True: "yes", False: "NO", None: ""}[entry.get("met")]
    compile_time = f"{entry['first_seconds']:.1f} s" if entry["first_seconds"] > 0.05 else ""
    return [entry["row"], entry["side"], measured, ratio, share, _target(entry), met, compile_time]


def _digits(value: float) -> str:
    return f"{value:,.0f}" if value >= 100 else f"{value:.3g}"


def _target(entry: dict[str, Any]) -> str:
    if entry.get("share_target"):
        return f"≥ {entry['share_target']:.0%} of peak"
    if entry.get("target"):
        return f"{'≥' if entry['compares'] == 'speed' else '≤'} {entry['target']:g} ×"
    return ""


def print_table(entries: list[dict[str, Any]]) -> None:
    table = Table(*HEADINGS)
    previous = ""
    for entry in entries:
        line = cells(entry)
        if entry["row"] != previous:
            table.add_section()
        table.add_row("" if entry["row"] == previous else line[0], *line[1:])
        previous = entry["row"]
    # Wide enough for a file or a pipe, which have no width of their own.
    Console(width=None if Console().is_terminal else 170).print(table)


def write_page(path: Path, results: dict[str, Any]) -> None:
    """A page of the documentation."""
    lines = [PAGE_HEAD, "| | |", "|---|---|"]
    lines += [f"| {name} | {value} |" for name, value in results["machine"].items()]
    peaks = ", ".join(f"{value:,.0f} GFLOP/s {name}" for name, value in results["peaks"].items())
    lines += [f"| matrix-multiply, float32 | {peaks} |"] if peaks else []
    when = f"{datetime.date.today()}, {results['repetitions']} repetitions"
    lines += [f"| measured | {when}, load before the start {results['load']:.1f} |", ""]
    for name, entries in results["summary"].items():
        lines += [f"## {entries[0]['row']}", "", results["notes"][name], ""]
        lines += ["| " + " | ".join(HEADINGS[1:]) + " |", "|" + "---|" * (len(HEADINGS) - 1)]
        lines += ["| " + " | ".join(cells(entry)[1:]) + " |" for entry in entries] + [""]
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("\n".join(lines))


PAGE_HEAD = """# Benchmarks

Written by `make bench`. Every side runs in a process of its own with its default number of threads;
the sides take turns, repetition by repetition, and a ratio is the median of the ratios within a
repetition, with the 10 % and 90 % quantiles beside it. "Measured" is the
median, with the best repetition beside it. "credo against it" is how many times faster credo was
(for the import: how many times longer it took). "Of peak" is the floating-point work of the matrix
products over the time, as a share of what the faster of XLA and PyTorch reached on a large float32
product in the same repetition. "Compile" is what the first repetition took more than the median.
"""
