"""Posteriors as files: what is saved comes back, and anything else is refused in one clear line."""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import credo
from credo import files
from credo.networks import MLP, Functions, LeNet
from credo.posterior import NoisyNetwork, Record, Samples

RECORD = Record(
    (2,),
    method="hmc",
    options={"num_samples": 3, "optimizer": "adam", "num_epochs": None},
    seconds=1.5,
    history={"log_joint": np.arange(6.0).reshape(2, 3), "divergent": np.zeros((2, 3), bool)},
    extra={"columns": ["a", "ä"], "mean": [0.1, 2]},
)


def samples(model, input_shape=(2,)):
    """A posterior of two chains of three random draws."""
    template = jax.eval_shape(lambda: model.init(jax.random.key(0), input_shape))
    rng = np.random.default_rng(0)
    draws = jax.tree.map(lambda leaf: jnp.asarray(rng.normal(size=(2, 3, *leaf.shape))), template)
    return Samples(model, draws, dataclasses.replace(RECORD, input_shape=input_shape))


def assert_same(first, second):
    assert type(first) is type(second) and first.model == second.model
    arrays = jax.tree.leaves((first, first.record.history))
    for a, b in zip(arrays, jax.tree.leaves((second, second.record.history)), strict=True):
        np.testing.assert_array_equal(a, b, strict=True)
    plain = [dataclasses.replace(p.record, history={}) for p in (first, second)]
    assert plain[0] == plain[1]


SMALL = MLP(hidden=(3,), activation="tanh")
MODELS = [
    credo.Model(SMALL, credo.Categorical(3), credo.LayerPrior({"dense0": 0.5, "dense1": 2.0})),
    credo.Model(SMALL, credo.Bernoulli(), credo.FanInPrior(1.5)),
    credo.Model(SMALL, credo.Normal(0.3, num_outputs=2), credo.NormalPrior(0.7)),
    credo.Model(SMALL, credo.NormalLearntScale(2)),
    credo.Model(SMALL, credo.NormalInputScale(2)),
]


@pytest.mark.parametrize("model", MODELS, ids=lambda model: type(model.likelihood).__name__)
def test_every_part_comes_back(model, tmp_path):
    credo.save(samples(model), tmp_path / "model")
    assert_same(credo.load(tmp_path / "model"), samples(model))


def test_a_noisy_convolutional_network_comes_back(tmp_path):
    model = credo.Model(LeNet(channels=(2, 3), hidden=(4,), kernel=3), credo.Categorical(3))
    params = jax.tree.map(lambda leaf: leaf[0, 0], samples(model, (14, 14, 1)).draws)
    rates = {"conv1": jnp.asarray(0.5), "dense1": jnp.asarray(0.1)}
    record = dataclasses.replace(RECORD, input_shape=(14, 14, 1))
    posterior = NoisyNetwork(model, params, rates, "bernoulli", True, record)
    credo.save(posterior, tmp_path / "model")
    again = credo.load(tmp_path / "model")
    assert_same(again, posterior)
    assert again.channelwise is True and list(again.rates) == list(rates)


def own(width):
    return Functions(
        lambda key: {"w": jax.random.normal(key, (2, width))},
        lambda params, x: jnp.tanh(x @ params["w"]).sum(axis=1, keepdims=True),
    )


def test_a_network_of_ones_own_must_be_given_again(tmp_path):
    network, path = own(4), tmp_path / "model"
    posterior = samples(credo.Model(network, credo.Normal()))
    credo.save(posterior, path)
    assert_same(credo.load(path, network=network), posterior)
    with pytest.raises(credo.CredoError, match=r"network of your own.*network="):
        credo.load(path)
    for other in (own(5), MLP(hidden=(4,))):
        with pytest.raises(credo.CredoError, match="network"):
            credo.load(path, network=other)


def test_a_likelihood_of_ones_own_cannot_be_saved(tmp_path):
    class Cauchy(credo.Normal):
        pass

    with pytest.raises(credo.CredoError, match="likelihood of your own"):
        credo.save(samples(credo.Model(SMALL, Cauchy())), tmp_path / "model")
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"format": 99}, "format 99"),
        ({"posterior": "Flow"}, "Flow"),
        ({"model": {"network": {"type": "Transformer", "fields": {}}}}, "Transformer"),
    ],
)
def test_a_file_of_a_later_credo_is_refused(change, words, tmp_path):
    credo.save(samples(MODELS[0]), tmp_path / "model")
    arrays, metadata = files.load_arrays(tmp_path / "model")
    change = {k: metadata[k] | v if isinstance(v, dict) else v for k, v in change.items()}
    files.save_arrays(tmp_path / "later", arrays, metadata | change)
    with pytest.raises(credo.CredoError, match=words):
        credo.load(tmp_path / "later")


def test_other_files_are_refused(tmp_path):
    from safetensors.numpy import save_file

    save_file({"w": np.zeros(3)}, tmp_path / "plain")
    files.save_arrays(tmp_path / "checkpoint", {}, {"fingerprint": "0", "step": 3})
    (tmp_path / "text").write_text("a,b\n1,2\n")
    (tmp_path / "empty").touch()
    for name in ("plain", "checkpoint", "text", "empty", "missing", "."):
        with pytest.raises(credo.CredoError):
            credo.load(tmp_path / name)


@pytest.fixture(scope="module")
def content(tmp_path_factory):
    path = tmp_path_factory.mktemp("whole") / "model"
    credo.save(samples(MODELS[0]), path)
    return path.read_bytes()


def refused(content, path):
    path.write_bytes(content)
    try:
        credo.load(path)
    except credo.CredoError:
        return True
    return False


SHARED_FOLDER = settings(
    max_examples=300, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)


@SHARED_FOLDER
@given(data=st.data())
def test_any_altered_byte_is_noticed(data, content, tmp_path):
    position = data.draw(st.integers(0, len(content) - 1))
    byte = data.draw(st.integers(0, 255).filter(lambda byte: byte != content[position]))
    altered = content[:position] + bytes([byte]) + content[position + 1 :]
    # Blanks behind the header mean nothing, and stay blanks where they become tabs or line ends.
    header_end = 8 + int.from_bytes(content[:8], "little")
    padding = len(content[8:header_end].rstrip())
    blank = 8 + padding <= position < header_end and bytes([byte]).isspace()
    assert refused(altered, tmp_path / "altered") or blank


@SHARED_FOLDER
@given(data=st.data())
def test_any_cut_or_addition_is_noticed(data, content, tmp_path):
    cut = data.draw(st.integers(0, len(content) - 1))
    assert refused(content[:cut], tmp_path / "cut")
    assert refused(content + data.draw(st.binary(min_size=1)), tmp_path / "longer")


@SHARED_FOLDER
@given(noise=st.binary(max_size=300))
def test_noise_is_no_model(noise, tmp_path):
    assert refused(noise, tmp_path / "noise")


def test_the_whole_file_is_accepted(content, tmp_path):
    assert not refused(content, tmp_path / "model")
