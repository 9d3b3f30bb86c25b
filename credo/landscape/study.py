"""The study of a loss landscape: train several networks, then look at them from all sides.

After Fort, Hu & Lakshminarayanan, Deep Ensembles: A Loss Landscape Perspective, 2019. The command
`credo landscape` makes a page of it, `credo reproduce landscape` a result.
"""

from typing import Any

import jax
import numpy as np

from credo.data.dataset import Split
from credo.engine import pick, stack
from credo.evaluation import classification, mean_estimate
from credo.inference import MAP, fit
from credo.landscape import functions, paths, subspaces
from credo.landscape.alignment import align
from credo.landscape.findings import MEMBERS, Findings, Path, Scores, Study, comparable
from credo.landscape.functions import Plane
from credo.landscape.trajectories import Trajectories
from credo.model import Model
from credo.networks import MLP, LeNet, Params
from credo.posterior import Posterior, Samples
from credo.predictive import CategoricalPredictive, predict

SCALES = {
    "random directions": (0.05, 0.1, 0.2, 0.3, 0.45, 0.6),
    "dropout": (0.02, 0.05, 0.1, 0.2, 0.3, 0.5),
    "diagonal normal": (0.5, 1.0, 2.0, 4.0, 8.0, 12.0),
    "low-rank normal": (0.5, 1.0, 2.0, 4.0, 8.0, 12.0),
}


def explore(
    model: Model, train: Split, test: Split, settings: Study, progress: bool | None = None
) -> Findings:
    """Train the members and look at them."""
    method = Trajectories(
        MAP(
            learning_rate=settings.learning_rate, num_steps=settings.num_steps,
            batch_size=settings.batch_size,
        ),
        settings.num_members,
        settings.num_snapshots,
    )  # fmt: skip
    fitted = fit(model, train, method, key=settings.seed, progress=progress)
    assert isinstance(fitted, Samples)
    rng = np.random.default_rng(settings.seed)
    train, test = (_some(rng, part, settings.num_rows) for part in (train, test))
    # On the host, where taking a part compiles nothing.
    draws = jax.tree.map(np.asarray, fitted.draws)
    ends = jax.tree.map(lambda leaf: leaf[:, -1], draws)
    own = pick(draws, 0)
    probs = _probs(fitted, test.x)
    probs = probs.reshape(settings.num_members, -1, *probs.shape[1:])
    labels = probs[:, -1].argmax(axis=2)
    samples = _around(fitted, own, test.x, settings)
    planes = _planes(labels, probs, samples, test.y)
    places, clouds = _map(probs, samples, planes, settings.seed)
    times = np.linspace(0, 1, settings.num_points)
    corners = pick(ends, slice(3))
    return Findings(
        cosine=functions.cosine_matrix(ends),
        disagreement=functions.disagreement_matrix(labels),
        own_cosine=functions.cosine_matrix(own)[-1],
        own_disagreement=functions.disagreement_matrix(probs[0].argmax(axis=2))[-1],
        accuracy=(labels == test.y).mean(axis=1),
        places=places,
        clouds=clouds,
        stays=_share_that_stays(probs),
        planes=planes,
        together=_together(probs[:, -1], samples, test.y),
        times=times,
        routes=_routes(fitted, ends, train, test, times, settings),
        slice=paths.plane_slice(model, train, corners, settings.num_points),
        num_classes=probs.shape[-1],
    )


def _some(rng: np.random.Generator, part: Split, count: int) -> Split:
    rows = np.sort(rng.permutation(len(part.y))[:count])
    return Split(part.x[rows], part.y[rows])


def _probs(posterior: Posterior, x: np.ndarray, num_draws: int = 1, key: int = 0) -> np.ndarray:
    """Class probabilities of every draw: (draw, row, class)."""
    wanted = posterior.num_draws or num_draws
    predicted = predict(posterior, x, wanted, key=key, keep_draws=True)
    assert isinstance(predicted, CategoricalPredictive) and predicted.draw_probs is not None
    return predicted.draw_probs


