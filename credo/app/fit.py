"""`credo fit`: learn from data, save the posterior; killed and started again, it goes on."""

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

from tyro.conf import arg

import credo
from credo.app.hyperparameters import hyperparameters, with_flags
from credo.app.inputs import Data, DataFolder
from credo.app.job import Job
from credo.app.networks import Hidden, NetworkName, TargetNoise, chosen_network
from credo.app.training import Training, check_target, training_rows
from credo.data import Origin, Units
from credo.data.encoder import TableTask
from credo.errors import CredoError
from credo.inference import Method
from credo.inference.registry import method_named
from credo.model import Model, standardized_noise
from credo.posterior import Posterior

DEFAULT_METHOD = "auto"
MEMBER = "member_"  # before the hyper-parameters of an ensemble's members


@dataclass(frozen=True, kw_only=True)
class Fit:
    """Fit a model and save it.

    The hyper-parameters of the method are flags too: `credo fit --method NAME --help` lists them.
    Those of an ensemble's members follow `--member`: --member dropout --member-rate 0.1.
    A run that was killed goes on where it was when the same command is given again.
    """

    data: Data
    """Table (.csv, .tsv, .xlsx, .parquet), or the name of a data set."""
    out: Annotated[Path, arg(metavar="FILE")]
    """File to write the model to."""
    method: Annotated[str, arg(metavar="NAME")] = DEFAULT_METHOD
    """Inference method, see `credo methods`."""
    target: Annotated[str | None, arg(metavar="COL", help_behavior_hint="")] = None
    """Column of the table to predict."""
    task: Annotated[TableTask | None, arg(help_behavior_hint="")] = None
    """What the target is; by default, what its values look like."""
    test_fraction: float = 0.2
    """Share of the table's rows set aside to test on; 0 fits all of them."""
    network: NetworkName = "mlp"
    """Multilayer perceptron, or LeNet for images."""
    hidden: Hidden = None
    """Units of each hidden layer; by default 50, and 500 for lenet."""
    prior_scale: float = 1.0
    """Standard deviation of the normal prior over weights."""
    target_noise: TargetNoise = None
    """Known standard deviation of a quantity around the function; by default it is learned."""
    seed: int = 0
    """Fixes the rows set aside and every random number of the run."""
    checkpoint_seconds: float = 20.0
    """How often the run is saved beside the output, as FILE.checkpoint."""
    data_dir: DataFolder = None
    """Folder of data sets."""

    def run(self) -> None:
        method, job = self.chosen_method(), Job(self.out)
        network = chosen_network(self.network, self.hidden)
        prior = credo.priors.NormalPrior(self.prior_scale)
        job.check([self.data])
        rows = self.rows()
        model = self.model(rows.units, network, prior)

        def work(checkpoint: Path | None) -> Posterior:
            return credo.fit(
                model,
                rows.train,
                method,
                self.seed,
                units=rows.units,
                checkpoint=checkpoint,
                checkpoint_seconds=self.checkpoint_seconds,
                keep_checkpoint=True,
            )

        job.report(job.run(rows, work), rows)

    def chosen_method(self) -> Method:
        cls = method_named(self.method)
        options = {each.name: getattr(self, each.name) for each in hyperparameters(cls)}
        if "member" in options:
            member = method_named(options["member"])
            own = {e.name: getattr(self, MEMBER + e.name) for e in hyperparameters(member)}
            built = member(**own)
            options["member"] = options["member"] if built == member() else built
        return cls(**options)

    def rows(self) -> Training:
        if not 0 <= self.seed < 2**32:
            raise CredoError(f"--seed must lie between 0 and {2**32 - 1}, got {self.seed}")
        if not self.checkpoint_seconds >= 0:
            raise CredoError(
                f"--checkpoint-seconds must be at least 0, got {self.checkpoint_seconds}"
            )
        if not 0 <= self.test_fraction < 1:
            raise CredoError(
                f"--test-fraction must be at least 0 and below 1, got {self.test_fraction}"
            )
        check_target(self.data, self.target)
        if self.target is None:
            return training_rows(Origin(self.data, self.seed), self.data_dir)
        origin = Origin(
            self.data,
            self.seed,
            target=self.target,
            task=self.task,
            test_fraction=self.test_fraction,
        )
        return training_rows(origin, self.data_dir)

    def model(
        self, units: Units, network: credo.networks.Network | None, prior: credo.priors.NormalPrior
    ) -> Model:
        num_classes = None if units.classes is None else len(units.classes)
        noise = standardized_noise(self.target_noise, units.factor)  # type: ignore[arg-type]
        return credo.default_model(num_classes, network, prior, noise=noise)


def fit_with_flags_of(method: type, member: str | None = None) -> type:
    """`Fit` with the hyper-parameters of a method, and of its members, as further flags."""
    own = hyperparameters(method)
    default = next((each.default for each in own if each.name == "member"), None)
    if default is not None:
        inner = hyperparameters(method_named(member or default))
        own += [each._replace(name=MEMBER + each.name) for each in inner]
    return with_flags(Fit, own)
