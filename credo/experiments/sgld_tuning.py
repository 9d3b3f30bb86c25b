"""SGLD is hard to tune, constant SGD finds its rate, against the exact answer.

Linear regression on real data, whose posterior is known in closed form. How wide are the chains
along each principal direction of the posterior, relative to the truth, at every rate of SGLD? And
where does SGD with the optimal constant rate of Mandt, Hoffman & Blei (2017) end up by itself?

Source: Šmídl, Deep Bayesian Learning, lectures at the Czech Technical University, 2020.
"""

import time
import warnings
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import jax
import numpy as np
from jax.flatten_util import ravel_pytree

from credo.data import Units, load
from credo.data.dataset import Split
from credo.errors import CredoWarning, DivergedError
from credo.experiments.page import Page, Pattern, new_figure
from credo.inference import SGLD, ConstantSGD, Exact, Method, fit
from credo.model import Model, Normal
from credo.networks import MLP
from credo.posterior import DenseNormal, Samples

NOISE = 0.7  # of standardized targets: about what a linear model leaves unexplained
CLOSE = 1.25  # widths within this factor of the truth, in every direction, count as right


class Widths(NamedTuple):
    """Standard deviation of the draws over the posterior's, along its principal directions."""

    least: float
    median: float
    most: float

    @property
    def right(self) -> bool:
        return self.least > 1 / CLOSE and self.most < CLOSE


@dataclass(frozen=True)
class SgldTuning:
    """SGLD at many rates, and constant SGD at its own, against an exact posterior."""

    rates: tuple[float, ...] = (1e-4, 3e-4, 1e-3, 3e-3, 1e-2, 3e-2, 0.1, 0.3, 1.0)
    """Learning rates of SGLD."""
    num_steps: int = 10000
    """Steps of a chain after its warm-up of as many; every tenth is kept."""
    batch_size: int = 32
    """Rows per step."""
    num_chains: int = 4
    """Chains."""
    seed: int = 0
    """Fixes the chains."""

    def run(self, data_dir: str | Path | None = None) -> Page:
        began = time.perf_counter()
        data = load("diabetes", data_dir=data_dir).train
        train = Split(data.x, Units.standardizing(y=data.y).targets_of(data.y))
        model = Model(MLP(hidden=()), Normal(NOISE))
        exact = fit(model, train, Exact())
        assert isinstance(exact, DenseNormal)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", CredoWarning)  # the page shows which chains fail
            found = {
                name: self._widths(method, model, train, exact)
                for name, method in self._methods().items()
            }
        return self._page(found, time.perf_counter() - began)

    def _methods(self) -> dict[str, Method]:
        common: dict[str, Any] = {
            "num_samples": max(2, self.num_steps // 10), "thin": 10, "num_warmup": self.num_steps,
            "num_chains": self.num_chains, "batch_size": self.batch_size,
        }  # fmt: skip
        chains: dict[str, Method] = {
            _sgld_name(rate): SGLD(learning_rate=rate, **common) for rate in self.rates
        }
        # No bound on the rates: in the flattest direction the gradients hardly have noise.
        bound: dict[str, Any] = {"max_rate": 1e3, "damping": 0.0}
        for kind in ("none", "diagonal", "full"):
            chains[f"constant SGD, {kind}"] = ConstantSGD(kind, **bound, **common)
        return chains

    def _widths(self, method: Method, model: Model, train: Split, exact: DenseNormal) -> Any:
        try:
            chains = fit(model, train, method, self.seed)
        except DivergedError:
            return None
        assert isinstance(chains, Samples)
        flat = jax.vmap(jax.vmap(lambda draw: ravel_pytree(draw)[0]))(chains.draws)
        draws = np.asarray(flat).reshape(-1, flat.shape[-1])
        factor = np.asarray(exact.factor)
        values, directions = np.linalg.eigh(factor @ factor.T)
        center = np.asarray(ravel_pytree(exact.mean)[0])
        # About the true mean: a chain in the wrong place is not narrow, it is wrong.
        ratios = np.sqrt(np.mean(((draws - center) @ directions) ** 2, axis=0) / values)
        return Widths(float(ratios.min()), float(np.median(ratios)), float(ratios.max()))

    def _page(self, found: dict[str, Any], seconds: float) -> Page:
        rows = [["chain", "least", "median", "most", "right"]]
        for name, widths in found.items():
            shown = ["diverged", "", ""] if widths is None else [f"{w:.2f}" for w in widths]
            rows.append([name, *shown, "yes" if widths is not None and widths.right else "no"])
        right = [r for r in self.rates if (w := found[_sgld_name(r)]) is not None and w.right]
        span = max(right) / min(right) if right else 0.0
        full = found["constant SGD, full"]
        one = found["constant SGD, none"]
        figure, axes = new_figure(1, width=6)
        drawn = [(r, found[_sgld_name(r)]) for r in self.rates if found[_sgld_name(r)]]
        for part, label in enumerate(Widths._fields):
            axes[0, 0].loglog([r for r, _ in drawn], [w[part] for _, w in drawn], "o-", label=label)
        axes[0, 0].axhspan(1 / CLOSE, CLOSE, alpha=0.2, label="right")
        axes[0, 0].set(xlabel="learning rate of SGLD", ylabel="width / true width")
        axes[0, 0].legend()
        patterns = (
            Pattern(
                "SGLD is hard to tune: right within less than a decade of rates",
                span < 10,
                f"right at {', '.join(f'{r:g}' for r in right) or 'none'} of {len(self.rates)} "
                f"rates over {np.log10(max(self.rates) / min(self.rates)):.0f} decades",
            ),
            Pattern(
                "constant SGD with the full preconditioner is right at the rate it finds",
                full is not None and full.right,
                "diverged" if full is None else f"widths {full.least:.2f} to {full.most:.2f}",
            ),
            Pattern(
                "with one rate for all weights it is right on average, not in every direction",
                one is not None and 1 / CLOSE < one.median < CLOSE and not one.right,
                "diverged"
                if one is None
                else f"median {one.median:.2f}, {one.least:.2f} to {one.most:.2f}",
            ),
        )
        return Page(
            "sgld-tuning",
            "SGLD is hard to tune, constant SGD finds its rate",
            f"Linear regression on scikit-learn's diabetes data (10 features, noise {NOISE} known, "
            f"prior N(0, 1)), {self.num_chains} chains of {self.num_steps:,} steps after as many "
            f"of warm-up, batches of {self.batch_size}, seed {self.seed}, {seconds:.0f} s. Root "
            "mean square distance of the draws from the exact mean over the exact standard "
            "deviation, along the eleven principal directions of the posterior; right: all within "
            f"a factor of {CLOSE}. The source gives no numbers.",
            (("Widths relative to the exact posterior", rows),),
            patterns,
            {"Widths of SGLD's draws by its learning rate": figure},
        )


def _sgld_name(rate: float) -> str:
    return f"SGLD, {rate:g}"
