"""Bad input gets one clear line and exit code 2, early, with nothing half-written."""

import numpy as np
import pytest

import credo
from app.conftest import flowers


@pytest.fixture(autouse=True)
def no_long_work(monkeypatch):
    """Every complaint of this file must come before any fitting."""

    def long_work(*_, **__):
        raise AssertionError("the input was accepted")

    monkeypatch.setattr(credo, "fit", long_work)


def fit(data, out, *flags):
    return ("fit", data, "--target", "kind", "--method", "map", "--out", out, *flags)


@pytest.fixture
def write(tmp_path):
    """Write a table that differs from the good one in one thing."""

    def to_file(name="bad.csv", **columns):
        frame = flowers().drop(columns="price").astype({"size": object, "age": object})
        for column, values in columns.items():
            if values is None:
                frame = frame.drop(columns=column)
            else:
                for row, value in values.items() if isinstance(values, dict) else [(0, values)]:
                    frame.loc[row, column] = value
        frame.to_csv(tmp_path / name, index=False)
        return tmp_path / name

    return to_file


def test_the_good_table_is_accepted(command, write, tmp_path):
    """The negative control: what is refused below is refused for its fault."""
    with pytest.raises(AssertionError, match="the input was accepted"):
        command(*fit(write(), tmp_path / "model"))


def test_missing_files(refused, fitted, tmp_path, table):
    refused(*fit(tmp_path / "no.csv", tmp_path / "model"), words="no.csv")
    refused("predict", tmp_path / "no-model", table, words="no-model")
    refused("predict", fitted, tmp_path / "no.csv", words="no.csv")
    refused("evaluate", fitted, table, "--ood", tmp_path / "no.parquet", words="no.parquet")


def test_data_that_is_neither_name_nor_table(refused, tmp_path):
    (tmp_path / "notes.txt").write_text("a,b\n1,2\n")
    map_ = ("--method", "map", "--out", tmp_path / "model")
    refused("fit", tmp_path / "notes.txt", *map_, words=["notes.txt", ".xlsx or .parquet"])
    refused("fit", "digitz", *map_, words=["'digitz'", "did you mean 'digits'?"])
    refused("fit", "digits", "--target", "kind", *map_, words="--target")
    (tmp_path / "broken.csv").write_bytes(b"a,b\n1,2\n3,4,5\n\xff\xfe")
    refused(*fit(tmp_path / "broken.csv", tmp_path / "model"), words="broken.csv")
    (tmp_path / "broken.parquet").write_bytes(b"PAR1 not really")
    refused(*fit(tmp_path / "broken.parquet", tmp_path / "model"), words="broken.parquet")
    (tmp_path / "empty.csv").touch()
    refused(*fit(tmp_path / "empty.csv", tmp_path / "model"), words="empty.csv")


def test_missing_target_column(refused, write, fitted, tmp_path):
    out = tmp_path / "model"
    refused("fit", write(), "--method", "map", "--out", out, words=["--target", "size, color, age"])
    refused(*fit(write(kind=None), out), words=["'kind'", "size"])
    refused(
        *("fit", write(), "--target", "kin", "--method", "map", "--out", out),
        words="did you mean 'kind'?",
    )
    refused("evaluate", fitted, write(kind=None), words="'kind'")
    refused(*fit(write(kind={3: None}), out), words=["'kind'", "row 4"])


def test_text_in_a_numeric_column(refused, write, fitted, tmp_path):
    bad = write(size={5: "twelve"})
    refused(*fit(bad, tmp_path / "model"), words=["'size'", "row 6", "'twelve'"])
    refused("predict", fitted, bad, "--out", tmp_path / "p.csv", words=["'size'", "'twelve'"])
    refused("evaluate", fitted, bad, words=["'size'", "'twelve'"])


@pytest.mark.parametrize("value", ["inf", "-inf", 1e999])
def test_infinite_features(refused, write, fitted, tmp_path, value):
    bad = write(age={7: value})
    refused(*fit(bad, tmp_path / "model"), words=["'age'", "row 8", "infinite"])
    refused("predict", fitted, bad, "--out", tmp_path / "p.csv", words=["'age'", "infinite"])


def test_columns_without_values(refused, write, tmp_path):
    gone = dict.fromkeys(range(120), "NaN")
    bad = write(age=gone, size=gone, color=gone)
    refused(*fit(bad, tmp_path / "model"), words=["size, color, age", "without values"])


def test_one_class_only(refused, write, tmp_path):
    bad = write(kind=dict.fromkeys(range(120), "big"))
    refused(*fit(bad, tmp_path / "model"), words=["'kind'", "only the class 'big'"])


def test_a_class_unseen_in_training(refused, write, fitted):
    refused("evaluate", fitted, write(kind={0: "huge"}), words=["'huge'", "big, small"])


def test_wrong_features_at_prediction(refused, write, fitted, tmp_path):
    out = ("--out", tmp_path / "p.csv")
    refused("predict", fitted, write(age=None), *out, words=["lacks age", "size, age, color"])
    refused("predict", fitted, "iris", *out, words=["'iris'", "size, age, color"])


def test_columns_that_cannot_be_carried(refused, write, fitted, tmp_path):
    predict = ("predict", fitted, write(), "--out", tmp_path / "p.csv")
    refused(*predict, "--id", "nmae", words=["--id", "'nmae'", "size, color, age, kind"])


