"""Predictions speak in the user's units: those of the command line, to the bit."""

import contextlib
import io
import json

import jax
import numpy as np
import pandas as pd
import pytest

import credo
from credo.app.main import main
from credo.data import Units, fit_encoder, read_table
from credo.likelihoods import MultivariateNormal, NegativeBinomial, Normal, Ordinal, Poisson
from credo.networks import MLP

pytestmark = pytest.mark.filterwarnings("ignore::credo.CredoWarning")

RNG = np.random.default_rng(0)
N = 120


def houses():
    """Prices around 300,000, from a size, an age with gaps, and a place."""
    size, age = RNG.uniform(40, 200, N), RNG.uniform(0, 90, N)
    place = RNG.choice(["north", "south"], N)
    noise = RNG.normal(0, 5e3, N)
    price = 1e5 + 2000 * size - 500 * age + 4e4 * (place == "south") + noise
    age[RNG.random(N) < 0.1] = np.nan
    return pd.DataFrame({"size": size, "age": age, "place": place, "price": price.round(2)})


def flowers():
    kind = RNG.choice(["lily", "rose", "tulip"], N)
    center = pd.Series(kind).map({"lily": 0.0, "rose": 3.0, "tulip": 6.0}).to_numpy()
    return pd.DataFrame({"length": center + RNG.normal(0, 0.7, N), "kind": kind})


def run_main(*arguments):
    """What a command prints."""
    out = io.StringIO()
    with contextlib.redirect_stdout(out):
        try:
            code = main([str(argument) for argument in arguments])
        except SystemExit as stop:
            code = stop.code
    assert not code
    return out.getvalue()


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("units")
    for name, frame, target, method in (
        ("houses", houses(), "price", "swag"), ("flowers", flowers(), "kind", "map"),
    ):  # fmt: skip
        frame.to_csv(folder / f"{name}.csv", index=False)
        run_main(
            "fit", folder / f"{name}.csv", "--target", target, "--method", method,
            "--num-steps", 300, "--learning-rate", 0.01, "--out", folder / f"{name}.safetensors",
        )  # fmt: skip
        new = frame.sample(40, random_state=1)
        new.to_csv(folder / f"{name}-new.csv", index=False)
    return folder


def test_a_regression_of_a_table_in_python_is_that_of_the_command_line(folder):
    model, table = folder / "houses.safetensors", folder / "houses-new.csv"
    run_main("predict", model, table, "--out", folder / "predicted.parquet")
    written = pd.read_parquet(folder / "predicted.parquet")
    posterior, frame = credo.load(model), read_table(table)
    predicted = credo.predict(posterior, frame)
    lower, upper = predicted.interval(0.95)
    expected = {
        "mean": predicted.mean, "std": predicted.std, "lower_95": lower, "upper_95": upper,
        "aleatoric_std": np.sqrt(predicted.aleatoric_variance),
        "epistemic_std": np.sqrt(predicted.epistemic_variance),
    }  # fmt: skip
    assert set(expected) == set(written.columns)
    for name, values in expected.items():
        np.testing.assert_array_equal(written[name], values)
    prices = frame["price"].to_numpy()
    printed = json.loads(run_main("evaluate", model, table, "--json"))
    scores = credo.evaluate(predicted, prices)
    assert {n: (s["value"], s["error"]) for n, s in printed.items()} == {
        name: (score.value, score.error) for name, score in scores.items()
    }
    # In the units of the prices, not of a network: around 300,000, off by some thousands.
    assert np.corrcoef(predicted.mean, prices)[0, 1] > 0.9
    assert 1e3 < scores["rmse"].value < 5e4 and 1e5 < predicted.mean.mean() < 6e5
    assert abs(predicted.log_prob(prices).mean() + np.log(prices.std())) < 5  # a density of prices
    assert not (lower < (prices - prices.mean()) / prices.std()).all()  # planted: standardized
    csv = pd.read_csv(io.StringIO(run_main("predict", model, table)))
    np.testing.assert_allclose(csv["mean"], predicted.mean, rtol=1e-5)


def test_names_of_classes_come_back(folder):
    model, table = folder / "flowers.safetensors", folder / "flowers-new.csv"
    run_main("predict", model, table, "--out", folder / "kinds.csv")
    written, frame = pd.read_csv(folder / "kinds.csv"), read_table(table)
    predicted = credo.predict(credo.load(model), frame)
    assert predicted.classes == ("lily", "rose", "tulip")
    assert list(predicted.labels) == list(written["predicted"])
    assert set(predicted.labels) <= set(predicted.classes)
    np.testing.assert_allclose(written["p_rose"], predicted.probs[:, 1], rtol=1e-6)
    printed = json.loads(run_main("evaluate", model, table, "--json"))
    scores = credo.evaluate(predicted, frame["kind"])
    assert {n: s["value"] for n, s in printed.items()} == {n: s.value for n, s in scores.items()}
    assert scores["accuracy"].value > 0.85
    by_number = credo.evaluate(predicted, pd.Categorical(frame["kind"]).codes)
    assert by_number["nll"] == scores["nll"]
    with pytest.raises(credo.CredoError, match="'oak', which the model does not know"):
        credo.evaluate(predicted, ["oak"] * len(frame))


def test_an_array_in_place_of_a_data_frame(folder):
    posterior = credo.load(folder / "flowers.safetensors")
    frame = read_table(folder / "flowers-new.csv")
    pair = [credo.predict(posterior, x).probs for x in (frame, frame[["length"]].to_numpy())]
    np.testing.assert_array_equal(*pair)
    houses = credo.load(folder / "houses.safetensors")
    with pytest.raises(credo.CredoError, match="give a pandas data frame with its columns"):
        credo.predict(houses, np.zeros((3, 3)))
    with pytest.raises(credo.CredoError, match="lacks age"):
        credo.predict(houses, pd.DataFrame({"size": [1.0], "place": ["north"]}))


