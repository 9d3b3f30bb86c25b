"""Did the chains agree? Judged on what they predict, not on weights that may be permuted."""

import numpy as np
from jaxtyping import Array

from credo.evaluation.diagnostics import rhat
from credo.posterior import Samples
from credo.predictive import draw_outputs

ROWS = 100  # inputs at which the chains are compared
RHAT_LIMIT = 1.05


def function_space_rhat(posterior: Samples, x: Array) -> np.ndarray:
    """Rank-normalised split R̂ of every network output at every row of x.

    Weight-space R̂ means little for a network, whose posterior repeats itself under permutations
    of hidden units; two chains in different copies of a mode still predict the same.

    Reference: Izmailov et al., What Are Bayesian Neural Network Posteriors Really Like?, 2021.
    """
    outputs = draw_outputs(posterior, x)
    chains = posterior.num_chains
    return rhat(outputs.reshape(chains, -1, *outputs.shape[1:]))


def function_space_warnings(name: str, posterior: Samples, x: Array) -> list[str]:
    """Say so when the chains have not mixed in function space."""
    if posterior.num_draws // posterior.num_chains < 4:
        return [f"{name}: too few draws to tell whether the chains agree; raise num_samples"]
    # A high quantile, not the maximum: among hundreds of R̂ some exceed the limit by chance.
    worst = float(np.quantile(function_space_rhat(posterior, x[:ROWS]), 0.95))
    if worst <= RHAT_LIMIT:
        return []
    return [
        f"{name}: the chains disagree about their predictions (R̂ = {worst:.2f}, should be below "
        f"{RHAT_LIMIT}); raise num_warmup and num_samples, or read the result as an ensemble"
    ]
