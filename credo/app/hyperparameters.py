"""The fields of a method as the command line shows them."""

import ast
import dataclasses
import inspect
import itertools
import textwrap
import typing
from typing import Any, NamedTuple

from credo.inference import Method


class Hyperparameter(NamedTuple):
    """One field of a method."""

    name: str
    type: Any
    default: Any
    help: str


def hyperparameters(method: type) -> list[Hyperparameter]:
    """The fields of a method in order, with the texts that stand below them.

    Example:
        >>> rate = hyperparameters(credo.Dropout)[0]
        >>> rate.name, rate.default, rate.help
        ('rate', 0.2, 'Drop probability of hidden units.')
    """
    hints = typing.get_type_hints(method, include_extras=True)
    texts = field_texts(method)
    return [
        Hyperparameter(
            field.name, _as_flag(hints[field.name]), field.default, texts.get(field.name, "")
        )
        for field in dataclasses.fields(method)
        if field.metadata.get("flag", True)
    ]


def _as_flag(hint: Any) -> Any:
    """A field that takes a method or its name takes its name here."""
    return str if Method in typing.get_args(hint) else hint


def field_texts(cls: type) -> dict[str, str]:
    """The docstring below each annotated field of a class: Python itself does not keep them."""
    try:
        source = textwrap.dedent(inspect.getsource(cls))
    except OSError:  # installed without sources
        return {}
    body = ast.parse(source).body[0].body  # type: ignore[attr-defined]
    return {
        field.target.id: inspect.cleandoc(text.value.value)
        for field, text in itertools.pairwise(body)
        if isinstance(field, ast.AnnAssign) and isinstance(field.target, ast.Name)
        if isinstance(text, ast.Expr) and isinstance(text.value, ast.Constant)
        if isinstance(text.value.value, str)
    }


def flag(name: str) -> str:
    """`num_steps` is `--num-steps` on the command line."""
    return "--" + name.replace("_", "-")


def summary(cls: type) -> str:
    """The first line of a docstring."""
    return (inspect.getdoc(cls) or "").partition("\n")[0]
