"""What every method must do, alone and in a wrapper. A new method joins by one row in ROWS."""

import dataclasses
import functools
import math
import typing
import warnings
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import credo
from credo.engine import loop
from credo.engine.algorithm import Algorithm, Plan
from credo.engine.checkpoint import Checkpoint
from credo.inference import METHODS, Method, method_named, name_of
from credo.inference.ensembles.denfi import Assimilation
from credo.inference.method import Wrapper
from credo.networks import MLP, Functions
from credo.posterior import Mixture, Samples

pytestmark = [
    pytest.mark.usefixtures("quick_compilation"),
    pytest.mark.filterwarnings("ignore::credo.CredoWarning"),  # runs far too short
]


class Row(NamedTuple):
    """A method in a tiny setting, and what the tests below must know of it."""

    method: Any
    needs_sites: bool = False
    """Acts through the noise sites of a network."""
    signed: tuple[str, ...] = ()
    """Fields that may be negative."""
    linear: bool = False
    """Takes only models that are linear with normal noise, and needs no random numbers."""
    alone: bool = False
    """Is an ensemble itself, and no member of one."""


SHORT = {"num_steps": 40, "batch_size": 8}
CHAINS = {"num_samples": 5, "num_warmup": 10, "num_chains": 2, "thin": 2}
ROWS = {
    "auto": Row(credo.Auto(num_folds=2, num_steps=40, batch_size=8, width=6), alone=True),
    "map": Row(credo.MAP(**SHORT)),
    "dropout": Row(credo.Dropout(input_rate=0.1, **SHORT), needs_sites=True),
    "gaussian-dropout": Row(credo.GaussianDropout(input_alpha=0.1, **SHORT), needs_sites=True),
    "concrete-dropout": Row(credo.ConcreteDropout(**SHORT), needs_sites=True),
    "variational-dropout": Row(credo.VariationalDropout(**SHORT), signed=("initial_log_alpha",)),
    "bayes-by-backprop": Row(credo.BayesByBackprop(**SHORT)),
    "swag": Row(credo.SWAG(collect_from=0.5, collect_every=3, rank=4, **SHORT)),
    "laplace": Row(credo.Laplace("full", layers="all", **SHORT)),
    "exact": Row(credo.Exact(), linear=True),
    "metropolis": Row(credo.Metropolis(climb_steps=5, **CHAINS)),
    "mala": Row(credo.MALA(batch_size=10, climb_steps=5, **CHAINS)),
    "sgld": Row(
        credo.SGLD(schedule="polynomial", preconditioner="rmsprop", batch_size=8, **CHAINS)
    ),
    "nuts": Row(credo.NUTS(max_doublings=3, **CHAINS)),
    "sghmc": Row(credo.SGHMC(batch_size=8, **CHAINS)),
    "constant-sgd": Row(credo.ConstantSGD(preconditioner="full", batch_size=8, **CHAINS)),
    "ensemble": Row(
        credo.Ensemble(
            credo.MAP(**SHORT), size=2, adversarial=0.01, anchored=True, prior_function=0.5
        )
    ),
    "denfi": Row(credo.DEnFi(size=2, memory="new", **SHORT)),
    "hmc": Row(credo.HMC(num_samples=5, num_warmup=10, num_chains=2, num_leapfrog=3, thin=2)),
}

X = np.random.default_rng(0).normal(size=(30, 3)).astype(np.float32)
Y = (X[:, 0] > 0).astype(np.int64) + (X[:, 1] > 1)
MODEL = credo.Model(MLP(hidden=(6,)), credo.likelihoods.Categorical(3))
LINEAR = credo.Model(MLP(hidden=()), credo.likelihoods.Normal(0.5))

every_method = pytest.mark.parametrize("name", ROWS)
every_member = pytest.mark.parametrize("name", [n for n, row in ROWS.items() if not row.alone])


def model_of(name):
    return LINEAR if ROWS[name].linear else MODEL


@functools.cache
def fitted(name):
    return credo.fit(model_of(name), (X, Y), ROWS[name].method, key=7)


def leaves(posterior):
    """All arrays of a posterior, and what its run recorded."""
    return jax.tree.leaves((posterior, posterior.record.history))


def assert_same_bits(first, second):
    for a, b in zip(leaves(first), leaves(second), strict=True):
        np.testing.assert_array_equal(a, b, strict=True)  # shape and type too


