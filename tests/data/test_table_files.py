"""Reading a user's file, and the whole way from file to data set."""

import numpy as np
import pandas as pd
import pytest

from credo.data import load_table
from credo.data.table import read_table
from credo.errors import CredoError, CredoWarning

BAD_FILES = {
    "empty": ("", "cannot read .*table.csv"),
    "header only": ("a,b\n", "has no rows"),
    "no header": ("1.5,2,0\n2.5,3,1\n", "numbers instead of column names"),
    "no header, repeated numbers": ("1,1,0\n2.5,3,1\n", "numbers instead of column names"),
    "repeated names": ("a,b,a\n1,2,3\n", "several columns named a"),
    "nameless": (",a,b\n0,1,2\n", "column 1 of .* has no name"),
    "row too long": ("a,b\n1,2\n1,2,3\n", "cannot read"),
    "all rows too long": ("a,b\n1,2,3\n4,5,6\n", "cannot read"),
    "open quote": ('a,b\n"1,2\n', "cannot read"),
}


@pytest.mark.parametrize("case", BAD_FILES)
def test_bad_csv_files(tmp_path, case):
    text, message = BAD_FILES[case]
    path = tmp_path / "table.csv"
    path.write_text(text)
    with pytest.raises(CredoError, match=message) as caught:
        read_table(path)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("name", ["table.csv", "table.parquet", "table.xlsx", "table.csv.gz"])
def test_unreadable_files(tmp_path, name):
    path = tmp_path / name
    with pytest.raises(CredoError, match="there is no file"):
        read_table(path)
    path.write_bytes(b"\xff\xfe\x00PAR1 rubbish \x80")
    with pytest.raises(CredoError, match="cannot read"):
        read_table(path)
    with pytest.raises(CredoError, match=r"ends in \.csv, .*\.xlsx or \.parquet"):
        read_table(tmp_path / "table.xls")


def test_spreadsheet_marks_are_tolerated(tmp_path):
    path = tmp_path / "table.csv"
    path.write_bytes("\ufeffa,b\r\n1,x\r\n,NA\r\n".encode())
    table = read_table(path)
    assert list(table.columns) == ["a", "b"]
    assert table.isna().to_numpy().tolist() == [[False, False], [True, True]]


@pytest.mark.parametrize("suffix", [".csv", ".parquet"])
def test_from_file_to_data_set(tmp_path, suffix):
    generator = np.random.default_rng(0)
    table = pd.DataFrame(
        {
            "length": generator.normal(5, 2, 100),
            "color": generator.choice(["red", "blue"], 100),
            "kind": generator.choice(["oak", "elm", "fir"], 100),
        }
    )
    table.loc[::7, "length"] = np.nan
    path = tmp_path / f"trees{suffix}"
    table.to_csv(path, index=False) if suffix == ".csv" else table.to_parquet(path)
    data, encoder = load_table(path, "kind", test_fraction=0.25, seed=1)
    assert data.task == "classification" and data.classes == ("elm", "fir", "oak")
    assert data.features == ("length", "length missing", "color=blue", "color=red")
    assert len(data.train.x) + len(data.test.x) == 100
    present = data.train.x[data.train.x[:, 1] == 0, 0]
    np.testing.assert_allclose([present.mean(), present.std()], [0, 1], atol=1e-5)
    assert encoder.columns == ("length", "color")


def test_the_test_rows_leave_no_trace_in_the_encoding(tmp_path):
    """The scale comes from the training rows: changing the test rows changes nothing else."""
    path = tmp_path / "table.csv"
    table = pd.DataFrame({"x": np.arange(50.0), "y": np.linspace(0, 1, 50) ** 2})
    table.to_csv(path, index=False)
    data, encoder = load_table(path, "y", seed=2)
    rows = np.round(data.test.x[:, 0] * encoder.numeric[0].std + encoder.numeric[0].mean)
    table.loc[rows.astype(int)] += 1000
    table.to_csv(path, index=False)
    changed, same_encoder = load_table(path, "y", seed=2)
    assert same_encoder == encoder
    np.testing.assert_array_equal(changed.train.x, data.train.x)
    assert changed.test.x.min() > 10


def test_a_class_with_one_row_is_kept_for_training(tmp_path):
    path = tmp_path / "table.csv"
    pd.DataFrame({"x": range(20), "y": ["a"] * 10 + ["b"] * 9 + ["rare"]}).to_csv(path, index=False)
    for seed in range(8):
        with pytest.warns(CredoWarning, match="only one row .* has the class rare"):
            data, _ = load_table(path, "y", seed=seed)
        assert data.classes == ("a", "b", "rare")
