"""Every exact sampler on targets whose moments are known: normal, 2-d logistic, ring."""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import credo
from credo.evaluation.diagnostics import mcse_mean
from credo.inference.sampling import hmc, mala, metropolis

pytestmark = [
    pytest.mark.usefixtures("float64"),
    pytest.mark.filterwarnings("ignore::credo.CredoWarning"),  # broken samplers complain
]

RNG = np.random.default_rng(3)
INPUTS = RNG.normal(size=(30, 2))
SIGNS = np.where(INPUTS @ [1.5, -1.0] + RNG.logistic(size=30) > 0, 1.0, -1.0)
PRECISION = np.array([[2.0, -0.8], [-0.8, 1.0]])


def normal(w):
    return -0.5 * (w - 1) @ PRECISION @ (w - 1)


def logistic(w):
    """Bayesian logistic regression with prior N(0, 2²)."""
    return jnp.sum(jax.nn.log_sigmoid(SIGNS * (INPUTS @ w))) - jnp.sum(w**2) / 8


def ring(w):
    """A ridge of radius 2 whose two axes are uncorrelated but far from independent."""
    return -((jnp.linalg.norm(w) - 2) ** 2) / (2 * 0.3**2)


TARGETS = {"normal": normal, "logistic": logistic, "ring": ring}


def quantities(w):
    """First and second moments, and the width of the ring: what is compared."""
    x, y = w[..., 0], w[..., 1]
    return np.stack([x, y, x**2, y**2, x * y, (np.hypot(x, y) - 2) ** 2], -1)


def by_quadrature(log_density):
    """Expected quantities from a grid of 400 × 400 points."""
    axis = np.linspace(-6, 8, 400)
    points = np.stack(np.meshgrid(axis, axis), -1).reshape(-1, 2)
    logs = np.asarray(jax.vmap(log_density)(jnp.asarray(points)))
    weights = np.exp(logs - logs.max())
    return weights @ quantities(points) / weights.sum()


SETTLED = {"num_chains": 4, "num_samples": 1200}
SAMPLERS = {
    "metropolis": credo.Metropolis(num_warmup=1000, thin=25, step_size=0.5, **SETTLED),
    "mala": credo.MALA(num_warmup=1000, thin=15, step_size=0.1, **SETTLED),
    "hmc": credo.HMC(num_warmup=300, num_leapfrog=8, step_size=0.1, **SETTLED),
    "hmc, diagonal": credo.HMC(num_warmup=400, trajectory=1.6, mass="diagonal", **SETTLED),
    "hmc, dense": credo.HMC(num_warmup=400, trajectory=1.6, mass="dense", **SETTLED),
    "nuts": credo.NUTS(num_warmup=400, **SETTLED),
}


def dispersed(key):
    """Where a chain starts."""
    return 2 * jax.random.normal(key, (2,)) + 0.5


def draws(method, target, key=0):
    return np.asarray(credo.sample(TARGETS[target], dispersed, method, key).draws)


def agree(sampled, expected):
    values = quantities(sampled)
    error = mcse_mean(values)  # a walk that goes nowhere has errors too large to say anything
    return bool(np.all((np.abs(values.mean(axis=(0, 1)) - expected) < 4 * error) & (error < 0.3)))


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("sampler", SAMPLERS)
def test_moments(sampler, target):
    assert agree(draws(SAMPLERS[sampler], target), by_quadrature(TARGETS[target]))


def test_grid_of_the_normal():
    covariance = np.linalg.inv(PRECISION)
    expected = [1, 1, *(1 + np.diag(covariance)), 1 + covariance[0, 1]]
    np.testing.assert_allclose(by_quadrature(normal)[:5], expected, rtol=1e-6)


def planted(monkeypatch, module, name, replacement, method):
    """The method with a broken part, as a class of its own: nothing compiled is reused."""
    broken = dataclasses.dataclass(frozen=True)(type("Broken", (type(method),), {}))
    monkeypatch.setattr(module, name, replacement)
    return broken(**dataclasses.asdict(method))