def test_wrong_shape_at_prediction(refused, tmp_path, table):
    model = credo.default_model(3)
    params = model.init(credo.keys.as_key(0), (4,))
    draws = credo.files.jax.tree.map(lambda leaf: leaf[None, None], params)
    units = credo.data.Units(classes=("a", "b", "c"))
    record = credo.posterior.Record((4,), units, origin=credo.data.Origin("iris"))
    credo.save(credo.posterior.Samples(model, draws, record), tmp_path / "model")
    refused("predict", tmp_path / "model", "wine", words=["(4,)", "(13,)"])
    refused("predict", tmp_path / "model", table, words=["'iris'", "table"])
    refused("evaluate", tmp_path / "model", "iris", words=["other classes", "a, b, c"])


def test_truncated_model_files(refused, fitted, tmp_path, table):
    whole = fitted.read_bytes()
    for length in (0, 1, 7, 8, 9, 100, len(whole) // 2, len(whole) - 1):
        (tmp_path / "cut").write_bytes(whole[:length])
        refused("predict", tmp_path / "cut", table, words="cut")
    (tmp_path / "cut").write_bytes(whole + b"\0")
    refused("predict", tmp_path / "cut", table, words="cut")
    refused("predict", table, table, words="flowers.csv")  # the arguments swapped


def test_tampered_model_files(refused, fitted, tmp_path, table):
    """No byte of the file can change unnoticed."""
    whole = bytearray(fitted.read_bytes())
    places = np.random.default_rng(0).integers(len(whole), size=40)
    for place in [*range(12), *map(int, places), len(whole) - 1]:
        changed = bytearray(whole)
        changed[place] ^= 1 << (place % 8)
        (tmp_path / "changed").write_bytes(changed)
        refused("evaluate", tmp_path / "changed", table, words="changed")


def test_a_model_of_another_kind(refused, fitted, tmp_path, table):
    arrays, metadata = credo.files.load_arrays(fitted)
    credo.files.save_arrays(tmp_path / "newer", arrays, metadata | {"format": 99})
    refused("predict", tmp_path / "newer", table, words="format 99")
    units = metadata["content"]["fields"]["record"]["fields"]["units"]["fields"]
    units["inputs"]["fields"]["target"]["fields"]["std"] = -1.0
    credo.files.save_arrays(tmp_path / "odd", arrays, metadata)
    refused("predict", tmp_path / "odd", table, words=["odd", "standard deviation"])


def test_an_unknown_method(refused, table, tmp_path):
    arguments = ("fit", table, "--target", "kind", "--out", tmp_path / "model", "--method")
    refused(*arguments, "dropuot", words=["'dropuot'", "did you mean 'dropout'?"])
    refused(*arguments, "zzz", words=["'zzz'", "hmc"])
    refused("compare", "iris", "--methods", "map", "hcm", words="did you mean 'hmc'?")


@pytest.mark.parametrize(
    ("method", "flag", "value"),
    [
        ("hmc", "--step-size", "-0.1"),
        ("hmc", "--step-size", "0"),
        ("hmc", "--step-size", "nan"),
        ("hmc", "--num-chains", "0"),
        ("map", "--learning-rate", "-1e-3"),
        ("map", "--num-steps", "0"),
        ("map", "--batch-size", "-5"),
        ("dropout", "--rate", "1.5"),
        ("map", "--prior-scale", "-1"),
        ("map", "--hidden", "0"),
        ("map", "--seed", "-1"),
        ("map", "--seed", "99999999999999999999"),
        ("map", "--test-fraction", "1.5"),
        ("map", "--test-fraction", "-0.1"),
        ("map", "--checkpoint-seconds", "-1"),
    ],
)
def test_a_setting_out_of_range(refused, table, tmp_path, method, flag, value):
    arguments = ("fit", table, "--target", "kind", "--method", method, "--out", tmp_path / "model")
    line = refused(*arguments, flag, value)
    assert flag.strip("-").rpartition("-")[2] in line


def test_draws_and_seeds_out_of_range(refused, fitted, table):
    refused("predict", fitted, table, "--num-draws", "0", words=["num_draws", "got 0"])
    refused("compare", "iris", "--seeds", "0", words="seed")


def test_unwritable_output(refused, fitted, table, tmp_path):
    (tmp_path / "folder.csv").mkdir()
    (tmp_path / "plain").touch()
    for out, words in [
        (tmp_path / "nowhere" / "x.csv", "nowhere"),
        (tmp_path / "plain" / "x.csv", "plain"),
        (tmp_path / "folder.csv", "it is a folder"),
        ("/dev/full", "not an ordinary file"),
    ]:
        refused(*fit(table, out), words=words)
        if str(out).endswith(".csv"):
            refused("predict", fitted, table, "--out", out, words=words)
        refused("compare", "iris", "--out", out, words=words)


def test_an_output_that_is_also_an_input(refused, fitted, table, tmp_path):
    refused(*fit(table, table), words="overwrite")
    refused("predict", fitted, table, "--out", table, words="overwrite")
    refused("compare", table, "--target", "kind", "--out", table, words="overwrite")
    refused("predict", fitted, table, "--out", tmp_path / "p.txt", words=".csv or .parquet")


def test_a_checkpoint_of_another_run(refused, table, tmp_path, monkeypatch):
    monkeypatch.undo()  # the checkpoint is read where the fit begins
    (tmp_path / "model.checkpoint").write_bytes(b"half a checkpoint")
    refused(*fit(table, tmp_path / "model"), words="model.checkpoint")
    credo.files.save_arrays(tmp_path / "model.checkpoint", {}, {"fingerprint": "x", "step": 3})
    refused(*fit(table, tmp_path / "model"), words=["another run", "delete it"])
