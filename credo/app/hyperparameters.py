"""The fields of a method as the command line shows them."""

import dataclasses
import inspect
import typing
from collections.abc import Iterable
from typing import Annotated, Any, NamedTuple

from tyro.conf import arg

from credo.fields import field_texts
from credo.inference import Method


class Hyperparameter(NamedTuple):
    """One field of a method."""

    name: str
    type: Any
    default: Any
    help: str


def hyperparameters(cls: type, besides: type | None = None) -> list[Hyperparameter]:
    """The fields of a method in order, with the texts that stand below them.

    Args:
        besides: a class whose fields are left out, such as a base.

    Example:
        >>> rate = next(each for each in hyperparameters(credo.Dropout) if each.name == "rate")
        >>> rate.default, rate.help
        (0.2, 'Drop probability of hidden units.')
    """
    hints = typing.get_type_hints(cls, include_extras=True)
    texts = field_texts(cls)
    left_out = {field.name for field in dataclasses.fields(besides)} if besides else set()
    return [
        Hyperparameter(
            field.name,
            _as_flag(hints[field.name], field.default),
            field.default,
            " ".join(texts.get(field.name, "").split()),
        )
        for field in dataclasses.fields(cls)
        if field.metadata.get("flag", True) and field.name not in left_out
    ]


def _as_flag(hint: Any, default: Any) -> Any:
    """A field that takes a method, an optimiser or the name of one takes the name here."""
    takes_objects = hint is Any or Method in typing.get_args(hint)
    return type(default) if takes_objects else hint


def with_flags(command: type, flags: Iterable[Hyperparameter], **attributes: Any) -> type:
    """A command with further flags."""
    fields = [
        (
            each.name,
            Annotated[each.type, arg(name=flag(each.name)[2:], help=each.help)],
            dataclasses.field(default=each.default, kw_only=True),
        )
        for each in flags
    ]
    extended = dataclasses.make_dataclass(
        command.__name__, fields, bases=(command,), frozen=True, namespace=attributes
    )
    extended.__doc__ = command.__doc__
    return extended


def flag(name: str) -> str:
    """`num_steps` is `--num-steps` on the command line, `hmc__num_steps` is `--hmc.num-steps`."""
    return "--" + name.replace("__", ".").replace("_", "-")


def summary(cls: type) -> str:
    """The first line of a docstring."""
    return (inspect.getdoc(cls) or "").partition("\n")[0]
