"""The default: networks of several kinds in folds, weighted by rows that they have not seen.

    p(y | x) = Σ_k w_k (1/F) Σ_f p(y | x, θ_kf),     θ_kf = member of kind k without fold f

Every member stops where it predicts its own fold best, so that all rows are learned from and all
are predicted by members that have not seen them. These predictions choose the weights w (EM) and
one correction of all members: a temperature of classes, a factor of the noise of quantities.

For tables the kinds differ in what they see of a number (scaled, as a normal score, as a
piecewise-linear code), in their learning rate, and in having hidden layers or none; they are one
network with switches, so that all members run one compiled program. Quantities have a mixture of
normals as noise. A network of the user's own has one kind.

It optimises with decoupled weight decay and keeps averages of weights: members are no posterior
modes. What they disagree about is the mutual information of a prediction.

References: Lakshminarayanan, Pritzel & Blundell, NeurIPS 2017 (ensembles). Breiman, Stacked
Regressions, 1996 (weights from out-of-fold rows). Gorishniy, Rubachev & Babenko, On Embeddings for
Numerical Features in Tabular Deep Learning, NeurIPS 2022. Bishop, Mixture Density Networks, 1994.
"""

from dataclasses import dataclass, replace
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array

from credo.data.features import TableFeatures
from credo.data.source import Batch, Source, resident
from credo.data.units import Units
from credo.engine import Plan
from credo.errors import CredoError
from credo.fields import COUNT, at_least, check_fields
from credo.inference.auto import kinds
from credo.inference.auto.calibration import decide
from credo.inference.auto.folds import Folds, in_folds
from credo.inference.auto.kinds import Kind
from credo.inference.auto.members import Member, Members, MemberState, params_of
from credo.inference.method import Method, Setup
from credo.keys import as_key
from credo.model import DEFAULT_NETWORK, Model, Normal, NormalMixture, Target
from credo.model.likelihoods.normal_mixture import MIN_SCALE
from credo.networks import MLP, Params, TabularNetwork
from credo.posterior import Record, Samples

IGNORANCE = 1e-4  # the weight of a member that knows nothing
LEAST_WEIGHT = 1e-3  # of a kind that is kept
OFF = -1e9  # the logit of a part of a mixture that is switched off


