"""One file format for everything that was learned: arrays in safetensors, the rest as JSON.

A dataclass declares itself saveable by its base class, and `save` and `load` know it from then on:
posteriors, calibrators, detectors, models of the user's own. Loading never runs code. A file may
come from anywhere, so nothing in it is believed: every field is checked against its annotation, and
by the class itself, before it is used.
"""

import dataclasses
import math
import os
import types
import typing
import warnings
from collections.abc import Mapping
from typing import Any, ClassVar

import jax
import jax.numpy as jnp
import numpy as np

from credo import files
from credo.errors import CredoError
from credo.struct import Struct

FORMAT = 3
LONGEST = 64  # whole numbers in a row that no array stands behind, such as widths of layers
DEEPEST = 64  # values within values
MOST_VALUES = 300_000  # in all; a table of 250 columns with 1,000 categories each has fewer
_CLASSES: dict[str, type] = {}


class Saveable(Struct):
    """Base of frozen dataclasses that `save` and `load` know, by the name of the class.

    Fields may be numbers, texts, None, arrays, other saveable things, and dictionaries, lists and
    tuples of these. `__post_init__` checks ranges, as for anybody who makes an instance; what it
    raises refuses a file. A class of the user's own must be imported before its files are loaded.

    Example:
        >>> from dataclasses import dataclass
        >>> import credo, numpy as np
        >>> @dataclass(frozen=True)
        ... class Threshold(credo.Saveable):
        ...     level: float
        ...     scores: np.ndarray
        >>> credo.save(Threshold(0.5, np.ones(3)), path)  # doctest: +SKIP
        >>> credo.load(path).level  # doctest: +SKIP
        0.5
    """

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        _CLASSES[class_name(cls)] = cls

    may_be_absent: ClassVar[tuple[str, ...]] = ()
    """Fields that are None in a part of something larger, which then has them."""

    def check_whole(self) -> None:
        """Raise where this cannot stand alone; called for what a file holds as a whole."""

    @classmethod
    def from_fields(cls, fields: dict[str, Any], context: "Context") -> Any:
        """The instance that a file describes; a class with pytrees of its own checks them here."""
        return cls(**fields)


@dataclasses.dataclass(frozen=True)
class Context:
    """What loading knows besides the fields of one instance."""

    given: Mapping[str, Any]
    """Parts that are code, which the caller passes by the name of their field."""


@dataclasses.dataclass(frozen=True)
class Leaves:
    """Arrays of a pytree whose containers are not in the file, in their order."""

    arrays: tuple[np.ndarray, ...]


@dataclasses.dataclass(frozen=True)
class Missing:
    """A part of the user's own, whose code is not in the file."""

    name: str


def class_name(cls: type) -> str:
    """How files name a class: credo's own by its name alone."""
    inside = cls.__module__.partition(".")[0] == "credo"
    return cls.__qualname__ if inside else f"{cls.__module__}.{cls.__qualname__}"


def save(thing: Saveable, path: str | os.PathLike) -> None:
    """Write anything that was learned as one safetensors file, whole or not at all.

    Example:
        >>> credo.save(posterior, "digits.safetensors")  # doctest: +SKIP
    """
    if not isinstance(thing, Saveable):
        raise CredoError(
            f"only saveable things can be saved, such as posteriors, got {type(thing).__name__}; "
            "make it a frozen dataclass with the base credo.Saveable"
        )
    arrays: dict[str, np.ndarray] = {}
    try:
        content = _describe(thing, "", arrays)
        _check_extent(content)
    except RecursionError:
        raise CredoError("cannot save what holds itself, or is nested without end") from None
    files.save_arrays(path, arrays, {"format": FORMAT, "content": content})


