"""The surface: help, version, flags, messages, exit codes; and that it starts quickly."""

import dataclasses
import io
import json
import subprocess
import sys
import warnings

import pytest
import tyro

import credo
from credo.app import main as main_module
from credo.app.fit import Fit, fit_with_flags_of
from credo.app.hyperparameters import field_texts, hyperparameters
from credo.app.parse import COMMANDS, parse, value_of
from credo.app.refusals import complaint
from credo.inference import METHODS


def test_without_arguments_the_next_step_is_shown(command):
    result = command()
    assert result.code == 0 and result.err == ""
    lines = result.out.splitlines()
    assert len(lines) < 8 and max(map(len, lines)) <= 80
    for line in lines[2:]:  # every line shown is a command
        assert line.split()[:1] == ["credo"] and line.split()[1] in (*COMMANDS, "--help")


def test_help_lists_all_commands(command):
    result = command("--help")
    assert result.code == 0 and result.err == ""
    assert all(name in result.out for name in COMMANDS)


def test_version(command):
    assert command("--version") == (0, f"credo {credo.__version__}\n", "")


@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_explains_every_flag(command, name):
    result = command(name, "--help")
    assert result.code == 0
    texts = field_texts(COMMANDS[name])
    assert set(texts) == {field.name for field in dataclasses.fields(COMMANDS[name])}
    shown = " ".join(result.out.replace("│", " ").split())
    assert all(" ".join(text.split()) in shown for text in texts.values())


def test_methods_are_listed_with_what_they_are(command):
    result = command("methods")
    assert result.code == 0
    names = [line.split()[0] for line in result.out.splitlines()]
    assert names == list(METHODS)
    assert all(len(line.split()) > 1 for line in result.out.splitlines())


def test_a_method_lists_its_flags(command):
    result = command("methods", "dropout")
    assert "--input-rate" in result.out and "Drop probability of the inputs." in result.out
    assert command("methods", "dropuot").err.endswith("did you mean 'dropout'?\n")


@pytest.mark.parametrize("name", METHODS)
def test_the_fields_of_every_method_are_flags(name):
    """A method joins the command line by its registry line alone."""
    method = METHODS[name]
    own = {field.name for field in dataclasses.fields(Fit)}
    assert not own & {field.name for field in dataclasses.fields(method)}, "a flag means two things"
    assert all(each.help for each in hyperparameters(method)), "a field without a text"
    parsed = parse(["fit", "iris", "--method", name, "--out", "x"])
    assert parsed.chosen_method() == method()


def test_flags_reach_the_method():
    flags = ["--rate", "0.3", "--channelwise", "--num-epochs", "2.5", "--optimizer", "sgd"]
    parsed = parse(["fit", "iris", "--method=dropout", "--out", "x", *flags])
    expected = credo.Dropout(rate=0.3, channelwise=True, num_epochs=2.5, optimizer="sgd")
    assert parsed.chosen_method() == expected
    assert parse(["fit", "iris", "--method", "map", "--out", "x", "--hidden", "5", "6"]).hidden == (
        5,
        6,
    )


def test_the_last_method_counts():
    assert value_of("--method", ["fit", "--method", "map", "--method=hmc"]) == "hmc"
    assert value_of("--method", ["fit", "--method"]) is None
    assert {f.name for f in dataclasses.fields(fit_with_flags_of(credo.HMC))} >= {"step_size"}


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["fti"], ["'fti'", "did you mean 'fit'?"]),
        (["fit"], ["DATA", "--out"]),
        (["fit", "iris", "--method", "map"], ["--out"]),
        (["fit", "iris", "--method", "map", "--out"], ["--out"]),
        (["fit", "iris", "--method"], ["--method"]),
        (
            ["fit", "iris", "--method", "map", "--out", "x", "--rate", "0.1"],
            ["no flag --rate, did you mean '--learning-rate'?", "flags of map are"],
        ),
        (
            [
                "fit",
                "iris",
                "--method",
                "ensemble",
                "--member",
                "dropout",
                "--out",
                "x",
                "--rate",
                "1",
            ],
            ["did you mean '--member-rate'?", "--member-input-rate"],
        ),
        (
            ["fit", "iris", "--method", "exact", "--out", "x", "--noise", "1"],
            ["did you mean '--target-noise'?", "exact has none of its own"],
        ),
        (["fit", "iris", "--method", "dropout", "--out", "x", "--rat", "1"], ["mean '--rate'"]),
        (["fit", "--rat", "1", "iris", "--method", "dropout", "--out", "x"], ["no flag --rat,"]),
        (["fit", "iris", "--method", "dropout", "--out", "x", "--rate", "a"], ["--rate", "'a'"]),
        (["fit", "iris", "--method", "map", "--out", "x", "--num-steps", "1.5"], ["--num-steps"]),
        (["fit", "iris", "--method", "map", "--out", "x", "--network", "cnn"], ["mlp", "lenet"]),
        (["fit", "iris", "--method", "map", "--out", "x", "--hidden", "a"], ["--hidden"]),
        (["predict", "model", "iris", "surplus"], ["surplus"]),
        (["methods", "--all"], ["no flag --all "]),
    ],
)
def test_a_slip_in_the_arguments_is_one_line(refused, arguments, words):
    refused(*arguments, words=words)


