"""`credo landscape`: what lies between and around several trained networks."""

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

from tyro.conf import arg

from credo.app.inputs import Data, DataFolder
from credo.app.networks import Hidden, NetworkName, chosen_network
from credo.app.outputs import check_output
from credo.app.training import comparison_data
from credo.data.encoder import TableTask
from credo.errors import CredoError


@dataclass(frozen=True, kw_only=True)
class Landscape:
    """Look at the loss landscape of a classifier: write a page with its pictures.

    Trains several networks and shows how far apart they are in weights and in predictions, how
    samples around one of them compare, and which ways lead from one to another. The page is one
    HTML file that needs no other.
    """

    data: Data
    """Name of a data set of classes, or a table (.csv, .parquet)."""
    out: Annotated[Path, arg(metavar="FILE")] = Path("landscape.html")
    """The page to write."""
    target: Annotated[str | None, arg(metavar="COL", help_behavior_hint="")] = None
    """Column of the table to predict."""
    task: Annotated[TableTask | None, arg(help_behavior_hint="")] = None
    """What the target is; by default, what its values look like."""
    network: NetworkName = "mlp"
    """Multilayer perceptron, or LeNet for images."""
    hidden: Hidden = None
    """Units of each hidden layer; by default 50, and 500 for lenet."""
    members: int = 5
    """Networks to train, at least 3."""
    num_steps: int = 2000
    """Gradient steps of each."""
    learning_rate: float = 1e-3
    """Step size of Adam at the start, for the members and for the tunnel."""
    batch_size: int = 64
    """Rows per step."""
    tunnel_steps: int = 1000
    """Gradient steps of the tunnel between two of them."""
    num_points: int = 25
    """Points of a way, and of a side of the slice."""
    num_rows: int = 2000
    """At most so many rows behind every loss and every prediction."""
    seed: int = 0
    """Fixes every random number of the run."""
    data_dir: DataFolder = None
    """Folder of data sets."""

    def run(self) -> None:
        from credo.landscape import Study, explore
        from credo.model import default_model
        from credo.report.landscape_page import write_landscape

        settings = Study(
            num_members=self.members, num_steps=self.num_steps, learning_rate=self.learning_rate,
            batch_size=self.batch_size, tunnel_steps=self.tunnel_steps,
            num_points=self.num_points, num_rows=self.num_rows, seed=self.seed,
        )  # fmt: skip
        network = chosen_network(self.network, self.hidden)
        check_output(self.out, [self.data])
        data, _ = comparison_data(self.data, self.target, self.task, None, self.data_dir)
        if data.task == "regression":
            raise CredoError(
                f"'{self.data}' has a quantity as target; landscapes compare labels: give a data "
                "set of classes"
            )
        if min(len(data.train.y), len(data.test.y)) < 2:
            raise CredoError(f"'{self.data}' needs a training and a test part")
        classes = len(data.classes or ()) or int(data.train.y.max()) + 1
        model = default_model(classes, network)
        found = explore(model, data.train, data.test, settings)
        setting = (
            f"{self.members} networks ({model.network}) on {len(data.train.y):,} rows, "
            f"{self.num_steps:,} steps of Adam each, learning rate {self.learning_rate:g} with a "
            f"cosine schedule, batches of {self.batch_size}; accuracies "
            f"{found.accuracy.min():.3f} to {found.accuracy.max():.3f} on the test rows."
        )
        write_landscape(found, data.name, setting, self.out)
        for name, route in found.routes.items():
            print(f"{name}: barrier {route.barrier:.3f}")
        print(f"wrote {self.out}")