def _around(
    fitted: Samples, own: Params, x: np.ndarray, settings: Study
) -> dict[str, dict[float, np.ndarray]]:
    """Predictions of as many samples as there are members, by subspace and scale."""
    model, record, count = fitted.model, fitted.record, settings.num_members
    base = pick(own, -1)
    # The second half of the training: what came before is on the way, not around the solution.
    late = jax.tree.map(lambda leaf: leaf[len(leaf) // 2 :], own)
    makers: dict[str, Any] = {
        "random directions": lambda scale: subspaces.random_directions(
            settings.seed, model, base, record, scale, count
        ),
        "diagonal normal": lambda scale: subspaces.diagonal_normal(
            model, base, late, record, scale
        ),
        "low-rank normal": lambda scale: subspaces.low_rank_normal(
            model, base, late, record, scale
        ),
    }
    if isinstance(model.network, MLP | LeNet):  # others may have no place for noise
        makers["dropout"] = lambda scale: subspaces.dropout(model, base, record, scale)
    return {
        name: {
            scale: _probs(makers[name](scale), x, count, settings.seed) for scale in SCALES[name]
        }
        for name in makers
    }


def _planes(labels: np.ndarray, probs: np.ndarray, samples: Any, y: np.ndarray) -> dict[str, Plane]:
    """Members and samples as member 0 sees them."""
    seen = {MEMBERS: probs[1:, -1]}
    seen |= {name: np.concatenate(list(by_scale.values())) for name, by_scale in samples.items()}
    return {name: functions.diversity_accuracy(labels[0], found, y) for name, found in seen.items()}


def _map(probs: np.ndarray, samples: Any, planes: Any, seed: int) -> tuple[np.ndarray, dict]:
    shown = {
        name: np.concatenate(list(by_scale.values()))[comparable(planes, name)]
        for name, by_scale in samples.items()
    }
    everything = np.concatenate([probs.reshape(-1, *probs.shape[2:]), *shown.values()])
    placed = functions.prediction_map(everything, seed)
    count = probs.shape[0] * probs.shape[1]
    bounds = np.cumsum([count, *map(len, shown.values())])
    clouds = {name: placed[a:b] for name, a, b in zip(shown, bounds[:-1], bounds[1:])}
    return placed[:count].reshape(*probs.shape[:2], 2), clouds


def _share_that_stays(probs: np.ndarray) -> float:
    late = probs[:, probs.shape[1] // 2 :]
    members = np.repeat(np.arange(len(late)), late.shape[1])
    flat = late.reshape(len(members), -1).astype(np.float64)
    squares = (flat**2).sum(axis=1)
    distances = squares[:, None] + squares[None] - 2 * flat @ flat.T
    np.fill_diagonal(distances, np.inf)
    return float(np.mean(members[distances.argmin(axis=1)] == members))


def _together(ends: np.ndarray, samples: Any, y: np.ndarray) -> dict[str, Scores]:
    """Averaged probabilities: of one network, of the members, of samples at their best scale."""
    found = {"one network": _scores(ends[:1], y), "ensemble of members": _scores(ends, y)}
    for name, by_scale in samples.items():
        scores = {scale: _scores(probs, y) for scale, probs in by_scale.items()}
        best = min(scores, key=lambda scale: scores[scale].nll.value)
        found[name] = scores[best]._replace(note=f"scale {best:g}, best of {len(scores)}")
    return found


def _scores(probs: np.ndarray, y: np.ndarray) -> Scores:
    mean = probs.mean(axis=0, dtype=np.float64)
    nll = -np.log(np.maximum(mean[np.arange(len(y)), y], 1e-38))
    return Scores(classification.accuracy(mean, y), mean_estimate(nll))


def _routes(
    fitted: Samples, ends: Params, train: Split, test: Split, times: np.ndarray, settings: Study
) -> dict[str, Path]:
    """From member 0 to member 1: straight, through a trained tunnel, and after alignment."""
    model = fitted.model
    first, second = pick(ends, 0), pick(ends, 1)
    control = paths.train_tunnel(
        settings.seed, model, train, first, second, settings.tunnel_steps,
        settings.learning_rate, settings.batch_size,
    )  # fmt: skip
    routes = {
        "straight line": (stack([first, second]), paths.line(times)),
        "tunnel": (stack([first, control, second]), paths.bezier(times)),
    }
    if isinstance(model.network, MLP | LeNet):
        aligned, _ = align(model, first, second)
        routes["line after alignment"] = (stack([first, aligned]), paths.line(times))
    return {
        name: _walk(fitted, anchors, coefficients, train, test, times)
        for name, (anchors, coefficients) in routes.items()
    }


def _walk(
    fitted: Samples, anchors: Params, coefficients: np.ndarray, train: Split, test: Split, times
) -> Path:
    loss = paths.path_losses(fitted.model, train, anchors, coefficients)
    passed = paths.combine(anchors, coefficients)
    along = Samples(fitted.model, jax.tree.map(lambda leaf: leaf[None], passed), fitted.record)
    labels = _probs(along, test.x).argmax(axis=2)
    accuracy = (labels == test.y).mean(axis=1)
    change = (labels != labels[0]).mean(axis=1)
    return Path(loss, accuracy, change, paths.barrier(times, loss))
