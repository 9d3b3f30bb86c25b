"""Ensembles: exact for anchored linear models, and what every mixture must be."""

import dataclasses

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import credo
from credo.engine import loop
from credo.inference.ensembles import ensemble
from credo.model import Batch
from credo.networks import MLP
from credo.posterior import Mixture, NormalWeights, mix
from tests.inference.normal.test_exact import COVARIANCE, MEAN, MODEL, X, Y

pytestmark = pytest.mark.usefixtures("float64")

SIZE = 250
EXACT = credo.MAP(learning_rate=0.1, num_steps=400, batch_size=15)
LABELS = (X[:, 0] > 0).astype(int) + (X[:, 1] > 0.5)
CLASSES = credo.Model(MLP(hidden=(5,)), credo.likelihoods.Categorical(3))
SHORT = credo.MAP(num_steps=60, batch_size=5)


def weights(posterior):
    layer = posterior.draws["network"]["dense0"]
    return np.column_stack([layer["b"][:, 0], layer["w"][:, 0, :, 0]])


def are_draws_of(draws, mean, covariance):
    """Whether moments agree to 4 standard errors, the covariance by the law of Wishart."""
    size = len(draws)
    error = np.sqrt(np.diag(covariance) / size)
    variances = np.outer(np.diag(covariance), np.diag(covariance))
    spread = np.sqrt((covariance**2 + variances) / size)
    return bool(
        np.all(np.abs(draws.mean(axis=0) - mean) < 4 * error)
        and np.all(np.abs(np.cov(draws.T) - covariance) < 4 * spread)
    )


def exact(rows):
    """Mean and covariance of the posterior given the first rows; few leave much to the prior."""
    posterior = credo.fit(MODEL, (X[:rows], Y[:rows]), credo.Exact())
    layer = posterior.mean["network"]["dense0"]
    factor = np.asarray(posterior.factor)
    return np.array([*layer["b"], *layer["w"][:, 0]]), factor @ factor.T


@pytest.mark.parametrize("rows", [2, 15])
def test_anchored_members_are_draws_of_the_exact_posterior(rows):
    posterior = credo.fit(MODEL, (X[:rows], Y[:rows]), credo.Ensemble(EXACT, SIZE, anchored=True))
    assert are_draws_of(weights(posterior), *exact(rows))


def test_a_temperature_scales_the_anchored_covariance():
    cold = credo.fit(
        MODEL, (X, Y), credo.Ensemble(EXACT, SIZE, anchored=True), key=1, temperature=0.25
    )
    assert are_draws_of(weights(cold), MEAN, COVARIANCE / 4)
    assert not are_draws_of(weights(cold), MEAN, COVARIANCE)


@pytest.mark.parametrize(("forgotten", "rows"), [("noise on the targets", 15), ("anchors", 2)])
def test_half_of_the_randomisation_is_caught(forgotten, rows, monkeypatch):
    if forgotten == "anchors":

        def nowhere(self, key, params):
            return jax.tree.map(jnp.zeros_like, params)

        monkeypatch.setattr(credo.Model, "sample_prior", nowhere)
    else:
        monkeypatch.setattr(ensemble, "with_noisy_targets", lambda target, key, batch: batch)
    # Another size, lest the program compiled for the right one be used.
    broken = credo.fit(MODEL, (X[:rows], Y[:rows]), credo.Ensemble(EXACT, SIZE - 1, anchored=True))
    assert not are_draws_of(weights(broken), *exact(rows))


def test_the_noise_of_a_datum_is_the_same_in_every_batch():
    target = credo.model.Target(MODEL, 15, (2,))
    key = jax.random.key_data(jax.random.key(3))
    whole = Batch(jnp.asarray(X), jnp.asarray(Y), jnp.arange(15))
    part = jax.tree.map(lambda column: column[jnp.array([7, 2])], whole)
    noisy = ensemble.with_noisy_targets(target, key, whole)
    again = ensemble.with_noisy_targets(target, key, part)
    np.testing.assert_array_equal(again.y, noisy.y[jnp.array([7, 2])])
    assert np.all(noisy.y != whole.y)


def test_learned_noise_is_not_added_to_targets():
    target = credo.model.Target(
        dataclasses.replace(MODEL, likelihood=credo.likelihoods.Normal("learned")), 15
    )
    batch = Batch(jnp.asarray(X), jnp.asarray(Y), jnp.arange(15))
    assert (
        ensemble.with_noisy_targets(target, jax.random.key_data(jax.random.key(0)), batch) is batch
    )


