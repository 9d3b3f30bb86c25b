"""Predictions without stored weights are those with them."""

import warnings

import numpy as np
import pytest

import credo

pytestmark = pytest.mark.filterwarnings("ignore::credo.CredoWarning")

RNG = np.random.default_rng(0)
X = RNG.normal(size=(40, 3)).astype(np.float32)
LABELS = (X[:, 0] > 0).astype(int) + (X[:, 1] > 1)
SHORT = {"num_samples": 6, "num_warmup": 10, "num_chains": 2, "thin": 2}
SAMPLERS = {
    "hmc": credo.HMC(num_leapfrog=3, mass="diagonal", **SHORT),
    "sgld": credo.SGLD(batch_size=16, **SHORT),
    "sgld, weighted": credo.SGLD(batch_size=16, schedule="polynomial", delay=5, **SHORT),
}


@pytest.mark.parametrize("name", SAMPLERS)
def test_the_same_as_fit_and_predict(name):
    model = credo.Model(credo.networks.MLP(hidden=(4,)), credo.likelihoods.Categorical(3))
    streamed = credo.fit_predict(model, (X, LABELS), X[:7], SAMPLERS[name], key=3)
    posterior = credo.fit(model, (X, LABELS), SAMPLERS[name], key=3)
    expected = credo.predict(posterior, X[:7], num_draws=12)
    np.testing.assert_allclose(streamed.probs, expected.probs, rtol=2e-4)
    np.testing.assert_allclose(streamed.expected_entropy, expected.expected_entropy, rtol=2e-4)


def test_a_regression_with_learned_noise():
    model = credo.Model(credo.networks.MLP(hidden=(4,)), credo.likelihoods.Normal(scale="learned"))
    # With noise: its scale would shrink for ever without, and no step be small enough.
    data = (X, X[:, 0] + 0.3 * np.random.default_rng(1).normal(size=40))
    streamed = credo.fit_predict(model, data, X[:7], "sghmc")
    expected = credo.predict(credo.fit(model, data, "sghmc"), X[:7], num_draws=400)
    np.testing.assert_allclose(streamed.mean, expected.mean, rtol=1e-3, atol=1e-4)
    np.testing.assert_allclose(streamed.std, expected.std, rtol=1e-3)


def test_methods_that_keep_nothing_are_refused():
    model = credo.Model(credo.networks.MLP(hidden=(4,)), credo.likelihoods.Categorical(3))
    with pytest.raises(credo.CredoError, match="keeps no draws"):
        credo.fit_predict(model, (X, LABELS), X, credo.MAP())


def test_a_checkpoint_is_resumed(tmp_path, monkeypatch):
    from credo.engine.checkpoint import Checkpoint

    model = credo.Model(credo.networks.MLP(hidden=(4,)), credo.likelihoods.Categorical(3))

    def run(**options):
        data = (X, LABELS)
        return credo.fit_predict(model, data, X[:7], SAMPLERS["hmc"], key=3, **options)

    save = Checkpoint.save

    def save_then_stop(self, chains, step, now):
        save(self, chains, step, now=True)
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(Checkpoint, "save", save_then_stop)
        with pytest.raises(KeyboardInterrupt):
            run(checkpoint=tmp_path / "run")
    assert (tmp_path / "run").exists()
    resumed = run(checkpoint=tmp_path / "run")
    np.testing.assert_array_equal(resumed.probs, run().probs)


def messages(run):
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", credo.CredoWarning)
        run()
    return [str(w.message) for w in caught if w.category is credo.CredoWarning]


@pytest.mark.parametrize(
    ("method", "words"),
    [
        (credo.HMC(num_leapfrog=3, step_size=1e-5, **{**SHORT, "num_warmup": 0}), "accepted 100"),
        (credo.SGLD(batch_size=16, **SHORT), "the chains disagree about their predictions"),
    ],
)
def test_the_warnings_are_those_of_the_method(method, words):
    """R̂ is of the watched outputs, so here of the same rows."""
    model = credo.Model(credo.networks.MLP(hidden=(4,)), credo.likelihoods.Categorical(3))
    streamed = messages(lambda: credo.fit_predict(model, (X, LABELS), X, method, key=3))
    assert any(words in message for message in streamed)
    assert streamed == messages(lambda: credo.fit(model, (X, LABELS), method, key=3))
