"""What a posterior is: draws of functions, and how they were come by.

    sample(key, num_draws) -> draws      stacked, whatever describes one each
    realize(draw) -> (params, noise)     the parameters and the noise that make a draw a function

Masks, keys or whole sets of weights may describe a draw; prediction treats all alike.
"""

import dataclasses
from typing import Any, ClassVar

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array

from credo.errors import CredoError
from credo.model import Model
from credo.networks import Noise, Params
from credo.posterior.record import Record
from credo.saving import Context, Leaves, Saveable


class Posterior(Saveable):
    """Base of all posteriors: frozen dataclasses with the fields `model` and `record`."""

    like_params: ClassVar[tuple[str, ...]] = ()
    """Fields shaped like the model's parameters, `leading_axes` axes in front."""
    leading_axes: ClassVar[int] = 0

    may_be_absent: ClassVar[tuple[str, ...]] = ("model",)  # in the members of a mixture

    model: Model
    record: Record

    def check_whole(self) -> None:
        require(self.model is not None, "it has no model")

    @property
    def num_draws(self) -> int | None:
        """How many distinct draws there are; None: draws are made anew each time."""
        return None

    @property
    def is_linearized(self) -> bool:
        """Whether a draw is of the network's tangent f(x; mean) + J(x) (θ − mean)."""
        return bool(getattr(self, "linearized", False))

    def sample(self, key: Array, num_draws: int) -> Any:
        """`num_draws` draws, stacked. By default keys: weights are made when they are used."""
        return jax.random.split(key, num_draws)

    def realize(self, draw: Any) -> tuple[Params, Noise]:
        """The parameters and the noise function that make one draw a function of x."""
        raise NotImplementedError

    def validate(self, template: Params) -> None:
        """Raise where the fields, read from a file, do not fit together."""

    def facts(self) -> dict[str, Any]:
        """What `repr` shows besides method and model."""
        return {}

    def __repr__(self) -> str:
        shown = {"method": self.record.method, "model": self.model, **self.facts()}
        listed = ", ".join(f"{name}={value!r}" for name, value in shown.items())
        return f"{type(self).__name__}({listed})"

    def _tree_fields(self) -> dict[str, Any]:
        # Of the record a program needs the shape of an input row, and nothing else.
        fields = super()._tree_fields()
        record = fields.pop("record")
        return fields | {"_input_shape": tuple(record.input_shape)}

    @classmethod
    def _from_tree_fields(cls, fields: dict[str, Any]) -> Any:
        fields = dict(fields)
        record = Record(fields.pop("_input_shape"))
        return super()._from_tree_fields(fields | {"record": record})

    @classmethod
    def from_fields(cls, fields: dict[str, Any], context: Context) -> Any:
        if fields.get("model") is None:  # a part of a mixture, which checks it
            return cls(**fields)
        return checked(cls, fields, fields["model"], fields["record"].input_shape)


def checked(
    cls: type, fields: dict[str, Any], model: Model, input_shape: tuple[int, ...], more_axes: int = 0
) -> Any:
    """A posterior from the fields of a file, whose arrays must be those of the model."""
    template = jax.eval_shape(lambda: model.init(jax.random.key(0), input_shape))
    axes = cls.leading_axes + more_axes  # type: ignore[attr-defined]
    names = [name for name in cls.like_params if name in fields]  # type: ignore[attr-defined]
    filled = {name: _like(template, fields[name], axes, name) for name in names}
    made = cls(**{**fields, **filled})
    if more_axes == 0:
        made.validate(template)
    return made


def _like(template: Any, value: Any, axes: int, name: str) -> Any:
    """The arrays of a value in the structure of the template, if they have its shapes."""
    leaves, structure = jax.tree.flatten(template)
    if isinstance(value, Leaves):
        arrays = list(value.arrays)
    else:
        arrays, found = jax.tree.flatten(value)
        if found != structure:
            raise CredoError(f"its {name} are not those of the network it names")
    if len(arrays) != len(leaves):
        raise CredoError(
            f"its {name} are {len(arrays)} arrays, those of the network are {len(leaves)}; pass "
            "the network the file was saved from"
        )
    leading = {np.shape(array)[:axes] for array in arrays}
    for array, leaf in zip(arrays, leaves, strict=True):
        if np.shape(array)[axes:] != leaf.shape or len(leading) > 1 or 0 in np.shape(array)[:axes]:
            raise CredoError(
                f"a weight in the file has shape {np.shape(array)}, the network expects "
                f"{leaf.shape}; pass the network the file was saved from"
            )
        if np.asarray(array).dtype.kind != "f":
            raise CredoError(f"its {name} hold {np.asarray(array).dtype}, not real numbers")
    return jax.tree.unflatten(structure, [jnp.asarray(array) for array in arrays])


def require(condition: Any, message: str) -> None:
    """Refuse a file."""
    if not bool(condition):
        raise CredoError(message)


def not_negative(tree: Any, name: str) -> None:
    for leaf in jax.tree.leaves(tree):
        require(np.asarray(leaf).min(initial=0.0) >= 0, f"its {name} has negative numbers")


def num_params(template: Any) -> int:
    return sum(int(np.prod(leaf.shape)) for leaf in jax.tree.leaves(template))


def replace_record(posterior: Any, **changes: Any) -> Any:
    """The posterior with other facts in its record."""
    record = dataclasses.replace(posterior.record, **changes)
    return dataclasses.replace(posterior, record=record)
