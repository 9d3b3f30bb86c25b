"""The page's tables: headline figures, cost, warnings, and how it all was made."""

from html import escape

from credo.evaluation import Estimate
from credo.report.columns import Cell, headline_columns, headline_rows
from credo.report.guides import COST_GUIDE
from credo.report.notes import (
    changed_settings,
    data_note,
    ood_note,
    sampling_note,
    settings,
    settings_notes,
    warning_notes,
)
from credo.report.numbers import machine, versions
from credo.report.results import Comparison, Run, over_seeds
from credo.report.sections import paragraph, section


def html_table(heads: list[str], rows: dict[str, list[str]]) -> str:
    """A table with a head for every column and row; cells are HTML already."""
    top = "".join(f'<th scope="col">{escape(head)}</th>' for head in heads)
    body = "".join(
        f'<tr><th scope="row">{escape(name)}</th>'
        + "".join(f"<td>{c}</td>" for c in cells)
        + "</tr>"
        for name, cells in rows.items()
    )
    return (
        f'<div class="scroll" tabindex="0"><table><thead><tr>{top}</tr></thead>'
        f"<tbody>{body}</tbody></table></div>"
    )


def definitions(items: dict[str, str]) -> str:
    pairs = "".join(f"<dt>{escape(k)}</dt><dd>{escape(v)}</dd>" for k, v in items.items())
    return f"<dl>{pairs}</dl>"


def headline_section(comparison: Comparison) -> str:
    """The same table as on the terminal."""
    columns = headline_columns(comparison)
    rows = {
        name: [_figure(cell) for cell in cells] for name, cells in headline_rows(comparison).items()
    }
    bold = "Bold: the best of its column. " if len(rows) > 1 else ""
    caption = f"{bold}±: {comparison.error_meaning}."
    notes = [sampling_note(comparison), *settings_notes(comparison)]
    warned = "".join(f"<li>{escape(note)}</li>" for note in warning_notes(comparison))
    return section(
        "headline",
        "At a glance",
        html_table(["method", *(column.title for column in columns)], rows),
        paragraph(caption),
        definitions({column.title: column.meaning for column in columns}),
        *(paragraph(note) for note in notes if note),
        f'<div class="note"><b>Warnings</b><ul>{warned}</ul></div>' if warned else "",
    )


def _figure(cell: Cell) -> str:
    """The error in a span of its own, which a narrow screen puts below the value."""
    value, sign, error = cell.text.partition(" ±")
    text = escape(value) + (f' <span class="error">±{escape(error)}</span>' if sign else "")
    return f"<b>{text}</b>" if cell.best else text


def cost_section(comparison: Comparison) -> str:
    """Seconds, parameters, draws."""
    heads = [
        "method", "first fit, s", "later fits, s", "predict, s", "parameters", "numbers kept",
        "draws per prediction",
    ]  # fmt: skip
    rows = {name: _cost(runs) for name, runs in comparison.runs.items()}
    return section("cost", "Cost", paragraph(COST_GUIDE), html_table(heads, rows))


def _cost(runs: tuple[Run, ...]) -> list[str]:
    later = runs[1:]
    mean = over_seeds([Estimate(run.fit_seconds, float("nan")) for run in later]) if later else None
    return [
        f"{runs[0].fit_seconds:.1f}",
        f"{mean.value:.1f}" if mean else "–",
        f"{min(run.predict_seconds for run in runs):.2f}",
        f"{runs[0].num_parameters:,}",
        f"{runs[0].num_stored:,}",
        f"{runs[0].num_draws:,}",
    ]


def _warning_of(name: str, seed: int, text: str) -> str:
    return f"{name}, seed {seed}: " + text.removeprefix(f"{name}: ")


def warnings_section(comparison: Comparison) -> str:
    """What the fits warned of, seed by seed."""
    items = [
        f"<li>{escape(_warning_of(name, run.seed, text))}</li>"
        for name, runs in comparison.runs.items()
        for run in runs
        for text in run.warnings
    ]
    listed = f'<ul class="warnings">{"".join(items)}</ul>' if items else paragraph("None.")
    return section("warnings", "Warnings", listed)


def made_section(comparison: Comparison) -> str:
    """Data, seeds, network, settings, versions."""
    facts = {
        "Data": data_note(comparison),
        "Unfamiliar inputs": ood_note(comparison).removeprefix("Out of distribution: "),
        "Seeds": ", ".join(str(run.seed) for run in next(iter(comparison.runs.values()))),
        "Network": repr(comparison.network),
        "Draws": f"up to {comparison.num_draws} averaged in each prediction",
        "Versions": ", ".join(f"{name} {version}" for name, version in versions().items()),
        "Machine": machine(),
    }
    for name, method in comparison.methods.items():
        changed = changed_settings(method)
        listed = [
            f"{k}={v}" + (f" (default {changed[k][1]})" if k in changed else "")
            for k, v in settings(method).items()
        ]
        facts[f"Settings of {name}"] = ", ".join(listed)
    return section("made", "How this was made", definitions(facts))
