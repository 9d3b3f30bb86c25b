"""Descents that did not arrive say so, and those that did are silent."""

import warnings

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import credo
from credo.inference import arrival
from credo.model import Target, check_data
from credo.networks import MLP

RNG = np.random.default_rng(0)
X = RNG.normal(size=(300, 4)).astype(np.float32)
WEIGHTS = np.array([5.0, -4.0, 3.0, 6.0])
Y = X @ WEIGHTS + 0.5 * RNG.normal(size=300)
LINEAR = credo.Model(MLP(hidden=()), credo.likelihoods.Normal(0.5), credo.priors.NormalPrior(10.0))
LABELS = (X[:, 0] + RNG.logistic(size=300) > 0).astype(int)
CLASSES = credo.default_model(2, MLP(hidden=(8,)))


def warned(run):
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", credo.CredoWarning)
        run()
    return "\n".join(str(w.message) for w in caught if w.category is credo.CredoWarning)


def fitted(method, data=(X, Y), model=LINEAR):
    return warned(lambda: credo.fit(model, data, method))


@pytest.mark.parametrize("method", [credo.MAP, credo.Laplace])
def test_a_linear_model_that_stopped_before_its_mode_is_reported(method):
    """As it comes, Adam moves a weight by at most 2, and these lie up to 6 away."""
    text = fitted(method())
    assert "raise num_steps (got 4000) or learning_rate (got 0.001)" in text
    # With a rate that arrives, and is at the mode to a thousandth of a nat: nothing.
    assert fitted(method(learning_rate=0.05)) == ""


def test_the_newton_gain_is_half_the_squared_distance_in_posterior_deviations():
    """Of a linear model with known noise, U is quadratic: ½ δᵀ Λ δ, with Λ its precision."""
    data = check_data(LINEAR, (X, Y))
    target = Target(LINEAR, 300, (4,))
    params = LINEAR.init(jax.random.key(0), (4,))
    found = arrival.newton_gain(target, params, data)
    design = np.column_stack([X, np.ones(300)])
    precision = design.T @ design / 0.25 + np.eye(5) / 100.0
    mode = np.linalg.solve(precision, design.T @ Y / 0.25)
    layer = params["network"]["dense0"]
    offset = np.append(np.ravel(layer["w"]), np.ravel(layer["b"])) - mode
    np.testing.assert_allclose(found.gain, 0.5 * offset @ precision @ offset, rtol=1e-4)
    reached = found.params["network"]["dense0"]
    np.testing.assert_allclose(
        np.append(np.ravel(reached["w"]), np.ravel(reached["b"])), mode, atol=1e-3
    )


def test_sixteen_deviations_are_reported_and_a_half_is_not():
    data = check_data(LINEAR, (X, Y))
    target = Target(LINEAR, 300, (4,))
    start = LINEAR.init(jax.random.key(0), (4,))
    mode = arrival.newton_gain(target, start, data).params

    def messages(distance):
        off = jax.tree.map(jnp.copy, mode)
        weight = off["network"]["dense0"]["w"]
        # One posterior deviation of the first weight, the others known, is σ / ‖x₁‖.
        step = distance * 0.5 / np.linalg.norm(X[:, 0])
        off["network"]["dense0"]["w"] = weight.at[0, 0].add(step)
        return arrival.mode_warnings("map", credo.MAP(), target, off, data)

    (message,) = messages(16.0)
    assert "16 posterior standard deviations" in message
    assert messages(0.5) == []


def test_a_run_that_is_too_short_is_reported():
    for method in (credo.MAP, credo.Dropout, credo.SWAG, credo.BayesByBackprop):
        short = {"num_steps": 60, "learning_rate": 1e-2, "schedule": "constant", "batch_size": 300}
        more = {"collect_every": 1, "rank": 2} if method is credo.SWAG else {}
        text = fitted(method(**short, **more))
        assert "the loss still fell by" in text or "not at the mode yet" in text
        assert "raise num_steps (got 60)" in text


