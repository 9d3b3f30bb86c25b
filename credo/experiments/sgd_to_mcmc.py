"""From SGD to MCMC: regression, classification, paths, acceptance, energy.

Source: Ambrogioni, Bayesian deep learning, part I: From SGD to gradient-based MCMC (lecture).
"""

import time
import warnings
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from credo.errors import CredoWarning
from credo.experiments.page import Page, Pattern, new_figure
from credo.inference import HMC, MALA, MAP, SGLD, Exact, Method, fit, sample
from credo.inference.sampling.hmc import Phase, hamiltonian, leapfrog
from credo.model import Bernoulli, Model, Normal, NormalPrior
from credo.networks import MLP
from credo.predictive import predict

NOISE, PRIOR = 0.3, 1.0
STEP_SIZES = (0.2, 0.1, 0.05, 0.025, 0.0125)
LINEAR = MLP(hidden=())


@dataclass(frozen=True)
class SgdToMcmc:
    """From SGD to MCMC: posterior draws, averaging, paths, acceptance and energy."""

    num_data: int = 15
    """Points of the regression."""
    num_samples: int = 1000
    """Draws per chain."""
    num_steps: int = 4000
    """Gradient steps of the point estimates."""
    seed: int = 0
    """Fixes data and chains."""

    def run(self, data_dir: str | Path | None = None) -> Page:
        began = time.perf_counter()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", CredoWarning)  # bad step sizes are shown on purpose
            parts = [
                self._regression(), self._classification(), self._paths(), self._acceptance(),
                self._energy(),
            ]  # fmt: skip
        figures = {caption: figure for _, captions in parts for caption, figure in captions.items()}
        return Page(
            "sgd-to-mcmc",
            "From SGD to MCMC",
            f"{self.num_data} points of a linear regression, 40 of a logistic one, a correlated "
            f"normal in two dimensions; {self.num_samples:,} draws per chain, seed {self.seed}, "
            f"{time.perf_counter() - began:.0f} s. The source shows pictures without numbers; its "
            "SGLD noise, acceptance and MAP gradient are misprinted and corrected here.",
            (),
            tuple(pattern for patterns, _ in parts for pattern in patterns),
            figures,
        )

    def _regression(self) -> Any:
        random = np.random.default_rng(self.seed)
        x = random.uniform(-1, 1, (self.num_data, 1))
        y = 0.8 * x[:, 0] - 0.3 + NOISE * random.normal(size=self.num_data)
        model = Model(LINEAR, Normal(NOISE), NormalPrior(PRIOR))
        exact: Any = fit(model, (x, y), Exact())
        mode: Any = fit(
            model,
            (x, y),
            MAP(optimizer="sgd", learning_rate=0.02, schedule="constant", num_steps=self.num_steps),
            progress=False,
        )
        design = np.column_stack([x, np.ones(len(x))])
        ridge = np.linalg.solve(design.T @ design + (NOISE / PRIOR) ** 2 * np.eye(2), design.T @ y)
        found = slope_and_intercept(mode.draws)[0, 0]
        chain: Any = fit(
            model, (x, y), HMC(num_samples=self.num_samples, num_leapfrog=10), self.seed
        )
        spread = slope_and_intercept(chain.draws).std(axis=(0, 1))
        factor = np.asarray(exact.factor)
        truth = np.sqrt(np.diag(factor @ factor.T))[::-1]  # b comes before w in the pytree
        figure, axes = new_figure(2, width=4.5)
        grid = np.linspace(-2, 2, 50)[:, None]
        for axis, posterior, title in zip(
            axes[0], (exact, chain), ("exact posterior", "HMC"), strict=True
        ):
            predicted: Any = predict(posterior, grid, num_draws=30)
            lines = predicted.means[..., 0]
            axis.plot(grid[:, 0], lines.T, color="tab:blue", linewidth=0.5)
            axis.plot(x[:, 0], y, "o", color="tab:red", markersize=3)
            axis.set(title=title, xlabel="x", ylim=(-3, 3))
        patterns = [
            Pattern(
                "MAP with a normal prior is weight decay: ridge regression",
                bool(np.allclose(found, ridge, atol=1e-3)),
                f"slope {found[0]:.4f} against {ridge[0]:.4f}",
            ),
            Pattern(
                "HMC has the standard deviations of the exact posterior",
                bool(np.allclose(spread, truth, rtol=0.1)),
                f"slope {spread[0]:.3f} against {truth[0]:.3f}",
            ),
        ]
        return patterns, {"Thirty draws of a linear regression": figure}

    def _classification(self) -> Any:
        random = np.random.default_rng(self.seed)
        x = np.concatenate([random.normal(c, 0.7, (20, 2)) for c in (-1.0, 1.0)])
        y = np.repeat([0, 1], 20)
        model = Model(LINEAR, Bernoulli(), NormalPrior(3.0))
        mode = MAP(learning_rate=1e-2, num_steps=self.num_steps)
        point: Any = fit(model, (x, y), mode, progress=False)
        chains: Any = fit(
            model, (x, y), HMC(num_samples=self.num_samples, num_leapfrog=10), self.seed
        )
        axis_values = np.linspace(-6, 6, 80)
        grid = np.stack(np.meshgrid(axis_values, axis_values), -1).reshape(-1, 2)
        shares = [uncertain_directions(posterior) for posterior in (point, chains)]
        figure, axes = new_figure(2, width=4.5, height=4)
        for axis, posterior, title in zip(
            axes[0], (point, chains), ("point estimate", "posterior average"), strict=True
        ):
            probs = classes(posterior, grid)[:, 1].reshape(80, 80)
            axis.contourf(axis_values, axis_values, probs, np.linspace(0, 1, 11), cmap="RdBu")
            axis.contour(axis_values, axis_values, probs, [0.1, 0.5, 0.9], colors="black")
            axis.scatter(*x.T, c=y, cmap="RdBu", edgecolors="white", s=20)
            axis.set(title=title)
        return [
            Pattern(
                "far away the point estimate is certain in nearly all directions, the posterior "
                "average doubts where its draws disagree",
                bool(shares[0] < 0.02 and shares[1] > 10 * shares[0]),
                f"of 720 directions, at distance 100, probabilities between 0.01 and 0.99 in "
                f"{shares[0]:.1%} against {shares[1]:.1%}",
            )
        ], {"Probability of one class; lines at 0.1, 0.5 and 0.9": figure}

    def _paths(self) -> Any:
        methods: dict[str, Method] = {
            "SGD": SGLD(learning_rate=0.02, noise=0.0, **self._walk(200)),
            "SGLD": SGLD(learning_rate=0.02, **self._walk(200)),
            "HMC": HMC(num_leapfrog=6, step_size=0.15, **self._walk(200)),
        }
        figure, axes = new_figure(3, width=3.5, height=3.5)
        spreads = {}
        for axis, (name, method) in zip(axes[0], methods.items(), strict=True):
            drawn = sample(correlated, jnp.array([-2.5, 2.5]), method, self.seed)
            path = np.asarray(drawn.draws)[0]
            grid = np.linspace(-3, 3, 60)
            points = jnp.asarray(np.stack(np.meshgrid(grid, grid), -1).reshape(-1, 2))
            heights = np.exp(jax.vmap(correlated)(points)).reshape(60, 60)
            axis.contour(grid, grid, heights, 5, colors="grey", linewidths=0.5)
            axis.plot(*path.T, ".-", linewidth=0.5, markersize=2)
            axis.set(title=name, xlim=(-3, 3), ylim=(-3, 3))
            spreads[name] = path[100:].std(axis=0).mean()
        listed = ", ".join(f"{name} {value:.2f}" for name, value in spreads.items())
        return [
            Pattern(
                "SGD comes to rest, SGLD and HMC keep exploring, HMC the furthest",
                bool(spreads["SGD"] < 0.05 < spreads["SGLD"] < spreads["HMC"]),
                f"standard deviation of the second hundred steps: {listed}",
            )
        ], {"200 steps from the same point": figure}

    def _walk(self, steps: int) -> dict[str, Any]:
        common = {"num_samples": steps, "num_warmup": 0, "num_chains": 1}
        return {**common, "thin": 1}

    def _acceptance(self) -> Any:
        rates = []
        for size in STEP_SIZES:
            method = MALA(
                num_samples=self.num_samples, num_warmup=0, thin=1, step_size=size, num_chains=4
            )
            history = sample(correlated, jnp.zeros(2), method, self.seed).record.history
            rates.append(1 - history["acceptance"][:, 50:].mean())
        figure, axes = new_figure()
        axes[0, 0].loglog(STEP_SIZES, rates, "o-")
        axes[0, 0].set(xlabel="step size η", ylabel="share of rejected proposals")
        axes[0, 0].set_xticks(STEP_SIZES, [f"{size:g}" for size in STEP_SIZES])
        axes[0, 0].minorticks_off()
        slope = np.polyfit(np.log(STEP_SIZES), np.log(rates), 1)[0]
        return [
            Pattern(
                "the acceptance of MALA goes to 1 as η → 0, with power 3/2",
                bool(1.2 < slope < 1.8),
                f"rejected {rates[0]:.3f} at η = {STEP_SIZES[0]}, {rates[-1]:.4f} at "
                f"{STEP_SIZES[-1]}; slope {slope:.2f}",
            )
        ], {"Proposals that MALA rejects": figure}

    def _energy(self) -> Any:
        density = jax.value_and_grad(correlated)
        start_point = jnp.array([0.5, -0.5])
        start = Phase(start_point, jnp.array([1.0, 0.3]), *density(start_point))
        sizes, errors = (0.2, 0.1, 0.05), []
        figure, axes = new_figure()
        for size in sizes:
            count = round(10 / size)
            energies = energies_along(density, start, size, count) - float(hamiltonian(start))
            errors.append(np.abs(energies).max())
            axes[0, 0].plot(np.linspace(0, 10, count), energies, label=f"ε = {size}")
        axes[0, 0].set(xlabel="time", ylabel="energy − its start")
        axes[0, 0].legend()
        slope = np.polyfit(np.log(sizes), np.log(errors), 1)[0]
        return [
            Pattern(
                "the leapfrog conserves energy: its error stays bounded and falls with ε²",
                bool(1.7 < slope < 2.3),
                f"largest error {errors[0]:.3f} at ε = {sizes[0]}; slope {slope:.2f}",
            )
        ], {"Energy along a trajectory": figure}


