"""fit, predict, evaluate: a class, a quantity, a named data set."""

import dataclasses
import io
import json

import jax
import numpy as np
import pandas as pd
import pytest

import credo
from app.conftest import QUICK, SUMMARY, flowers
from credo.app.training import training_rows
from credo.data import Origin
from credo.engine.placement import Threads
from credo.posterior import Record, Samples


def test_classes_from_fit_to_evaluation(command, table, tmp_path):
    model, out = tmp_path / "model.safetensors", tmp_path / "predictions.parquet"
    fit = ["fit", table, "--target", "kind", "--method", "dropout", *QUICK]
    result = command(*fit, "--out", model)
    assert result.code == 0 and result.err == ""
    assert "dropout on 97 rows" in result.out and "on 23 rows set aside" in result.out
    assert "accuracy" in result.out
    assert sorted(path.name for path in tmp_path.iterdir()) == [table.name, model.name]

    posterior = credo.load(model)
    assert posterior.record.options["num_steps"] == 40
    encoder = posterior.record.units.inputs
    assert encoder.target.classes == ("big", "small") and encoder.numeric[0].indicator

    new = flowers(300).iloc[200:].drop(columns=["kind", "price"])  # gaps and all
    new.to_csv(tmp_path / "new.csv", index=False)
    printed = command("predict", model, tmp_path / "new.csv")
    assert (printed.code, printed.err) == (0, "")
    frame = pd.read_csv(io.StringIO(printed.out))
    names = ["predicted", "p_big", "p_small", "entropy", "mutual_information"]
    assert list(frame.columns) == names and len(frame) == 100
    np.testing.assert_allclose(frame.p_big + frame.p_small, 1, atol=1e-5)
    assert (frame.predicted == np.where(frame.p_big > 0.5, "big", "small")).all()
    assert (frame.mutual_information >= 0).all() and (frame.entropy <= np.log(2) + 1e-5).all()

    assert command("predict", model, tmp_path / "new.csv", "--out", out) == (0, "", "")
    written = pd.read_parquet(out)
    np.testing.assert_allclose(written.p_big, frame.p_big, rtol=1e-5)
    assert list(written.predicted) == list(frame.predicted)


def test_evaluation_says_each_number_with_its_error(command, fitted, tmp_path):
    flowers(200).iloc[120:].drop(columns="price").to_csv(tmp_path / "more.csv", index=False)
    far = flowers(60).drop(columns=["kind", "price"])
    far["size"] += 500
    far.to_csv(tmp_path / "far.csv", index=False)
    arguments = ("evaluate", fitted, tmp_path / "more.csv", "--ood", tmp_path / "far.csv")
    result = command(*arguments)
    assert result.code == 0 and result.err == ""
    assert [line.split("  ")[0] for line in result.out.splitlines()] == [
        *("accuracy", "nll", "brier", "ece", "adaptive ece", "entropy", "mutual information"),
        *("ood auroc", "ood aupr", "ood fpr95", "ood auroc mi"),
    ]
    scores = json.loads(command(*arguments, "--json").out)
    assert 0 <= scores["accuracy"]["value"] <= 1 and scores["accuracy"]["error"] > 0
    assert "ood_auroc" in scores


def test_the_naive_prediction_is_one_network(command, refused, fitted, tmp_path):
    """Weight scaling: no doubt about the function, and the scores of `weight_scaled()`."""
    flowers(200).iloc[120:].drop(columns="price").to_csv(tmp_path / "more.csv", index=False)
    printed = {}
    for flags in ((), ("--naive",)):
        result = command("predict", fitted, tmp_path / "more.csv", *flags)
        assert (result.code, result.err) == (0, "")
        printed[flags] = pd.read_csv(io.StringIO(result.out))
    assert np.abs(printed["--naive",].mutual_information).max() < 1e-5
    assert printed[()].mutual_information.max() > 1e-3
    posterior = credo.load(fitted)
    rows = credo.data.read_table(str(tmp_path / "more.csv"))
    scaled = credo.predict(posterior.weight_scaled(), rows).probs
    np.testing.assert_allclose(printed["--naive",].p_big, scaled[:, 0], atol=1e-5)
    found = command("evaluate", fitted, tmp_path / "more.csv", "--naive", "--json").out
    y = (flowers(200).iloc[120:].kind == "small").to_numpy()
    expected = -np.log(scaled[np.arange(80), y.astype(int)]).mean()
    np.testing.assert_allclose(json.loads(found)["nll"]["value"], expected, rtol=1e-4)

    credo.save(posterior.weight_scaled(), tmp_path / "one")
    refused("predict", tmp_path / "one", tmp_path / "more.csv", "--naive", words="--naive")