def test_a_maximum_for_a_minimum_is_caught(monkeypatch):
    """Erratum of the source: a = max(ratio, 1) accepts everything."""
    fixed = dataclasses.replace(SAMPLERS["metropolis"], num_warmup=0)
    wrong = planted(monkeypatch, metropolis, "acceptance_probability", jnp.ones_like, fixed)
    assert not agree(draws(wrong, "normal"), by_quadrature(normal))


def without_reverse_density(old, new, size):
    """Planted: the ratio of a proposal that is as likely there as back."""
    return new.log_joint - old.log_joint


def test_a_forgotten_reverse_density_is_caught(monkeypatch):
    fixed = dataclasses.replace(SAMPLERS["mala"], num_warmup=0, step_size=0.4)
    assert agree(draws(fixed, "normal")[:, 50:], by_quadrature(normal))
    wrong = planted(monkeypatch, mala, "log_acceptance", without_reverse_density, fixed)
    assert not agree(draws(wrong, "normal")[:, 50:], by_quadrature(normal))


def test_a_stale_gradient_is_caught(monkeypatch):
    exact = mala.log_acceptance

    def stale(old, new, size):
        return exact(old, new._replace(gradient=old.gradient), size)

    fixed = dataclasses.replace(SAMPLERS["mala"], num_warmup=0, step_size=0.4)
    wrong = planted(monkeypatch, mala, "log_acceptance", stale, fixed)
    assert not agree(draws(wrong, "normal")[:, 50:], by_quadrature(normal))


def test_mala_accepts_everything_as_its_step_vanishes():
    """1 − a = O(η^{3/2}): slope 3/2 in log η."""
    sizes = np.array([0.04, 0.01])
    rejected = []
    for size in sizes:
        method = credo.MALA(num_warmup=0, num_samples=8000, thin=1, step_size=size)
        drawn = credo.sample(logistic, jnp.array([1.0, -0.5]), method)
        rejected.append(1 - drawn.record.history["acceptance"][:, 200:].mean())
    slope = np.diff(np.log(rejected)) / np.diff(np.log(sizes))
    assert 1.2 < slope < 1.8


STEPS = {"num_chains": 4, "num_samples": 1200, "num_warmup": 1000}
LANGEVIN = credo.SGLD(learning_rate=0.02, thin=75, **STEPS)
FRICTION = credo.SGHMC(learning_rate=0.01, momentum=0.9, thin=30, **STEPS)


def nearly_agree(method, target):
    """To 4 errors and the bias of a step, which for a normal adds η/2 to each variance."""
    values = quantities(draws(method, target))
    away = np.abs(values.mean(axis=(0, 1)) - by_quadrature(TARGETS[target]))
    return bool(np.all(away < 4 * mcse_mean(values) + method.learning_rate))


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("method", [LANGEVIN, FRICTION], ids=["sgld", "sghmc"])
def test_moments_at_small_steps(method, target):
    assert nearly_agree(method, target)


@pytest.mark.parametrize(
    ("method", "target"),
    [(LANGEVIN, "ring"), (FRICTION, "logistic"), (FRICTION, "ring")],
    ids=["sgld-ring", "sghmc-logistic", "sghmc-ring"],
)
def test_half_the_noise_is_caught(method, target):
    """Erratum of the source: √η for √2η."""
    assert not nearly_agree(dataclasses.replace(method, noise=0.5**0.5), target)


@pytest.mark.parametrize(("target", "size"), [("logistic", 0.3), ("ring", 0.1)])
def test_a_forgotten_reverse_density_is_caught_off_the_normal(monkeypatch, target, size):
    fixed = dataclasses.replace(SAMPLERS["mala"], num_warmup=0, step_size=size, thin=8)
    assert agree(draws(fixed, target)[:, 50:], by_quadrature(TARGETS[target]))
    wrong = planted(monkeypatch, mala, "log_acceptance", without_reverse_density, fixed)
    assert not agree(draws(wrong, target)[:, 50:], by_quadrature(TARGETS[target]))