def probs(posterior):
    return credo.predict(posterior, X, num_draws=9, key=1).mean


def test_every_method_has_a_row():
    assert set(ROWS) == set(METHODS)
    for name, row in ROWS.items():
        assert method_named(name) is type(row.method) and name_of(row.method) == name


@every_method
def test_same_key_same_bits(name):
    assert_same_bits(
        fitted(name), credo.fit(model_of(name), (X, Y), ROWS[name].method, key=jax.random.key(7))
    )


@every_method
def test_other_key_other_result(name):
    other = credo.fit(model_of(name), (X, Y), ROWS[name].method, key=8)
    assert np.array_equal(probs(fitted(name)), probs(other)) == ROWS[name].linear


@every_method
def test_a_second_fit_compiles_nothing(name):
    fitted(name)
    before = loop._advance._cache_size(), loop._start._cache_size()
    # New objects that are equal, other data, another key: the same program.
    model = dataclasses.replace(
        model_of(name), network=MLP(hidden=list(model_of(name).network.hidden))
    )
    credo.fit(model, (X + 1, Y), dataclasses.replace(ROWS[name].method), key=9)
    assert (loop._advance._cache_size(), loop._start._cache_size()) == before


def test_a_fit_of_another_shape_compiles():
    fitted("map")
    before = loop._advance._cache_size()
    credo.fit(MODEL, (X[:-1], Y[:-1]), ROWS["map"].method)
    assert loop._advance._cache_size() == before  # 29 rows and 30 are padded to 32
    credo.fit(MODEL, (np.tile(X, (2, 1)), np.tile(Y, 2)), ROWS["map"].method)
    assert loop._advance._cache_size() > before  # so the counter above counts


@every_method
def test_save_and_load_give_the_same_predictions(name, tmp_path):
    posterior = fitted(name)
    credo.save(posterior, tmp_path / "model.safetensors")
    again = credo.load(tmp_path / "model.safetensors")
    np.testing.assert_array_equal(probs(again), probs(posterior))
    assert_same_bits(again, posterior)
    assert type(again) is type(posterior) and again.model == posterior.model
    expected = dataclasses.asdict(dataclasses.replace(posterior.record, history={}))
    assert dataclasses.asdict(dataclasses.replace(again.record, history={})) == expected


class Killed(BaseException):
    """As sudden as a kill: nothing in the library catches it."""


@every_method
@pytest.mark.parametrize("saves", [1, 2])
def test_resumed_is_uninterrupted(name, saves, tmp_path, monkeypatch):
    saves = min(saves, ROWS[name].method.plan(len(X)).num_steps)
    save = Checkpoint.save
    steps = []

    def save_then_die(self, chains, step, now):
        save(self, chains, step, now=True)
        steps.append(step)
        if len(steps) == saves:
            raise Killed

    options = {"key": 7, "checkpoint": tmp_path / "run"}
    with monkeypatch.context() as patch:
        patch.setattr(Checkpoint, "save", save_then_die)
        with pytest.raises(Killed):
            credo.fit(model_of(name), (X, Y), ROWS[name].method, **options)
    programs = loop._advance._cache_size()
    resumed = credo.fit(model_of(name), (X, Y), ROWS[name].method, **options)
    assert_same_bits(resumed, fitted(name))
    assert loop._advance._cache_size() == programs
    assert not (tmp_path / "run").exists()


def init(key):
    return [jax.random.normal(key, (3, 4)), (jnp.zeros(4), 0.1 * jnp.ones((4, 2)))]


def apply(params, x):
    first, (bias, second) = params
    return jnp.tanh(x @ first + bias) @ second


def apply_linear(params, x):
    """Linear in the parameters, not in x."""
    first, (bias, second) = params
    return jnp.sin(x) @ first[:, :2] + bias[:2] + second.sum(0)