def energies_along(density: Any, start: Phase, size: float, count: int) -> np.ndarray:
    """The energy after each of `count` leapfrog steps."""

    def step(phase: Phase, _: None) -> tuple[Phase, jax.Array]:
        phase = leapfrog(density, phase, size, 1)
        return phase, hamiltonian(phase)

    return np.asarray(jax.lax.scan(step, start, length=count)[1])


def correlated(w: jax.Array) -> jax.Array:
    """Log density of a normal with correlation 0.8."""
    return -0.5 * (w[0] ** 2 - 1.6 * w[0] * w[1] + w[1] ** 2) / 0.36


def classes(posterior: Any, x: np.ndarray) -> np.ndarray:
    predicted: Any = predict(posterior, x, num_draws=2000)
    return predicted.probs


def uncertain_directions(posterior: Any) -> float:
    """The share of directions in which, at distance 100, the class is not settled.

    Along the data all draws agree, and their average is as certain as a point estimate; across them
    it tends to the share of the draws that say yes.
    """
    angles = np.linspace(0, 2 * np.pi, 720, endpoint=False)
    probabilities = classes(posterior, 100 * np.stack([np.cos(angles), np.sin(angles)], axis=1))
    return float(np.mean(np.abs(probabilities[:, 1] - 0.5) < 0.49))


def slope_and_intercept(draws: Any) -> np.ndarray:
    """Of a linear network's draws, on the last axis."""
    layer = draws["network"]["dense0"]
    return np.concatenate([np.asarray(layer["w"])[..., 0], np.asarray(layer["b"])], axis=-1)
