"""From arguments to a command: flags are the fields of dataclasses, read by tyro."""

import dataclasses
import difflib
from collections.abc import Iterable, Sequence
from typing import Annotated, Any, Protocol, Union

import tyro

import credo
from credo.app.compare import Compare, compare_with_flags_in
from credo.app.evaluate import Evaluate
from credo.app.extend import Extend
from credo.app.fit import DEFAULT_METHOD, Fit, fit_with_flags_of
from credo.app.hyperparameters import flag, summary
from credo.app.landscape import Landscape
from credo.app.laplace import LaplaceOf, laplace_with_flags
from credo.app.methods import Methods
from credo.app.predict import Predict
from credo.app.refusals import refusing_in_one_line
from credo.app.reproduce import Reproduce, experiment_in, reproduce_with_flags_of
from credo.app.theatre import Theatre
from credo.app.update import Update
from credo.errors import CredoError
from credo.experiments.registry import experiment_named
from credo.inference.registry import method_named

COMMANDS: dict[str, type] = {
    "compare": Compare,
    "fit": Fit,
    "predict": Predict,
    "evaluate": Evaluate,
    "update": Update,
    "extend": Extend,
    "laplace": LaplaceOf,
    "methods": Methods,
    "reproduce": Reproduce,
    "theatre": Theatre,
    "landscape": Landscape,
}
DESCRIPTION = (
    "Networks that know what they do not know. `credo COMMAND --help` lists the flags of a "
    "command, `credo --version` prints the version."
)


NEXT_STEP = """\
credo: networks that know what they do not know. To start:

  credo compare                                     methods side by side
  credo fit TABLE.csv --target COLUMN --out MODEL   learn from your own table
  credo predict MODEL NEW.csv                       answers, and how sure
  credo --help                                      all commands
"""


class Command(Protocol):
    """A dataclass whose fields are flags."""

    def run(self) -> None: ...


def parse(arguments: Sequence[str]) -> Command:
    """The command that the arguments describe. Help and version leave with SystemExit(0)."""
    arguments = list(arguments)
    if not arguments:
        print(NEXT_STEP, end="")
        raise SystemExit(0)
    if arguments[0] == "--version":
        print(f"credo {credo.__version__}")
        raise SystemExit(0)
    if arguments[0] not in (*COMMANDS, "-h", "--help"):
        raise CredoError(
            f"there is no command {arguments[0]!r}{_did_you_mean(arguments[0], COMMANDS)}; "
            f"the commands are {', '.join(COMMANDS)}"
        )
    commands = dict(COMMANDS)
    method = None
    if arguments[0] == "fit":
        method = value_of("--method", arguments) or DEFAULT_METHOD
        commands["fit"] = fit_with_flags_of(method_named(method), value_of("--member", arguments))
    if arguments[0] == "compare":
        commands["compare"] = compare_with_flags_in(arguments[1:])
    if arguments[0] == "laplace":
        commands["laplace"] = laplace_with_flags()
    experiment = experiment_in(arguments) if arguments[0] == "reproduce" else None
    if experiment is not None:
        commands["reproduce"] = reproduce_with_flags_of(experiment_named(experiment))
    if arguments[0] in commands:
        check_flags(commands[arguments[0]], arguments[0], arguments[1:], method)
    return _read(commands, arguments)


def value_of(wanted: str, arguments: Sequence[str]) -> str | None:
    """The value of a flag that decides which further flags there are.

    Example:
        >>> value_of("--method", ["fit", "iris", "--method", "hmc"])
        'hmc'
    """
    found = None
    for argument, following in zip(arguments, [*arguments[1:], None]):
        if argument == wanted:
            found = following
        elif argument.startswith(f"{wanted}="):
            found = argument.removeprefix(f"{wanted}=")
    return found


def _read(commands: dict[str, type], arguments: list[str]) -> Command:
    # The page that lists all commands has a line for each; a command's own page has more.
    brief = arguments[0] not in commands
    named = [
        Annotated[cls, tyro.conf.subcommand(name, description=summary(cls) if brief else None)]
        for name, cls in commands.items()
    ]
    union: Any = Union[tuple(named)]  # noqa: UP007
    with refusing_in_one_line(f"(see credo {arguments[0]} --help)"):
        return tyro.cli(
            union,
            prog="credo",
            description=DESCRIPTION,
            args=arguments,
            config=(tyro.conf.FlagCreatePairsOff,),
        )


def check_flags(command: type, name: str, arguments: Sequence[str], method: str | None) -> None:
    """Refuse a flag that the command does not have, before its value is read as something else."""
    flags = [flag(field.name) for field in dataclasses.fields(command)]
    known = {"--help", *flags, *(each.replace("--", "--no-", 1) for each in flags)}
    for argument in arguments:
        given = argument.partition("=")[0].replace("_", "-")
        if not given.startswith("--") or given in known:
            continue
        hint, more = _did_you_mean(given, flags), ""
        if method is not None:
            common = {flag(field.name) for field in dataclasses.fields(Fit)}
            own = ", ".join(each for each in flags if each not in common)
            more = (
                f"; the flags of {method} are {own}" if own else f"; {method} has none of its own"
            )
        raise CredoError(f"credo {name} has no flag {given}{hint}{more} (see credo {name} --help)")


def _did_you_mean(word: str, known: Iterable[str]) -> str:
    plain = {each.strip("-"): each for each in known}  # dashes alone would make flags look alike
    word = word.strip("-")
    close = sorted((each for each in plain if each.endswith(f"-{word}")), key=len)  # --member-rate
    close = close or difflib.get_close_matches(word, plain, 1)
    return f", did you mean {plain[close[0]]!r}?" if close else ""