def load(path: str | os.PathLike, **given: Any) -> Any:
    """Read what `save` wrote.

    A part that is code, such as a network of your own, is not in the file: pass it by the name of
    its field, `load(path, network=...)`.

    Example:
        >>> posterior = credo.load("digits.safetensors")  # doctest: +SKIP
    """
    arrays, metadata = files.load_arrays(path)
    if not isinstance(metadata, dict) or metadata.get("format") != FORMAT:
        found = metadata.get("format") if isinstance(metadata, dict) else None
        raise CredoError(
            f"{path} has format {found!r}, this credo reads format {FORMAT}; update credo or save "
            "the model anew"
        )
    try:
        _check_extent(metadata.get("content"))
        stock = _Stock(arrays)
        built = _build(metadata.get("content"), stock, Context(given), "the file")
        if not isinstance(built, Saveable):
            raise CredoError("it holds nothing that was learned")
        if stock.left:
            raise CredoError(f"nothing in it uses its array {min(stock.left)!r:.60}")
        built.check_whole()
        return built
    except CredoError as error:
        raise CredoError(f"{path} cannot be used: {_one_line(error, 400)}") from None
    except (ValueError, TypeError, KeyError, AttributeError, OverflowError, RecursionError,
            IndexError, MemoryError, ArithmeticError) as error:  # fmt: skip
        raise CredoError(
            f"{path} cannot be used: what it holds does not fit together "
            f"({type(error).__name__}: {_one_line(error, 200)}); save the model anew"
        ) from None


def _one_line(error: Exception, most: int) -> str:
    text = " ".join(str(error).split())
    return text if len(text) <= most else f"{text[: most - 1]}…"


def _check_extent(content: Any) -> None:
    """Refuse more values, or deeper ones, than anything that was learned has, before any work."""
    level, count = [content], 0
    for _ in range(2 * DEEPEST):  # a value is described by an entry within an entry
        count += len(level)
        if count > MOST_VALUES:
            raise CredoError(f"more than {MOST_VALUES:,} values besides arrays; use arrays")
        inner = [node.values() if isinstance(node, dict) else node
                 for node in level if isinstance(node, dict | list)]  # fmt: skip
        level = [entry for entries in inner for entry in entries]
        if not level:
            return
    raise CredoError(f"values within values, more than {DEEPEST} deep")


class _Stock:
    """The arrays of a file, each of which something takes, once."""

    def __init__(self, arrays: dict[str, np.ndarray]) -> None:
        self.count, self.left = len(arrays), dict(arrays)

    def take(self, name: Any, place: str) -> np.ndarray:
        if _a(str, name, place) not in self.left:
            raise CredoError(f"{place} names an array that is not in the file, or not once")
        return self.left.pop(name)


def _describe(value: Any, place: str, arrays: dict[str, np.ndarray]) -> Any:
    """A value as JSON, its arrays set aside under their place."""
    if value is None or isinstance(value, bool | str):
        return value
    if isinstance(value, int | np.integer):
        return int(value)
    if isinstance(value, float | np.floating):
        return {"number": repr(float(value))} if not math.isfinite(value) else float(value)
    if isinstance(value, np.ndarray | jax.Array):
        return {"array": _set_aside(np.asarray(value), place, arrays)}
    if isinstance(value, Saveable):
        fields = {
            field.name: _describe(getattr(value, field.name), _join(place, field.name), arrays)
            for field in dataclasses.fields(value)  # type: ignore[arg-type]
            if field.init
        }
        return {"class": class_name(type(value)), "fields": fields}
    if isinstance(value, Mapping):
        entries = {}
        for name, entry in value.items():
            if not isinstance(name, str):
                raise CredoError(f"cannot save a dictionary with the key {name!r}; use text")
            entries[name] = _describe(entry, _join(place, name), arrays)
        return {"dict": entries}
    if type(value) in (list, tuple):
        listed = [_describe(e, _join(place, str(i)), arrays) for i, e in enumerate(value)]
        return {type(value).__name__: listed}
    return _describe_foreign(value, place, arrays)


def _describe_foreign(value: Any, place: str, arrays: dict[str, np.ndarray]) -> Any:
    """A pytree of other containers by its leaves, and code by its name."""
    paths, _ = jax.tree_util.tree_flatten_with_path(value)
    if paths and all(isinstance(leaf, np.ndarray | jax.Array) for _, leaf in paths):
        names = []
        for path, leaf in paths:
            names.append(_set_aside(np.asarray(leaf), _join(place, files.path_name(path)), arrays))
        return {"leaves": names}
    if callable(getattr(value, "apply", None)):
        return {"missing": type(value).__name__}
    raise CredoError(
        f"cannot save {place or 'this'}, a {type(value).__name__}: a file holds no code; give its "
        "class the base credo.Saveable"
    )


