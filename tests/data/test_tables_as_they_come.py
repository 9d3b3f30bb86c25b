"""Tables as people write them: read right, or refused with the fix."""

import gzip
import sys

import numpy as np
import pandas as pd
import pytest

import credo
from credo.data import encode, fit_encoder, read_table
from credo.data.cells import read_number
from credo.data.columns import column_type, numbers
from credo.data.suspicions import table_summary
from credo.data.targets import own_values
from credo.errors import CredoError, CredoNote, CredoWarning


@pytest.mark.parametrize(
    ("text", "decimal", "value", "unit"),
    [
        ("1234.5", ".", 1234.5, ""),
        ("1,234,567.5", ".", 1234567.5, ""),
        ("1.234.567,5", ",", 1234567.5, ""),
        ("1 234,5", ",", 1234.5, ""),
        ("1\u202f234\u202f567", ".", 1234567, ""),
        ("1'234.50", ".", 1234.5, ""),
        ("$ -3.5", ".", -3.5, "$"),
        ("-€3,5", ",", -3.5, "€"),
        ("1 200 Kč", ",", 1200, "Kč"),
        ("12,5 %", ",", 12.5, "%"),
        ("−4", ".", -4, ""),
        ("1e-3", ".", 1e-3, ""),
        (",5", ",", 0.5, ""),
    ],
)
def test_numbers_as_people_write_them(text, decimal, value, unit):
    assert read_number(text, decimal) == (value, unit)


@pytest.mark.parametrize(
    ("text", "decimal"),
    [("1,5", "."), ("1.5", ","), ("1,23,4", "."), ("1,234.567,8", ","), ("0,123", "."), ("", "."),
     (".", "."), ("€", "."), ("5 m", "."), ("--5", "."), ("$5 €", "."), ("1,234 567", ".")],
)  # fmt: skip
def test_what_is_no_number(text, decimal):
    assert read_number(text, decimal) is None


def values_of(texts, **others):
    frame = pd.DataFrame({"a": texts, **others})
    return numbers(frame, "a", column_type(frame, "a").format)


def test_the_whole_column_tells_the_decimal_mark():
    np.testing.assert_array_equal(values_of(["1,5", None, "1.234"]), [1.5, np.nan, 1234])
    np.testing.assert_array_equal(values_of(["1.5", "1,234"]), [1.5, 1234])
    np.testing.assert_array_equal(values_of(["0,125", "1,234"]), [0.125, 1.234])
    np.testing.assert_array_equal(values_of(["1,234", "2"], b=["0,5", "1"]), [1.234, 2])
    np.testing.assert_array_equal(values_of(["1,234", "2"], b=[0.5, 1]), [1234, 2])
    with pytest.warns(CredoNote, match="'a': 1,234 is read as 1234; if that is wrong"):
        np.testing.assert_array_equal(values_of(["1,234", "2"]), [1234, 2])


GERMAN = """Preis;Größe;Anteil;Tag;Ort
1.234,50 €;1,5;12 %;31.01.2024;Köln
990,00 €;;7,5 %;1.2.2024;Bonn
2.000,00 €;2,25;3 %;15.2.2024;Köln
"""


@pytest.mark.parametrize(
    "encoding", ["utf-8", "utf-8-sig", "latin-1", "cp1252", "utf-16", "utf-16-le"]
)
def test_a_german_table_in_every_encoding(tmp_path, encoding):
    text = GERMAN.replace("€", "EUR") if encoding == "latin-1" else GERMAN
    path = tmp_path / "preise.csv"
    path.write_bytes(text.encode(encoding))
    frame = read_table(path)
    assert list(frame.columns) == ["Preis", "Größe", "Anteil", "Tag", "Ort"]
    encoder = fit_encoder(frame, "Preis")
    assert encoder.target.task == "regression" and encoder.left_out == ()
    np.testing.assert_array_equal(own_values(encoder.target, frame), [1234.5, 990, 2000])
    size, share, day = encoder.numeric
    assert (size.mean, share.mean, share.format.unit) == (1.875, 7.5, "%")
    assert (day.format.first_day, day.mean) == ("2024-01-31", 16 / 3)
    assert encoder.categorical[0].categories == ("Bonn", "Köln")
    expected = "Preis: regression, 3 rows, 4 columns: 2 numeric, 1 date, 1 category, 1 gap"
    assert table_summary(encoder, frame) == expected


