"""`credo methods`: which methods there are, and the flags of each."""

from dataclasses import dataclass
from typing import Annotated

from tyro.conf import Positional, arg

from credo.app.hyperparameters import flag, hyperparameters, summary
from credo.app.text import columns
from credo.inference.registry import METHODS, method_named


@dataclass(frozen=True)
class Methods:
    """List the methods, or the flags of one method."""

    name: Annotated[Positional[str | None], arg(metavar="[NAME]", help_behavior_hint="")] = None
    """A method, to see its flags with their defaults."""

    def run(self) -> None:
        if self.name is None:
            print(columns([(name, summary(method)) for name, method in METHODS.items()]))
            return
        method = method_named(self.name)
        print(f"{self.name}: {summary(method)}\n")
        print(columns([(flag(h.name), str(h.default), h.help) for h in hyperparameters(method)]))
