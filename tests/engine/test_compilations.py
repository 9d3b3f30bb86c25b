"""New numbers are no new programs: compilations are counted, by the compiler's own events."""

import contextlib
import dataclasses
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import credo
from credo.likelihoods import Categorical, Normal
from credo.networks import MLP

pytestmark = [
    pytest.mark.usefixtures("quick_compilation"),
    pytest.mark.filterwarnings("ignore::credo.CredoWarning"),  # runs far too short
]

RNG = np.random.default_rng(0)
X = RNG.normal(size=(1200, 3)).astype(np.float32)
Y = np.sin(X[:, 0]) + 0.1 * RNG.normal(size=1200).astype(np.float32)
MODEL = credo.Model(MLP(hidden=(4,)), Normal())
LOOP = ("_start", "_advance")  # the programs of a run


@contextlib.contextmanager
def counted():
    """The names of all functions, the user's too, that JAX compiles in the meantime."""
    names = []

    def listen(event, seconds, **facts):
        if event.endswith("backend_compile_duration"):
            names.append(facts["fun_name"].removeprefix("jit(").removesuffix(")"))

    jax.monitoring.register_event_duration_secs_listener(listen)
    try:
        yield names
    finally:
        jax.monitoring.unregister_event_duration_listener(listen)


def fit(rows=40, method=None, model=MODEL, **options):
    method = method or credo.MAP(num_steps=3, batch_size=16)
    return credo.fit(model, (X[:rows], Y[:rows]), method, **options)


def test_the_counter_counts():
    """The control of all tests below: an equal function compiled anew is seen, the same is not."""
    with counted() as names:
        for _ in range(3):
            jax.jit(lambda x: x + jnp.ones((7, 3)))(jnp.zeros((7, 3)))  # each is a function anew
        again = jax.jit(lambda x: x * jnp.ones((7, 3)))
        before = len(names)
        for number in range(3):
            again(number * np.ones((7, 3)))
    assert names.count("<lambda>") == 4 and len(names) - before <= 2


def programs(names):
    return {name: names.count(name) for name in LOOP}


def test_twenty_learning_rates_compile_the_step_once():
    with counted() as names:
        for rate in np.geomspace(1e-4, 1e-1, 20):
            fit(method=credo.MAP(learning_rate=rate, num_steps=3, batch_size=16))
    assert programs(names) == {"_start": 1, "_advance": 1}
    with counted() as names:
        fit(method=credo.MAP(learning_rate=0.3, num_steps=3, batch_size=16))
    assert names == []  # nor anything else


def test_a_field_that_is_part_of_the_program_compiles():
    """The control: a choice that changes what is computed is seen by the counter."""
    with counted() as names:
        for batch_size in (4, 5, 6):
            fit(method=credo.MAP(num_steps=3, batch_size=batch_size))
    assert programs(names) == {"_start": 3, "_advance": 3}


GRIDS = {
    "prior": lambda v: {"model": dataclasses.replace(MODEL, prior=credo.priors.NormalPrior(v))},
    "noise": lambda v: {"model": dataclasses.replace(MODEL, likelihood=Normal(v))},
    "temperature": lambda v: {"temperature": v},
    "clip": lambda v: {"method": credo.MAP(clip=v, num_steps=3, batch_size=16)},
    "decay": lambda v: {"method": credo.MAP(decay=v, num_steps=3, batch_size=16)},
    "warm-up": lambda v: {"method": credo.MAP(warmup=v / 2, num_steps=3, batch_size=16)},
    "epochs": lambda v: {"method": credo.MAP(num_epochs=1.5 + v / 2, batch_size=16)},
    "rate": lambda v: {"method": credo.Dropout(rate=v / 2, num_steps=3, batch_size=16)},
    "adversarial": lambda v: {
        "method": credo.Ensemble(
            credo.MAP(num_steps=3, batch_size=16, learning_rate=v), 2, adversarial=v
        )
    },
    "inflation": lambda v: {
        "method": credo.DEnFi(size=2, learning_rate=v, inflation=v, num_steps=3, batch_size=16)
    },
    "sgld": lambda v: {
        "method": credo.SGLD(learning_rate=v, num_samples=2, num_warmup=2, num_chains=1)
    },
}


@pytest.mark.parametrize("name", GRIDS)
def test_numbers_of_every_kind_compile_once(name):
    """Those of priors, likelihoods, targets, samplers and wrappers, and how long a run is."""
    fit(**GRIDS[name](0.5))
    with counted() as names:
        for value in (0.3, 0.7, 0.9):
            fit(**GRIDS[name](value))
    assert programs(names) == {"_start": 0, "_advance": 0}


def test_twenty_sizes_between_300_and_500_rows_compile_at_most_twice():
    sizes = np.linspace(300, 500, 20).astype(int)
    for method in (None, credo.HMC(num_samples=2, num_warmup=2, num_chains=1, num_leapfrog=2)):
        with counted() as names:
            for rows in sizes:
                fit(rows, method, padded=True)
        assert max(programs(names).values()) <= 2, programs(names)


def test_without_padding_every_size_compiles():
    """The control, and the default of methods that see all rows at every step."""
    method = credo.HMC(num_samples=2, num_warmup=2, num_chains=1, num_leapfrog=2)
    with counted() as names:
        for rows in (301, 302, 303):
            fit(rows, method)
    assert programs(names) == {"_start": 3, "_advance": 3}


