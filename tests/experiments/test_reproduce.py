"""`credo reproduce`: what can be reproduced, its flags, its messages."""

import dataclasses

import pytest

from credo.app.hyperparameters import field_texts
from credo.app.main import main
from credo.app.reproduce import Reproduce, reproduce_with_flags_of
from credo.experiments.page import Page, Pattern, new_figure
from credo.experiments.registry import EXPERIMENTS, experiment_named

FLAGS = ("--num-steps", "3", "--num-draws", "2")
pytestmark = pytest.mark.usefixtures("quick_compilation")


@pytest.mark.parametrize("name", EXPERIMENTS)
def test_every_experiment_explains_its_settings(name, capsys):
    cls = experiment_named(name)
    assert cls.__doc__ and dataclasses.is_dataclass(cls)
    settings = {field.name for field in dataclasses.fields(cls)}
    assert set(field_texts(cls)) == settings
    assert not settings & {field.name for field in dataclasses.fields(Reproduce)}
    assert main(["reproduce", name, "--help"]) == 0
    shown = capsys.readouterr().out
    assert all("--" + setting.replace("_", "-") in shown for setting in settings)


def test_settings_given_as_flags_reach_the_experiment():
    command = reproduce_with_flags_of(experiment_named("dropout-functions"))
    chosen = command(name="dropout-functions", num_data=7).chosen()
    assert chosen == experiment_named("dropout-functions")(num_data=7)
    assert Reproduce(name="dropout-functions").chosen() == type(chosen)()


def test_without_a_name_experiments_are_listed(capsys):
    assert main(["reproduce"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert [line.split()[0] for line in lines] == list(EXPERIMENTS)
    assert all(len(line.split()) > 2 for line in lines)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["weigth-decay"], "did you mean 'weight-decay'?"),
        (["nothing-like-it"], "known: dropout-accuracy"),
        (["weight-decay", "--sedes", "3"], "did you mean '--seeds'?"),
        (["weight-decay", "--seeds", "many"], "many"),
    ],
)
def test_a_mistake_is_one_line(arguments, words, capsys):
    assert main(["reproduce", *arguments]) == 2
    out, err = capsys.readouterr()
    assert out == "" and err.count("\n") == 1 and words in err


def test_a_page_is_printed_and_written(tmp_path, capsys, monkeypatch):
    """What an experiment finds is not looked at here: `test_runs` runs every one of them."""
    cls = experiment_named("dropout-functions")
    ran = []

    def found(self, data_dir):
        ran.append(self)
        patterns = (Pattern("it rises", True, "+1"), Pattern("it falls", False, "+1"))
        return Page("dropout-functions", "Title", "Ten runs.", (), patterns, {"A": new_figure()[0]})

    monkeypatch.setattr(cls, "run", found)
    assert main(["reproduce", "dropout-functions", *FLAGS, "--out", str(tmp_path / "new")]) == 0
    assert ran == [cls(num_steps=3, num_draws=2)]
    out = capsys.readouterr().out
    page = tmp_path / "new" / "dropout-functions.md"
    assert page.read_text("utf-8") in out
    assert f"1 of 2 patterns hold; wrote {page}" in out
    assert page.with_name("dropout-functions-0.png").exists()


def test_a_folder_that_cannot_be_is_refused_before_the_work(tmp_path, capsys, monkeypatch):
    monkeypatch.setattr(experiment_named("dropout-functions"), "run", lambda *_: pytest.fail("ran"))
    (tmp_path / "file").touch()
    arguments = ["reproduce", "dropout-functions", "--out", str(tmp_path / "file" / "below")]
    assert main(arguments) == 2
    assert "is a file" in capsys.readouterr().err