def test_classes_called_by_numbers_are_meant_by_name():
    """With classes 1, 2, 3 a 1 is the first, wherever it stands; 0 is unknown."""
    units = Units(classes=("1", "2", "3"))
    np.testing.assert_array_equal(units.targets_of([1, 3, 2]), [0, 2, 1])
    np.testing.assert_array_equal(units.targets_of([1.0, 2.0]), [0, 1])
    with pytest.raises(credo.CredoError, match="class 0, which the model does not know"):
        units.targets_of(np.array([0, 1, 2]))
    np.testing.assert_array_equal(Units(classes=("a", "b")).targets_of([1, 0]), [1, 0])


X = RNG.normal(5, 3, size=(N, 2))
MAP = credo.MAP(num_steps=600, learning_rate=0.1)


@pytest.mark.parametrize("likelihood", [Normal(num_targets=2), MultivariateNormal(2)], ids=repr)
def test_two_quantities_in_units_of_their_own(likelihood):
    y = np.column_stack([1e4 * X[:, 0] + 3e5, 1e-3 * X[:, 1] - 7.0])
    y += RNG.normal(size=(N, 2)) * [3e3, 3e-4]
    units = Units.standardizing(X, y)
    posterior = credo.fit(credo.Model(MLP(hidden=()), likelihood), (X, y), MAP, units=units)
    predicted = credo.predict(posterior, X)
    errors = np.sqrt(((predicted.mean - y) ** 2).mean(axis=0))
    assert (errors < 2 * np.array([3e3, 3e-4])).all()
    lower, upper = predicted.interval(0.95)
    assert lower.shape == (N, 2) and 0.85 < ((lower <= y) & (y <= upper)).mean() < 1
    # A density of y: that of the standardized targets over both factors.
    bare = posterior.__class__(posterior.model, posterior.draws, credo.posterior.Record((2,)))
    standardized = credo.predict(bare, units.inputs_of(X)).log_prob(units.targets_of(y))
    np.testing.assert_allclose(
        predicted.log_prob(y), standardized - np.log(units.factor).sum(), rtol=1e-4
    )
    with pytest.raises(credo.CredoError, match="those of 2 targets a row, got 3"):
        units.targets_of(np.zeros((4, 3)))


@pytest.mark.parametrize("likelihood", [Poisson(), NegativeBinomial()], ids=repr)
def test_counts_of_a_table(likelihood, tmp_path):
    frame = pd.DataFrame({"hour": X[:, 0], "place": np.where(X[:, 1] > 5, "in", "out")})
    frame["visits"] = RNG.poisson(np.exp(0.2 * frame["hour"] + (frame["place"] == "in")))
    encoder = fit_encoder(frame, "visits", "regression")
    units = Units.of_table(encoder, standardize_target=False)
    model = credo.Model(MLP(hidden=()), likelihood)
    posterior = credo.fit(model, (frame, frame["visits"]), MAP, units=units)
    credo.save(posterior, tmp_path / "visits")
    predicted = credo.predict(credo.load(tmp_path / "visits"), frame)
    assert np.corrcoef(predicted.mean, frame["visits"])[0, 1] > 0.5
    assert predicted.mean.mean() == pytest.approx(frame["visits"].mean(), rel=0.2)
    low, high = predicted.interval(0.9)
    assert np.array_equal(low, np.floor(low)) and np.array_equal(high, np.floor(high))
    assert credo.evaluate(predicted, frame["visits"])["coverage_95"].value > 0.85
    with pytest.raises(credo.CredoError, match="neither shifted nor scaled"):
        credo.fit(model, (frame, frame["visits"]), MAP, units=Units.of_table(encoder))


def test_grades_of_a_table():
    frame = pd.DataFrame({"score": X[:, 0]})
    frame["grade"] = pd.cut(frame["score"], [-99, 3, 7, 99], labels=["a", "b", "c"]).astype(str)
    units = Units.of_table(fit_encoder(frame, "grade", "classification"))
    model = credo.Model(MLP(hidden=()), Ordinal(3))
    posterior = credo.fit(model, (frame, frame["grade"]), MAP, units=units)
    predicted = credo.predict(posterior, frame)
    assert (predicted.labels == frame["grade"]).mean() > 0.9


def test_arrays_with_units_and_closed_forms_speak_them_too():
    y = 1e4 * X[:, 0] + 3e5
    units = Units.standardizing(X, y)
    model = credo.Model(MLP(hidden=()), Normal())
    laplace = credo.Laplace("full", num_steps=400, learning_rate=0.1)
    posterior = credo.fit(model, (X, y), laplace, units=units)
    for predicted in (credo.predict(posterior, X), credo.linearized_predict(posterior, X)):
        assert np.abs(predicted.mean - y).mean() < 3e3
    column = credo.fit(model, (X, y[:, None]), laplace, units=units)
    np.testing.assert_array_equal(credo.predict(column, X).mean, credo.predict(posterior, X).mean)
    predicted = credo.predict(column, X)
    assert credo.evaluate(predicted, y)["rmse"] == credo.evaluate(predicted, y[:, None])["rmse"]


def test_one_row_alone_and_among_others(folder):
    posterior = credo.load(folder / "houses.safetensors")
    frame = read_table(folder / "houses-new.csv")
    with jax.enable_x64(True):
        alone = credo.predict(posterior, frame.iloc[[7]]).mean
        among = credo.predict(posterior, frame).mean[7]
    np.testing.assert_allclose(alone, among, rtol=1e-6)