def test_the_fast_gradient_sign_of_a_linear_logit():
    """x' = x − ε (±1) sign(w): towards the other class."""
    model = credo.Model(MLP(hidden=()), credo.likelihoods.Bernoulli())
    target = credo.model.Target(model, 4, (2,))
    params = model.init(jax.random.key(0), (2,))
    layer = {"w": jnp.array([[2.0], [-3.0]]), "b": jnp.zeros(1)}
    params = {**params, "network": {"dense0": layer}}
    batch = Batch(jnp.asarray(X[:4]), jnp.array([0, 1, 1, 0]), jnp.arange(4))
    both = ensemble.with_adversarial_examples(target, params, batch, 0.1)
    sign = np.array([-1.0, 1.0, 1.0, -1.0])[:, None]
    np.testing.assert_array_equal(both.x[:4], X[:4])
    np.testing.assert_allclose(both.x[4:], X[:4] - 0.1 * sign * [1.0, -1.0], rtol=1e-12)
    np.testing.assert_array_equal(both.y, [0, 1, 1, 0, 0, 1, 1, 0])


def test_adversarial_training_resists_attacks():
    """Accuracy under attack is better than without, or the option would do nothing."""
    rng = np.random.default_rng(0)
    x = np.column_stack([rng.normal(size=300), 0.05 * rng.normal(size=300)])
    y = (x[:, 0] + 0.3 * rng.normal(size=300) > 0).astype(int)
    x[:, 1] += 0.05 * (2 * y - 1)  # tells the class, but a step of 0.2 turns it round
    model = credo.Model(
        MLP(hidden=()), credo.likelihoods.Bernoulli(), credo.priors.NormalPrior(100.0)
    )
    target = credo.model.Target(model, 300, (2,))

    def under_attack(step):
        method = credo.Ensemble(credo.MAP(learning_rate=0.1, num_steps=500), 1, adversarial=step)
        fitted = credo.fit(model, (x, y), method)
        params = jax.tree.map(lambda leaf: leaf[0, 0], fitted.draws)
        attack = ensemble.with_adversarial_examples(target, params, Batch(x, y), 0.2).x[300:]
        return credo.evaluate(credo.predict(fitted, attack), y)["nll"].value

    assert under_attack(0.2) < 0.7 * under_attack(0.0)


def test_identical_members_have_no_mutual_information_and_others_do():
    one = credo.fit(CLASSES, (X, LABELS), SHORT)
    twins = dataclasses.replace(mix([one, one]), record=one.record)
    assert credo.predict(twins, X).mutual_information.max() < 1e-12
    pair = credo.fit(CLASSES, (X, LABELS), credo.Ensemble(SHORT, 2))
    assert credo.predict(pair, X).mutual_information.min() > 1e-6


def test_an_ensemble_scores_no_worse_than_its_members_on_average():
    posterior = credo.fit(CLASSES, (X, LABELS), credo.Ensemble(SHORT, 4))
    predicted = credo.predict(posterior, X, keep_draws=True)
    members = np.log(predicted.draw_probs[:, np.arange(15), LABELS]).mean()
    assert predicted.log_prob(LABELS).mean() > members


@pytest.mark.parametrize(
    "member",
    [
        SHORT,
        credo.Dropout(num_steps=40),
        credo.SWAG(num_steps=40, collect_from=0.5, collect_every=3, rank=3),
        credo.Laplace(num_steps=40),
    ],
    ids=["map", "dropout", "swag", "laplace"],
)
def test_members_added_later_are_those_of_a_larger_ensemble(member, tmp_path):
    pair = credo.fit(CLASSES, (X, LABELS), credo.Ensemble(member, 2), key=5)
    credo.save(pair, tmp_path / "pair.safetensors")
    four = credo.extend(credo.load(tmp_path / "pair.safetensors"), (X, LABELS), 4, key=5)
    expected = credo.fit(CLASSES, (X, LABELS), credo.Ensemble(member, 4), key=5)
    for a, b in zip(jax.tree.leaves(four), jax.tree.leaves(expected), strict=True):
        np.testing.assert_array_equal(a, b)
    assert four.record.options == expected.record.options
    five = credo.extend(four, (X, LABELS), 5, key=5)
    assert five.record.options["size"] == 5