def test_scales_that_go_on_adapting_are_caught():
    """Planted: a mass that depends on where the chain of NUTS is."""

    class Restless(credo.NUTS):
        def _variances(self, state):
            return 1 / (1 + state.params["position"] ** 2)

    Restless = dataclasses.dataclass(frozen=True)(Restless)
    wrong = Restless(**dataclasses.asdict(SAMPLERS["nuts"]))
    assert not agree(draws(wrong, "normal"), by_quadrature(normal))


def half_normal(x):
    """N(0, 1) above 0; its density and gradient are NaN below."""
    return -0.5 * x**2 + 0 * jnp.sqrt(x)


INSIDE = {"num_chains": 4, "num_samples": 1000, "num_warmup": 300}
EDGE = {
    "metropolis": credo.Metropolis(thin=5, step_size=0.5, **INSIDE),
    "mala": credo.MALA(thin=5, step_size=0.1, **INSIDE),
    "hmc": credo.HMC(num_leapfrog=4, step_size=0.1, thin=2, **INSIDE),
    "nuts": credo.NUTS(thin=2, **INSIDE),
}


def samples_half_normal(method):
    x = np.asarray(credo.sample(half_normal, 1.0, method).draws)
    assert x.min() > 0
    values = np.stack([x, x**2, x**3], axis=-1)
    error, mean = mcse_mean(values), (2 / np.pi) ** 0.5
    expected = np.array([mean, 1.0, 2 * mean])
    away = np.abs(values.mean(axis=(0, 1)) - expected)
    return bool(np.all((away < 4 * error) & (error < 0.2)))


@pytest.mark.parametrize("name", EDGE)
def test_where_the_density_is_nan_nothing_is_accepted(name):
    assert samples_half_normal(EDGE[name])


def test_accepting_nan_is_caught(monkeypatch):
    exact = metropolis.acceptance_probability

    def careless(ratio):
        return jnp.where(jnp.isnan(ratio), 1.0, exact(ratio))

    wrong = planted(monkeypatch, metropolis, "acceptance_probability", careless, EDGE["metropolis"])
    with pytest.raises(credo.DivergedError, match="log joint became nan"):
        samples_half_normal(wrong)


def test_scales_are_shared_and_fit_the_target():
    """Dense scales are the Cholesky factor of the covariance: L Lᵀ ≈ Λ⁻¹."""
    method = credo.HMC(num_warmup=1500, num_samples=4, trajectory=1.6, mass="dense")
    seen = []

    class Seeing(credo.HMC):
        def synchronize(self, states):
            shared = super().synchronize(states)
            seen.append(np.asarray(shared.warmup.scales))
            return shared

    Seeing = dataclasses.dataclass(frozen=True)(Seeing)
    credo.sample(normal, jnp.zeros(2), Seeing(**dataclasses.asdict(method)))
    assert len(seen) == 4  # three updates, and the step size at the end
    for scales in seen[-1]:
        np.testing.assert_array_equal(scales, seen[-1][0])
        np.testing.assert_allclose(scales @ scales.T, np.linalg.inv(PRECISION), atol=0.3)


@pytest.mark.parametrize("mass", ["diagonal", "dense"])
@pytest.mark.parametrize("num_warmup", [10, 25])
def test_a_warm_up_too_short_to_learn_scales_keeps_them(mass, num_warmup):
    """One draw has no variance: scales of zero would stop the chain for ever."""
    method = credo.HMC(num_warmup=num_warmup, num_samples=20, num_leapfrog=4, mass=mass)
    moved = np.asarray(credo.sample(normal, jnp.zeros(2), method).draws).std(axis=1)
    assert np.isfinite(moved).all() and moved.min() > 0


