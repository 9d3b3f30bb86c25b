"""What a comparison found, in two sentences."""

from credo.evaluation import Estimate
from credo.report.columns import figure, shared_decimals
from credo.report.differences import auroc_differences, best_in, nll_differences, tied_with
from credo.report.results import Comparison


def conclusion(comparison: Comparison) -> str:
    """The verdict, and what cannot be told apart."""
    return " ".join([verdict(comparison), *ties(comparison)])


def verdict(comparison: Comparison) -> str:
    """Who is best in NLL and at unfamiliar inputs, and at what price.

    Example:
        >>> verdict(comparison)  # doctest: +SKIP
        'auto is best in NLL (0.051), hmc at unfamiliar inputs (AUROC 0.961). Price of a fit: ...'
    """
    if len(comparison.runs) == 1:
        return _alone(comparison)
    best = best_in(comparison, "nll")
    if best is None:
        return "No method is best in NLL: all are infinite."
    text = f"{best} is best in NLL ({_value(comparison, best, 'nll')})"
    named = [best]
    if comparison.ood is not None:
        knows = best_in(comparison, "ood_auroc", highest=True)
        assert knows is not None
        at_inputs = f"at unfamiliar inputs (AUROC {_value(comparison, knows, 'ood_auroc')})"
        text += f" and {at_inputs}" if knows == best else f", {knows} {at_inputs}"
        named.append(knows)
    cheapest = best_in(comparison, "seconds")
    assert cheapest is not None
    prices = [f"{name} {_seconds(comparison, name)}" for name in dict.fromkeys(named)]
    price = f"Price of one run: {', '.join(prices)}"
    if cheapest not in named:
        price += f"; of {cheapest}, the cheapest, {_seconds(comparison, cheapest)}"
    return f"{text}. {price}."


def ties(comparison: Comparison) -> list[str]:
    """A sentence for each contest that the test rows do not decide."""
    if len(comparison.runs) == 1:
        return []
    found = []
    best = best_in(comparison, "nll")
    if best is not None:
        found.append(_tie("In NLL", best, tied_with(nll_differences(comparison, best))))
    if comparison.ood is not None:
        knows = best_in(comparison, "ood_auroc", highest=True)
        assert knows is not None
        close = tied_with(auroc_differences(comparison, knows))
        found.append(_tie("At unfamiliar inputs", knows, close))
    return [text for text in found if text]


def difference_note(comparison: Comparison) -> str:
    """By how much the others miss the best NLL, on the same test rows."""
    best = best_in(comparison, "nll")
    if best is None or len(comparison.runs) == 1:
        return ""
    differences = nll_differences(comparison, best)
    decimals = shared_decimals(list(differences.values()))
    listed = ", ".join(f"{name} {signed(each, decimals)}" for name, each in differences.items())
    return f"NLL above that of {best}, row by row: {listed}."


def signed(difference: Estimate, decimals: int) -> str:
    """`+0.021 ±0.009`."""
    text = figure(difference, decimals)
    return text if text.startswith(("-", "n")) else f"+{text}"


def _tie(where: str, best: str, close: list[str]) -> str:
    if not close:
        return ""
    named = f"{', '.join([best, *close[:-1]])} and {close[-1]}"
    return f"{where}, {named} do not differ by more than their error."


def _alone(comparison: Comparison) -> str:
    name = next(iter(comparison.runs))
    metrics = {"nll": "NLL"} | ({"ood_auroc": "OOD AUROC"} if comparison.ood is not None else {})
    shown = [
        f"{title} {figure(found, shared_decimals([found]))}"
        for metric, title in metrics.items()
        for found in [comparison.summary(name, metric)]
    ]
    return f"{name}: {', '.join(shown)}. Price of one run: {_seconds(comparison, name)}."


def _value(comparison: Comparison, name: str, metric: str) -> str:
    estimates = [comparison.summary(each, metric) for each in comparison.runs]
    return figure(comparison.summary(name, metric), shared_decimals(estimates), with_error=False)


def _seconds(comparison: Comparison, name: str) -> str:
    seconds = comparison.summary(name, "seconds").value
    if seconds < 0.1:
        return "under 0.1 s"
    return f"{seconds:.0f} s" if seconds >= 9.5 else f"{seconds:.1f} s"