@every_method
def test_any_pytree_and_a_likelihood_with_parameters(name):
    method, needs_sites, _, linear, _ = ROWS[name]
    model = credo.Model(Functions(init, apply), credo.likelihoods.Normal("learned", 2))
    if linear:
        with pytest.raises(credo.CredoError, match="Normal"):
            credo.fit(model, (X, X[:, :2]), method)
        with pytest.raises(credo.CredoError, match="linear in its parameters"):
            credo.fit(
                dataclasses.replace(model, likelihood=credo.likelihoods.Normal(1.0, 2)),
                (X, X[:, :2]),
                method,
            )
        model = credo.Model(Functions(init, apply_linear), credo.likelihoods.Normal(1.0, 2))
    if needs_sites:
        with pytest.raises(credo.CredoError, match="no noise sites"):
            credo.fit(model, (X, X[:, :2]), method)
        model = dataclasses.replace(model, network=MODEL.network)
    predicted = credo.predict(credo.fit(model, (X, X[:, :2]), method), X[:5])
    assert predicted.means.shape[1:] == (5, 2) and np.isfinite(predicted.log_prob(X[:5, :2])).all()


def invalid_values(kind, signed):
    """Values that no field of this type may have."""
    allowed = (kind, *typing.get_args(kind))
    if typing.get_origin(kind) is typing.Literal:
        return ["nonsense", None]
    if bool in allowed:
        return []
    negative = [] if signed else [-1]
    return [*negative, math.nan, math.inf, "2", *([1.5] if int in allowed else [])]


INVALID = [
    (name, field, value)
    for name, row in ROWS.items()
    for field, kind in typing.get_type_hints(type(row.method)).items()
    for value in invalid_values(kind, field in row.signed)
    if (name, field, value) != ("denfi", "radius", math.inf)  # no bound
]


@pytest.mark.parametrize(("name", "field", "value"), INVALID)
def test_invalid_fields_are_refused(name, field, value):
    with pytest.raises(credo.CredoError, match=field):
        dataclasses.replace(ROWS[name].method, **{field: value})


def test_numbers_of_numpy_are_numbers(tmp_path):
    """A search over np.arange gives them to the fields; they must survive JSON."""
    method = credo.MAP(num_steps=np.int64(40), learning_rate=np.float32(0.5), batch_size=8)
    assert method == credo.MAP(num_steps=40, learning_rate=0.5, batch_size=8)
    credo.save(credo.fit(MODEL, (X, Y), method), tmp_path / "model.safetensors")


# Wrappers: an ensemble of every method, and every class around another method.


