"""The sampler theatre: one HTML file in which credo's own samplers move on densities of the plane.

Nothing is sampled in the browser. Every path is what `credo.sample` drew, and every proposal shown
is a point at which that very run evaluated the density, recorded by a callback inside it.
"""

import base64
import functools
import json
import os
import re
import warnings
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array

from credo.engine.progress import Progress
from credo.errors import CredoError, DivergedError
from credo.evaluation.diagnostics import ess_bulk
from credo.files import atomic_path, check_writable
from credo.inference import HMC, MALA, NUTS, SGHMC, SGLD, CredoWarning, Metropolis, sample
from credo.posterior import Draws
from credo.report.theatre_densities import DENSITIES, PlaneDensity, bar_masses, mass_above

PLACEHOLDER = "__RECORDINGS__"
DECIMALS = 3
LEAPFROGS = 10
POINTS_SHOWN = 10  # of those along a trajectory
FAR = 1e6  # beyond it a diverging chain is of no more interest
ESS_EVERY = 20  # steps between two values of the effective sample size
FEWEST_STEPS = 20


@dataclass(frozen=True)
class Sampler:
    """A sampler with the step sizes it is recorded at, and what to look for."""

    name: str
    text: str
    make: Callable[..., Any]
    """The sampler's class, with all but its length and its step size decided."""
    step_field: str
    step_sizes: tuple[float, ...]
    move_label: str | None = None
    """What a step that changed the position is called; None where every step does."""
    num_points: int = 0
    """How many points the page shows of those at which a step evaluated the density."""

    def method(self, num_steps: int, step_size: float) -> Any:
        once = {"num_samples": num_steps, "num_warmup": 0, "num_chains": 1, "thin": 1}
        return self.make(**once, **{self.step_field: step_size})


SAMPLERS = (
    Sampler(
        "metropolis",
        "Metropolis proposes a random step and takes it or stays: small steps crawl, large ones "
        "are mostly refused, and in the neck of the funnel nearly all are.",
        Metropolis, "step_size", (0.1, 0.5, 1.5, 5.0), "accepted", 1,
    ),
    Sampler(
        "mala",
        "MALA lets the gradient pull its proposals uphill before it tests them: it drifts to where "
        "the mass is, and stalls where its step does not fit the slope.",
        MALA, "step_size", (0.01, 0.05, 0.2, 0.6), "accepted", 1,
    ),
    Sampler(
        "sgld",
        "SGLD takes MALA’s steps without the test: it never waits, but with a large step it "
        "overshoots, and its histogram comes out wider than the truth or runs away.",
        SGLD, "learning_rate", (0.005, 0.03, 0.08, 0.18),
    ),
    Sampler(
        "sghmc",
        "SGHMC rolls with momentum and friction: smooth curves that go further than SGLD for the "
        "same gradients, again with no test to catch a step that is too large.",
        SGHMC, "learning_rate", (0.0005, 0.005, 0.03, 0.15),
    ),
    Sampler(
        "hmc",
        f"HMC gives the point a push and follows its flight for {LEAPFROGS} leapfrog steps: it "
        "swings along the normal and goes round the ring, until a step too large loses the energy "
        "and is refused.",
        functools.partial(HMC, num_leapfrog=LEAPFROGS), "step_size", (0.03, 0.1, 0.3, 0.6),
        "accepted", POINTS_SHOWN,
    ),
    Sampler(
        "nuts",
        "NUTS flies in both directions until the flight turns back, then picks one of the points "
        "it passed: even a small step goes far, it only pays more evaluations for it.",
        functools.partial(NUTS, mass="unit", max_doublings=7), "step_size", (0.05, 0.15, 0.4, 0.8),
        "moved", POINTS_SHOWN,
    ),
)  # fmt: skip


class Recording(NamedTuple):
    """One run."""

    path: np.ndarray
    """(step, 2): where the chain was after each step."""
    points: np.ndarray | None
    """(step, point, 2): where the step evaluated the density, in order."""
    evaluations: np.ndarray
    """(step,): how often each step evaluated the density, or its gradient."""
    stop_message: str | None
    """The error with which credo stopped a run that diverged; None: it ran to its end."""


