"""Frozen dataclasses that JAX can look into: numbers are data, everything else is structure.

A compiled program depends on the structure of its arguments, not on their numbers. A method whose
learning rate changes, a prior with another scale, a target with more rows therefore run the program
that is there already.
"""

import dataclasses
import functools
from typing import Any

import jax
import numpy as np


class Struct:
    """Base of frozen dataclasses that are pytrees.

    Fields that hold floating-point numbers, arrays, or containers of them are leaves; whole
    numbers, texts, truth values and functions are structure. A number that is exactly 0.0 is
    structure too: it switches something off, and what is switched off is not in the program
    (`is_off` asks for it). So is None.

    Example:
        >>> import jax
        >>> from dataclasses import dataclass
        >>> @dataclass(frozen=True)
        ... class Rule(Struct):
        ...     rate: float = 0.1
        ...     steps: int = 3
        >>> jax.tree.leaves(Rule())
        [0.1]
    """

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        jax.tree_util.register_pytree_with_keys(
            cls, _flatten_with_keys, functools.partial(_unflatten, cls)
        )

    def _tree_fields(self) -> dict[str, Any]:
        """The fields that a compiled program sees."""
        return {field.name: getattr(self, field.name) for field in dataclasses.fields(self)}  # type: ignore[arg-type]

    @classmethod
    def _from_tree_fields(cls, fields: dict[str, Any]) -> Any:
        """The instance with these fields, as they are: tracers pass no check of `__post_init__`."""
        new = object.__new__(cls)
        for name, value in fields.items():
            object.__setattr__(new, name, value)
        return new


def is_off(value: Any) -> bool:
    """Whether a number is None or exactly 0.0; a traced number, whatever it is, is on."""
    return value is None or (isinstance(value, int | float) and value == 0)


def replace_unchecked(struct: Any, **changes: Any) -> Any:
    """The same with other fields, which may be traced and pass no check of `__post_init__`."""
    fields = {field.name: getattr(struct, field.name) for field in dataclasses.fields(struct)}
    new = object.__new__(type(struct))
    for name, value in (fields | changes).items():
        object.__setattr__(new, name, value)
    return new


def _flatten_with_keys(struct: Struct) -> tuple[list[tuple[Any, Any]], Any]:
    fields = struct._tree_fields()
    # What a program or JAX itself put in place of a leaf need not look like one.
    known = vars(struct).get("_leaf_names")
    names = known or tuple(name for name, value in fields.items() if holds_numbers(value))
    children = [(jax.tree_util.GetAttrKey(name), fields[name]) for name in names]
    static = tuple((name, value) for name, value in fields.items() if name not in names)
    return children, (names, static)


def _unflatten(cls: type, structure: Any, children: Any) -> Any:
    names, static = structure
    new = cls._from_tree_fields(dict(static) | dict(zip(names, children, strict=True)))  # type: ignore[attr-defined]
    object.__setattr__(new, "_leaf_names", names)
    return new


def holds_numbers(value: Any) -> bool:
    """Whether a value is, or contains, what a compiled program takes as data."""
    if isinstance(value, Struct | dict):
        return True
    if isinstance(value, bool | int | str | bytes) or value is None:
        return False
    if isinstance(value, float | np.floating):
        return value != 0
    return any(_is_number(leaf) for leaf in jax.tree.leaves(value))


def _is_number(leaf: Any) -> bool:
    return isinstance(leaf, float | np.ndarray | np.generic | jax.Array | jax.ShapeDtypeStruct)


def same(first: Any, second: Any) -> bool:
    """Whether two pytrees have one structure and the same numbers."""
    leaves, structure = jax.tree.flatten(first)
    others, other_structure = jax.tree.flatten(second)
    return structure == other_structure and all(  # type: ignore[operator]
        np.array_equal(np.asarray(a), np.asarray(b)) for a, b in zip(leaves, others, strict=True)
    )
