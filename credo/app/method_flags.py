"""A method from flags: its own fields, and for an ensemble those of its members."""

from typing import Any

from credo.app.hyperparameters import Hyperparameter, hyperparameters
from credo.inference import Method
from credo.inference.registry import method_named

MEMBER = "member_"  # before the hyper-parameters of an ensemble's members


def flags_of(method: type, member: str | None = None) -> list[Hyperparameter]:
    """The fields of a method, and of its members, by default those it has by itself."""
    own = hyperparameters(method)
    default = next((each.default for each in own if each.name == "member"), None)
    if default is not None:
        inner = hyperparameters(method_named(member or default))
        own += [each._replace(name=MEMBER + each.name) for each in inner]
    return own


def method_with(method: type, command: Any, prefix: str = "") -> Method:
    """The method with the fields that a command has under `prefix`; the others are its defaults."""

    def given(cls: type, before: str) -> dict[str, Any]:
        names = [each.name for each in hyperparameters(cls)]
        return {n: getattr(command, before + n) for n in names if hasattr(command, before + n)}

    options = given(method, prefix)
    if "member" in options:
        member = method_named(options["member"])
        built = member(**given(member, prefix + MEMBER))
        options["member"] = options["member"] if built == member() else built
    return method(**options)