def test_new_rows_are_read_as_the_training_rows_were(tmp_path):
    """One row alone says nothing of decimal marks, of the order of dates, or of units."""
    path = tmp_path / "t.csv"
    path.write_text(
        "a;b;day;y\n1,5;10%;13/02/2024;1,5\n0,250;20%;01/03/2024;2,5\n2;5%;01/04/2024;7\n"
    )
    encoder = fit_encoder(read_table(path), "y")
    credo.save(encoder, tmp_path / "encoder")
    encoder = credo.load(tmp_path / "encoder")
    path.write_text("a;b;day\n1.234;10%;02/03/2024\n")  # 1234, and the 2nd of March
    a, b, day = encoder.numeric
    x = encode(encoder, read_table(path, encoder.text_columns))
    expected = [(1234 - a.mean) / a.std, (10 - b.mean) / b.std, (18 - day.mean) / day.std]
    np.testing.assert_allclose(x, [expected], rtol=1e-6)
    for row, message in {
        "1.5;10%;02/03/2024": "'a', row 1: '1.5' is not a number with a decimal comma",
        "1,5;10;02/03/2024": "'b' has no percent signs",
        "1,5;10 €;02/03/2024": "'b', row 1: '10 €' has another unit .* had %",
        "1,5;10%;2024-03-02": "'day', row 1: '2024-03-02' is not a date such as 31.1.2024",
    }.items():
        path.write_text(f"a;b;day\n{row}\n")
        with pytest.raises(CredoError, match=message):
            encode(encoder, read_table(path, encoder.text_columns))


@pytest.mark.parametrize(
    ("field", "value"),
    [("decimal", "x"), ("unit", "parsec"), ("first_day", "soon"), ("date_order", "dym")],
)
def test_a_tampered_format_is_refused(tmp_path, field, value):
    frame = pd.DataFrame({"a": ["2024-01-31", "2024-02-01"], "y": [1.5, 2.5]})
    credo.save(fit_encoder(frame, "y"), tmp_path / "encoder")
    _, metadata = credo.files.load_arrays(tmp_path / "encoder")
    column = metadata["content"]["fields"]["numeric"]["tuple"][0]["fields"]
    column["format"]["fields"][field] = value
    credo.files.save_arrays(tmp_path / "encoder", {}, metadata)
    with pytest.raises(CredoError, match="cannot be used"):
        credo.load(tmp_path / "encoder")


@pytest.mark.parametrize("mark", [",", ";", "\t", "|"])
def test_separators_are_found(tmp_path, mark):
    path = tmp_path / ("t.tsv" if mark == "\t" else "t.csv")
    rows = [["name", "note", "y"], ["a", f'"x{mark} y"', "1"], ["b", '"p, q; r"', "2"]]
    path.write_text("\n".join(mark.join(row) for row in rows) + "\n")
    frame = read_table(path)
    assert list(frame.columns) == ["name", "note", "y"]
    assert frame["note"].tolist() == [f"x{mark} y", "p, q; r"] and frame["y"].tolist() == [1, 2]


def test_compressed_files(tmp_path):
    (tmp_path / "t.csv.gz").write_bytes(gzip.compress(b"a,y\n1,2\n3,4\n"))
    assert read_table(tmp_path / "t.csv.gz")["y"].tolist() == [2, 4]
    (tmp_path / "t.csv.gz").write_bytes(gzip.compress(b"a,y\n1,2\n3,4\n")[:-9])
    with pytest.raises(CredoError, match=r"cannot read .*t\.csv\.gz"):
        read_table(tmp_path / "t.csv.gz")
    (tmp_path / "t.csv").write_bytes(b"PK\3\4\0\0\0\1\2\0")
    with pytest.raises(CredoError, match="not a text file"):
        read_table(tmp_path / "t.csv")