def test_what_cannot_be_extended_says_so():
    one = credo.fit(CLASSES, (X, LABELS), SHORT)
    with pytest.raises(credo.CredoError, match="only an ensemble"):
        credo.extend(one, (X, LABELS), 4)
    pair = credo.fit(CLASSES, (X, LABELS), credo.Ensemble(SHORT, 2))
    with pytest.raises(credo.CredoError, match="2 members already"):
        credo.extend(pair, (X, LABELS), 2)


def test_a_mixture_has_the_moments_of_its_parts():
    """Mean (μ₁+μ₂)/2; variance the mean variance plus that of the means."""
    model = credo.Model(MLP(hidden=()), credo.likelihoods.Normal(1.0))
    params = model.init(jax.random.key(0), (1,))

    def full(value):
        return jax.tree.map(lambda leaf: jnp.full(leaf.shape, value), params)

    mixed = mix(
        [NormalWeights(model, full(-1.0), full(0.5)), NormalWeights(model, full(3.0), full(2.0))]
    )
    assert isinstance(mixed, Mixture) and mixed.num_members == 2
    draws = mixed.sample(jax.random.key(1), 40_000)
    drawn = jax.vmap(lambda draw: mixed.realize(draw)[0]["network"]["dense0"]["b"][0])(draws)
    variance = (0.25 + 4.0) / 2 + 4.0
    assert abs(drawn.mean() - 1.0) < 4 * np.sqrt((0.25 + 4.0) / 2 / 40_000)  # members take turns
    np.testing.assert_allclose(drawn.var(), variance, rtol=4 * np.sqrt(2 / 40_000))
    assert np.bincount(np.asarray(draws[0])).tolist() == [20_000, 20_000]


@pytest.mark.parametrize(
    "member", [credo.Dropout(num_steps=40), credo.Laplace(num_steps=40)], ids=["dropout", "laplace"]
)
def test_every_prediction_shares_its_draws_among_bayesian_members(member):
    """Linearised draws too: a member of a mixture predicts as it does alone."""
    posterior = credo.fit(CLASSES, (X, LABELS), credo.Ensemble(member, 3))
    members = [dataclasses.replace(posterior.member(i), record=posterior.record) for i in range(3)]
    own = np.mean([credo.predict(m, X, num_draws=3000).probs for m in members], axis=0)
    mixed = credo.predict(posterior, X, num_draws=9000, key=1).probs
    np.testing.assert_allclose(mixed, own, atol=4 * 0.5 / np.sqrt(9000))


def test_prior_functions_are_not_learned_and_differ():
    method = credo.Ensemble(SHORT, 3, prior_function=2.0)
    posterior = credo.fit(CLASSES, (X, LABELS), method)
    longer = dataclasses.replace(method, member=dataclasses.replace(SHORT, num_steps=20))
    draws = [p.draws["network"] for p in (posterior, credo.fit(CLASSES, (X, LABELS), longer))]
    for a, b in zip(*(jax.tree.leaves(d["fixed"]) for d in draws), strict=True):
        np.testing.assert_array_equal(a, b)  # after 60 steps as after 20
    first = draws[0]["fixed"]["dense0"]["w"]
    assert np.all(first[0] != first[1])
    one = jax.tree.map(lambda leaf: leaf[1, 0], posterior.draws)
    network = CLASSES.network
    free, fixed = (network.apply(one["network"][part], X) for part in ("free", "fixed"))
    np.testing.assert_allclose(posterior.model.outputs(one, X), free + 2.0 * fixed, rtol=1e-12)


def test_prior_functions_disagree_where_there_are_no_data():
    x = np.linspace(-1, 1, 30)[:, None]
    model = credo.Model(MLP(hidden=(20,), activation="tanh"), credo.likelihoods.Normal(0.1))
    member = credo.MAP(num_steps=1500, learning_rate=1e-2)
    spread = {}
    for scale in (0.0, 3.0):
        posterior = credo.fit(
            model, (x, np.sin(3 * x[:, 0])), credo.Ensemble(member, 5, prior_function=scale)
        )
        predicted = credo.predict(posterior, np.array([[0.0], [6.0]]))
        spread[scale] = np.sqrt(predicted.epistemic_variance)
    assert spread[3.0][1] > 2 * spread[0.0][1]  # far away
    assert spread[3.0][0] < 0.15  # among the data