def _set_aside(array: np.ndarray, place: str, arrays: dict[str, np.ndarray]) -> str:
    """Store an array under its place, or one beside it where a name with a slash took that."""
    while place in arrays:
        place += "'"
    arrays[place] = array
    return place


def _join(place: str, name: str) -> str:
    return f"{place}/{name}" if place else name


def _build(node: Any, stock: _Stock, context: Context, place: str) -> Any:
    """The value that `_describe` described."""
    if node is None or isinstance(node, bool | int | float | str):
        return node
    kind, content = _only_entry(node, place)
    if kind == "class":
        return _build_instance(content, node["fields"], stock, context, place)
    if kind == "array":
        return stock.take(content, place)
    if kind == "leaves":
        return Leaves(tuple(stock.take(name, place) for name in _a(list, content, place)))
    if kind == "missing":
        return Missing(_a(str, content, place))
    if kind == "number":
        if content not in ("inf", "-inf", "nan"):
            raise CredoError(f"{place} holds the number {content!r}")
        return float(content)
    if kind == "dict":
        entries = _a(dict, content, place).items()
        return {name: _build(e, stock, context, f"{place}.{name}") for name, e in entries}
    if kind not in ("list", "tuple"):
        raise CredoError(f"{place} holds an unknown kind of value, {kind!r}")
    if len(_a(list, content, place)) > LONGEST + stock.count and isinstance(content[0], int):
        raise CredoError(
            f"{place} lists {len(content)} whole numbers, more than its {stock.count} arrays need"
        )
    built = [_build(e, stock, context, f"{place}[{i}]") for i, e in enumerate(content)]
    return built if kind == "list" else tuple(built)


def _only_entry(node: Any, place: str) -> tuple[str, Any]:
    names = set(node) if isinstance(node, dict) else set()
    if names == {"class", "fields"}:
        return "class", node["class"]
    if len(names) != 1:
        raise CredoError(f"{place} is not described as credo does")
    return next(iter(node.items()))


def _build_instance(name: Any, stored: Any, stock: _Stock, context: Context, place: str) -> Any:
    cls = _CLASSES.get(_a(str, name, place))
    if cls is None or not dataclasses.is_dataclass(cls):
        raise CredoError(
            f"{place} needs the class {name}, which is not known here; import the module that "
            "defines it, or update credo"
        )
    known = {field.name: field for field in dataclasses.fields(cls) if field.init}
    unknown = set(_a(dict, stored, place)) - set(known)
    if unknown:
        raise CredoError(f"{place}: {name} has no field {sorted(unknown)[0]!r}")
    hints = typing.get_type_hints(cls)
    fields: dict[str, Any] = {}
    for field, node in stored.items():
        where = f"{place}.{field}"
        value = _build(node, stock, context, where)
        if isinstance(value, Missing) and field in context.given:
            value = context.given[field]
        elif isinstance(value, Missing):
            raise CredoError(
                f"it holds a {field} of your own ({value.name}), whose code is not in the file; "
                f"pass it: credo.load(path, {field}=...)"
            )
        if value is None and field in cls.may_be_absent:  # type: ignore[attr-defined]
            fields[field] = None
            continue
        fields[field] = conform(value, hints[field], where, known[field].metadata.get("nan", False))
    return cls.from_fields(fields, context)  # type: ignore[attr-defined]


def _a(kind: type, value: Any, place: str) -> Any:
    if not isinstance(value, kind):
        raise CredoError(f"{place} should hold a {kind.__name__}, got {value!r:.60}")
    return value