def test_a_rate_that_is_far_too_large_is_reported():
    digits = credo.data.load("digits").train
    model = credo.default_model(10, MLP(hidden=(8,)))
    for rate in (1e2, 1e6):
        text = warned(lambda rate=rate: credo.fit(model, digits, credo.MAP(learning_rate=rate)))
        assert "lower learning_rate" in text


def history(losses, **more):
    return {"loss": np.asarray(losses, float)[None], **more}


def test_losses_that_rise_are_reported():
    steps = np.arange(1000)
    noise = 0.1 * RNG.normal(size=1000)
    down, constant = 2 * np.exp(-steps / 100) + noise, credo.MAP(schedule="constant")
    assert arrival.descent_warnings("map", constant, None, history(down)) == []
    up = down + np.where(steps > 500, (steps - 500) / 500, 0)
    (message,) = arrival.descent_warnings("map", constant, None, history(up))
    assert "the loss rose from" in message
    (message,) = arrival.descent_warnings("map", constant, None, history(down + steps / 100))
    assert "above the" in message and "where it began" in message
    # What a growing weight of the KL makes rise is no fault.
    annealed = credo.BayesByBackprop(kl_warmup=0.5, schedule="constant")
    assert arrival.descent_warnings("bayes-by-backprop", annealed, None, history(up)) == []


def test_time_is_measured_in_learning_rate():
    """A loss that falls with every unit of rate stands still at the end of a cosine."""
    steps = np.arange(4000)
    traveled = np.cumsum(1 + np.cos(np.pi * steps / 4000)) / 4000
    losses = 5 - 4 * traveled + 0.1 * RNG.normal(size=4000)
    assert abs(losses[-800:-400].mean() - losses[-400:].mean()) < 0.05
    assert "still fell" in arrival.descent_warnings("map", credo.MAP(), None, history(losses))[0]
    flat = 1 + 4 * np.exp(-traveled * 20) + 0.1 * RNG.normal(size=4000)
    assert arrival.descent_warnings("map", credo.MAP(), None, history(flat)) == []


def test_training_and_held_out_loss_that_part_are_reported():
    method = credo.MAP(validation_fraction=0.3, learning_rate=1e-2, patience=50)
    assert fitted(method, (X, LABELS), CLASSES) == ""

    class Rows:
        x = np.zeros(100)

    target = type("Target", (), {"held_out": Rows})()
    looks = np.linspace(2.0, 1.0, 200)
    info = history(looks, nll=looks[None] - 0.9, validation_nll=looks[None])
    (message,) = arrival.descent_warnings("map", method, target, info)
    assert "have parted: 0.1" in message
    info = history(looks, nll=looks[None] - 0.1, validation_nll=looks[None])
    assert arrival.descent_warnings("map", method, target, info) == []


@pytest.mark.parametrize("name", ["iris", "digits", "diabetes", "breast-cancer"])
@pytest.mark.parametrize("method", [credo.MAP(), credo.Dropout()], ids=["map", "dropout"])
def test_default_runs_on_ordinary_data_are_silent(name, method):
    data = credo.data.load(name)
    count = None if data.task == "regression" else len(data.classes)
    y = data.train.y if count is None else None
    units = credo.data.Units.standardizing(data.train.x, y)
    text = warned(lambda: credo.fit(credo.default_model(count), data.train, method, units=units))
    assert text == ""


def test_members_with_a_loss_of_their_own_are_judged_by_their_losses():
    """An anchored member is no mode of the target; it would be far away from it."""
    settled = credo.MAP(learning_rate=0.05, num_steps=2000)
    for changed in ({"anchored": True}, {"prior_function": 1.0}):
        assert fitted(credo.Ensemble(settled, 2, **changed)) == ""
    assert "members with warnings" in fitted(credo.Ensemble("map", 2))
