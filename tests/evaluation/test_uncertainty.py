import math

import numpy as np
import pytest

from credo.errors import CredoError
from credo.evaluation.uncertainty import (
    drop_rounding,
    entropy,
    expected_entropy,
    mutual_information,
)


def random_draws(seed, dtype=np.float64):
    weights = np.exp(np.random.default_rng(seed).normal(size=(7, 20, 4)))
    return (weights / weights.sum(axis=-1, keepdims=True)).astype(dtype)


def test_entropy_known_answers():
    assert entropy(np.full((2, 10), 0.1)) == pytest.approx(math.log(10), rel=1e-12)
    certain = entropy([[1.0, 0.0, 0.0]])
    assert certain == 0.0 and not np.signbit(certain)[0]


def test_members_that_contradict_each_other():
    draws = [[[1.0, 0.0]], [[0.0, 1.0]]]
    assert mutual_information(draws) == pytest.approx(math.log(2), rel=1e-12)
    assert expected_entropy(draws) == 0.0


def test_members_that_agree_know_what_they_do_not_know():
    draws = np.repeat(random_draws(0)[:1], 50, axis=0)
    assert (mutual_information(draws) < 1e-12).all()
    assert expected_entropy(draws) == pytest.approx(entropy(draws[0]), rel=1e-12)


def test_total_is_aleatoric_plus_epistemic():
    draws = random_draws(1)
    total = entropy(draws.mean(axis=0))
    assert total == pytest.approx(expected_entropy(draws) + mutual_information(draws), rel=1e-12)
    divergence = (draws * np.log(draws / draws.mean(axis=0))).sum(axis=-1).mean(axis=0)
    assert mutual_information(draws) == pytest.approx(divergence, rel=1e-9)
    # entropy of one pass is not the entropy of the mean
    assert (np.abs(entropy(draws[0]) - total) > 1e-3).any()


def test_float32_draws_are_summed_in_float64():
    assert mutual_information(random_draws(2, np.float32)).dtype == np.float64
    same = np.repeat(random_draws(3, np.float32)[:1], 100, axis=0)
    information = mutual_information(same)
    assert (information >= 0).all() and (information < 1e-12).all()


def test_rounding_is_dropped_and_nothing_else_is():
    assert drop_rounding(np.array([-9e-8, 0.0, 0.2])).tolist() == [0.0, 0.0, 0.2]
    with pytest.raises(CredoError, match="mutual information of -2e-07"):
        drop_rounding(np.array([-2e-7, 0.1]))