def draws(posterior):
    return np.concatenate([np.ravel(leaf) for leaf in jax.tree.leaves(posterior)])


@pytest.mark.parametrize(
    "method",
    [
        credo.MAP(num_steps=20, batch_size=400),
        credo.HMC(num_samples=3, num_warmup=3, num_chains=1, num_leapfrog=3),
        credo.Laplace("full", layers="all", num_steps=20, batch_size=400),
        credo.Ensemble(credo.MAP(num_steps=20, batch_size=400), 2, anchored=True),
    ],
    ids=lambda method: type(method).__name__,
)
def test_results_do_not_depend_on_the_padding(method, monkeypatch):
    """300 rows in a capacity of 512, and in one of 300: the same numbers within rounding."""
    model = dataclasses.replace(MODEL, likelihood=Normal(0.5))
    padded = fit(300, method, model, padded=True)
    monkeypatch.setattr("credo.data.source.LARGEST_PADDED", 0)
    plain = fit(300, method, model)
    assert np.linalg.norm(draws(plain)) > 0.1
    np.testing.assert_allclose(draws(plain), draws(padded), rtol=2e-3, atol=2e-4)


def test_counting_the_rows_that_fill_up_would_be_seen(monkeypatch):
    """The control: a planted mean over all 512 rows, of which 212 are copies."""
    from credo.data.source import Batch

    monkeypatch.setattr(Batch, "mean", lambda batch, terms: jnp.mean(terms))
    # Settings that no other test has, whose programs are not yet compiled.
    method = credo.HMC(num_samples=7, num_warmup=3, num_chains=1, num_leapfrog=4)
    found = [draws(fit(300, method, padded=padded)) for padded in (False, True)]
    assert not np.allclose(*found, rtol=2e-3, atol=2e-4)


def test_a_growing_stream_compiles_once_per_capacity():
    """33, 65 and 129 rows are new capacities; the sizes between them are not."""
    filter_ = credo.DEnFi(size=2, num_steps=3, update_steps=3, batch_size=16)
    posterior = fit(30, filter_)
    with counted() as names:
        for rows in range(34, 150, 6):
            posterior = credo.update(posterior, (X[:rows], Y[:rows]))
    assert posterior.record.num_updates == 20
    assert programs(names) == {"_start": 3, "_advance": 3}


def test_an_exact_stream_compiles_once_per_capacity():
    model = credo.Model(MLP(hidden=()), Normal(0.5))
    posterior = credo.fit(model, (X[:10], Y[:10]), credo.Exact())
    with counted() as names:
        for rows in range(17, 32):
            posterior = credo.update(posterior, (X[:rows], Y[:rows]))
    assert names.count("updated") == 1


def test_an_update_with_padding_is_the_exact_one():
    """17 rows in a capacity of 32 and in two parts: the same posterior and evidence."""
    model = credo.Model(MLP(hidden=()), Normal(0.5))
    whole = credo.fit(model, (X[:27], Y[:27]), credo.Exact())
    parts = credo.fit(model, (X[:10], Y[:10]), credo.Exact())
    parts = credo.update(parts, (X[10:27], Y[10:27]))
    np.testing.assert_allclose(draws(parts.mean), draws(whole.mean), rtol=1e-4, atol=1e-5)
    covariances = [np.asarray(each.factor @ each.factor.T) for each in (parts, whole)]
    np.testing.assert_allclose(*covariances, rtol=1e-3, atol=1e-5)
    evidences = [each.record.history["log_evidence"] for each in (parts, whole)]
    np.testing.assert_allclose(*evidences, rtol=1e-4)


def memory_maps():
    with open("/proc/self/maps") as lines:
        return sum(1 for _ in lines)


has_maps = pytest.mark.skipif(not Path("/proc/self/maps").exists(), reason="no list of memory maps")


def settings(number):
    """A thousand different ones: rates, prior scales, dropout rates, temperatures, sizes."""
    model = credo.Model(MLP(hidden=(3,)), Categorical(2), credo.priors.NormalPrior(1 + number / 99))
    method = credo.Dropout(
        0.1 + 0.0005 * number, learning_rate=1e-3 * (1 + number), num_steps=2, batch_size=4
    )
    rows = 33 + number % 31
    data = X[:rows], (Y[:rows] > 0).astype(int)
    credo.fit(model, data, method, temperature=1 + number / 500, key=number)


@has_maps
def test_a_thousand_settings_leave_memory_maps_bounded(monkeypatch):
    """Maps cannot grow where nothing is compiled; nothing is, and nobody's programs are dropped."""
    own = jax.jit(lambda x: x * 2 + 1)
    ones = jnp.ones(3)
    own(ones)

    def forbidden(*_):
        raise AssertionError("somebody's programs were dropped")

    monkeypatch.setattr(jax, "clear_caches", forbidden)
    for number in range(3):
        settings(number)
    before = memory_maps()
    with counted() as names:
        for number in range(3, 103):
            settings(number)
        own(ones)
    grown = memory_maps() - before
    assert names == []
    assert grown < 50, grown  # of some thousand


@has_maps
def test_programs_that_are_new_do_take_maps():
    """The control: what the count above would see if every setting were a program."""
    before = memory_maps()
    for width in range(5, 9):
        model = credo.Model(MLP(hidden=(width,)), Categorical(2))
        credo.fit(model, (X[:40], (Y[:40] > 0).astype(int)), credo.MAP(num_steps=2))
    assert memory_maps() - before > 50
