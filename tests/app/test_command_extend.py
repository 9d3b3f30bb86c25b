"""`credo extend` and `credo laplace`: what can be made of a model that was fitted before."""

import numpy as np
import pandas as pd
import pytest

import credo
from credo.app.main import main
from credo.engine.checkpoint import Checkpoint

RANDOM = np.random.default_rng(0)
X = RANDOM.normal(size=(60, 2))
FRAME = pd.DataFrame({"a": X[:, 0], "b": X[:, 1], "y": 50 + 10 * X[:, 0]})


@pytest.fixture
def table(tmp_path):
    path = tmp_path / "rows.csv"
    FRAME.to_csv(path, index=False)
    return path


def fit(data, out, *flags):
    target = ["--target", "y"] if str(data).endswith(".csv") else []
    common = ["--out", str(out), "--seed", "3"]
    assert main(["fit", str(data), *target, *common, *flags]) == 0
    return out


def ensemble(data, out, size):
    flags = ("--method", "ensemble", "--member", "map", "--member-num-steps", "20")
    return fit(data, out, *flags, "--size", str(size))


@pytest.mark.parametrize("data", ["table", "iris"])
def test_an_extended_ensemble_is_a_larger_one_from_the_start(data, table, tmp_path, capsys):
    data = table if data == "table" else data
    small = ensemble(data, tmp_path / "small.safetensors", 2)
    larger = tmp_path / "larger.safetensors"
    assert main(["extend", str(small), "--size", "3", "--out", str(larger)]) == 0
    assert "rows set aside" in capsys.readouterr().out
    assert not list(tmp_path.glob("*.checkpoint"))
    at_once = credo.load(ensemble(data, tmp_path / "at_once.safetensors", 3))
    found = credo.load(larger)
    x = np.zeros((3, *found.record.input_shape), np.float32)
    means = [getattr(credo.predict(each, x), "means", None) for each in (found, at_once)]
    probs = [getattr(credo.predict(each, x), "probs", None) for each in (found, at_once)]
    np.testing.assert_array_equal(*(means if means[0] is not None else probs))
    # What the larger one remembers lets it grow again.
    assert main(["extend", str(larger), "--size", "4", "--out", str(larger)]) == 0
    assert credo.load(larger).num_draws == 4


@pytest.mark.parametrize("data", ["table", "iris"])
def test_a_laplace_approximation_of_a_saved_model(data, table, tmp_path, capsys):
    data = table if data == "table" else data
    trained = fit(data, tmp_path / "map.safetensors", "--method", "map", "--num-steps", "50")
    out = tmp_path / "laplace.safetensors"
    flags = ["--structure", "diagonal", "--layers", "all", "--no-tune-prior"]
    assert main(["laplace", str(trained), "--out", str(out), *flags]) == 0
    assert "laplace on" in capsys.readouterr().out
    options = credo.load(out).record.options
    assert (options["structure"], options["layers"]) == ("diagonal", "all")
    rows = str(data)
    assert main(["predict", str(out), rows]) == 0
    assert len(capsys.readouterr().out.splitlines()) > 10


def test_the_table_may_have_moved_but_not_changed(table, tmp_path, capsys):
    small = ensemble(table, tmp_path / "small.safetensors", 2)
    moved = table.rename(tmp_path / "moved.csv")
    extend = ["extend", str(small), "--size", "3", "--out", str(tmp_path / "more.safetensors")]
    assert main(extend) == 2
    assert "say where it is now with --data" in capsys.readouterr().err
    assert main([*extend, "--data", "iris"]) == 2
    assert "no file 'iris'" in capsys.readouterr().err
    assert main([*extend, "--data", str(moved)]) == 0
    assert credo.load(extend[-1]).record.origin.data == str(moved)  # for the next time
    FRAME[:50].to_csv(moved, index=False)
    assert main([*extend, "--data", str(moved)]) == 2
    assert "is not the table that the model was fitted to" in capsys.readouterr().err


def test_what_cannot_be_extended_is_refused(table, tmp_path, capsys):
    model, out = tmp_path / "model.safetensors", str(tmp_path / "new.safetensors")
    fit("iris", model, "--method", "map", "--num-steps", "5")
    assert main(["extend", str(model), "--size", "3", "--out", out]) == 2
    assert "only an ensemble can be extended" in capsys.readouterr().err
    assert main(["laplace", str(model), "--out", out, "--data", str(table)]) == 2
    assert "--data is for tables; the model was fitted to 'iris'" in capsys.readouterr().err
    assert main(["laplace", str(ensemble(table, model, 2)), "--out", out]) == 2
    assert "laplace needs one set of weights" in capsys.readouterr().err
    assert main(["extend", str(model), "--size", "3", "--out", str(table)]) == 2
    assert "would overwrite" in capsys.readouterr().err
    in_python = credo.fit(
        credo.Model(credo.networks.MLP(hidden=(2,)), credo.likelihoods.Categorical(3)),
        credo.data.load("iris").train, credo.MAP(num_steps=2),
    )  # fmt: skip
    credo.save(in_python, model)
    assert main(["laplace", str(model), "--out", out]) == 2
    assert "does not say which rows it was fitted to" in capsys.readouterr().err


def test_rows_that_came_by_an_update_are_not_forgotten(table, tmp_path, capsys):
    model = tmp_path / "model.safetensors"
    flags = ("--method", "denfi", "--size", "1", "--num-steps", "5", "--update-steps", "5")
    fit(table, model, *flags)
    assert main(["update", str(model), str(table), "--out", str(model)]) == 0
    assert main(["laplace", str(model), "--out", str(tmp_path / "new.safetensors")]) == 2
    assert "taken in other rows since its fit" in capsys.readouterr().err


def test_members_are_not_lost_where_the_model_cannot_be_saved(table, tmp_path, capsys, monkeypatch):
    small = ensemble(table, tmp_path / "small.safetensors", 2)
    out = tmp_path / "larger.safetensors"
    extend = ["extend", str(small), "--size", "3", "--out", str(out)]

    def full(*_):
        raise OSError(28, "No space left on device", str(out))

    opened = Checkpoint.open

    def often(path, _, *rest):
        return opened(path, 0.0, *rest)

    monkeypatch.setattr(Checkpoint, "open", staticmethod(often))
    with monkeypatch.context() as broken:
        broken.setattr(credo, "save", full)
        assert main(extend) == 2
    assert "No space left" in capsys.readouterr().err
    assert list(tmp_path.glob("*.checkpoint"))
    assert main(extend) == 0 and credo.load(out).num_draws == 3
    assert not list(tmp_path.glob("*.checkpoint"))


def test_an_interrupted_extension_says_how_to_go_on(table, tmp_path, capsys, monkeypatch):
    small = ensemble(table, tmp_path / "small.safetensors", 2)
    out = tmp_path / "larger.safetensors"
    checkpoint = out.with_name(out.name + ".checkpoint")

    def interrupted(*_, **__):
        checkpoint.write_bytes(b"")
        raise KeyboardInterrupt

    monkeypatch.setattr(credo, "extend", interrupted)
    assert main(["extend", str(small), "--size", "3", "--out", str(out)]) == 130
    assert f"give the same command again to go on from {checkpoint}" in capsys.readouterr().err
