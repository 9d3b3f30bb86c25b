"""The fields of a dataclass: what they may be, and the texts that explain them."""

import ast
import dataclasses
import inspect
import itertools
import math
import textwrap
from numbers import Integral, Real
from types import NoneType
from typing import Any, Literal, NamedTuple, NoReturn, get_args, get_origin, get_type_hints

from credo.errors import CredoError


class Range(NamedTuple):
    """Numbers from `low` to `high`, the ends included or not."""

    low: float
    high: float = math.inf
    low_included: bool = True
    high_included: bool = True

    def __contains__(self, value: Any) -> bool:
        above = value >= self.low if self.low_included else value > self.low
        below = value <= self.high if self.high_included else value < self.high
        return bool(above and below)

    def __str__(self) -> str:
        low = f"{'at least' if self.low_included else 'greater than'} {self.low:g}"
        if math.isinf(self.high):
            return low
        return f"{low} and {'at most' if self.high_included else 'below'} {self.high:g}"


def above(low: float) -> Range:
    """Numbers greater than `low`."""
    return Range(low, low_included=False)


def at_least(low: float) -> Range:
    """Numbers not smaller than `low`."""
    return Range(low)


def between(
    low: float, high: float, low_included: bool = True, high_included: bool = True
) -> Range:
    """Numbers from `low` to `high`."""
    return Range(low, high, low_included, high_included)


POSITIVE = above(0.0)
COUNT = at_least(1)


def check_fields(instance: Any, **ranges: Range) -> None:
    """Raise unless each named field is a number in its range.

    A field of type int must be whole, and a field that names one of several choices must be one of
    them. NumPy's numbers become Python's, so that every field can be saved as JSON.
    """
    kinds = get_type_hints(type(instance))
    for name, kind in kinds.items():
        choices = _choices(kind)
        if choices and getattr(instance, name) not in choices:
            _refuse(instance, name, f"one of {', '.join(map(repr, choices))}")
    for name, allowed in ranges.items():
        value, kind = getattr(instance, name), kinds[name]
        options = (kind, *get_args(kind))
        if value is None and NoneType in options:
            continue
        is_whole = int in options
        is_number = isinstance(value, Integral if is_whole else Real) and math.isfinite(value)
        if isinstance(value, bool) or not is_number or value not in allowed:
            _refuse(instance, name, f"a {'whole ' if is_whole else ''}number {allowed}")
        object.__setattr__(instance, name, int(value) if is_whole else float(value))


def _choices(kind: Any) -> tuple[Any, ...]:
    """What a field that names one of several choices, or None, may be; empty for other fields."""
    if get_origin(kind) is Literal:
        return get_args(kind)
    parts = get_args(kind)
    if NoneType in parts and len(parts) == 2:
        own = _choices(next(part for part in parts if part is not NoneType))
        return (*own, None) if own else ()
    return ()


def _refuse(instance: Any, name: str, expected: str) -> NoReturn:
    value = getattr(instance, name)
    raise CredoError(f"{type(instance).__name__}: {name} must be {expected}, got {value!r}")


def field_texts(cls: type) -> dict[str, str]:
    """The docstring below each annotated field of a class and its bases: Python keeps none."""
    texts: dict[str, str] = {}
    for base in reversed(cls.__mro__):
        if dataclasses.is_dataclass(base):
            texts |= _own_texts(base)
    return texts


def _own_texts(cls: type) -> dict[str, str]:
    try:
        source = textwrap.dedent(inspect.getsource(cls))
    except (OSError, TypeError):  # installed without sources
        return {}
    body = ast.parse(source).body[0].body  # type: ignore[attr-defined]
    return {
        field.target.id: inspect.cleandoc(text.value.value)
        for field, text in itertools.pairwise(body)
        if isinstance(field, ast.AnnAssign) and isinstance(field.target, ast.Name)
        if isinstance(text, ast.Expr) and isinstance(text.value, ast.Constant)
        if isinstance(text.value.value, str)
    }