@functools.cache
def wrapped(name):
    """An ensemble of the row's method, fitted, and whether the fit had warnings."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        posterior = credo.fit(model_of(name), (X, Y), ensemble_of(name), key=7)
    return posterior, any(issubclass(each.category, credo.CredoWarning) for each in caught)


def ensemble_of(name):
    return credo.Ensemble(ROWS[name].method, size=2)


@every_member
def test_an_ensemble_tells_of_its_members_what_they_tell(name):
    method, ensemble = ROWS[name].method, ensemble_of(name)
    told = ("finishes_on_all_rows", "held_out_fraction", "gives_draws", "has_acceptance")
    assert [getattr(ensemble, each) for each in told] == [getattr(method, each) for each in told]
    assert ensemble.divergence_hint() == method.divergence_hint()
    own, plan = method.plan(len(X)), ensemble.plan(len(X))
    assert plan == own._replace(num_chains=2 * own.num_chains)


@every_member
def test_members_of_an_ensemble_are_finished_as_alone(name):
    """`posterior`, `keep`, `synchronize` and `finish` of the member make what they make alone."""
    posterior, _ = wrapped(name)
    alone = fitted(name)
    kind = type(posterior.members) if isinstance(posterior, Mixture) else type(posterior)
    assert kind is (type(alone.members) if isinstance(alone, Mixture) else type(alone))
    if isinstance(posterior, Samples):
        assert posterior.num_draws == 2 * alone.num_draws
    assert set(posterior.record.history) == set(alone.record.history)
    assert np.isfinite(probs(posterior)).all()


@every_member
def test_an_ensemble_warns_as_its_members_do(name):
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        credo.fit(model_of(name), (X, Y), ROWS[name].method, key=7)
    warned = any(issubclass(each.category, credo.CredoWarning) for each in caught)
    assert wrapped(name)[1] == warned


@every_member
def test_an_ensemble_resumes_is_saved_and_loaded(name, tmp_path, monkeypatch):
    posterior, _ = wrapped(name)
    save = Checkpoint.save

    def save_then_die(self, chains, step, now):
        save(self, chains, step, now=True)
        raise Killed

    options = {"key": 7, "checkpoint": tmp_path / "run"}
    with monkeypatch.context() as patch:
        patch.setattr(Checkpoint, "save", save_then_die)
        with pytest.raises(Killed):
            credo.fit(model_of(name), (X, Y), ensemble_of(name), **options)
    programs = loop._advance._cache_size()
    assert_same_bits(credo.fit(model_of(name), (X, Y), ensemble_of(name), **options), posterior)
    assert loop._advance._cache_size() == programs
    credo.save(posterior, tmp_path / "model.safetensors")
    assert_same_bits(credo.load(tmp_path / "model.safetensors"), posterior)


CURVED = credo.Model(Functions(init, apply), credo.likelihoods.Normal(1.0, 2))


@pytest.mark.parametrize("name", [n for n, row in ROWS.items() if row.needs_sites or row.linear])
def test_an_ensemble_refuses_what_its_members_refuse(name):
    """Networks without noise sites, or that are not linear."""
    refusals = []
    for method in (ROWS[name].method, ensemble_of(name)):
        with pytest.raises(credo.CredoError) as refused:
            credo.fit(CURVED, (X, X[:, :2]), method)
        refusals.append(str(refused.value))
    assert refusals[0] == refusals[1]


def test_what_is_an_ensemble_already_is_no_member():
    for name in [n for n, row in ROWS.items() if row.alone]:
        with pytest.raises(credo.CredoError, match="an ensemble of its own"):
            credo.Ensemble(ROWS[name].method)


def test_an_ensemble_of_exact_members_refuses_a_nonlinear_network():
    for method in (credo.Exact(), credo.Ensemble("exact"), credo.Ensemble(credo.Ensemble("exact"))):
        with pytest.raises(credo.CredoError, match="linear in its parameters"):
            credo.fit(CURVED, (X, X[:, :2]), method)


HOOKS = {n for cls in (Algorithm, Method) for n in vars(cls) if not n.startswith("_")}


def test_a_wrapper_forwards_every_hook_there_is():
    """A hook that is added to methods must be added to `Wrapper`: this list is not kept by hand."""
    assert {"check", "warnings", "finish", "synchronize", "held_out_fraction"} <= HOOKS
    assert set(vars(Wrapper)) >= HOOKS


class Answers(Method):
    """Every hook answers with its own name."""


for _hook in HOOKS:
    if isinstance(getattr(Method, _hook), property):
        setattr(Answers, _hook, property(lambda self, hook=_hook: hook))
    else:
        setattr(Answers, _hook, lambda self, *given, hook=_hook: (hook, given))


def answers(wrapper):
    """What each hook of a wrapper gives, called with as many things as it takes."""
    found = {}
    for hook in sorted(HOOKS):
        value = getattr(wrapper, hook)
        if callable(value):
            count = value.__code__.co_argcount - 1
            value = value(*range(count))
        found[hook] = value
    return found


@dataclasses.dataclass(frozen=True)
class Around(Wrapper):
    """Nothing but a wrapper."""

    @property
    def inner(self):
        return Answers()


class Forgetful(Around):
    """The planted bug: one hook falls back to the default."""

    divergence_hint = Method.divergence_hint


def test_a_wrapper_passes_every_hook_on_as_it_is():
    found = answers(Around())
    del found["check"]  # gives nothing
    del found["setup"]  # of an inner method with its own, which is refused
    del found["for_density"]  # no wrapper samples a bare density
    for hook, answer in found.items():
        assert answer == hook or answer[0] == hook
    assert answers(Forgetful())["divergence_hint"] != found["divergence_hint"]


def test_every_method_around_another_is_a_wrapper():
    """A class that holds a method and does not forward would lose hooks silently."""
    for cls in METHODS.values():
        held = [f for f in dataclasses.fields(cls) if "Method" in str(f.type)]
        assert issubclass(cls, Wrapper) or not held
    assert issubclass(credo.Ensemble, Wrapper) and issubclass(credo.DEnFi, Wrapper)


def test_an_update_of_the_filter_passes_on_what_its_descent_says():
    update = Assimilation(credo.DEnFi(size=3, learning_rate=0.25, update_steps=9))
    plan = Plan(num_steps=9, num_warmup=9, num_chains=3, batch_size=128)
    assert update.plan(len(X)) == plan and "0.25" in update.divergence_hint()
