"""What experiments are made of: the protocol of UCI, synthetic digits, tasks side by side."""

import dataclasses
import threading

import numpy as np
import pytest

from credo.data.dataset import Split
from credo.evaluation import Estimate
from credo.experiments import mnist, training_log, uci_dropout
from credo.experiments.lenet_anchors import ANCHORS, Scores, beats
from credo.experiments.lenet_ensemble import COPIES, with_variants
from credo.experiments.parallel import in_parallel
from credo.experiments.training_log import TrainingLog
from credo.experiments.uci_dropout import (
    UciDropout,
    best_noise,
    fit_and_predict,
    reaches,
    set_aside,
)
from credo.experiments.uncertainty_histograms import synthetic
from credo.networks import MLP
from credo.predictive import NormalPredictive

pytestmark = pytest.mark.usefixtures("quick_compilation")


def rows(count: int, seed: int) -> Split:
    """Every row is recognisable by its target."""
    generator = np.random.default_rng(seed)
    x = generator.normal(size=(count, 3)).astype(np.float32)
    return Split(x, (100 * seed + np.arange(count)).astype(np.float32))


def test_variants_are_the_images_mirrored_and_moved():
    images = np.random.default_rng(0).random((4, 6, 5, 1), np.float32)
    for mirrored in (False, True):
        found = with_variants(images, mirrored, seed=0)
        originals = np.concatenate([images, images[:, :, ::-1]]) if mirrored else images
        assert len(found) == (1 + COPIES) * len(originals)
        np.testing.assert_array_equal(found[: len(originals)], originals)
        steps = [place(one, originals[i % len(originals)]) for i, one in enumerate(found)]
        assert set(steps) > {(0, 0)} and len(set(steps)) > 3


def place(image: np.ndarray, original: np.ndarray) -> tuple[int, int]:
    """By how much an image was moved: the one step that makes it from the original."""
    padded = np.pad(original, ((1, 1), (1, 1), (0, 0)))
    height, width, _ = original.shape
    steps = [(i, j) for i in (-1, 0, 1) for j in (-1, 0, 1)]

    def shifted(down: int, right: int) -> np.ndarray:
        return padded[1 + down : 1 + down + height, 1 + right : 1 + right + width]

    (found,) = [step for step in steps if np.array_equal(shifted(*step), image)]
    return found


def test_the_validation_part_is_a_fifth_of_the_training_part():
    train = rows(50, 1)
    rest, held_out = set_aside(train, seed=3)
    assert len(held_out.y) == 10
    assert sorted([*rest.y, *held_out.y]) == sorted(train.y)
    assert not np.array_equal(held_out.y, set_aside(train, seed=4)[1].y)


def recorded(monkeypatch, train: Split, test: Split):
    """Run the protocol with fits that are only written down; the second candidate predicts best."""
    seen = []
    by_row = dict(zip(map(bytes, [*train.x, *test.x]), [*train.y, *test.y], strict=True))
    candidates = UciDropout().candidates()["MC dropout"][:3]

    def record(candidate, fitted, x, key, num_draws):
        seen.append((candidate, fitted, x))
        off = 0.5 if candidate is candidates[1] else 5.0
        means = np.array([by_row[bytes(row)] for row in x])[None, :, None] + off
        return NormalPredictive(means, np.ones((1, 1, 1))), 0.5

    monkeypatch.setattr(uci_dropout, "fit_and_predict", record)
    scores = UciDropout()._one_split(train, test, candidates, key=0)
    assert [candidate for candidate, _, _ in seen] == [*candidates, candidates[1]]
    return seen, scores


def is_clean(seen, train: Split, test: Split) -> bool:
    """Fits saw training rows only, choices no test row, and the last fit all training rows."""
    known = set(map(bytes, test.x))
    fits = all(set(fitted.y) <= set(train.y) for _, fitted, _ in seen)
    choices = all(not known & set(map(bytes, x)) for _, _, x in seen[:-1])
    return fits and choices and np.array_equal(seen[-1][1].y, train.y) and seen[-1][2] is test.x


def test_nothing_is_chosen_by_the_test_part(monkeypatch):
    train, test = rows(50, 1), rows(12, 2)
    seen, scores = recorded(monkeypatch, train, test)
    assert is_clean(seen, train, test)
    assert scores.rmse == pytest.approx(0.5)


def test_choosing_by_the_test_part_is_caught(monkeypatch):
    train, test = rows(50, 1), rows(12, 2)
    monkeypatch.setattr(uci_dropout, "set_aside", lambda part, seed: (part, test))
    assert not is_clean(recorded(monkeypatch, train, test)[0], train, test)


