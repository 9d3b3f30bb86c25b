"""Keep probabilities that concrete dropout learns, with 1,000 and 10,000 images (document 004)."""

import time
from dataclasses import dataclass

import numpy as np

from credo.experiments.mnist import images, slide_model
from credo.experiments.page import Page, Pattern, new_figure
from credo.inference import ConcreteDropout, fit

LAYERS = {"dense0": "input", "dense1": "hidden 1", "dense2": "hidden 2"}


@dataclass(frozen=True)
class KeepProbabilities:
    """Learnt keep probabilities per layer at 1,000 and 10,000 images."""

    seeds: int = 3
    """Runs of each size."""
    epochs: int = 100
    """Passes over 1,000 images; the larger set gets as many steps in a third of the epochs."""

    def run(self, data_dir: str | None = None) -> Page:
        began = time.perf_counter()
        keep, paths = {}, {}
        for per_class, epochs in ((100, self.epochs), (1000, max(1, self.epochs // 3))):
            train, _ = images(per_class, data_dir)
            method = ConcreteDropout(
                input_noise=True, num_epochs=epochs, batch_size=100, schedule="constant"
            )
            # The prior stays that of 1,000 images, so that only the data change.
            model = slide_model(1000)
            runs = [fit(model, train, method, key=seed) for seed in range(self.seeds)]
            keep[len(train.y)] = np.array(
                [[1 - float(run.rates[site]) for site in LAYERS] for run in runs]
            )
            paths[len(train.y)] = runs[0].record.history
        return self._page(keep, paths, time.perf_counter() - began)

    def _page(self, keep: dict, paths: dict, seconds: float) -> Page:
        few, many = sorted(keep)
        rows = [["layer", f"{few:,} images", f"{many:,} images"]]
        for index, name in enumerate(LAYERS.values()):
            cells = [
                f"{keep[n][:, index].mean():.3f} ± {keep[n][:, index].std(ddof=1):.3f}"
                for n in (few, many)
            ]
            rows.append([name, *cells])
        figure, axes = new_figure(columns=2)
        for axis, count in zip(axes[0], (few, many), strict=True):
            for site, name in LAYERS.items():
                path = 1 - paths[count][f"rate_{site}"][0]
                axis.plot(np.arange(len(path)), path, label=name)
            axis.set(
                title=f"{count:,} images", xlabel="step", ylabel="keep probability", ylim=(0.4, 1)
            )
        axes[0, 0].legend()
        grown = [
            (name, keep[many][:, i].mean() - keep[few][:, i].mean())
            for i, name in enumerate(LAYERS.values())
        ]
        return Page(
            "keep-probabilities",
            "Learnt keep probabilities",
            f"Concrete dropout at the input and after both hidden layers of 784-500-500-10 on MNIST, Adam at "
            f"1e-3, the same prior at both sizes, {self.seeds} seeds, {seconds:.0f} s. The source shows "
            "this as bar charts without numbers.",
            (("Keep probability 1 − p, mean ± standard deviation over seeds", rows),),
            tuple(
                Pattern(
                    f"{name}: keep probability grows with the data", change > 0, f"{change:+.3f}"
                )
                for name, change in grown
            ),
            {"Keep probabilities along the training": figure},
        )
