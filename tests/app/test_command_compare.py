"""`credo compare`: the table, the page, the numbers; and what reaches the comparison."""

import json

import numpy as np

import credo.report
from app.conftest import flowers
from credo.app.training import comparison_data


def test_a_small_comparison(command, tmp_path):
    page = tmp_path / "report.html"
    flags = ("--methods", "map", "--seeds", "1", "--hidden", "4", "--num-draws", "5")
    result = command("compare", "iris", *flags, "--out", page)
    assert result.code == 0 and result.err == ""
    assert "method" in result.out and "map" in result.out and str(page) in result.out
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
    out = tmp_path / "page.html"
    flags = ("--methods", "hmc", "map", "--seeds", "7", "--hidden", "3", "2", "--out", out)
    result = command("compare", table, "--target", "kind", *flags, "--ood", table)
    assert result.code == 0 and "table of what was found" in result.out
    assert (seen["methods"], seen["seeds"], seen["num_draws"]) == (("hmc", "map"), 7, 100)
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
