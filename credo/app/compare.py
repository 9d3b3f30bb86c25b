"""`credo compare`: methods side by side on one data set."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

from tyro.conf import Positional, arg

from credo.app.hyperparameters import with_flags
from credo.app.inputs import DataFolder
from credo.app.method_flags import flags_of, method_with
from credo.app.networks import Hidden, NetworkName, TargetNoise, chosen_network
from credo.app.outputs import check_output
from credo.app.training import comparison_data
from credo.data.encoder import TableTask
from credo.errors import CredoError
from credo.inference import Method
from credo.inference.registry import METHODS, method_named


@dataclass(frozen=True)
class Compare:
    """Compare methods on one data set: a table here, a page with pictures in a file.

    Every method has its own defaults; any of its fields can be set by a flag with its name:
    `--methods map,hmc --hmc.num-samples 500` (`credo methods hmc` lists them). The page is one HTML
    file that needs no other; its numbers are also written as JSON beside it.
    """

    data: Annotated[Positional[str], arg(metavar="[DATA]")] = "digits"
    """Name of a data set, or a table (.csv, .parquet)."""
    methods: Annotated[tuple[str, ...], arg(metavar="NAME ...")] = (
        "map",
        "dropout",
        "ensemble",
        "laplace",
        "hmc",
        "auto",
    )
    """Which ones, with commas or spaces between them; see `credo methods`."""
    baselines: bool = False
    """Judge scikit-learn's linear model, random forest and boosted trees too."""
    seeds: Annotated[int | None, arg(metavar="INT", help_behavior_hint="")] = None
    """Runs of each method; by default 3, and 1 of those that take long (hmc, nuts, auto …)."""
    seed: int = 0
    """The first seed; the others follow it. The rows to test on stay the same."""
    out: Annotated[Path, arg(metavar="FILE")] = Path("report.html")
    """The page to write."""
    ood: Annotated[str | None, arg(metavar="DATA", help_behavior_hint="")] = None
    """Inputs unlike the training data; by default, classes held out of it if there are enough."""
    target: Annotated[str | None, arg(metavar="COL", help_behavior_hint="")] = None
    """Column of the table to predict."""
    task: Annotated[TableTask | None, arg(help_behavior_hint="")] = None
    """What the target is; by default, what its values look like."""
    network: NetworkName = "mlp"
    """Multilayer perceptron, or LeNet for images."""
    hidden: Hidden = None
    """Units of each hidden layer; by default 50, and 500 for lenet."""
    prior_scale: float = 1.0
    """Standard deviation of the normal prior over weights."""
    target_noise: TargetNoise = None
    """Known standard deviation of a quantity around the function; by default it is learned."""
    num_draws: int = 100
    """Posterior draws to average over."""
    data_dir: DataFolder = None
    """Folder of data sets."""

    def run(self) -> None:
        from credo import report

        methods = self.chosen_methods()
        network = chosen_network(self.network, self.hidden)
        numbers = self.out.with_suffix(".json")
        if numbers == self.out:
            raise CredoError(f"the numbers go to {numbers}; name a file ending in .html for --out")
        for path in (self.out, numbers):
            check_output(path, [self.data])
        data, ood = comparison_data(self.data, self.target, self.task, self.ood, self.data_dir)
        found = report.compare(
            data,
            methods,
            self.seeds,
            network,
            ood=ood,
            num_draws=self.num_draws,
            noise=self.target_noise,
            seed=self.seed,
            prior_scale=self.prior_scale,
            baselines=self.baselines,
        )
        report.print_table(found)
        report.write_report(found, self.out)
        print(f"\nwrote {self.out} and {numbers}\n\n{report.verdict(found)}")

    def chosen_methods(self) -> dict[str, Method]:
        """The methods by name, with the fields that were given."""
        return {
            name: method_with(method_named(name), self, prefix_of(name))
            for name in names_in(self.methods)
        }


def names_in(methods: Sequence[str]) -> list[str]:
    """Names with commas, spaces or both between them, each once.

    Example:
        >>> names_in(["map,hmc", "auto"])
        ['map', 'hmc', 'auto']
    """
    return list(dict.fromkeys(n for each in methods for n in each.replace(",", " ").split()))


def prefix_of(name: str) -> str:
    """Before the fields of a method, where several methods have some of the same name.

    Two underlines are a dot on the command line: `hmc__num_samples` is `--hmc.num-samples`.
    """
    return name.replace("-", "_") + "__"


def compare_with_flags_in(arguments: Sequence[str]) -> type:
    """`Compare` with the fields of those methods of which the arguments set one."""
    flags = [argument[2:].partition("=")[0] for argument in arguments if argument.startswith("--")]
    dotted = [name.partition(".")[0].replace("_", "-") for name in flags if "." in name]
    compared = names_in(_methods_in(arguments))
    own = []
    for name in dict.fromkeys(dotted):
        if name not in METHODS or name not in compared:
            method_named(name)
            raise CredoError(
                f"--{name}.… is a setting of {name}, which is not compared; add {name} to --methods"
            )
        member = _last_value(f"--{name}.member", arguments)
        prefix = prefix_of(name)
        own += [f._replace(name=prefix + f.name) for f in flags_of(method_named(name), member)]
    return with_flags(Compare, own)


def _methods_in(arguments: Sequence[str]) -> list[str]:
    """What stands after `--methods`, up to the next flag; the default where it is not given."""
    found: list[str] | None = None
    is_open = False
    for argument in arguments:
        if argument == "--methods":
            found, is_open = [], True
        elif argument.startswith("--methods="):
            found, is_open = [argument.partition("=")[2]], False
        elif argument.startswith("--"):
            is_open = False
        elif is_open and found is not None:
            found.append(argument)
    return list(Compare.methods) if found is None else found


def _last_value(wanted: str, arguments: Sequence[str]) -> str | None:
    found = None
    for argument, following in zip(arguments, [*arguments[1:], None]):
        if argument == wanted:
            found = following
        elif argument.startswith(f"{wanted}="):
            found = argument.partition("=")[2]
    return found