def test_excel(tmp_path):
    pytest.importorskip("openpyxl")
    day = pd.to_datetime(["2024-01-31", "2024-02-01", None])
    frame = pd.DataFrame({"size": [1.5, None, 3], "day": day, "kind": [*"uvu"], "y": [1, 2, 5.5]})
    frame.to_excel(tmp_path / "t.xlsx", index=False)
    read = read_table(tmp_path / "t.xlsx")
    encoder = fit_encoder(read, "y")
    assert encoder == fit_encoder(frame, "y")
    np.testing.assert_array_equal(encode(encoder, read), encode(encoder, frame))
    with pd.ExcelWriter(tmp_path / "two.xlsx") as book:
        frame.to_excel(book, sheet_name="first", index=False)
        frame.to_excel(book, sheet_name="other", index=False)
    with pytest.warns(CredoNote, match="read its first sheet, 'first'"):
        read_table(tmp_path / "two.xlsx")


def test_excel_without_its_extra(tmp_path, monkeypatch):
    (tmp_path / "t.xlsx").touch()
    monkeypatch.setitem(sys.modules, "openpyxl", None)
    with pytest.raises(
        CredoError, match=r"needs the extra 'excel': pip install 'credo-bayes\[excel\]'"
    ):
        read_table(tmp_path / "t.xlsx")


def test_words_for_true_and_false_in_any_case():
    frame = pd.DataFrame({"a": ["Yes", "no", "YES ", "No"], "y": [1.5, 2, 3, 4]})
    encoder = fit_encoder(frame, "y")
    assert encoder.features == ("a=no", "a=yes")
    np.testing.assert_array_equal(encode(encoder, frame), [[0, 1], [1, 0], [0, 1], [1, 0]])


def table(rows=30, **columns):
    generator = np.random.default_rng(0)
    return pd.DataFrame({"x": generator.normal(size=rows), **columns})


def test_names_and_empty_columns_are_left_out_and_said():
    frame = table(name=[f"Ann {i}" for i in range(30)], empty=[None] * 30, y=[*"pq"] * 15)
    left_out = pytest.warns(CredoNote, match="'name' is left out: nearly every row has a text")
    with left_out, pytest.warns(CredoNote, match="'empty' is left out: it has no values"):
        encoder = fit_encoder(frame, "y")
    assert encoder.columns == ("x",) and encoder.left_out == ("name", "empty")
    expected = "y: classification, 2 classes, 30 rows, 3 columns: 1 numeric, 2 left out"
    assert table_summary(encoder, frame) == expected
    encode(encoder, frame)  # what is known to be of no use is not said again
    with pytest.warns(CredoNote, match="ignored columns .* not fitted on: more"):
        encode(encoder, frame.assign(more=1))


def test_a_column_that_gives_the_target_away_is_warned_of():
    y = np.random.default_rng(1).normal(size=30)
    with pytest.warns(CredoWarning, match="'twice' gives the target 'y' away"):
        fit_encoder(table(twice=2 * y + 1, y=y), "y")
    kinds = np.array([*"pqr"] * 10)
    with pytest.warns(CredoWarning, match="'code' gives the target 'y' away"):
        fit_encoder(table(code=pd.Series(kinds).map({"p": 3, "q": 1, "r": 2}), y=kinds), "y")
    # The negative control: pytest takes warnings for errors.
    fit_encoder(table(near=y + 0.1 * np.arange(30), y=y), "y")
    fit_encoder(table(code=[*kinds[:-1], "p"], y=kinds), "y")


def test_targets_in_texts_are_taken_in_python():
    frame = table(y=[f"{i},5 €" for i in range(30)])
    units = credo.data.Units.of_table(fit_encoder(frame, "y"))
    back = units.targets_of(frame["y"]) * units.factor + units.shift
    np.testing.assert_allclose(back, np.arange(30) + 0.5, rtol=1e-6)
