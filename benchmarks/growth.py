"""How the cost of a step grows with the rows and with the weights: exponents, 1 is linear.

python benchmarks/growth.py            print them
python benchmarks/growth.py --page     also write docs/results/growth.md
"""

import argparse
import sys
import time
from pathlib import Path

import numpy as np

PAGE = Path(__file__).resolve().parent.parent / "docs" / "results" / "growth.md"
ROWS = (4_000, 16_000, 64_000, 256_000)
WIDTHS = (200, 400, 800, 1600)  # of two hidden layers: 5e4 to 2.6e6 weights
FEATURES, REPETITIONS = 20, 5


def data(rows):
    random = np.random.default_rng(0)
    x = random.normal(size=(rows, FEATURES)).astype(np.float32)
    return x, (x[:, 0] > 0).astype(np.int64)


def methods(credo):
    short = {"num_chains": 1, "num_samples": 1, "thin": 1}
    return {
        "map": lambda steps: credo.MAP(num_steps=steps, batch_size=128),
        "sgld": lambda steps: credo.SGLD(num_warmup=steps - 1, batch_size=128, **short),
        "sghmc": lambda steps: credo.SGHMC(num_warmup=steps - 1, batch_size=128, **short),
        "hmc": lambda steps: credo.HMC(
            num_warmup=0, num_leapfrog=steps, step_size=1e-4, jitter=0.0, **short
        ),
    }


def seconds_per_step(credo, make, rows, width):
    """The best of several runs, with the time of a run of half the steps taken off."""
    model = credo.Model(credo.networks.MLP(hidden=(width, width)), credo.likelihoods.Categorical(2))
    batch = data(rows)
    times = {}
    for steps in (10, 40):
        method = make(steps)
        found = []
        for _ in range(REPETITIONS + 1):
            began = time.perf_counter()
            credo.fit(model, batch, method, progress=False)
            found.append(time.perf_counter() - began)
        times[steps] = min(found[1:])
    return (times[40] - times[10]) / 30


def exponent(sizes, seconds):
    return float(np.polyfit(np.log(sizes), np.log(seconds), 1)[0])


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--page", action="store_true", help="write the Markdown page")
    options = parser.parse_args()
    import warnings

    import credo

    warnings.simplefilter("ignore", credo.CredoWarning)
    lines = ["| method | grows with | sizes | ms per step | exponent |", "|---|---|---|---|---|"]
    weights = [FEATURES * w + w * w + 2 * w for w in WIDTHS]
    for name, make in methods(credo).items():
        few = ROWS if name != "hmc" else ROWS[:3]
        by_rows = [seconds_per_step(credo, make, rows, 50) for rows in few]
        # HMC sees all rows: few of them, so that the largest network takes no minutes.
        by_weights = [seconds_per_step(credo, make, 1_000, width) for width in WIDTHS]
        for what, sizes, found in (("rows", few, by_rows), ("weights", weights, by_weights)):
            listed = ", ".join(f"{size:,}" for size in sizes)
            milliseconds = ", ".join(f"{1e3 * t:.3g}" for t in found)
            slope = exponent(sizes, found)
            lines.append(f"| {name} | {what} | {listed} | {milliseconds} | {slope:.2f} |")
            print(lines[-1], file=sys.stderr, flush=True)
    print("\n".join(lines))
    if options.page:
        PAGE.write_text(PAGE_HEAD + "\n".join(lines) + "\n")


PAGE_HEAD = """# How the cost of a step grows

Written by `make bench`. The time of a gradient step (a leapfrog step for HMC) against the number of
rows, for a network of 50 and 50 hidden units, and against the number of weights, with two hidden
layers; the exponent is the slope in logarithms. Methods with minibatches should not grow with the
rows at all (0), HMC linearly (1); all methods at most linearly with the weights.

"""

if __name__ == "__main__":
    main()