def test_scores_on_the_training_file_are_not_passed_off_as_honest(command, fitted):
    result = command("evaluate", fitted, fitted.with_name("flowers.csv"))
    assert result.code == 0 and "accuracy" in result.out
    assert result.err.startswith("warning: ") and result.err.count("\n") == 1


def test_quantities_come_back_in_their_units(command, tmp_path):
    frame = flowers(200).drop(columns="kind")
    frame.to_parquet(tmp_path / "prices.parquet")
    model = tmp_path / "model"
    fit = ["fit", tmp_path / "prices.parquet", "--target", "price", "--method", "map"]
    steps = ["--num-steps", "400", "--batch-size", "64", "--learning-rate", "0.01", "--hidden", "8"]
    result = command(*fit, "--out", model, "--seed", "3", *steps)
    assert result.code == 0 and "rmse" in result.out
    frame.to_csv(tmp_path / "prices.csv", index=False)  # the other format, the same table
    assert command("predict", model, tmp_path / "prices.csv", "--out", tmp_path / "p.csv").code == 0
    predicted = pd.read_csv(tmp_path / "p.csv")
    names = ["mean", "std", "aleatoric_std", "epistemic_std", "lower_95", "upper_95"]
    assert list(predicted.columns) == names
    known = frame["size"].notna().to_numpy()
    assert np.corrcoef(predicted["mean"][known], frame.price[known])[0, 1] > 0.9
    assert abs(predicted["mean"].mean() - frame.price.mean()) < 0.2 * frame.price.std()
    assert (predicted.epistemic_std < 1e-3 * predicted.aleatoric_std).all()  # one draw: no doubt
    inside = (predicted.lower_95 < frame.price) & (frame.price < predicted.upper_95)
    assert inside.mean() > 0.8
    scores = json.loads(command("evaluate", model, tmp_path / "prices.csv", "--json").out)
    errors = predicted["mean"] - frame.price
    np.testing.assert_allclose(scores["rmse"]["value"], np.sqrt(np.mean(errors**2)), rtol=1e-3)
    np.testing.assert_allclose(scores["coverage_95"]["value"], inside.mean(), atol=0.011)


def test_known_noise_makes_the_exact_posterior_reachable(command, refused, tmp_path, table):
    frame = flowers(100)[["age"]].assign(price=lambda f: 50 + 3.0 * f.age)
    frame["price"] += np.random.default_rng(1).normal(0, 7.0, 100)
    frame.to_csv(tmp_path / "prices.csv", index=False)
    fit = ["fit", tmp_path / "prices.csv", "--target", "price", "--method", "exact", "--hidden"]
    model = tmp_path / "model"
    result = command(*fit, "--target-noise", "7", "--out", model)
    assert (result.code, result.err) == (0, "") and "exact on" in result.out
    assert command("predict", model, tmp_path / "prices.csv", "--out", tmp_path / "p.csv").code == 0
    np.testing.assert_allclose(pd.read_csv(tmp_path / "p.csv").aleatoric_std, 7.0, rtol=1e-4)
    more = command("update", model, tmp_path / "prices.csv", "--out", tmp_path / "more")
    assert more.code == 0 and "updated with 100 rows" in more.out
    refused(*fit, "--out", model, words="--target-noise")
    refused(*fit, "--target-noise", "-2", "--out", model, words="got -2")
    classes = ("fit", table, "--target", "kind", "--method", "map", "--out", model)
    refused(*classes, "--target-noise", "1", words="class")