@pytest.mark.filterwarnings("ignore::credo.CredoWarning")  # chains far too short
def test_chains_of_members_stay_with_their_member():
    """Step sizes are shared within a member, not between members."""
    chains = credo.HMC(num_samples=4, num_warmup=20, num_chains=2, num_leapfrog=3, jitter=0.0)
    posterior = credo.fit(MODEL, (X, Y), credo.Ensemble(chains, 3))
    assert posterior.num_chains == 6
    steps = posterior.record.history["step_size"][:, -1].reshape(3, 2)
    np.testing.assert_array_equal(steps[:, 0], steps[:, 1])
    assert len(np.unique(steps[:, 0])) == 3


@pytest.mark.filterwarnings("ignore::credo.CredoWarning")
def test_warnings_say_how_many_members_have_them():
    chains = credo.HMC(num_samples=4, num_warmup=0, num_chains=2, num_leapfrog=3, step_size=50.0)
    with pytest.warns(credo.CredoWarning, match="one of 2 members"):
        credo.fit(MODEL, (X, Y), credo.Ensemble(chains, 2))


@pytest.mark.parametrize(
    ("member", "options", "message"),
    [
        ("bayes-by-backprop", {"anchored": True}, "one network"),
        ("bayes-by-backprop", {"adversarial": 0.1}, "one network"),
        ("hmc", {"adversarial": 0.1}, "no density"),
        ("bayes-by-backprop", {"prior_function": 1.0}, "networks or chains"),
        ("laplace", {"prior_function": 1.0}, "networks or chains"),
    ],
)
def test_what_members_cannot_do_is_refused_before_the_run(member, options, message, monkeypatch):
    monkeypatch.setattr(loop, "_advance", None)
    with pytest.raises(credo.CredoError, match=message):
        credo.fit(CLASSES, (X, LABELS), credo.Ensemble(member, 2, **options))


def test_members_that_would_all_start_alike_are_refused():
    module = eqx.nn.MLP(2, 3, 4, 1, key=jax.random.key(0))
    with pytest.raises(credo.CredoError, match="same weights"):
        credo.fit(
            credo.Model(module, credo.likelihoods.Categorical(3)),
            (X, LABELS),
            credo.Ensemble(SHORT, 2),
        )
    factory = credo.networks.Equinox(lambda key: eqx.nn.MLP(2, 3, 4, 1, key=key))
    model = credo.Model(factory, credo.likelihoods.Categorical(3))
    posterior = credo.fit(model, (X, LABELS), credo.Ensemble(SHORT, 2))
    assert credo.predict(posterior, X).mutual_information.max() > 1e-4


def test_an_ensemble_of_ensembles_of_mixtures():
    inner = credo.Ensemble(credo.SWAG(num_steps=20, collect_from=0.5, collect_every=3, rank=2), 2)
    posterior = credo.fit(CLASSES, (X, LABELS), credo.Ensemble(inner, 3))
    assert posterior.num_members == 6
    assert np.isfinite(credo.predict(posterior, X).probs).all()


def test_every_member_of_laplace_has_its_evidence():
    posterior = credo.fit(CLASSES, (X, LABELS), credo.Ensemble(credo.Laplace(num_steps=30), 3))
    evidence = posterior.record.history["log_evidence"]
    assert evidence.shape == (3, 1) and len(np.unique(evidence)) == 3


def test_an_ensemble_is_extended_at_its_own_temperature():
    method = credo.Ensemble(EXACT, SIZE - 3, anchored=True)
    cold = credo.fit(MODEL, (X, Y), method, temperature=0.01)
    more = credo.extend(cold, (X, Y), SIZE - 1)
    spread = weights(more).std(axis=0)
    assert np.all(np.abs(weights(more)[-2:] - MEAN) < 6 * spread)
    assert more.record.temperature == 0.01


def test_an_unknown_member_is_refused_at_once():
    with pytest.raises(
        credo.CredoError, match=r"'dropuot' is not a method.*did you mean 'dropout'"
    ):
        credo.Ensemble("dropuot")


def test_anchored_members_have_no_posterior_of_their_own():
    method = credo.Ensemble(credo.Laplace("full", "all", num_steps=5), 2, anchored=True)
    with pytest.raises(credo.CredoError, match="count the uncertainty twice"):
        credo.fit(MODEL, (X, Y), method)


def test_data_must_be_a_pair():
    for wrong in (None, X, (X, Y, Y)):
        with pytest.raises(credo.CredoError, match=r"data must be a pair \(x, y\)"):
            credo.fit(MODEL, wrong, "map")
    ensemble = credo.fit(MODEL, (X, Y), credo.Ensemble(credo.MAP(num_steps=5), 2))
    with pytest.raises(credo.CredoError, match="pair"):
        credo.extend(ensemble, None, 3)