def test_a_chain_that_never_moves_keeps_its_scales():
    stuck = credo.HMC(num_warmup=60, num_samples=20, num_leapfrog=4, mass="dense", step_size=1e3)
    drawn = credo.sample(ring, jnp.array([2.0, 0.0]), stuck)
    after = np.asarray(drawn.draws)[:, 5:].std(axis=1)
    assert np.isfinite(after).all() and after.min() > 0  # the step size came down, and it moved


def test_a_wrong_transpose_of_the_scales_is_caught(monkeypatch):
    """Planted: gradients are pulled back with L instead of Lᵀ.

    Such steps are still reversible shears, so the law is right and moments do not tell; but no step
    is small enough to keep the energy.
    """
    density, at = jax.value_and_grad(normal), jnp.array([0.3, -0.8])
    start = hmc.Phase(at, jnp.array([1.0, -0.5]), *density(at))
    scales = jnp.linalg.cholesky(jnp.linalg.inv(PRECISION))

    def energy_lost():
        end = hmc.leapfrog(density, start, jnp.array(0.01), 100, scales)
        return abs(hmc.hamiltonian(end) - hmc.hamiltonian(start))

    assert energy_lost() < 1e-4
    monkeypatch.setattr(hmc.adaptation, "pull", hmc.adaptation.push)
    assert energy_lost() > 1e-2


def test_chains_leave_the_warm_up_with_one_step_size():
    history = credo.sample(normal, jnp.zeros(2), SAMPLERS["nuts"]).record.history
    after = history["step_size"][:, 400:]
    np.testing.assert_array_equal(after, np.broadcast_to(after[0, 0], after.shape))


def test_what_sample_refuses():
    with pytest.raises(credo.CredoError, match="no sampler of log densities"):
        credo.sample(normal, jnp.zeros(2), credo.MAP())
    with pytest.raises(credo.CredoError, match="one number"):
        credo.sample(lambda w: w, jnp.zeros(2), credo.HMC())
    with pytest.raises(credo.CredoError, match="where chain 0 starts"):
        credo.sample(jnp.log, 0.0, credo.HMC())
    starts = iter([1.0, 1.0, 1.0, -1.0])
    with pytest.raises(credo.CredoError, match="is nan where chain 3 starts"):
        credo.sample(jnp.log, lambda key: next(starts), credo.HMC())
    with pytest.raises(credo.CredoError, match="did you mean 'hmc'"):
        credo.sample(normal, jnp.zeros(2), "hcm")
    with pytest.raises(credo.CredoError, match="rows"):
        credo.sample(normal, 0.0, credo.SGLD(), data=(np.zeros(3), np.zeros(4)))


def test_a_sampler_by_its_name_or_class():
    expected = credo.sample(normal, jnp.zeros(2), credo.HMC()).draws
    for method in ("hmc", credo.HMC):
        np.testing.assert_array_equal(credo.sample(normal, jnp.zeros(2), method).draws, expected)


def test_a_diagnosis_and_arviz_agree():
    arviz = pytest.importorskip("arviz")
    drawn = credo.sample(lambda p: normal(p["w"]), {"w": np.zeros(2)}, SAMPLERS["nuts"])
    diagnosis = credo.diagnose(drawn)
    data = drawn.to_arviz()
    for ours, theirs in (
        (diagnosis.rhat, arviz.rhat(data)),
        (diagnosis.ess_bulk, arviz.ess(data)),
        (diagnosis.ess_tail, arviz.ess(data, method="tail")),
        (diagnosis.mcse, arviz.mcse(data)),
    ):
        np.testing.assert_allclose(ours, theirs["w"].values, rtol=1e-6)
    np.testing.assert_allclose(diagnosis.ebfmi, arviz.bfmi(data), rtol=1e-6)
    assert diagnosis.divergences == 0 and "R̂" in str(diagnosis)
