"""`credo fit`: learn from data, save the posterior; killed and started again, it goes on."""

import dataclasses
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

from tyro.conf import arg

import credo
from credo.app.hyperparameters import hyperparameters
from credo.app.inputs import Data, DataFolder
from credo.app.networks import Hidden, NetworkName, TargetNoise, chosen_network
from credo.app.outputs import check_output, checkpoint_of, remove_leftovers, resumable
from credo.app.predict import predict_in_units
from credo.app.text import score_table
from credo.app.training import Training, check_target, named_training, table_training
from credo.data.encoder import TableTask
from credo.errors import CredoError
from credo.inference import Method
from credo.inference.registry import method_named
from credo.model import standardized_noise
from credo.posterior import Posterior

MEMBER = "member_"  # before the hyper-parameters of an ensemble's members


@dataclass(frozen=True, kw_only=True)
class Fit:
    """Fit a model and save it.

    The hyper-parameters of the method are flags too: `credo fit --method NAME --help` lists them.
    Those of an ensemble's members follow `--member`: --member dropout --member-rate 0.1.
    A run that was killed goes on where it was when the same command is given again.
    """

    data: Data
    """Table (.csv, .parquet), or the name of a data set."""
    method: Annotated[str, arg(metavar="NAME")]
    """Inference method, see `credo methods`."""
    out: Annotated[Path, arg(metavar="FILE")]
    """File to write the model to."""
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
    """Known standard deviation of a quantity around the function; by default it is learnt."""
    seed: int = 0
    """Fixes the rows set aside and every random number of the run."""
    checkpoint_seconds: float = 20.0
    """How often the run is saved beside the output, as FILE.checkpoint."""
    data_dir: DataFolder = None
    """Folder of data sets."""

    def run(self) -> None:
        method, network = self.chosen_method(), chosen_network(self.network, self.hidden)
        prior = credo.NormalPrior(self.prior_scale)
        check_output(self.out, [self.data])
        check_output(self.checkpoint)
        rows = self.rows()
        classes = rows.extra["classes"]
        noise = standardized_noise(self.target_noise, rows.factor)
        model = credo.default_model(len(classes) if classes else None, network, prior, noise=noise)
        posterior = self.fit(model, rows, method)
        credo.save(posterior, self.out)
        self.checkpoint.unlink(missing_ok=True)
        remove_leftovers(self.out)
        print_report(self.out, posterior, rows)

    @property
    def checkpoint(self) -> Path:
        return checkpoint_of(self.out)

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
            raise CredoError(f"--checkpoint-seconds may not be {self.checkpoint_seconds}")
        check_target(self.data, self.target)
        if self.target is None:
            return named_training(self.data, self.data_dir, self.seed)
        return table_training(self.data, self.target, self.task, self.test_fraction, self.seed)

    def fit(self, model: credo.Model, rows: Training, method: Method) -> Posterior:
        with resumable(self.checkpoint):
            return credo.fit(
                model,
                rows.train,
                method,
                self.seed,
                checkpoint=self.checkpoint,
                checkpoint_seconds=self.checkpoint_seconds,
                keep_checkpoint=True,  # until the model is on disk
                extra=rows.extra,
            )


def print_report(out: Path, posterior: Posterior, rows: Training) -> None:
    """What was written, and how well it predicts the rows set aside."""
    record = posterior.record
    print(f"{out}: {record.method} on {len(rows.train.x)} rows, {record.seconds:.1f} seconds")
    if rows.test is None:
        return
    predicted = predict_in_units(posterior, rows.test.x, 100)
    y = rows.test.y
    if rows.extra["classes"] is None:
        y = rows.extra["shift"] + rows.extra["factor"] * y
    print(f"\non {len(rows.test.x)} rows set aside:")
    print(score_table(credo.evaluate(predicted, y)))


def fit_with_flags_of(method: type, member: str | None = None) -> type:
    """`Fit` with the hyper-parameters of a method, and of its members, as further flags."""
    own = hyperparameters(method)
    default = next((each.default for each in own if each.name == "member"), None)
    if default is not None:
        inner = hyperparameters(method_named(member or default))
        own += [each._replace(name=MEMBER + each.name) for each in inner]
    flags = [
        (
            each.name,
            Annotated[each.type, arg(help=each.help)],
            dataclasses.field(default=each.default),
        )
        for each in own
    ]
    extended = dataclasses.make_dataclass("Fit", flags, bases=(Fit,), frozen=True, kw_only=True)
    extended.__doc__ = Fit.__doc__
    return extended