def write_theatre(
    path: str | os.PathLike,
    num_steps: int = 400,
    key: int = 0,
    *,
    samplers: Sequence[Sampler] = SAMPLERS,
    densities: Sequence[PlaneDensity] = DENSITIES,
    progress: bool | None = None,
) -> None:
    """Record every sampler on every density at every step size, and write the page.

    Example:
        >>> write_theatre("theatre.html")  # doctest: +SKIP
    """
    check_writable(path)
    if num_steps < FEWEST_STEPS:
        raise CredoError(f"num_steps is {num_steps}; it must be {FEWEST_STEPS} or more")
    page = theatre_page(recordings(num_steps, key, samplers, densities, progress))
    with atomic_path(path) as temporary:
        temporary.write_text(page, "utf-8")


def theatre_page(recorded: dict[str, Any]) -> str:
    """The page as text."""
    template = Path(__file__).with_name("theatre.html").read_text("utf-8")
    text = json.dumps(recorded, allow_nan=False, separators=(",", ":"), ensure_ascii=False)
    return template.replace(PLACEHOLDER, text.replace("<", "\\u003c"))  # no text can end the script


def recordings(
    num_steps: int,
    key: int = 0,
    samplers: Sequence[Sampler] = SAMPLERS,
    densities: Sequence[PlaneDensity] = DENSITIES,
    progress: bool | None = None,
) -> dict[str, Any]:
    """All that the page shows, as JSON-able data; runs are named `sampler/target/step size`."""
    recorder = Recorder(densities)
    num_runs = len(densities) * sum(len(sampler.step_sizes) for sampler in samplers)
    runs = {}
    with Progress(num_runs * num_steps, 0, "theatre", progress) as bar:
        for name, recording in _recorded_runs(recorder, samplers, num_steps, key):
            runs[name] = as_json(recording)
            bar.update(len(runs) * num_steps, {})
    return {
        "num_steps": num_steps,
        "ess_every": ESS_EVERY,
        "samplers": [_player_json(sampler) for sampler in samplers],
        "densities": [_density_json(density) for density in densities],
        "runs": runs,
    }


def _recorded_runs(
    recorder: "Recorder", samplers: Sequence[Sampler], num_steps: int, key: int
) -> Iterator[tuple[str, Recording]]:
    for sampler in samplers:
        for step_size in sampler.step_sizes:
            for density in recorder.densities:
                name = f"{sampler.name}/{density.name}/{step_size:g}"
                yield name, recorder.record(sampler, density, step_size, num_steps, key)


class Recorder:
    """Runs samplers, and records where they evaluate the density.

    The densities are branches of one function, chosen by its datum: a sampler is then compiled
    once, not once for each density.
    """

    def __init__(self, densities: Sequence[PlaneDensity]) -> None:
        self.densities = tuple(densities)
        self.evaluated: list[np.ndarray] = []

    def record(
        self, sampler: Sampler, density: PlaneDensity, step_size: float, num_steps: int, key: int
    ) -> Recording:
        """Run the sampler on a density, for `num_steps` or until it diverges."""
        draw = functools.partial(self._sample, sampler, density, step_size, key)
        stop_message = None
        try:
            drawn = draw(num_steps)
        except DivergedError as error:
            stop_message = str(error)
            drawn = draw(diverged_at(error))  # the same bits, up to there
        path = np.asarray(drawn.draws, float)[0]
        kept = len(path) if stop_message is None else _num_near(path)
        evaluations = self._evaluations(drawn, sampler)
        points = None
        if sampler.num_points:
            points = self._points_of_steps(evaluations, sampler.num_points)
        return Recording(path[:kept], points, evaluations[:kept], stop_message)

    def _sample(
        self, sampler: Sampler, density: PlaneDensity, step_size: float, key: int, num_steps: int
    ) -> Draws:
        self.evaluated.clear()
        log_density = self._recorded_log_density if sampler.num_points else self._log_density
        number = jnp.array([self.densities.index(density)])
        method = sampler.method(num_steps, step_size)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", CredoWarning)  # the page is to show failures too
            drawn = sample(
                log_density, jnp.array(density.start), method, key, data=number, progress=False
            )
        jax.effects_barrier()
        return drawn

    def _log_density(self, position: Array, number: Array) -> Array:
        branches = [density.log_density for density in self.densities]
        return jax.lax.switch(number[0], branches, position)

    def _recorded_log_density(self, position: Array, number: Array) -> Array:
        jax.debug.callback(self._record_position, position, ordered=True)
        return self._log_density(position, number)

    def _record_position(self, position: Array) -> None:
        self.evaluated.append(np.array(position))

    def _evaluations(self, drawn: Draws, sampler: Sampler) -> np.ndarray:
        num_steps = np.shape(drawn.draws)[1]
        leapfrogs = drawn.record.history.get("num_leapfrog")
        if leapfrogs is not None:
            return np.asarray(leapfrogs[0], int)
        return np.full(num_steps, drawn.record.options.get("num_leapfrog", 1))

    def _points_of_steps(self, evaluations: np.ndarray, num_points: int) -> np.ndarray:
        # Before the first step, the start was evaluated too.
        evaluated = np.array(self.evaluated[len(self.evaluated) - evaluations.sum() :])
        each_step = np.split(evaluated, np.cumsum(evaluations)[:-1])
        return np.stack([points[_evenly(len(points), num_points)] for points in each_step])


