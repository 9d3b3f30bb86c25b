"""Tables on the command line: what is said of them, and what is carried to the predictions."""

import io

import numpy as np
import pandas as pd
import pytest

import credo
from app.conftest import QUICK, flowers
from credo.app.parse import parse


@pytest.fixture
def no_work(monkeypatch):
    """Fits end where the work would begin."""

    def stop(*_, **__):
        raise credo.CredoError("the work begins")

    monkeypatch.setattr(credo, "fit", stop)


def test_what_was_understood_is_said(command, no_work, tmp_path):
    frame = flowers().drop(columns="price")
    frame["name"] = [f"flower {i}" for i in range(120)]
    frame["grade"] = np.arange(120) % 3
    frame.to_csv(tmp_path / "t.csv", index=False)
    fit = ("fit", tmp_path / "t.csv", "--method", "map", "--out", tmp_path / "m", "--target")
    result = command(*fit, "grade")
    gaps = int(frame.isna().to_numpy().sum())
    assert result.out == (
        f"grade: classification, 3 classes, 120 rows, 5 columns: 2 numeric, 2 categories, "
        f"1 left out, {gaps} gaps; its whole numbers are taken for classes, --task regression for "
        "a quantity\n"
    )
    assert result.err == (
        "note: column 'name' is left out: nearly every row has a text of its own\n"
        "error: the work begins\n"
    )
    assert command(*fit, "grade", "--task", "regression").out.startswith("grade: regression, 120")
    assert command(*fit, "kind").out.endswith(f"1 left out, {gaps} gaps\n")


def test_further_columns_are_ignored_and_carried(command, refused, fitted, tmp_path):
    frame = flowers().drop(columns=["price", "kind"])
    frame.insert(0, "code", [f"{i:03d}" for i in range(120)])
    frame.to_csv(tmp_path / "new.csv", index=False)
    plain = command("predict", fitted, tmp_path / "new.csv")
    assert plain.code == 0
    assert plain.err == "note: ignored columns that the model was not fitted on: code\n"
    named = command("predict", fitted, tmp_path / "new.csv", "--id", "code")
    read = pd.read_csv(io.StringIO(named.out), dtype=str)
    assert list(read.code) == list(frame.code)  # 007 stays 007
    assert read.drop(columns="code").equals(pd.read_csv(io.StringIO(plain.out), dtype=str))
    out = tmp_path / "p.parquet"
    keep = ("predict", fitted, tmp_path / "new.csv", "--keep-columns", "--id", "age", "--out", out)
    assert command(*keep).code == 0
    written = pd.read_parquet(out)
    assert list(written.columns)[:5] == ["age", "code", "size", "color", "predicted"]
    np.testing.assert_array_equal(written["size"].astype(float), frame["size"])

    frame.rename(columns={"code": "entropy"}).to_csv(tmp_path / "new.csv", index=False)
    result = command(*keep)
    assert result.code == 2 and "'entropy' has the name of a prediction" in result.err


def test_a_spreadsheet_from_fit_to_prediction(command, tmp_path):
    pytest.importorskip("openpyxl")
    frame = flowers().drop(columns="price")
    frame["day"] = pd.Timestamp("2024-01-31") + pd.to_timedelta(np.arange(120), "D")
    frame.to_excel(tmp_path / "t.xlsx", index=False)
    fit = ("fit", tmp_path / "t.xlsx", "--target", "kind", "--method", "map", *QUICK)
    result = command(*fit, "--out", tmp_path / "model")
    assert result.code == 0 and "2 numeric, 1 date, 1 category" in result.out
    frame.to_csv(tmp_path / "t.csv", index=False, sep=";")
    of_book, of_text = (
        command("predict", tmp_path / "model", tmp_path / name) for name in ("t.xlsx", "t.csv")
    )
    assert of_book == of_text and of_book.code == 0


def test_auto_is_the_default_and_its_choice_is_said(command, tmp_path, table):
    assert parse(["fit", "iris", "--out", "m"]).chosen_method() == credo.Auto()
    quick = ("--num-steps", "20", "--num-folds", "2", "--width", "8", "--batch-size", "32")
    result = command("fit", table, "--target", "kind", "--out", tmp_path / "model", *quick)
    assert result.code == 0, result
    notes = credo.load(tmp_path / "model").record.notes
    assert notes and "auto on 97 rows" in result.out
    assert all(note in result.out.splitlines() for note in notes)


def test_named_tables(command, refused, monkeypatch, tmp_path):
    assert {"tables/adult", "tables/autompg"} < set(credo.data.names())
    monkeypatch.delenv("CREDO_DATA", raising=False)
    fit = ("fit", "tables/servo", "--method", "map", "--out", tmp_path / "model", *QUICK)
    refused(*fit, words=["tables/servo.csv", "CREDO_DATA"])
    (tmp_path / "tables").mkdir()
    text = "motor,pgain,class\n" + "".join(f"{'ABC'[i % 3]},{i % 7},{i / 7}\n" for i in range(50))
    (tmp_path / "tables" / "servo.csv").write_text(text)
    result = command(*fit, "--data-dir", tmp_path)
    assert result.code == 0 and "map on 40 rows" in result.out and "rmse" in result.out
