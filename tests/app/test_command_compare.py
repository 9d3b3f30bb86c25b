"""`credo compare`: the table, the page, the numbers; and what reaches the comparison."""

import json

import numpy as np
import pytest

import credo.report
from app.conftest import flowers
from credo.app.compare import Compare
from credo.app.parse import parse
from credo.app.training import comparison_data
from credo.inference import METHODS
from credo.report.compare import METHODS as DEFAULT_METHODS


def test_a_small_comparison(command, tmp_path):
    page = tmp_path / "report.html"
    flags = ("--methods", "map", "--seeds", "1", "--hidden", "4", "--num-draws", "5")
    result = command("compare", "iris", *flags, "--out", page)
    assert result.code == 0 and result.err == ""
    assert "method" in result.out and "map" in result.out and str(page) in result.out
    first, last = result.out.splitlines()[0], result.out.splitlines()[-1]
    assert first.startswith("map: NLL ") and last.startswith("map: NLL ")
    assert page.read_text("utf-8").startswith("<!")
    assert json.loads(page.with_suffix(".json").read_text("utf-8"))
    assert sorted(path.name for path in tmp_path.iterdir()) == ["report.html", "report.json"]


def test_flags_reach_the_comparison(command, monkeypatch, tmp_path, table):
    seen = {}

    def compare(data, methods, seeds, network, **others):
        seen.update(others, data=data, methods=methods, seeds=seeds, network=network)
        return "found"

    monkeypatch.setattr(credo.report, "compare", compare)
    monkeypatch.setattr(
        credo.report, "print_table", lambda found: print(f"table of what was {found}")
    )
    monkeypatch.setattr(credo.report, "write_report", lambda found, path: path.touch())
    monkeypatch.setattr(credo.report, "verdict", lambda found: f"verdict of what was {found}")
    out = tmp_path / "page.html"
    flags = ("--methods", "hmc", "map", "--seeds", "7", "--hidden", "3", "2", "--out", out)
    more = ("--seed", "5", "--prior-scale", "0.3", "--baselines")
    result = command("compare", table, "--target", "kind", *flags, *more, "--ood", table)
    assert result.code == 0 and "table of what was found" in result.out
    assert result.out.endswith("verdict of what was found\n")
    assert seen["methods"] == {"hmc": credo.HMC(), "map": credo.MAP()}
    assert list(seen["methods"]) == ["hmc", "map"]
    assert (seen["seeds"], seen["num_draws"]) == (7, 100)
    assert (seen["seed"], seen["prior_scale"], seen["baselines"]) == (5, 0.3, True)
    assert seen["network"] == credo.networks.MLP(hidden=(3, 2))
    assert seen["data"].classes == ("big", "small") and seen["ood"].shape == (120, 7)


def test_quantities_are_compared_in_their_units(tmp_path):
    frame = flowers().drop(columns="kind")
    frame.to_csv(tmp_path / "prices.csv", index=False)
    data, ood = comparison_data(str(tmp_path / "prices.csv"), "price", None, None, None)
    assert data.task == "regression" and ood is None
    prices = np.concatenate([data.train.y, data.test.y])
    np.testing.assert_allclose(np.sort(prices), np.sort(frame.price), rtol=1e-5)


def test_known_noise_reaches_the_comparison(command, tmp_path):
    flowers()[["age", "price"]].to_csv(tmp_path / "prices.csv", index=False)
    flags = ("--methods", "exact", "--seeds", "1", "--hidden", "--target-noise", "600")
    out = ("--out", tmp_path / "page.html")
    result = command("compare", tmp_path / "prices.csv", "--target", "price", *flags, *out)
    assert result.code == 0 and result.err == ""
    found = json.loads((tmp_path / "page.json").read_text("utf-8"))["methods"]["exact"]["summary"]
    assert 2 * 1.96 * 600 < found["width_95"]["value"] < 1.1 * 2 * 1.96 * 600


def test_named_sets(refused, tmp_path):
    data, ood = comparison_data("digits", None, None, "digits", None)
    assert data.name == ood.name == "digits"
    refused("compare", "diabetes", "--ood", "iris", "--out", tmp_path / "r.html", words="--ood")
    refused("compare", "iris", "--target", "kind", words="--target")
    refused("compare", "iris", "--out", tmp_path / "r.json", words=".html")


@pytest.mark.parametrize(
    "given",
    [("map,hmc", "auto"), ("map, hmc,auto",), ("map", "hmc", "auto", "map"), ("map,,hmc,auto",)],
)
def test_commas_or_spaces_stand_between_methods(given):
    assert list(parse(["compare", "--methods", *given]).chosen_methods()) == ["map", "hmc", "auto"]


def test_any_field_of_a_method_is_a_flag():
    flags = ["--methods", "map,hmc", "bayes-by-backprop", "--hmc.num-samples", "500"]
    parsed = parse(["compare", "iris", *flags])
    assert parsed.chosen_methods() == {
        "map": credo.MAP(),
        "hmc": credo.HMC(num_samples=500),
        "bayes-by-backprop": credo.BayesByBackprop(),
    }
    more = ["--bayes-by-backprop.num-steps=7", "--map.optimizer", "sgd"]
    found = parse(["compare", "--methods=map,bayes-by-backprop", *more]).chosen_methods()
    assert found["bayes-by-backprop"].num_steps == 7 and found["map"].optimizer == "sgd"


def test_settings_of_the_default_methods_and_of_members():
    found = parse(["compare", "--hmc.num-warmup", "3"]).chosen_methods()
    assert list(found) == ["map", "dropout", "ensemble", "laplace", "hmc", "auto"]
    assert found == {name: METHODS[name]() for name in found} | {"hmc": credo.HMC(num_warmup=3)}
    member = ["--ensemble.member", "dropout", "--ensemble.member-rate", "0.1"]
    found = parse(["compare", "--methods", "ensemble", *member]).chosen_methods()
    assert found == {"ensemble": credo.Ensemble(member=credo.Dropout(rate=0.1))}


@pytest.mark.parametrize(
    ("flags", "words"),
    [
        (("--methods", "map", "--hmc.num-samples", "3"), "add hmc to --methods"),
        (("--methods", "map", "--map.num-stps", "3"), "did you mean '--map.num-steps'"),
        (("--mpa.num-steps", "3"), "did you mean 'map'"),
        (("--methods", "mpa"), "did you mean 'map'"),
        (("--methods", "map", "--map.num-steps", "-3"), "num_steps must be"),
        (("--methods", ","), "no methods"),
        (("--methods", "map", "--seed", "-1"), "seeds lie between"),
        (("--methods", "map", "--prior-scale", "0"), "scale must be a number greater than 0"),
    ],
)  # fmt: skip
def test_settings_that_make_no_sense(refused, tmp_path, flags, words):
    refused("compare", "iris", *flags, "--out", tmp_path / "r.html", words=words)


def test_python_and_the_command_line_compare_the_same():
    assert Compare.methods == DEFAULT_METHODS
