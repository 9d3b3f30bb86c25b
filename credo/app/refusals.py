"""What tyro cannot read, as an error of one line.

tyro has no public way to get at its complaints but the boxes that it prints. It does have a hook,
in a private module: where a version of tyro has none, or other kinds of complaint, its own boxes
are shown (see docs/decisions.md).
"""

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import tyro

from credo.errors import CredoError


def refusing_in_one_line(hint: str) -> AbstractContextManager[None]:
    """Within it, what tyro refuses is a `CredoError` that ends with `hint`."""

    def refuse(event: Any) -> None:
        text = complaint(event)
        if text is not None:
            raise CredoError(f"{text} {hint}")

    register: Callable | None = getattr(getattr(tyro, "_errors", None), "on_parse_error", None)
    return nullcontext() if register is None else register(refuse)


def complaint(event: Any) -> str | None:
    """What an event of tyro tells; None for a kind that is not known here."""
    try:
        return _TEXTS[type(event).__name__](event)
    except (KeyError, AttributeError):  # another version of tyro
        return None


def _missing(event: Any) -> str:
    return f"required: {', '.join(_name(each.arg) for each in event.missing_arguments)}"


def _bad_value(event: Any) -> str:
    got = "none" if event.offending_value is None else repr(event.offending_value)
    return f"{_name(event.argument)} needs {event.argument.lowered.metavar}, got {got}"


def _invalid_choice(event: Any) -> str:
    return f"{_name(event.argument)} must be one of {', '.join(event.choices)}, got {event.value!r}"


def _unrecognized(event: Any) -> str:
    return f"surplus arguments: {' '.join(event.tokens)}"


def _failed(event: Any) -> str:
    return event.message if event.argument is None else f"{_name(event.argument)}: {event.message}"


def _name(argument: Any) -> str:
    """`--out`, or the placeholder of an argument without a flag."""
    return argument.lowered.metavar if argument.is_positional() else argument.display_name()


_TEXTS: dict[str, Callable[[Any], str]] = {
    "MissingArgs": _missing,
    "BadValue": _bad_value,
    "InvalidChoice": _invalid_choice,
    "UnrecognizedArgs": _unrecognized,
    "InstantiationFailure": _failed,
}
