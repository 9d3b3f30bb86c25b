"""Fields of inference methods as nested scikit-learn parameters: `method__rate`."""

import dataclasses
from typing import Any

import numpy as np

from credo.errors import CredoError
from credo.inference import METHODS, method_named


def method_instance(method: Any) -> Any:
    """The method itself, or the registered one of that name with its default fields.

    Example:
        >>> from credo.sklearn.options import method_instance
        >>> method_instance("map").num_steps
        4000
    """
    if isinstance(method, str):
        return method_named(method)()
    if not is_instance(method):
        raise CredoError(
            f"method must be one of {', '.join(METHODS)}, or an instance such as credo.HMC(); "
            f"got {method!r}"
        )
    return method


def is_instance(value: Any) -> bool:
    return dataclasses.is_dataclass(value) and not isinstance(value, type)


def nested_options(name: str, method: Any) -> dict[str, Any]:
    """The fields of a method, and of methods within it, as `name__field`; {} for anything else.

    Example:
        >>> import credo
        >>> from credo.sklearn.options import nested_options
        >>> nested_options("method", credo.HMC(thin=2))["method__thin"]
        2
    """
    if isinstance(method, str) and method in METHODS:
        method = METHODS[method]()
    if not is_instance(method):
        return {}
    options: dict[str, Any] = {}
    for field in dataclasses.fields(method):
        value = getattr(method, field.name)
        options[f"{name}__{field.name}"] = value
        if is_instance(value):
            options |= nested_options(f"{name}__{field.name}", value)
    return options


def with_options(method: Any, options: dict[str, Any]) -> Any:
    """The method with other values in some fields; `inner__rate` reaches into a method within.

    Example:
        >>> from credo.sklearn.options import with_options
        >>> with_options("dropout", {"rate": 0.1}).rate
        0.1
    """
    method = method_instance(method)
    names = [field.name for field in dataclasses.fields(method)]
    changed: dict[str, Any] = {}
    for option, value in options.items():
        name, _, rest = option.partition("__")
        if name not in names:
            raise CredoError(
                f"{type(method).__name__} has no hyper-parameter {name!r}; "
                f"choose one of {', '.join(names)}"
            )
        inner = changed.get(name, getattr(method, name))
        changed[name] = with_options(inner, {rest: value}) if rest else _plain(value)
    return dataclasses.replace(method, **changed)


def _plain(value: Any) -> Any:
    """Python's number for numpy's, which grids and random searches give and JSON cannot hold."""
    return value.item() if isinstance(value, np.generic) else value
