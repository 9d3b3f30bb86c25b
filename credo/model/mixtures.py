"""Predictions of quantities: mixtures of one law per posterior draw, of any shape of targets."""

import copy
import math
from collections.abc import Callable
from functools import cached_property
from typing import Any, ClassVar

import numpy as np
from jaxtyping import Float

from credo.data.units import Units
from credo.errors import CredoError
from credo.model.summaries import Predictive

BLOCK_ROWS = 1024  # rows handled at once, to keep temporaries small
LOG_2PI_E = float(np.log(2 * np.pi * np.e))
MOST_STEPS = 100  # of a search for a quantile
MOST_COUNTS = 512  # terms of a sum over counts


class MixturePredictive:
    """A quantity whose predictive is a mixture of one law per draw: what all such share.

    Draws count alike, or by `draw_weights`.

    A subclass is a frozen dataclass of arrays (draw, row, *target), with the functions of one law:
    `_moments`, `_log_probs`, `_cdfs`, `_draws` and `_entropies` of a block of its arrays. The axis
    of the targets is left out of all answers where there is one target.
    """

    num_classes: ClassVar[None] = None
    draw_weights: np.ndarray | None = None
    """How much each draw counts, with sum 1; None: all alike."""

    def weighted(self, draw_weights: np.ndarray | None) -> Any:
        """The same laws, mixed in other proportions."""
        new = copy.copy(self)
        object.__setattr__(new, "draw_weights", draw_weights)
        return new

    def _weights(self, num_draws: int) -> np.ndarray:
        return np.full(num_draws, 1 / num_draws) if self.draw_weights is None else self.draw_weights

    def _over_draws(self, values: np.ndarray) -> np.ndarray:
        """The average over draws; from the first on, so that that of equal draws is exact."""
        if self.draw_weights is None:
            return values[0] + (values - values[0]).mean(axis=0)
        return values[0] + np.tensordot(self.draw_weights, values - values[0], axes=1)

    def _spread(self, means: np.ndarray) -> np.ndarray:
        """Variance over draws; exactly 0 where they are equal."""
        shifted = means - means[0]
        return self._over_draws((shifted - self._over_draws(shifted)) ** 2)

    def _arrays(self) -> tuple[np.ndarray, ...]:
        """Arrays (draw, row or 1, *target) that describe the laws; the first has all rows."""
        raise NotImplementedError

    def _moments(self, *arrays: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Mean and variance of each law."""
        raise NotImplementedError

    def _log_probs(self, y: np.ndarray, *arrays: np.ndarray) -> np.ndarray:
        """Of each law, for every target; an axis of one where the targets have a joint density."""
        raise NotImplementedError

    def _cdfs(self, y: np.ndarray, *arrays: np.ndarray) -> np.ndarray:
        raise NotImplementedError

    def _draws(self, random: np.random.Generator, *arrays: np.ndarray) -> np.ndarray:
        """One draw from each law, whose arrays come without the axis of the draws."""
        raise NotImplementedError

    def _entropies(self, *arrays: np.ndarray) -> np.ndarray:
        """Of each law; by default of the normal with its variance."""
        return 0.5 * (LOG_2PI_E + np.log(self._moments(*arrays)[1]))

    def __repr__(self) -> str:
        draws, rows = self._arrays()[0].shape[:2]
        return f"{type(self).__name__}({rows} rows, {draws} draws)"

    @property
    def num_rows(self) -> int:
        return self._arrays()[0].shape[1]

    @property
    def target_shape(self) -> tuple[int, ...]:
        """The shape of one row's targets; (1,) where there is one."""
        return self._arrays()[0].shape[2:]

    @property
    def mean(self) -> np.ndarray:
        """E[y | x]."""
        return self._squeeze(self._by_rows(lambda *a: self._over_draws(self._moments(*a)[0])))

    @property
    def aleatoric_variance(self) -> np.ndarray:
        """E_s[Var(y | θ_s)]: noise in the data."""
        return self._squeeze(self._by_rows(lambda *a: self._over_draws(self._moments(*a)[1])))

    @property
    def epistemic_variance(self) -> np.ndarray:
        """Var_s[E(y | θ_s)]: what the draws disagree about."""
        return self._squeeze(self._by_rows(lambda *a: self._spread(self._moments(*a)[0])))

    @property
    def variance(self) -> np.ndarray:
        """Var[y | x] = aleatoric + epistemic."""
        return self.aleatoric_variance + self.epistemic_variance

    @property
    def std(self) -> np.ndarray:
        return np.sqrt(self.variance)

    @property
    def entropy(self) -> np.ndarray:
        """The whole uncertainty: expected_entropy + mutual_information."""
        return self.expected_entropy + self.mutual_information

    @property
    def expected_entropy(self) -> np.ndarray:
        """E_s H[p(y | x, θ_s)]: the uncertainty that more data would not remove."""
        return row_sum(self._by_rows(lambda *a: self._over_draws(self._entropies(*a))))

    @property
    def mutual_information(self) -> np.ndarray:
        """½ log Var(y) − E_s ½ log Var(y | θ_s): an upper bound of I(y; θ) for normal laws.

        Exact where the draws of the mean are normal and the noise is the same for all. Summed over
        the targets of a row.
        """

        def of_block(*arrays: np.ndarray) -> np.ndarray:
            means, variances = self._moments(*arrays)
            # Relative to the first draw, so that equal draws give exactly 0.
            ratio = variances / variances[0]
            noise = variances[0] * self._over_draws(ratio)
            total = np.log1p(self._spread(means) / noise) + np.log(self._over_draws(ratio))
            return 0.5 * (total - self._over_draws(np.log(ratio)))

        return row_sum(self._by_rows(of_block))

    def log_prob(self, y: np.ndarray) -> Float[np.ndarray, " n"]:
        """log (1/S) Σ_s p(y | x, θ_s)."""

        def of_block(*arrays: np.ndarray) -> np.ndarray:
            by_target = self._log_probs(arrays[-1], *arrays[:-1])
            by_draw = by_target.reshape(*by_target.shape[:2], -1).sum(axis=-1)
            with np.errstate(divide="ignore"):
                by_draw = by_draw + np.log(self._weights(len(by_draw)))[:, None]
            top = by_draw.max(axis=0)
            top = np.where(np.isfinite(top), top, 0.0)
            with np.errstate(divide="ignore"):
                return top + np.log(np.sum(np.exp(by_draw - top), axis=0))

        return self._by_rows(of_block, self._targets(y))

    def cdf(self, y: np.ndarray) -> np.ndarray:
        """P(target ≤ y | x), for each target on its own."""

        def of_block(*arrays: np.ndarray) -> np.ndarray:
            return self._over_draws(self._cdfs(arrays[-1], *arrays[:-1]))

        return self._squeeze(self._by_rows(of_block, self._targets(y)))

    def interval(self, level: float = 0.95) -> tuple[np.ndarray, np.ndarray]:
        """The central interval of the mixture that holds `level` of its mass."""
        if not 0 < level < 1:
            raise CredoError(f"an interval's level lies between 0 and 1, got {level}")
        tail = (1 - level) / 2
        return self.quantile(tail), self.quantile(1 - tail)

    def quantile(self, q: float) -> np.ndarray:
        """The smallest y with P(target ≤ y | x) ≥ q, for each target on its own."""
        if not 0 < q < 1:
            raise CredoError(f"a quantile's probability lies between 0 and 1, got {q}")
        return self._squeeze(self._by_rows(lambda *a: self._quantiles(q, *a)))

    def sample(self, seed: int = 0, num_samples: int = 1) -> np.ndarray:
        """Targets drawn from the mixture, (sample, row) or (sample, row, *target)."""
        random = np.random.default_rng(seed)
        arrays = self._arrays()
        rows = np.arange(self.num_rows)
        drawn = []
        for _ in range(num_samples):
            chosen = random.choice(len(arrays[0]), size=len(rows), p=self.draw_weights)
            own = [a[chosen, rows if a.shape[1] > 1 else 0] for a in arrays]
            drawn.append(self._squeeze(self._draws(random, *own)))
        return np.stack(drawn)

    def rescaled(self, shift: Any, factor: Any) -> "Predictive":
        """The predictive of shift + factor · y; a law of counts has none."""
        raise CredoError(
            f"{type(self).__name__} has targets that cannot be shifted or scaled; fit with units "
            "that leave the targets as they are"
        )

    def in_units(self, units: Units) -> "Predictive":
        """The same in the user's units."""
        if units.keeps_targets:
            return self
        shape = self.target_shape
        parts = [np.asarray(part) for part in (units.shift, units.factor)]
        # One number for each entry of an array that came as a row of numbers.
        flat = parts[0].size == math.prod(shape) > 1
        scaled = self.rescaled(*(part.reshape(shape) if flat else part for part in parts))
        return scaled.weighted(self.draw_weights)

    def _quantiles(self, q: float, *arrays: np.ndarray) -> np.ndarray:
        """Newton's steps on F(y) = q, or a halving of the bracket where a step would leave it."""

        def excess(y: np.ndarray) -> np.ndarray:
            return self._over_draws(self._cdfs(y, *arrays)) - q

        low, high = self._bracket(excess, *arrays)
        y = 0.5 * (low + high)
        for count in range(MOST_STEPS):
            error = excess(y)
            low, high = np.where(error < 0, y, low), np.where(error < 0, high, y)
            middle = 0.5 * (low + high)
            if np.all((np.abs(error) < 4 * np.finfo(y.dtype).eps) | (middle == low)):
                break
            if count > MOST_STEPS // 2:
                y = middle
                continue
            density = self._over_draws(np.exp(self._log_probs(y, *arrays)))
            with np.errstate(divide="ignore", invalid="ignore"):
                newton = y - error / density
            y = np.where((newton > low) & (newton < high), newton, middle)
        return y

    def _bracket(self, excess: Callable, *arrays: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Values below and above the quantile where `excess` is 0."""
        means, variances = self._moments(*arrays)
        reach = 10 * np.sqrt(variances)
        low, high = (means - reach).min(axis=0), (means + reach).max(axis=0)
        for _ in range(MOST_STEPS):  # heavy tails reach farther than 10 standard deviations
            is_above, is_below = excess(low) >= 0, excess(high) < 0
            if not (is_above.any() or is_below.any()):
                break
            low, high = (
                np.where(is_above, low - (high - low), low),
                np.where(is_below, high + (high - low), high),
            )
        return low, high

    def _by_rows(self, function: Callable, *values: np.ndarray) -> np.ndarray:
        """A function of blocks of the arrays and of further values, joined over the rows."""
        arrays = self._arrays()
        parts = []
        for start in range(0, arrays[0].shape[1], BLOCK_ROWS):
            block = slice(start, start + BLOCK_ROWS)
            # In double precision: tails of sums over draws are lost in single.
            own = [(a[:, block] if a.shape[1] > 1 else a).astype(float) for a in arrays]
            parts.append(function(*own, *(value[block] for value in values)))
        return np.concatenate(parts)

    def _targets(self, y: Any) -> np.ndarray:
        """Targets in the shape of the predictions."""
        y = np.asarray(y, float)
        shape = (self.num_rows, *self.target_shape)
        if y.size != math.prod(shape):
            raise CredoError(f"the prediction has targets of shape {shape}, got y of {y.shape}")
        return y.reshape(shape)

    def _squeeze(self, values: np.ndarray) -> np.ndarray:
        return values[..., 0] if self.target_shape == (1,) else values


class CountPredictive(MixturePredictive):
    """Whole numbers from 0: quantiles are counts, entropies and information are sums over counts.

    Where the counts that matter are more than `MOST_COUNTS`, blocks of neighbors stand for them:
    the information is then that of the blocks, which is at most that of the counts.
    """

    @property
    def expected_entropy(self) -> np.ndarray:
        return self._entropy_and_information[0]

    @property
    def mutual_information(self) -> np.ndarray:
        """I(y; θ) = (1/S) Σ_s KL(p_s ‖ p̄), summed over the targets of a row."""
        return self._entropy_and_information[1]

    @cached_property
    def _entropy_and_information(self) -> tuple[np.ndarray, np.ndarray]:
        both = self._by_rows(lambda *a: np.stack(self._sums(*a), axis=1))
        return row_sum(both[:, 0]), row_sum(both[:, 1])

    def _sums(self, *arrays: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """E_s H[p_s] and I(y; θ) of every row and target."""
        low, high = self._quantiles(1e-9, *arrays), self._quantiles(1 - 1e-9, *arrays)
        most = int((high - low).max()) + 1
        entropy, information = np.zeros_like(low), np.zeros_like(low)
        for index in range(min(most, MOST_COUNTS)):
            if most <= MOST_COUNTS:
                first, width = low + index, 1.0
                probs = np.exp(self._log_probs(first, *arrays))
            else:  # blocks that grow with the distance from the lowest count
                parts = np.array([index, index + 1]) / MOST_COUNTS
                first, last = (low + np.floor((high + 1 - low) * part**2) for part in parts)
                width = last - first
                probs = self._cdfs(last - 1, *arrays) - self._cdfs(first - 1, *arrays)
            # From the first draw on, so that equal draws give exactly 0.
            mixed = self._over_draws(probs)
            with np.errstate(divide="ignore", invalid="ignore"):
                logs = np.where(probs > 0, np.log(probs), 0.0)
                surprise = np.where(probs > 0, logs - np.log(mixed), 0.0)
            entropy += self._over_draws(probs * (np.log(np.maximum(width, 1.0)) - logs))
            information += self._over_draws(probs * surprise)
        return entropy, np.maximum(information, 0.0)

    def _quantiles(self, q: float, *arrays: np.ndarray) -> np.ndarray:
        """The smallest count whose probability of not being exceeded is q: by halving."""

        def excess(y: np.ndarray) -> np.ndarray:
            return self._over_draws(self._cdfs(y, *arrays)) - q

        high = np.ceil(self._bracket(excess, *arrays)[1])
        low = np.full_like(high, -1.0)
        while np.any(high - low > 1):
            middle = np.floor(0.5 * (low + high))
            below = excess(middle) < 0
            low, high = np.where(below, middle, low), np.where(below, high, middle)
        return high

    def _bracket(self, excess: Callable, *arrays: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        means, variances = self._moments(*arrays)
        high = np.ceil((means + 4 * np.sqrt(variances)).max(axis=0)) + 1
        while np.any(is_below := excess(high) < 0):
            high = np.where(is_below, 2 * high, high)
        return np.full_like(high, -1.0), high


def row_sum(values: np.ndarray) -> Float[np.ndarray, " n"]:
    """Summed over the targets of every row."""
    return values.reshape(len(values), -1).sum(axis=1)