def diverged_at(error: DivergedError) -> int:
    """The step that a divergence was noticed at: how many steps before it were finite."""
    found = re.search(r"at step (\d+)", str(error))
    assert found is not None, error
    return int(found[1])


def _num_near(path: np.ndarray) -> int:
    near = (np.abs(path) < FAR).all(axis=1)
    return len(path) if near.all() else int(np.argmin(near))


def _evenly(count: int, wanted: int) -> np.ndarray:
    """`wanted` indices from 1/wanted of the way to the last of `count`, repeated if too few."""
    return np.ceil(np.arange(1, wanted + 1) * count / wanted).astype(int) - 1


def as_json(recording: Recording) -> dict[str, Any]:
    """A run as the page reads it."""
    evaluations = recording.evaluations.tolist()
    found: dict[str, Any] = {
        "path": recording.path.round(DECIMALS).ravel().tolist(),
        "effective": effective_draws(recording.path),
        "evaluations": evaluations[0] if len(set(evaluations)) == 1 else evaluations,
    }
    if recording.points is not None:
        found["points"] = packed(recording.points)
    if recording.stop_message is not None:
        found["stop_message"] = recording.stop_message
    return found


def effective_draws(path: np.ndarray) -> list[int]:
    """Bulk effective sample size after every `ESS_EVERY` steps, of the worse coordinate."""
    ends = range(ESS_EVERY, len(path) + 1, ESS_EVERY)
    return [round(float(ess_bulk(path[None, :end]).min())) for end in ends]


def packed(points: np.ndarray) -> str:
    """Thousandths as little-endian 16-bit integers in base64: a quarter of their size as text."""
    unit = 10**DECIMALS
    limit = np.iinfo(np.int16).max / unit  # far outside every picture
    near = np.nan_to_num(points.astype(float), nan=limit).clip(-limit, limit)
    return base64.b64encode((near * unit).round().astype("<i2").tobytes()).decode()


def _player_json(sampler: Sampler) -> dict[str, Any]:
    return {
        "name": sampler.name,
        "text": sampler.text,
        "step_field": sampler.step_field,
        "step_sizes": [f"{size:g}" for size in sampler.step_sizes],
        "move_label": sampler.move_label,
        "num_points": sampler.num_points,
    }


def _density_json(density: PlaneDensity) -> dict[str, Any]:
    mass = mass_above(density)
    return {
        "name": density.name,
        "text": density.text,
        "start": density.start,
        "center": density.center,
        "reach": density.reach,
        "grid": len(mass),
        "mass_above": (1000 * mass).round().astype(int).ravel().tolist(),
        "marginals": [bar_masses(density, c).round(5).tolist() for c in (0, 1)],
    }