def test_another_version_of_tyro_shows_its_own_message(command, monkeypatch):
    """The hook is private: without it the message is tyro's box, not a crash."""
    monkeypatch.delattr(tyro._errors, "on_parse_error")
    result = command("predict", "model", "iris", "surplus")
    assert result.code == 2 and "surplus" in result.err


def test_an_unknown_kind_of_complaint_is_left_to_tyro():
    assert complaint(object()) is None
    missing = type("MissingArgs", (), {})
    assert complaint(missing()) is None  # its fields have other names


def run_as(monkeypatch, action):
    """Let the command line run `action` instead of a command."""
    planted = type("Planted", (), {"run": staticmethod(action)})
    monkeypatch.setattr(main_module, "parse", lambda arguments: planted())


def raising(error):
    def action():
        raise error

    return action


@pytest.mark.parametrize(
    ("error", "code", "line"),
    [
        (credo.CredoError("two\nlines"), 2, "error: two lines\n"),
        (credo.DivergedError("gone"), 2, "error: gone\n"),
        (KeyboardInterrupt(), 130, "interrupted\n"),
        (KeyboardInterrupt("go on so"), 130, "go on so\n"),
        (
            OSError(28, "No space left", "f.csv"),
            2,
            "error: cannot read or write f.csv: No space left\n",
        ),
        (BrokenPipeError(32, "Broken pipe"), 141, ""),
    ],
)
def test_exit_codes(monkeypatch, command, error, code, line):
    run_as(monkeypatch, raising(error))
    assert command() == (code, "", line)


def test_a_bug_is_not_hidden(monkeypatch, command):
    run_as(monkeypatch, raising(ZeroDivisionError()))
    with pytest.raises(ZeroDivisionError):
        command()


def test_a_warning_is_one_line(monkeypatch, command):
    def action():
        for _ in range(2):
            warnings.warn("chains\ndisagree", credo.CredoWarning, stacklevel=1)

    run_as(monkeypatch, action)
    assert command() == (0, "", "warning: chains disagree\n" * 2)


def test_an_output_that_knows_few_characters(monkeypatch):
    narrow = io.TextIOWrapper(io.BytesIO(), "ascii")
    monkeypatch.setattr(sys, "stdout", narrow)
    run_as(monkeypatch, lambda: print("1 ± 2"))
    assert main_module.main([]) == 0
    assert narrow.buffer.getvalue() == b"1 \\xb1 2\n"


QUICK_START = """
import contextlib, io, json, sys
from credo.app.main import main
with contextlib.redirect_stdout(io.StringIO()):
    codes = [main(arguments) for arguments in ([], ["--help"], ["methods"], ["methods", "hmc"])]
from jax._src import xla_bridge
heavy = ("pandas", "sklearn", "matplotlib", "scipy.stats", "pooch", "PIL", "safetensors", "rich")
loaded = [name for name in heavy if name in sys.modules]
print(json.dumps([codes, loaded, xla_bridge.backends_are_initialized()]))
"""


def test_help_and_methods_start_quickly():
    """They load no heavy module and leave the devices alone."""
    done = subprocess.run(
        [sys.executable, "-c", QUICK_START], capture_output=True, text=True, check=True
    )
    assert json.loads(done.stdout) == [[0, 0, 0, 0], [], False]


def test_flags_that_take_several_words_and_methods_by_name():
    """A tuple stays a tuple; a field that takes a method takes its name."""
    several = parse(["reproduce", "lenet-ensemble", "--sets", "mnist", "--num-epochs", "2"])
    assert several.sets == ("mnist",) and several.num_epochs == (2.0,)
    ensemble = parse(
        ["fit", "iris", "--method", "ensemble", "--member", "dropout", "--size", "2", "--out", "m"]
    )
    assert ensemble.chosen_method() == credo.Ensemble("dropout", 2)


def test_members_of_an_ensemble_have_their_flags():
    fit = ["fit", "iris", "--method", "ensemble", "--out", "m", "--size", "3"]
    flags = ["--member", "dropout", "--member-rate", "0.3", "--member-num-steps", "7"]
    assert parse([*fit, *flags]).chosen_method() == credo.Ensemble(
        credo.Dropout(0.3, num_steps=7), 3
    )
    plain = parse([*fit, "--member-num-steps", "9"]).chosen_method()
    assert plain == credo.Ensemble(credo.MAP(num_steps=9), 3)
    with pytest.raises(credo.CredoError, match="no flag --member-rate"):
        parse([*fit, "--member-rate", "0.3"])  # members are map