@dataclass(frozen=True)
class Auto(Method):
    """Needs no tuning: several kinds of networks in folds, weighted and calibrated.

    Example:
        >>> data = credo.data.load("iris")
        >>> posterior = credo.fit(credo.default_model(3), data.train, credo.Auto(num_steps=100))
        >>> credo.predict(posterior, data.test.x).probs.shape[1]
        3
    """

    num_folds: int = kinds.NUM_FOLDS
    """Folds of the rows, and members of each kind."""
    num_steps: int | None = None
    """Gradient steps of a member; None: by the number of rows."""
    batch_size: int | None = None
    """Rows per step; None: by the number of rows."""
    width: int = 128
    """Units of each of the two hidden layers, where the network is not given."""

    def __post_init__(self) -> None:
        check_fields(self, num_folds=at_least(2), num_steps=COUNT, batch_size=COUNT, width=COUNT)

    def plan(self, num_rows: int) -> Plan:
        budget = kinds.budget(num_rows)
        steps = self.num_steps or budget.num_steps
        return Plan(num_steps=steps, num_warmup=steps, num_chains=self._folds(num_rows))

    def adapted(self, model: Model, units: Units, x: Any, y: Any) -> tuple[Model, Units]:
        likelihood, network = model.likelihood, model.network
        if likelihood == Normal("learned", 1):
            likelihood = NormalMixture(min_scale=max(MIN_SCALE, _resolution(units.targets_of(y))))
        if network == DEFAULT_NETWORK:
            columns = units.inputs_of(x)
            if np.ndim(columns) == 2:
                network = TabularNetwork((self.width, self.width))
                units = replace(units, features=TableFeatures.learn(columns))
            else:
                network = MLP((self.width, self.width))
        return replace(model, network=network, likelihood=likelihood), units

    def setup(
        self, target: Target, source: Source, rows: Batch, units: Units, key: int | Array
    ) -> Setup:
        count = len(rows.x)
        if count < 4:
            raise CredoError(f"auto needs at least 4 rows, to judge by some of them, got {count}")
        budget, num_folds = kinds.budget(count), self._folds(count)
        seed = int(jax.random.bits(jax.random.fold_in(as_key(key), 2**31 - 3)))
        starts = [
            _member(target, units, kind, fold)
            for kind in kinds_of(target.model)
            for fold in range(num_folds)
        ]
        members = Members(
            len(starts),
            self.num_steps or budget.num_steps,
            self.batch_size or budget.batch_size,
        )
        folds = in_folds(target, rows, num_folds, seed)
        # The members draw their rows from the folds; the engine has none to give.
        return Setup(members, folds, replace(resident(()), num_rows=count), starts)

    def posterior(  # type: ignore[override]
        self, folds: Folds, states: MemberState, kept: Any
    ) -> Samples:
        params = jax.vmap(lambda state: params_of(folds.target, state, state.best))(states)
        draws = jax.tree.map(lambda leaf: leaf[:, None], params)
        count = len(states.best_loss)
        weights = jnp.full((count, 1), 1 / count)
        return Samples(folds.target.model, draws, Record(folds.target.input_shape), weights)

    def finish(  # type: ignore[override]
        self, folds: Folds, posterior: Samples, data: Batch
    ) -> Samples:
        chosen = kinds_of(folds.target.model)
        decision = decide(folds, posterior, len(chosen))
        weights = np.where(decision.weights < LEAST_WEIGHT, 0.0, decision.weights)
        weights /= weights.sum()
        each = np.repeat(weights / folds.num_folds, folds.num_folds)
        kept = np.flatnonzero(each)
        draws = jax.tree.map(lambda leaf: np.asarray(leaf)[kept], decision.draws)
        if isinstance(folds.target.model.network, TabularNetwork):
            draws, each = _with_ignorance(draws), np.append((1 - IGNORANCE) * each[kept], IGNORANCE)
        draws = jax.tree.map(jnp.asarray, draws)
        found = replace(posterior, draws=draws, weights=jnp.asarray(each[each > 0], float)[:, None])
        note = _note(folds, chosen, weights, decision.correction)
        return replace(found, record=replace(posterior.record, notes=(note,)))

    @property
    def gives_draws(self) -> bool:
        return True

    def _folds(self, num_rows: int) -> int:
        return max(2, min(self.num_folds, num_rows // 2))


def _with_ignorance(draws: Params) -> Params:
    """One more draw whose weights are 0: all classes alike, or a normal of unit scale.

    It counts next to nothing, and keeps the surprise of a row bounded that all members misjudge.
    """

    def extended(leaf: np.ndarray) -> np.ndarray:
        return np.concatenate([leaf, np.zeros_like(leaf[:1])])

    return jax.tree.map(extended, draws)


def _resolution(y: Any) -> float:
    """The standard deviation of rounding: to the smallest step between values, r / √12."""
    values = np.unique(np.asarray(y, np.float64))
    steps = np.diff(values)
    return float(steps.min() / np.sqrt(12)) if len(steps) else 0.0


def kinds_of(model: Model) -> tuple[Kind, ...]:
    """What members there are for a network and a likelihood."""
    if not isinstance(model.network, TabularNetwork):
        return kinds.NETWORKS
    if model.likelihood.num_classes is not None:
        return kinds.CLASSES
    if isinstance(model.likelihood, NormalMixture):
        return kinds.QUANTITIES
    return tuple(kind for kind in kinds.QUANTITIES if kind.num_parts is None)


def _member(target: Target, units: Units, kind: Kind, fold: int) -> Member:
    switches = None
    if isinstance(target.model.network, TabularNetwork):
        likelihood = target.model.likelihood
        offset = np.zeros(likelihood.num_outputs)
        if kind.num_parts is not None:
            offset[kind.num_parts : likelihood.num_outputs // 3] = OFF
        mask = np.ones(target.input_shape)
        if units.features is not None:
            mask = units.features.mask(kind.blocks)
            if not mask.any():  # a table of categories has no numbers
                mask = np.ones_like(mask)
        switches = {
            "inputs": mask,
            "depth": np.asarray(0.0 if kind.is_linear else 1.0),
            "gain": np.ones(likelihood.num_outputs),
            "offset": offset,
        }
    return Member(
        jnp.asarray(fold, jnp.int32),
        _as_float(kind.learning_rate),
        _as_float(kind.length),
        _as_float(kind.dropout),
        _as_float(kind.decay),
        jax.tree.map(_as_float, switches),
    )


def _as_float(value: Any) -> Array:
    return jnp.asarray(value, float)


def _note(folds: Folds, chosen: tuple[Kind, ...], weights: np.ndarray, correction: float) -> str:
    order = np.argsort(-weights)
    shares = ", ".join(f"{chosen[i].name} {weights[i]:.0%}" for i in order if weights[i] > 0)
    is_classes = folds.target.model.likelihood.num_classes is not None
    what = "logits" if is_classes else "noise"
    return (
        f"{len(chosen)} kinds of networks x {folds.num_folds} folds, weighted by rows that they "
        f"had not seen: {shares}; {what} x {np.exp(correction):.2f}"
    )
