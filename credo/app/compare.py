"""`credo compare`: methods side by side on one data set."""

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

from tyro.conf import Positional, arg

from credo.app.inputs import DataFolder
from credo.app.networks import Hidden, NetworkName, TargetNoise, chosen_network
from credo.app.outputs import check_output
from credo.app.training import comparison_data
from credo.data.encoder import TableTask
from credo.errors import CredoError
from credo.inference.registry import method_named


@dataclass(frozen=True)
class Compare:
    """Compare methods on one data set: a table here, a page with pictures in a file.

    Every method runs with settings that end soon and once for each seed. The page is one HTML file
    that needs no other; its numbers are also written as JSON beside it.
    """

    data: Annotated[Positional[str], arg(metavar="[DATA]")] = "digits"
    """Name of a data set, or a table (.csv, .parquet)."""
    methods: Annotated[tuple[str, ...], arg(metavar="NAME ...")] = ("map", "dropout", "hmc")
    """Which ones, see `credo methods`."""
    seeds: int = 3
    """Runs of each method."""
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
    target_noise: TargetNoise = None
    """Known standard deviation of a quantity around the function; by default it is learned."""
    num_draws: int = 100
    """Posterior draws to average over."""
    data_dir: DataFolder = None
    """Folder of data sets."""

    def run(self) -> None:
        from credo import report

        for name in self.methods:
            method_named(name)
        network = chosen_network(self.network, self.hidden)
        numbers = self.out.with_suffix(".json")
        if numbers == self.out:
            raise CredoError(f"the numbers go to {numbers}; name a file ending in .html for --out")
        for path in (self.out, numbers):
            check_output(path, [self.data])
        data, ood = comparison_data(self.data, self.target, self.task, self.ood, self.data_dir)
        found = report.compare(
            data,
            self.methods,
            self.seeds,
            network,
            ood=ood,
            num_draws=self.num_draws,
            noise=self.target_noise,
        )
        report.print_table(found)
        report.write_report(found, self.out)
        print(f"\nwrote {self.out} and {numbers}")