def conform(value: Any, hint: Any, place: str, may_be_nan: bool = False) -> Any:
    """The value as its annotation has it, or an error."""
    origin, options = typing.get_origin(hint), typing.get_args(hint)
    if origin is typing.Annotated:
        return conform(value, options[0], place, may_be_nan)
    if origin in (typing.Union, types.UnionType):
        for option in options:
            try:
                return conform(value, option, place, may_be_nan)
            except CredoError:
                continue
        raise _mismatch(value, hint, place)
    if hint is Any or isinstance(hint, typing.TypeVar):
        return _finite(value, place, may_be_nan)
    if hint is None or hint is type(None):
        return value if value is None else _raise(value, hint, place)
    if origin is typing.Literal:
        matches = [o for o in options if type(o) is type(value) and o == value]
        return value if matches else _raise(value, hint, place)
    if origin is tuple:
        return _conform_tuple(value, options, hint, place, may_be_nan)
    if origin is list:
        _a(list, value, place)
        return [conform(e, options[0], f"{place}[{i}]", may_be_nan) for i, e in enumerate(value)]
    if origin in (dict, Mapping):
        _a(dict, value, place)
        return {n: conform(e, options[1], f"{place}.{n}", may_be_nan) for n, e in value.items()}
    if hint is float:
        is_number = isinstance(value, int | float) and not isinstance(value, bool)
        if not is_number or (not may_be_nan and not math.isfinite(value)):
            _raise(value, hint, place)
        return float(value)
    if hint in (int, bool, str):
        return value if type(value) is hint else _raise(value, hint, place)
    if _is_array_hint(hint):
        return _conform_array(value, hint, place, may_be_nan)
    if isinstance(hint, type) and not getattr(hint, "_is_protocol", False):
        return value if isinstance(value, hint) else _raise(value, hint, place)
    return _finite(value, place, may_be_nan)  # a Protocol: the class that holds it checks


def _conform_tuple(value: Any, options: tuple, hint: Any, place: str, may_be_nan: bool) -> tuple:
    _a(tuple, value, place)
    if len(options) == 2 and options[1] is Ellipsis:
        options = (options[0],) * len(value)
    if options == ((),):
        options = ()
    if len(options) != len(value):
        _raise(value, hint, place)
    parts = zip(value, options, strict=True)
    return tuple(conform(e, o, f"{place}[{i}]", may_be_nan) for i, (e, o) in enumerate(parts))


def _is_array_hint(hint: Any) -> bool:
    return hint in (np.ndarray, jax.Array) or hasattr(hint, "array_type")  # jaxtyping's


def _conform_array(value: Any, hint: Any, place: str, may_be_nan: bool) -> Any:
    if not isinstance(value, np.ndarray | jax.Array):
        _raise(value, hint, place)
    _finite(value, place, may_be_nan)
    if value.dtype.kind not in "biuf":
        _raise(value, hint, place)
    kind = getattr(hint, "array_type", hint)
    value = on_device(value, place) if kind is jax.Array else np.asarray(value)
    if hasattr(hint, "array_type") and not isinstance(value, hint):
        raise CredoError(
            f"{place} should be an array {hint.__name__}, got {value.dtype} of shape {value.shape}"
        )
    return value


def on_device(value: Any, place: str) -> jax.Array:
    """The array as JAX holds it, refused where that would change what it says."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of numbers cut off, which are looked for below
        moved = jnp.asarray(value)
    if moved.dtype != value.dtype:
        back = np.asarray(moved)
        whole = value.dtype.kind in "iu"
        if not (np.array_equal(back, value) if whole else np.isfinite(back).all()):
            raise CredoError(f"{place} holds numbers beyond the working precision, {back.dtype}")
    return moved


def _finite(value: Any, place: str, may_be_nan: bool) -> Any:
    """Refuse NaN and infinite numbers anywhere in a value."""
    if may_be_nan:
        return value
    leaves = value.arrays if isinstance(value, Leaves) else jax.tree.leaves(value)
    for leaf in leaves:
        is_float = isinstance(leaf, float) or getattr(leaf, "dtype", np.dtype(int)).kind == "f"
        if is_float and not np.isfinite(leaf).all():
            raise CredoError(f"{place} holds numbers that are not finite")
    return value


def _mismatch(value: Any, hint: Any, place: str) -> CredoError:
    shown = getattr(hint, "__name__", str(hint)).replace("typing.", "")
    return CredoError(f"{place} should be {shown}, got {value!r:.60}")


def _raise(value: Any, hint: Any, place: str) -> Any:
    raise _mismatch(value, hint, place)
