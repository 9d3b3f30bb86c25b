"""Small tables, a model of each kind, and the command line as a function."""

import os
import re
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pandas as pd
import pytest

from credo.app.main import main

# Seconds instead of minutes: what is tested is the path, not the fit.
QUICK = ("--num-steps", "40", "--batch-size", "32", "--hidden", "8")

SUMMARY = re.compile(r".*: (classification|regression), .*\d+ rows, \d+ columns?: .*\n")


class Result(NamedTuple):
    code: int
    out: str
    err: str


@pytest.fixture
def command(capsys):
    """`command("fit", ...)` is the command line in this process."""

    def run(*arguments) -> Result:
        code = main([str(argument) for argument in arguments])
        return Result(code, *capsys.readouterr())

    return run


@pytest.fixture
def refused(command, tmp_path):
    """Run a command that must fail with one line, naming `words`, and leave no trace behind.

    What was understood of a table may have been said before.
    """

    def check(*arguments, words=()) -> str:
        before = snapshot(tmp_path)
        result = command(*arguments)
        assert result.code == 2, result
        assert result.out == "" or SUMMARY.fullmatch(result.out), result.out
        assert result.err.startswith("error: ") and result.err.count("\n") == 1, result.err
        for word in (words,) if isinstance(words, str) else words:
            assert word in result.err
        assert snapshot(tmp_path) == before
        return result.err

    return check


def snapshot(folder: Path) -> dict[str, bytes | None]:
    """Every file below a folder, hidden ones too, with its content."""
    return {
        str(path.relative_to(folder)): path.read_bytes() if path.is_file() else None
        for path in sorted(folder.rglob("*"))
    }


def flowers(num_rows: int = 120) -> pd.DataFrame:
    """Numeric and categorical columns with gaps, a class and a quantity that follow from them."""
    generator = np.random.default_rng(0)
    size = generator.normal(10, 3, num_rows)
    color = generator.choice(["red", "green", "blue"], num_rows)
    bonus = 3.0 * (color == "red")
    frame = pd.DataFrame(
        {
            "size": size,
            "color": color,
            "age": generator.integers(1, 90, num_rows),
            "kind": np.where(size + bonus + generator.normal(0, 1, num_rows) > 11, "big", "small"),
            "price": 1000 + 200 * size + 50 * bonus + generator.normal(0, 40, num_rows),
        }
    )
    frame.loc[::17, "size"] = np.nan
    frame.loc[::23, "color"] = None
    return frame


@pytest.fixture
def table(tmp_path) -> Path:
    """A table with the class `kind` as target."""
    path = tmp_path / "flowers.csv"
    flowers().drop(columns="price").to_csv(path, index=False)
    return path


@pytest.fixture(scope="session")
def fitted(tmp_path_factory) -> Path:
    """A classifier of `kind`, fitted once."""
    folder = tmp_path_factory.mktemp("fitted")
    flowers().drop(columns="price").to_csv(folder / "flowers.csv", index=False)
    arguments = ["fit", folder / "flowers.csv", "--target", "kind", "--method", "dropout"]
    assert main([str(a) for a in [*arguments, "--out", folder / "model", *QUICK]]) == 0
    assert os.listdir(folder) and not list(folder.glob(".*"))
    return folder / "model"
