"""What a posterior is: draws of functions, and how they were come by.

    sample(key, num_draws) -> draws      stacked, whatever describes one each
    realize(draw) -> (params, noise)     the parameters and the noise that make a draw a function

Masks, keys or whole sets of weights may describe a draw; prediction treats all alike.
"""

import dataclasses
import math
from typing import Any, ClassVar

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array

from credo.data.encoder import TableEncoder
from credo.errors import CredoError
from credo.keys import as_key
from credo.model import Model
from credo.model.priors import NormalPrior, Prior, WeightPrior
from credo.networks import Noise, Params
from credo.posterior.record import Record
from credo.saving import Context, Leaves, Saveable, on_device


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
        check_units(self.record, self.model)

    @property
    def num_draws(self) -> int | None:
        """How many distinct draws there are; None: draws are made anew each time."""
        return None

    def draw_weights(self, num_draws: int) -> Array | None:
        """How much each of the draws that `sample` gives counts, with sum 1; None: all alike."""
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

    def weight_moments(self, num_draws: int, key: Array) -> tuple[Params, Params]:
        """Mean and standard deviation of every weight of the network, over draws."""
        count = min(num_draws, self.num_draws or num_draws)
        drawn, shares = self.sample(key, count), self.draw_weights(count)
        shares = jnp.full(count, 1 / count) if shares is None else shares
        # From the first draw on: the squares of large means would cancel.
        first = self.realize(jax.tree.map(lambda leaf: leaf[0], drawn))[0]["network"]

        def add(sums: tuple[Params, Params], one: Any) -> tuple[tuple[Params, Params], None]:
            draw, share = one
            weights = self.realize(draw)[0]["network"]
            shifts = jax.tree.map(jnp.subtract, weights, first)
            squares = jax.tree.map(jnp.square, shifts)
            new = jax.tree.map(lambda part: (share * part).astype(part.dtype), (shifts, squares))
            return jax.tree.map(jnp.add, sums, new), None

        zeros = jax.tree.map(jnp.zeros_like, first)
        (shift, square), _ = jax.lax.scan(add, (zeros, zeros), (drawn, shares))
        mean = jax.tree.map(jnp.add, first, shift)
        std = jax.tree.map(lambda s, q: jnp.sqrt(jnp.maximum(q - s**2, 0.0)), shift, square)
        return mean, std

    def as_prior(
        self, scale: float | None = None, num_draws: int = 100, key: int | Array = 0
    ) -> Prior:
        """A prior around what was learned here, for data that come later.

        With a `scale`, every weight is N(m, scale²) around its mean m over the draws: fine-tuning,
        where a small scale keeps the network close to the trained one. Without, the scale of each
        weight is its standard deviation over the draws: what these data have left open.

        Example:
            >>> data = credo.data.load("iris")
            >>> model = credo.default_model(3, credo.networks.MLP(hidden=(8,)))
            >>> trained = credo.fit(model, data.train, credo.MAP(num_steps=100))
            >>> tuned = credo.Model(model.network, model.likelihood, trained.as_prior(scale=0.1))
            >>> posterior = credo.fit(tuned, data.test, credo.MAP(num_steps=100))
        """
        mean, std = self.weight_moments(num_draws, as_key(key))
        if scale is not None:
            return NormalPrior(scale, mean)
        if any(bool((leaf <= 0).any()) for leaf in jax.tree.leaves(std)):
            raise CredoError(
                "the draws agree about some weights, and a prior needs a scale above 0 for each; "
                "give one, as_prior(scale=0.1)"
            )
        return WeightPrior(jax.tree.map(np.asarray, std), mean)

    def to_arviz(self) -> Any:
        """The draws as `arviz.InferenceData`, of a posterior that stores draws."""
        made_by = self.record.method or type(self).__name__
        raise CredoError(
            f"to_arviz needs stored draws, and a posterior of {made_by} makes them anew for each "
            "prediction; fit with a sampler, such as hmc, nuts or sgld"
        )

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
        shape = fields["record"].input_shape
        model = with_whole_prior(fields["model"], shape)
        return checked(cls, fields | {"model": model}, model, shape)


