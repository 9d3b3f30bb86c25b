"""What is written in a cell: numbers and dates as people write them.

A number may have a unit (a currency or a percent sign) and groups of three digits, and its decimal
mark is a point or a comma: 1,234.5 or 1.234,5 or 1 234,5. Which of the two is learned from a whole
column, as 1,234 alone can be either.
"""

import re
from collections.abc import Iterable
from datetime import UTC, datetime
from decimal import Decimal
from numbers import Real
from typing import Any, NamedTuple

import numpy as np

from credo.data.encoder import MONEY, DateOrder, DecimalMark
from credo.errors import CredoError

_MONEY = "|".join(map(re.escape, MONEY))
_DATE = re.compile(
    r"\s*(?P<first>\d{4}|\d{1,2})(?P<mark>[-/.])(?P<second>\d{1,2})(?P=mark)(?P<third>\d{4}|\d{1,2})"
    r"(?:[T ]\s*(?P<time>\d{1,2}:\d{2}(?::\d{2}(?:\.\d{1,6})?)?)"
    r"\s*(?P<zone>Z|[+-]\d{2}:?\d{2})?)?\s*"
)
TRUTH_WORDS = {"yes", "no", "y", "n", "t", "f", "on", "off",
               "ja", "nein", "oui", "non", "ano", "ne", "si", "sí"}  # fmt: skip


class Number(NamedTuple):
    """A number with its unit: "%", a currency, or nothing."""

    value: float
    unit: str = ""


def _number_pattern(decimal: DecimalMark) -> re.Pattern[str]:
    group = {".": r"[,\s'’]", ",": r"[.\s'’]"}[decimal]
    whole = rf"[1-9]\d{{0,2}}(?P<group>{group})\d{{3}}(?:(?P=group)\d{{3}})*|\d+"
    number = rf"(?P<whole>{whole})?(?:{re.escape(decimal)}(?P<fraction>\d*))?"
    return re.compile(
        rf"\s*(?P<sign>[-+−]?)\s*(?P<before>{_MONEY})?\s*(?P<inner>[-+−]?)"
        rf"{number}(?P<exponent>[eE][-+]?\d+)?\s*(?P<after>%|{_MONEY})?\s*"
    )


_NUMBERS: dict[DecimalMark, re.Pattern[str]] = {
    ".": _number_pattern("."),
    ",": _number_pattern(","),
}


def read_number(cell: Any, decimal: DecimalMark) -> Number | None:
    """The number in a cell, or None if it holds none.

    Example:
        >>> read_number("€ 1.234,50", ","), read_number("-3.5 %", "."), read_number("1.5", ",")
        (Number(value=1234.5, unit='€'), Number(value=-3.5, unit='%'), None)
    """
    if not isinstance(cell, str):
        return Number(float(cell)) if isinstance(cell, Real | Decimal) else None
    match = _NUMBERS[decimal].fullmatch(cell)
    if match is None or not (match["whole"] or match["fraction"]):
        return _infinity(cell)
    if (match["sign"] and match["inner"]) or (match["before"] and match["after"]):
        return None
    sign = "-" if (match["sign"] or match["inner"]) in ("-", "−") else ""
    whole = re.sub(r"\D", "", match["whole"] or "0")
    value = float(f"{sign}{whole}.{match['fraction'] or '0'}{match['exponent'] or ''}")
    return Number(value, match["before"] or match["after"] or "")


def _infinity(cell: str) -> Number | None:
    """Infinities in words, which are numbers so that they can be refused as such."""
    word = cell.strip().lower()
    return Number(float(word)) if re.fullmatch(r"[+-]?inf(inity)?", word) else None


def is_date(cell: Any) -> bool:
    """Whether a text is written like a date, with numbers: 2024-01-31, 31.1.2024, 1/31/2024."""
    match = _DATE.fullmatch(cell) if isinstance(cell, str) else None
    return match is not None and max(len(match["first"]), len(match["third"])) >= 2


def date_order(texts: Iterable[str], column: str) -> DateOrder:
    """Whether the year, the day or the month comes first, as all dates of a column show."""
    matches = [match for match in map(_DATE.fullmatch, texts) if match is not None]
    if all(len(match["first"]) == 4 for match in matches):
        return "ymd"
    short = [match for match in matches if len(match["third"]) != 4]
    if short:
        raise CredoError(
            f"column '{column}' holds dates such as {short[0].group()}; write the year first, with "
            "four digits, as in 2024-01-31"
        )
    if any(match["mark"] == "." or int(match["first"]) > 12 for match in matches):
        return "dmy"
    if any(int(match["second"]) > 12 for match in matches):
        return "mdy"
    raise CredoError(
        f"column '{column}' holds dates such as {matches[0].group()}, where either number may be "
        "the month; write the year first, as in 2024-01-31"
    )


def read_date(cell: Any, order: DateOrder) -> datetime | None:
    """The instant that a text names, or None; without a time zone it is taken for UTC."""
    match = _DATE.fullmatch(cell) if isinstance(cell, str) else None
    if match is None:
        return None
    parts = dict(zip(order, (match["first"], match["second"], match["third"])))
    if len(parts["y"]) != 4:
        return None
    hour, _, rest = (match["time"] or "0:00").partition(":")
    iso = f"{parts['y']}-{parts['m']:0>2}-{parts['d']:0>2}T{hour:0>2}:{rest}{match['zone'] or ''}"
    try:
        found = datetime.fromisoformat(iso)
    except ValueError:  # the 30th of February
        return None
    return found.replace(tzinfo=UTC) if found.tzinfo is None else found


def days_since(first_day: str, instants: Iterable[datetime | None]) -> np.ndarray:
    """Days from a date on, with fractions; NaN for None."""
    start = datetime.fromisoformat(first_day).replace(tzinfo=UTC)
    return np.array([
        np.nan if instant is None else (instant - start).total_seconds() / 86_400
        for instant in instants
    ])  # fmt: skip


def one_spelling(text: str) -> str:
    """A category without spaces around it, and words for true and false in one case.

    Example:
        >>> one_spelling(" Yes"), one_spelling("TRUE"), one_spelling("Prague ")
        ('yes', 'True', 'Prague')
    """
    text = text.strip()
    if text.lower() in ("true", "false"):
        return text.capitalize()  # as Python has them
    return text.lower() if text.lower() in TRUTH_WORDS else text
