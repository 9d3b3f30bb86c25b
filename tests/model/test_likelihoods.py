"""Known answers of every likelihood: SciPy's laws, mixtures over draws, targets that do not fit."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import special, stats

import credo
from credo.likelihoods import (
    Bernoulli,
    BernoulliArray,
    Categorical,
    MultivariateNormal,
    NegativeBinomial,
    Normal,
    Ordinal,
    Poisson,
    StudentT,
)

pytestmark = pytest.mark.usefixtures("float64", "quick_compilation")

RNG = np.random.default_rng(0)
ROWS, DRAWS = 6, 5
OUTPUTS = RNG.normal(size=(DRAWS, ROWS, 2))
WIDE = RNG.normal(size=(DRAWS, ROWS, 4))  # locations, then raw scales
VALUES = RNG.normal(size=(ROWS, 2))
COUNTS = RNG.poisson(2.0, size=(ROWS, 2))
LABELS = np.array([0, 3, 1, 2, 2, 0])
OWN = RNG.normal(size=(DRAWS, 2))  # a parameter of each likelihood for each target
FACTORS = np.tril(0.5 * RNG.normal(size=(DRAWS, 2, 2)), -1) + [np.diag(np.exp(d)) for d in OWN]
SOFT = np.logaddexp(0, WIDE[..., 2:]) + 1e-3


class Joint:
    """Two targets with a full covariance, as `scipy.stats` has them one by one."""

    def __init__(self, means, factors):
        self.means, self.covariances = means, factors @ np.swapaxes(factors, -1, -2)
        self.marginal = stats.norm(
            means, np.sqrt(np.diagonal(self.covariances, axis1=1, axis2=2))[:, None]
        )
        self.mean, self.var = self.marginal.mean, self.marginal.var
        self.cdf = self.marginal.cdf

    def each(self, function):
        return np.array([function(s) for s in range(len(self.means))])

    def logpdf(self, y):
        def of_draw(s):
            return stats.multivariate_normal.logpdf(y - self.means[s], cov=self.covariances[s])

        return self.each(of_draw)[..., None]

    def entropy(self):
        entropies = np.array([stats.multivariate_normal(cov=c).entropy() for c in self.covariances])
        return np.broadcast_to(entropies[:, None, None], (*self.means.shape[:2], 1))


def negative_binomial(means, r):
    return stats.nbinom(r, r / (r + means))


R = np.exp(OWN)[:, None]
NU = 2 + R
# likelihood, own parameters of every draw, outputs, SciPy's law of every draw, targets
QUANTITIES = {
    "known": (Normal(0.7, 2), {}, OUTPUTS, stats.norm(OUTPUTS, 0.7), VALUES),
    "learned": (Normal("learned", 2), {"log_scale": OWN}, OUTPUTS, stats.norm(OUTPUTS, R), VALUES),
    "by_input": (Normal("by_input", 2), {}, WIDE, stats.norm(WIDE[..., :2], SOFT), VALUES),
    "student": (
        StudentT("learned", "learned", 2), {"log_scale": OWN, "log_excess_degrees": OWN},
        OUTPUTS, stats.t(NU, OUTPUTS, R), VALUES,
    ),
    "student_by_input": (
        StudentT("by_input", 5.0, 2), {}, WIDE, stats.t(5.0, WIDE[..., :2], SOFT), VALUES,
    ),
    "poisson": (Poisson(2), {}, OUTPUTS, stats.poisson(np.exp(OUTPUTS)), COUNTS),
    "negative_binomial": (
        NegativeBinomial("learned", 2), {"log_dispersion": OWN}, OUTPUTS,
        negative_binomial(np.exp(OUTPUTS), R), COUNTS,
    ),
    "negative_binomial_known": (
        NegativeBinomial(1.5, 2), {}, OUTPUTS, negative_binomial(np.exp(OUTPUTS), 1.5), COUNTS,
    ),
    "zeros_and_ones": (
        BernoulliArray(2), {}, OUTPUTS, stats.bernoulli(special.expit(OUTPUTS)), COUNTS > 1,
    ),
    "multivariate": (
        MultivariateNormal(2), {"log_diagonal": OWN, "below": FACTORS[:, 1, :1]}, OUTPUTS,
        Joint(OUTPUTS, FACTORS), VALUES,
    ),
}  # fmt: skip
DISCRETE = ("poisson", "negative_binomial", "negative_binomial_known", "zeros_and_ones")


def log_density(law, y):
    """Of every draw, row and target (or one axis for all targets), by SciPy."""
    by_mass = hasattr(law, "logpmf") and not isinstance(law, Joint) and hasattr(law.dist, "pmf")
    return law.logpmf(y) if by_mass else law.logpdf(y)


def predictive(likelihood, own, outputs):
    """The prediction of draws with these outputs, without a network."""
    parts = []
    for s in range(len(outputs)):
        params = {name: jnp.asarray(values[s]) for name, values in own.items()}
        parts.append(likelihood.summarize(params, jnp.asarray(outputs[s])))
    drawn, kept = jax.tree.map(lambda *leaves: jnp.stack(leaves), *parts)
    averaged = jax.tree.map(np.asarray, likelihood.average(drawn))
    return likelihood.predictive(averaged, jax.tree.map(np.asarray, kept | drawn))


@pytest.fixture(params=QUANTITIES)
def quantity(request):
    likelihood, own, outputs, law, y = QUANTITIES[request.param]
    return request.param, likelihood, own, outputs, law, np.asarray(y, float)


def test_log_density_of_each_draw(quantity):
    _, likelihood, own, outputs, law, y = quantity
    expected = log_density(law, y).sum(axis=-1)
    for s in range(DRAWS):
        params = {name: values[s] for name, values in own.items()}
        found = likelihood.log_prob(params, jnp.asarray(outputs[s]), jnp.asarray(y))
        np.testing.assert_allclose(found, expected[s], rtol=1e-10)


def test_own_parameters_are_those_of_init(quantity):
    _, likelihood, own, outputs, _, _ = quantity
    shapes = {name: values.shape for name, values in likelihood.init().items()}
    assert shapes == {name: values.shape[1:] for name, values in own.items()}
    assert likelihood.output_shape == outputs.shape[2:]


def test_the_mixture_over_draws(quantity):
    """Density: the mean of densities. Variance: the mean of variances + the variance of means."""
    _, likelihood, own, outputs, law, y = quantity
    found = predictive(likelihood, own, outputs)
    by_draw = log_density(law, y).sum(axis=-1)
    expected = special.logsumexp(by_draw, axis=0) - np.log(DRAWS)
    np.testing.assert_allclose(found.log_prob(y), expected, rtol=1e-9)
    assert not np.allclose(by_draw.mean(axis=0), expected)  # planted: the mean of logs
    shape = (DRAWS, ROWS, 2)
    means, variances = (np.broadcast_to(part, shape) for part in (law.mean(), law.var()))
    np.testing.assert_allclose(found.mean, means.mean(axis=0), rtol=1e-10)
    np.testing.assert_allclose(found.aleatoric_variance, variances.mean(axis=0), rtol=1e-9)
    np.testing.assert_allclose(found.epistemic_variance, means.var(axis=0), rtol=1e-8, atol=1e-12)
    np.testing.assert_allclose(found.variance, variances.mean(axis=0) + means.var(axis=0))
    np.testing.assert_allclose(found.cdf(y), law.cdf(y).mean(axis=0), rtol=1e-9)


@pytest.mark.parametrize("q", [0.02, 0.5, 0.9])
def test_quantiles_invert_the_distribution_of_the_mixture(quantity, q):
    name, likelihood, own, outputs, law, _ = quantity
    found = predictive(likelihood, own, outputs).quantile(q)
    reached = law.cdf(found).mean(axis=0)
    if name in DISCRETE:
        np.testing.assert_array_equal(found, np.floor(found))
        assert (reached >= q).all()
        assert (np.where(found > 0, law.cdf(found - 1).mean(axis=0), 0) < q).all()
    else:
        np.testing.assert_allclose(reached, q, atol=1e-9)


def test_entropies_and_information(quantity):
    name, likelihood, own, outputs, law, _ = quantity
    found = predictive(likelihood, own, outputs)
    entropies = np.broadcast_to(law.entropy(), (*outputs.shape[:2], np.shape(law.entropy())[-1]))
    expected = entropies.mean(axis=0).sum(axis=-1)
    np.testing.assert_allclose(found.expected_entropy, expected, rtol=1e-6)
    np.testing.assert_allclose(found.entropy, found.expected_entropy + found.mutual_information)
    if name in DISCRETE:
        grid = np.arange(400.0)[:, None, None, None]
        probs = np.exp(log_density(law, grid))
        mixed = probs.mean(axis=1)
        whole = special.entr(mixed).sum(axis=0).sum(axis=-1)
        np.testing.assert_allclose(found.mutual_information, whole - expected, atol=1e-6)
    assert (found.mutual_information > 0).all()
    alike = predictive(likelihood, {n: v[[0, 0]] for n, v in own.items()}, outputs[[0, 0]])
    np.testing.assert_array_equal(alike.mutual_information, 0.0)


def agrees(draws, mean, variance):
    """Mean and variance of draws (sample, …) within 4 standard errors."""
    count = len(draws)
    errors = draws.std(axis=0) / np.sqrt(count)
    centered = (draws - mean) ** 2
    spread = centered.std(axis=0) / np.sqrt(count)
    return bool(
        np.all(np.abs(draws.mean(axis=0) - mean) < 4 * errors)
        and np.all(np.abs(centered.mean(axis=0) - variance) < 4 * spread)
    )


def test_samples_have_the_moments_of_the_mixture(quantity):
    name, likelihood, own, outputs, _, _ = quantity
    if name == "student":  # ν down to 2.1 has no fourth moment for an error of the variance
        likelihood, own = StudentT("learned", 8.0, 2), {"log_scale": OWN}
    found = predictive(likelihood, own, outputs)
    drawn = found.sample(seed=1, num_samples=4000)
    assert drawn.shape == (4000, ROWS, 2)
    assert agrees(drawn, found.mean, found.variance)
    assert not agrees(drawn, found.mean, found.aleatoric_variance)  # planted: one draw of weights
    assert not agrees(drawn, found.mean + 0.3 * found.std, found.variance)  # planted: a shift
    np.testing.assert_array_equal(drawn, found.sample(seed=1, num_samples=4000))


def test_the_information_of_normals_bounds_that_of_the_mixture():
    """I = H[mixture] − E H: the entropy of the mixture by Monte Carlo is no larger than ours."""
    likelihood, own, outputs, _, _ = QUANTITIES["learned"]
    found = predictive(likelihood, own, outputs)
    drawn = found.sample(seed=2, num_samples=4000)
    surprise = -np.stack([found.log_prob(y) for y in drawn])
    error = surprise.std(axis=0) / np.sqrt(len(drawn))
    assert (surprise.mean(axis=0) < found.entropy + 4 * error).all()
    assert not (surprise.mean(axis=0) < found.expected_entropy + 4 * error).all()  # planted


def test_draws_of_several_targets_go_together():
    likelihood, own, outputs, law, _ = QUANTITIES["multivariate"]
    found = predictive(likelihood, own, outputs)
    means = outputs - outputs.mean(axis=0)
    expected = law.covariances.mean(axis=0) + np.einsum("sni,snj->nij", means, means) / DRAWS
    np.testing.assert_allclose(found.covariance, expected, rtol=1e-10)
    drawn = found.sample(seed=3, num_samples=20_000) - found.mean
    product = drawn[..., 0] * drawn[..., 1]
    error = 4 * product.std(axis=0) / np.sqrt(len(product))
    assert (np.abs(product.mean(axis=0) - expected[:, 0, 1]) < error).all()
    broken = drawn[..., 0] * np.roll(drawn[..., 1], 1, axis=0)  # planted: one by one
    assert not (np.abs(broken.mean(axis=0) - expected[:, 0, 1]) < error).all()


CLASSIFIERS = {
    "categorical": (Categorical(4), {}, WIDE),
    "bernoulli": (Bernoulli(), {}, OUTPUTS[..., :1]),
    "ordinal": (Ordinal(4), {"log_gaps": OWN}, OUTPUTS[..., :1]),
}


def class_probs(name, own, outputs):
    """(draw, row, class) in NumPy."""
    if name == "categorical":
        return special.softmax(outputs, axis=-1)
    if name == "bernoulli":
        return np.concatenate([special.expit(-outputs), special.expit(outputs)], axis=-1)
    gaps = np.cumsum(np.exp(own["log_gaps"]), axis=1)
    cuts = np.concatenate([np.zeros((DRAWS, 1)), gaps], axis=1)
    cuts -= cuts.mean(axis=1, keepdims=True)
    below = special.expit(cuts[:, None] - outputs)
    edges = [np.zeros((DRAWS, ROWS, 1)), below, np.ones((DRAWS, ROWS, 1))]
    return np.diff(np.concatenate(edges, axis=-1), axis=-1)


@pytest.mark.parametrize("name", CLASSIFIERS)
def test_classifiers(name):
    likelihood, own, outputs = CLASSIFIERS[name]
    probs = class_probs(name, own, outputs)
    y = LABELS % likelihood.num_classes
    for s in range(DRAWS):
        params = {key: values[s] for key, values in own.items()}
        found = likelihood.log_prob(params, jnp.asarray(outputs[s]), jnp.asarray(y))
        np.testing.assert_allclose(found, np.log(probs[s][np.arange(ROWS), y]), rtol=1e-9)
    predicted = predictive(likelihood, own, outputs)
    mixed = probs.mean(axis=0)
    np.testing.assert_allclose(predicted.probs, mixed, rtol=1e-10)
    np.testing.assert_allclose(predicted.log_prob(y), np.log(mixed[np.arange(ROWS), y]), rtol=1e-9)
    entropy = stats.entropy(probs, axis=-1).mean(axis=0)
    np.testing.assert_allclose(predicted.expected_entropy, entropy, rtol=1e-8)
    whole = stats.entropy(mixed, axis=-1)
    np.testing.assert_allclose(predicted.mutual_information, whole - entropy, atol=1e-10)
    assert not np.allclose(whole, entropy, atol=1e-4)  # planted: draws that agree
    drawn = predicted.sample(seed=0, num_samples=4000)
    shares = (drawn[..., None] == np.arange(mixed.shape[1])).mean(axis=0)
    error = 4 * np.sqrt(mixed * (1 - mixed) / 4000)
    assert (np.abs(shares - mixed) < error).all()
    assert not (np.abs(shares - probs[0]) < error).all()  # planted: the first draw alone


def test_two_ordered_classes_are_bernoulli():
    y, outputs = jnp.asarray(LABELS % 2), jnp.asarray(OUTPUTS[0, :, :1])
    pair = (likelihood.log_prob({}, outputs, y) for likelihood in (Ordinal(2), Bernoulli()))
    np.testing.assert_allclose(*pair, rtol=1e-12)


ALL = {name: row[:3] + row[4:] for name, row in QUANTITIES.items()} | {
    name: (*row, LABELS % row[0].num_classes) for name, row in CLASSIFIERS.items()
}


@pytest.mark.parametrize("name", ALL)
def test_the_fisher_information_is_that_of_scores(name):
    """R Rᵀ = E ∇ log p ∇ log pᵀ, the mean over targets drawn from the law, in 4 standard errors."""
    likelihood, own, outputs, _ = ALL[name]
    params = {key: jnp.asarray(values[0]) for key, values in own.items()}
    one = predictive(likelihood, {k: v[:1] for k, v in own.items()}, outputs[:1])
    drawn = jnp.asarray(one.sample(seed=5, num_samples=3000))
    drawn = drawn if likelihood.num_classes else drawn.astype(float)

    def score(y):
        return jax.grad(lambda f: likelihood.log_prob(params, f, y).sum())(jnp.asarray(outputs[0]))

    scores = np.asarray(jax.vmap(score)(drawn))
    products = scores[..., :, None] * scores[..., None, :]
    root = np.asarray(likelihood.fisher_root(params, jnp.asarray(outputs[0])))
    expected = root @ np.swapaxes(root, -1, -2)
    error = 4.5 * products.std(axis=0) / np.sqrt(len(drawn)) + 1e-9  # 4.5: up to 96 at once

    def close(information):
        return bool(np.all(np.abs(products.mean(axis=0) - information) < error))

    assert close(expected)
    assert not close(1.3 * expected)  # planted


@pytest.mark.parametrize("name", ALL)
@pytest.mark.parametrize("precision", [np.float32, np.float64])
def test_gradients_are_finite_far_out(name, precision):
    likelihood, own, outputs, y = ALL[name]
    params = {key: jnp.asarray(values[0], precision) for key, values in own.items()}
    y = jnp.asarray(y) if likelihood.num_classes else jnp.asarray(y, precision)
    for size in (-1e3, -80.0, 80.0, 1e3):
        far = jnp.full(outputs.shape[1:], size, precision)
        value, slopes = jax.value_and_grad(
            lambda p, f: likelihood.log_prob(p, f, y).sum(), argnums=(0, 1)
        )(params, far)
        assert all(np.isfinite(leaf).all() for leaf in jax.tree.leaves((value, slopes)))
        assert np.isfinite(likelihood.fisher_root(params, far)).all()


def test_a_wrong_pixel_of_which_the_network_was_sure_is_finite():
    logits = np.full((1, 1, 1), 40.0, np.float32)
    found = predictive(BernoulliArray(1), {}, logits).log_prob(np.zeros(1))
    np.testing.assert_allclose(found, -40.0, rtol=1e-6)
    assert 1 - special.expit(logits) == 0  # planted: the log of this


@pytest.mark.parametrize("beta", [0.0, 0.5, 1.0])
def test_the_weight_of_a_noisy_row(beta):
    """∂/∂mean is ∝ σ^{2β} (y − mean)/σ², with weights of mean 1; β = 1 is the squared error."""
    outputs, y = jnp.array([[0.3, 1.2], [0.1, -2.0]]), jnp.array([[1.1], [0.4]])
    likelihood = Normal("by_input", beta=beta)

    def total(f):
        return likelihood.training_terms({}, f, y, None).sum()

    scale = likelihood.moments({}, outputs)[1][:, 0]
    weights = scale ** (2 * beta) / np.mean(scale ** (2 * beta))
    expected = weights * np.array([0.8, 0.3]) / scale**2
    np.testing.assert_allclose(jax.grad(total)(outputs)[:, 0], expected, rtol=1e-6)


def test_with_weights_the_density_stays_a_density():
    """Samplers, Laplace and evaluation see N(f₁, σ²), whatever β is."""
    densities = [
        Normal("by_input", 2, beta).log_prob({}, jnp.asarray(WIDE[0]), jnp.asarray(VALUES))
        for beta in (0.0, 0.5)
    ]
    np.testing.assert_array_equal(*densities)


def test_a_vector_and_a_column_of_targets_are_the_same():
    np.testing.assert_array_equal(Normal().check(VALUES[:, 0]), Normal().check(VALUES[:, :1]))


@pytest.mark.parametrize(
    ("likelihood", "y", "words"),
    [
        (Categorical(3), [0, 3], r"0 … 2, got 0 … 3"),
        (Categorical(3), [-1, 2], r"0 … 2, got -1 … 2"),
        (Ordinal(3), [0, 3], r"0 … 2, got 0 … 3"),
        (Categorical(3), [0.0, 1.0], "vector of integers"),
        (Categorical(3), [[0], [1]], "vector of integers"),
        (Categorical(3), ["a", "b"], "vector of integers"),
        (Bernoulli(), [0, 2], r"0 … 1, got 0 … 2"),
        (Normal(), [0.0, np.nan], "finite numbers"),
        (Normal(0.1), [0.0, np.inf], "finite numbers"),
        (StudentT(), ["a", "b"], "finite numbers"),
        (Normal(), [[0.0, 1.0]], r"1 target\(s\) a row, got 2"),
        (Normal("by_input", 2), [0.0, 1.0], r"2 target\(s\) a row, got 1"),
        (MultivariateNormal(3), [[0.0, 1.0]], r"3 target\(s\) a row, got 2"),
        (Poisson(), [1, -2], "whole numbers from 0, got -2"),
        (Poisson((2, 2)), np.ones((3, 3)), r"4 target\(s\) a row, got 3"),
        (NegativeBinomial(), [0.5, 1.0], "whole numbers from 0, got 0.5"),
        (BernoulliArray(2), [[0, 2]], "0 or 1, got 2"),
    ],
    ids=repr,
)
def test_unfit_targets_are_refused_in_one_line(likelihood, y, words):
    with pytest.raises(credo.CredoError, match=words) as caught:
        likelihood.check(np.array(y))
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: Normal(0.0), "positive"),
        (lambda: Normal(-1.0), "positive"),
        (lambda: Normal(np.nan), "positive"),
        (lambda: Normal("learnt"), "'learned' or 'by_input', got 'learnt'"),
        (lambda: Normal(num_targets=0), "num_targets"),
        (lambda: Normal(num_targets=(4, 0)), "num_targets"),
        (lambda: Normal("by_input", beta=2.0), "at least 0 and at most 1, got 2"),
        (lambda: StudentT(degrees=2.0), "greater than 2"),
        (lambda: NegativeBinomial(0.0), "positive"),
        (lambda: NegativeBinomial("by_input"), "'learned', got 'by_input'"),
        (lambda: Poisson(1.5), "num_targets"),
        (lambda: Categorical(1), "2 classes"),
        (lambda: Ordinal(1), "num_classes"),
        (lambda: MultivariateNormal(0), "num_targets"),
    ],
)
def test_fields_have_their_bounds(make, words):
    with pytest.raises(credo.CredoError, match=words):
        make()