def with_whole_prior(model: Model, input_shape: tuple[int, ...]) -> Model:
    """The model from a file, its prior made whole and checked against its network."""
    template = jax.eval_shape(lambda: model.init(jax.random.key(0), input_shape))["network"]
    prior = model.prior.filled(template)
    prior.means(model.network, template)
    return dataclasses.replace(model, prior=prior)


def checked(
    cls: type,
    fields: dict[str, Any],
    model: Model,
    input_shape: tuple[int, ...],
    more_axes: int = 0,
) -> Any:
    """A posterior from the fields of a file, whose arrays must be those of the model."""
    template = jax.eval_shape(lambda: model.init(jax.random.key(0), input_shape))
    jax.eval_shape(lambda p: (model.prior_scales(p), model.prior_means(p)), template)  # or raise
    axes = cls.leading_axes + more_axes  # type: ignore[attr-defined]
    names = [name for name in cls.like_params if name in fields]  # type: ignore[attr-defined]
    filled = {name: _like(template, fields[name], axes, name) for name in names}
    made = cls(**{**fields, **filled})
    own = {n: value for n, value in vars(made).items() if n not in ("model", "record", *names)}
    for leaf in jax.tree.leaves(own):
        require(np.asarray(leaf).dtype != np.float16, "it holds numbers of half precision")
    if more_axes == 0:
        made.validate(template)
    return made


def _like(template: Any, value: Any, axes: int, name: str) -> Any:
    """The arrays of a value in the structure of the template, if they have its shapes."""
    leaves, structure = jax.tree.flatten(template)
    parts, found = jax.tree.flatten(value)
    if any(isinstance(part, Leaves) for part in parts):  # of a network of the user's own
        arrays = [a for p in parts for a in (p.arrays if isinstance(p, Leaves) else (p,))]
    else:
        arrays = parts
        if found != structure:  # type: ignore[operator]
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
        if np.asarray(array).dtype not in (np.float32, np.float64, leaf.dtype):
            raise CredoError(
                f"its {name} hold {np.asarray(array).dtype}, not real numbers of {leaf.dtype}"
            )
    return jax.tree.unflatten(structure, [on_device(np.asarray(a), name) for a in arrays])


def check_units(record: Record, model: Model) -> None:
    """Refuse units that are not those of the network's inputs and of the likelihood's targets."""
    units, likelihood = record.units, model.likelihood
    if isinstance(units.inputs, TableEncoder):
        shape: tuple[int, ...] | None = (len(units.inputs.features),)
        target = units.inputs.target
        own = (target.mean, target.std)
        fits = units.keeps_targets or (units.shift, units.factor) == own
        require(fits and units.classes == target.classes, "its units are not those of its table")
    else:
        shape = None if units.inputs is None else np.shape(units.inputs.mean)
    if units.features is not None:
        columns = (len(units.features.center),)
        require(shape in (None, columns), "its features are not those of its columns")
        shape = (sum(units.features.sizes.values()),)
    if shape is not None and shape != tuple(record.input_shape):
        raise CredoError(
            f"its units are of rows of shape {shape}, its network takes {record.input_shape}"
        )
    classes = units.classes
    if classes is not None and len(classes) != (likelihood.num_classes or 0):
        raise CredoError(f"it names {len(classes)} classes, which {likelihood} has not")
    if likelihood.num_classes is not None:
        require(units.keeps_targets, "its classes have units of a quantity")
    targets = np.atleast_1d(getattr(likelihood, "num_targets", 1))
    sizes = {1, int(targets[-1]), math.prod(map(int, targets))}
    for part in (units.shift, units.factor):
        require(np.size(part) in sizes, f"its units are of {np.size(part)} targets")
        # Beyond, a finite output may not be a finite target.
        require(np.all(np.abs(part) < 1e200), "its units are of numbers beyond all measure")
    require(np.all(np.asarray(units.factor) > 1e-200), "its units have a factor of nearly 0")


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
