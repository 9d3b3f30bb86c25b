"""`credo update`: a filter learns from new rows of a table."""

import numpy as np
import pandas as pd
import pytest

import credo
from credo.app.main import main

RANDOM = np.random.default_rng(0)
X = RANDOM.normal(size=(80, 2))
FRAME = pd.DataFrame({"a": X[:, 0], "b": X[:, 1], "y": 50 + 10 * X[:, 0]})


@pytest.mark.parametrize("memory", ["all", "new"])
def test_an_update_learns_from_new_rows(memory, tmp_path, capsys):
    table, model = tmp_path / "rows.csv", tmp_path / "model.safetensors"
    FRAME[:10].to_csv(table, index=False)
    fit = ["fit", str(table), "--target", "y", "--method", "denfi", "--out", str(model)]
    flags = ["--size", "2", "--num-steps", "100", "--update-steps", "300", "--memory", memory]
    assert main([*fit, *flags, "--learning-rate", "0.01", "--test-fraction", "0"]) == 0
    before = error(model)
    (FRAME if memory == "all" else FRAME[10:]).to_csv(table, index=False)
    assert main(["update", str(model), str(table), "--out", str(model), "--seed", "1"]) == 0
    assert "updated with" in capsys.readouterr().out
    assert error(model) < 0.5 * before


def error(model):
    posterior = credo.load(model)
    return np.sqrt(np.mean((credo.predict(posterior, FRAME).mean - FRAME["y"]) ** 2))


def test_a_model_of_another_method_is_refused(tmp_path, capsys):
    model = tmp_path / "model.safetensors"
    fit = ["fit", "iris", "--method", "map", "--num-steps", "5", "--out", str(model)]
    assert main(fit) == 0
    assert main(["update", str(model), "iris", "--out", str(tmp_path / "new.safetensors")]) != 0
    assert "only an ensemble of credo.DEnFi" in capsys.readouterr().err
    assert not (tmp_path / "new.safetensors").exists()
