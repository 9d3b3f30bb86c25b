"""What users get wrong ends in one line that says what to do."""

import numpy as np
import pytest

import credo
from credo.networks import MLP

X = np.random.default_rng(0).normal(size=(40, 2))
Y = (X[:, 0] > 0).astype(int)


@pytest.fixture(scope="module")
def posterior():
    model = credo.default_model(2, MLP(hidden=(3,)))
    return credo.fit(model, (X, Y), credo.Dropout(num_steps=20, batch_size=20))


def refusal(function, *arguments, **options) -> str:
    with pytest.raises(credo.CredoError) as caught:
        function(*arguments, **options)
    text = str(caught.value)
    assert "\n" not in text
    return text


def test_arviz_of_a_posterior_without_draws(posterior):
    text = refusal(posterior.to_arviz)
    assert "of dropout makes them anew" in text and "hmc" in text


@pytest.mark.parametrize("num_draws", ["5", 2.5, 0, None, True])
def test_a_number_of_draws_that_is_none(posterior, num_draws):
    text = refusal(credo.predict, posterior, X, num_draws=num_draws)
    assert f"whole number, got {num_draws!r}" in text


def test_evaluation_of_a_posterior(posterior):
    text = refusal(credo.evaluate, posterior, (X, Y))
    assert "credo.evaluate(credo.predict(posterior, x), y)" in text
    predicted = credo.predict(posterior, X)
    assert "got a posterior" in refusal(credo.evaluate, predicted, Y, posterior)
    assert "got ndarray" in refusal(credo.evaluate, predicted.probs, Y)


def test_a_fit_without_a_method_is_auto():
    posterior = credo.fit(credo.default_model(2), (X, Y))
    assert posterior.record.method == "auto"