def test_all_rows_can_be_fitted(table):
    every = Origin(str(table), target="kind", test_fraction=0.0)
    whole = training_rows(every, None)
    assert len(whole.train.x) == 120 and whole.test is None
    parts = training_rows(dataclasses.replace(every, test_fraction=0.5), None)
    assert len(parts.train.x) + len(parts.test.x) == 120 and len(parts.test.x) > 50


@pytest.mark.parametrize(("name", "metric"), [("iris", "accuracy"), ("diabetes", "rmse")])
def test_named_data_sets(command, tmp_path, name, metric):
    model = tmp_path / "model"
    fitted = command("fit", name, "--method", "map", "--out", model, *QUICK)
    assert fitted.code == 0 and metric in fitted.out
    judged = command("evaluate", model, name)
    assert (judged.code, judged.err) == (0, "")
    assert judged.out == fitted.out.partition("set aside:\n")[2]
    predicted = pd.read_csv(io.StringIO(command("predict", model, name).out))
    data = credo.data.load(name)
    assert len(predicted) == len(data.test.y)
    if name == "iris":
        assert set(predicted.predicted) <= set(data.classes)
    else:  # targets reach from 25 to 346
        assert 100 < predicted["mean"].mean() < 200


def test_a_model_saved_in_python_can_be_used(command, tmp_path):
    model = credo.default_model(3)
    params = model.init(jax.random.key(0), (4,))
    draws = jax.tree.map(lambda leaf: leaf[None, None], params)
    posterior = Samples(model, draws, Record((4,)))
    credo.save(posterior, tmp_path / "model")
    result = command("predict", tmp_path / "model", "iris")
    assert result.code == 0
    assert result.out.startswith("predicted,p_0,p_1,p_2,entropy,mutual_information\n")


def test_the_same_command_goes_on_after_an_interrupt(command, table, tmp_path, monkeypatch):
    fit = ["fit", table, "--target", "kind", "--method", "map", *QUICK, "--checkpoint-seconds", "0"]
    monkeypatch.setattr(Threads, "advance", interrupting(Threads.advance, at=2))
    result = command(*fit, "--out", tmp_path / "model")
    assert result.code == 130 and SUMMARY.fullmatch(result.out)
    assert result.err.count("\n") == 1 and "same command" in result.err
    assert not (tmp_path / "model").exists() and (tmp_path / "model.checkpoint").exists()
    (tmp_path / ".model.checkpoint.a1b2c3.part").touch()  # as a kill while writing leaves it
    monkeypatch.undo()
    assert command(*fit, "--out", tmp_path / "model").code == 0
    assert command(*fit, "--out", tmp_path / "whole").code == 0
    assert sorted(path.name for path in tmp_path.iterdir()) == [table.name, "model", "whole"]
    resumed, whole = credo.load(tmp_path / "model"), credo.load(tmp_path / "whole")
    np.testing.assert_array_equal(resumed.record.history["loss"], whole.record.history["loss"])


def interrupting(advance, at):
    """Stop like Ctrl-C before the chunk number `at`."""
    calls = iter(range(at))

    def advance_or_stop(*arguments):
        if next(calls, None) is None:
            raise KeyboardInterrupt
        return advance(*arguments)

    return advance_or_stop


def test_an_interrupt_before_the_first_checkpoint_leaves_nothing(
    command, table, tmp_path, monkeypatch
):
    monkeypatch.setattr(Threads, "advance", interrupting(Threads.advance, at=0))
    fit = ["fit", table, "--target", "kind", "--method", "map", "--out", tmp_path / "model"]
    result = command(*fit)
    assert (result.code, result.err) == (130, "interrupted; nothing was written\n")
    assert list(tmp_path.iterdir()) == [table]


def test_a_diverged_run_leaves_no_checkpoint(command, table, tmp_path, monkeypatch):
    def diverge(*_, checkpoint, **__):
        checkpoint.touch()
        raise credo.DivergedError("the loss became nan; lower learning_rate")

    monkeypatch.setattr(credo, "fit", diverge)
    fit = ["fit", table, "--target", "kind", "--method", "map", "--out", tmp_path / "model"]
    result = command(*fit)
    assert (result.code, result.err) == (2, "error: the loss became nan; lower learning_rate\n")
    assert list(tmp_path.iterdir()) == [table]
