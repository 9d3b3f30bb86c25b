"""The page's tables: headline figures, cost, warnings, and how it all was made."""

from html import escape

from credo.report.columns import Cell, headline_columns, headline_rows, shared_decimals
from credo.report.conclusion import signed
from credo.report.differences import best_in, nll_differences
from credo.report.guides import COST_GUIDE
from credo.report.notes import (
    baseline_notes,
    changed_settings,
    data_note,
    ood_note,
    settings,
    settings_notes,
    warning_notes,
)
from credo.report.numbers import machine, versions
from credo.report.results import Comparison, Run
from credo.report.sections import paragraph, section

ABOVE = "NLL above best"


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
    heads, meanings = ["method"], {}
    above = nll_above_best(comparison)
    for place, column in enumerate(columns):
        heads.append(column.title)
        meanings[column.title] = column.meaning
        if column.metric == "nll" and above:
            heads.append(ABOVE)
            meanings[ABOVE] = "paired difference to the best, over the same test rows"
            for name, cells in rows.items():
                cells.insert(place + 1, above[name])
    bold = "Bold: the best of its column. " if len(rows) > 1 else ""
    caption = f"{bold}±: {comparison.error_meaning}."
    notes = [*settings_notes(comparison), *baseline_notes(comparison)]
    warned = "".join(f"<li>{escape(note)}</li>" for note in warning_notes(comparison))
    return section(
        "headline",
        "At a glance",
        html_table(heads, rows),
        paragraph(caption),
        definitions(meanings),
        *(paragraph(note) for note in notes if note),
        f'<div class="note"><b>Warnings</b><ul>{warned}</ul></div>' if warned else "",
    )


def nll_above_best(comparison: Comparison) -> dict[str, str]:
    """The paired difference of every method to the best in NLL, as HTML."""
    best = best_in(comparison, "nll")
    if best is None or len(comparison.runs) == 1:
        return {}
    differences = nll_differences(comparison, best)
    decimals = shared_decimals(list(differences.values()))
    return {
        name: _with_error(signed(differences[name], decimals)) if name != best else "–"
        for name in comparison.runs
    }


def _figure(cell: Cell) -> str:
    text = _with_error(cell.text)
    return f"<b>{text}</b>" if cell.best else text


def _with_error(figure: str) -> str:
    """The error in a span of its own, which a narrow screen puts below the value."""
    value, sign, error = figure.partition(" ±")
    return escape(value) + (f' <span class="error">±{escape(error)}</span>' if sign else "")


def cost_section(comparison: Comparison) -> str:
    """Seconds, parameters, draws."""
    heads = [
        "method", "first fit, s", "later fits, s", "predict, s", "parameters", "numbers kept",
        "draws per prediction",
    ]  # fmt: skip
    rows = {name: _cost(runs) for name, runs in comparison.runs.items()}
    return section("cost", "Cost", paragraph(COST_GUIDE), html_table(heads, rows))


def _cost(runs: tuple[Run, ...]) -> list[str]:
    later = [run.fit_seconds for run in runs[1:]]
    first = runs[0]
    return [
        f"{first.fit_seconds:.1f}",
        f"{sum(later) / len(later):.1f}" if later else "–",
        f"{min(run.predict_seconds for run in runs):.2f}",
        "–" if first.num_parameters is None else f"{first.num_parameters:,}",
        "–" if first.num_stored is None else f"{first.num_stored:,}",
        f"{first.num_draws:,}",
    ]


def made_section(comparison: Comparison) -> str:
    """Data, seeds, network, settings, versions."""
    facts = {
        "Data": data_note(comparison),
        "Unfamiliar inputs": ood_note(comparison).removeprefix("Out of distribution: "),
        "Seeds": _seeds(comparison),
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
        notes = comparison.runs[name][0].notes
        if notes:
            facts[f"{name} chose"] = " ".join(notes)
    facts |= comparison.baselines
    return section("made", "How this was made", definitions(facts))


def _seeds(comparison: Comparison) -> str:
    """`0, 1, 2; of hmc: 0`."""
    by_name = {n: ", ".join(str(run.seed) for run in runs) for n, runs in comparison.runs.items()}
    longest = max(by_name.values(), key=len)
    others = [f"of {name}: {seeds}" for name, seeds in by_name.items() if seeds != longest]
    return "; ".join([longest, *others])