def test_the_likelihood_counts_the_units_of_the_target():
    """log p(y) in units = log p(standardized y) − log(standard deviation)."""
    train, test = rows(40, 1), rows(10, 2)
    candidate = UciDropout(num_steps=3).candidates()["concrete dropout"][0]
    thousand = Split(train.x, 1000 * train.y)
    plain, _ = fit_and_predict(candidate, train, test.x, 0, 10)
    scaled, _ = fit_and_predict(candidate, thousand, test.x, 0, 10)
    assert scaled.log_prob(1000 * test.y) == pytest.approx(
        plain.log_prob(test.y) - np.log(1000), abs=1e-3
    )


@pytest.mark.parametrize("spread", [0.0, 1.0])
def test_the_noise_factor_is_found(spread):
    """Draws N(0, spread²), noise 2 predicted as 0.5: a factor of 4, within 4 standard errors."""
    generator = np.random.default_rng(0)
    count = 2000
    means = spread * generator.normal(size=(200, count, 1))
    y = 2.0 * generator.normal(size=count) + spread * generator.normal(size=count)
    predicted = NormalPredictive(means, np.full((200, 1, 1), 0.5))
    score, factor = best_noise(predicted, y)
    assert factor == pytest.approx(4.0, abs=4 * 4.0 * (1 + spread**2 / 4) / np.sqrt(2 * count))
    assert score > predicted.log_prob(y).mean()


@pytest.mark.parametrize(
    ("likelihood", "rmse", "holds"),
    [(-2.3, 2.8, True), (-2.42, 2.91, True), (-2.5, 2.8, False), (-2.3, 3.1, False)],
)
def test_at_or_better_is_within_one_standard_error(likelihood, rmse, holds):
    found = reaches((-2.40, 2.90), "a", "b", Estimate(likelihood, 0.05), Estimate(rmse, 0.05))
    assert found.holds is holds


def test_an_anchor_is_beaten_in_everything_or_not():
    good = Scores(Estimate(0.03, 0.0), Estimate(99.0, 0.0), Estimate(0.005, 0.0))
    assert beats(good, ANCHORS["mnist"])
    for field, worse in (("nll", 0.05), ("accuracy", 98.0), ("ece", 0.02)):
        assert not beats(good._replace(**{field: Estimate(worse, 0.0)}), ANCHORS["mnist"])


def test_synthetic_digits_are_what_they_are_called():
    generator = np.random.default_rng(1)
    real = Split(generator.random((30, 28, 28, 1), np.float32), np.arange(30) % 10)
    groups = synthetic(real, seed=0)
    assert np.array_equal(np.rot90(groups["rotated"], 3, axes=(1, 2)), real.x)
    partners = 2 * groups["blended"] - real.x
    for own, partner in zip(real.y, partners, strict=True):
        found = np.abs(real.x - partner).reshape(30, -1).max(axis=1).argmin()
        assert real.y[found] != own
    assert all(x.shape == real.x.shape and x.min() >= 0 and x.max() <= 1 for x in groups.values())


def test_tasks_keep_their_order():
    assert in_parallel(lambda task: task**2, range(10), 2, "squares") == [n**2 for n in range(10)]


def test_the_first_failure_drops_what_has_not_begun():
    begun, release = [], threading.Event()

    def work(task: int) -> None:
        begun.append(task)
        if task == 0:
            raise ValueError("the first")
        release.wait(0.2)

    with pytest.raises(ValueError, match="the first"):
        in_parallel(work, range(50), 2, "failing")
    assert len(begun) < 10


def test_the_training_log_observes_one_run(monkeypatch):
    """Its lines are those of trainings that end after each epoch, to the bit."""
    generator = np.random.default_rng(0)
    train = Split(generator.random((300, 6), np.float32), np.arange(300) % 10)
    fits = []

    def counted(*arguments, **options):
        fits.append(options["key"])
        return fit(*arguments, **options)

    fit = training_log.fit
    monkeypatch.setattr(training_log, "fit", counted)
    monkeypatch.setattr(mnist, "MLP", lambda hidden: MLP(hidden=(8,)))
    log = TrainingLog(epochs=3)._log(train, seed=5)
    assert fits == [5] and len(log) == 3
    assert [TrainingLog(epochs=count)._log(train, 5)[-1] for count in (1, 2)] == log[:2]


def test_settings_are_frozen():
    with pytest.raises(dataclasses.FrozenInstanceError):
        UciDropout().splits = 3  # type: ignore[misc]
