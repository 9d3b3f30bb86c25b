"""Did the chains agree? Judged on what they predict, not on weights that may be permuted."""

from dataclasses import replace
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array

from credo.errors import CredoError
from credo.evaluation.diagnostics import ebfmi, ess_bulk, ess_tail, mcse_mean, rhat
from credo.posterior import Draws, Samples
from credo.predictive import check_inputs, draw_outputs

ROWS = 100  # inputs at which the chains are compared
RHAT_LIMIT = 1.05
ESS_LIMIT = 100  # of all chains together: a mean to a tenth of the standard deviation
EBFMI_LIMIT = 0.3  # Stan's value


def function_space_rhat(posterior: Samples, x: Array) -> np.ndarray:
    """Rank-normalised split R̂ of every network output at every row of x.

    Weight-space R̂ means little for a network, whose posterior repeats itself under permutations
    of hidden units; two chains in different copies of a mode still predict the same.

    Reference: Izmailov et al., What Are Bayesian Neural Network Posteriors Really Like?, 2021.
    """
    return rhat(chain_outputs(posterior, x))


def chain_outputs(posterior: Samples, x: Array) -> np.ndarray:
    """(chain, draw, row, output), each draw once and in its place.

    Draws repeated by their weights would leave their chains, and look like fewer than they are.
    """
    outputs = draw_outputs(replace(posterior, weights=None), x)
    return outputs.reshape(posterior.num_chains, -1, *outputs.shape[1:])


def chain_warnings(name: str, target: Any, posterior: Any, batch: Any) -> list[str]:
    """Say so when the chains have not mixed, in function space or (a bare density) in its own."""
    if posterior.num_draws // posterior.num_chains < 4:
        return [f"{name}: too few draws to tell whether the chains agree; raise num_samples"]
    if isinstance(posterior, Draws):
        return density_warnings(name, posterior)
    values = function_space_rhat(posterior, batch.x[:ROWS])
    # A high quantile, not the maximum: among hundreds of R̂ some exceed the limit by chance, and
    # outputs at neighbouring rows tell the same.
    worst = float(np.quantile(values, 0.95, method="higher"))
    what = "about its predictions" if posterior.num_chains == 1 else "about their predictions"
    return rhat_warnings(name, posterior, worst, what)


def density_warnings(name: str, posterior: Draws) -> list[str]:
    """Every coordinate of a bare density counts: one that has not mixed is a wrong answer."""
    draws = flat_draws(posterior.draws)
    values = rhat(draws)
    bad = int((values > RHAT_LIMIT).sum())
    what = f"about {bad} of {values.size} coordinates"
    found = rhat_warnings(name, posterior, float(values.max()), what)
    return found or size_warnings(name, draws)


def rhat_warnings(name: str, posterior: Any, worst: float, what: str) -> list[str]:
    if worst <= RHAT_LIMIT:
        return []
    if posterior.num_chains == 1:
        return [
            f"{name}: the halves of the chain disagree {what} (R̂ = {worst:.2f}, should be below "
            f"{RHAT_LIMIT}); raise num_warmup, num_samples and num_chains"
        ]
    return [
        f"{name}: the chains disagree {what} (R̂ = {worst:.2f}, should be below "
        f"{RHAT_LIMIT}); raise num_warmup and num_samples, or read the result as an ensemble"
    ]


def size_warnings(name: str, draws: np.ndarray) -> list[str]:
    """Only for what is to be known in itself: predictions average over what weights do slowly."""
    smallest = float(ess_bulk(draws).min())
    if smallest >= ESS_LIMIT:
        return []
    return [
        f"{name}: the draws of the slowest coordinate are worth {smallest:.0f} independent ones "
        f"(should be at least {ESS_LIMIT}); raise num_samples or thin"
    ]


def sampler_warnings(
    name: str, method: Any, target: Any, posterior: Any, batch: Any, info: dict[str, np.ndarray]
) -> list[str]:
    """All that can be said of a sampler with an acceptance step."""
    found = acceptance_warnings(name, method.num_warmup, info)
    if "divergent" in info:
        found += divergence_warnings(name, method, info)
    if "energy" in info:
        found += energy_warnings(name, method, info)
    return found + chain_warnings(name, target, posterior, batch)


def acceptance_warnings(name: str, num_warmup: int, info: dict[str, np.ndarray]) -> list[str]:
    """Chains that reject nearly everything do not move; those that never reject hardly do."""
    found = []
    for chain, acceptance in enumerate(info["acceptance"][:, num_warmup:].mean(axis=1)):
        if not 0.05 < acceptance < 0.999:
            found.append(
                f"{name}: chain {chain} accepted {acceptance:.1%} of its proposals; "
                f"raise num_warmup (got {num_warmup}) so that the step size can adapt"
            )
    return found


def divergence_warnings(name: str, method: Any, info: dict[str, np.ndarray]) -> list[str]:
    divergent = info["divergent"][:, method.num_warmup :]
    if not divergent.any():
        return []
    return [
        f"{name}: {int(divergent.sum())} of {divergent.size} trajectories diverged; "
        f"raise target_acceptance (got {method.target_acceptance}) or num_warmup"
    ]


def energy_warnings(name: str, method: Any, info: dict[str, np.ndarray]) -> list[str]:
    """Momenta that hardly change the energy leave the tails, or a funnel's neck, unseen."""
    energy = info["energy"][:, method.num_warmup :]
    if energy.shape[1] < 4 or not np.isfinite(energy).all():
        return []
    values = ebfmi(energy)
    if values.min() >= EBFMI_LIMIT:
        return []
    learns_none = method.mass == "unit" or (method.mass is None and name == "hmc")
    mass = "mass='diagonal', " if learns_none else ""
    return [
        f"{name}: the energy of chain {values.argmin()} changes too slowly (E-BFMI = "
        f"{values.min():.2f}, should be at least {EBFMI_LIMIT}): it has not settled, or the target "
        f"has heavy tails or a funnel; raise num_warmup (got {method.num_warmup}), try "
        f"{mass}or reparametrise"
    ]


def flat_draws(draws: Any) -> np.ndarray:
    """(chain, draw, parameters): a pytree of draws as one array."""
    leaves = [np.asarray(leaf) for leaf in jax.tree.leaves(draws)]
    return np.concatenate([leaf.reshape(*leaf.shape[:2], -1) for leaf in leaves], axis=2)


class Diagnosis(NamedTuple):
    """How far a sample can be trusted: per quantity, and per chain where the sampler tells."""

    rhat: np.ndarray
    """Rank-normalised split R̂ of every quantity; trust below 1.01, worry above 1.05."""
    ess_bulk: np.ndarray
    """Effective number of independent draws for the centre; want 100 per chain."""
    ess_tail: np.ndarray
    """The same for the 5 % and 95 % quantiles."""
    mcse: np.ndarray
    """Monte-Carlo standard error of the mean."""
    divergences: int
    """Trajectories whose energy was lost, after the warm-up."""
    ebfmi: np.ndarray | None
    """Energy-based fraction of missing information of each chain; worry below 0.3."""
    acceptance: np.ndarray | None
    """Mean acceptance of each chain."""

    def __str__(self) -> str:
        lines = [
            f"R̂ ≤ {self.rhat.max():.3f}, effective draws ≥ {self.ess_bulk.min():.0f} (bulk), "
            f"{self.ess_tail.min():.0f} (tail), over {self.rhat.size} quantities",
            f"divergences: {self.divergences}",
        ]
        for name in ("ebfmi", "acceptance"):
            values = getattr(self, name)
            if values is not None:
                lines.append(f"{name}: " + ", ".join(f"{value:.2f}" for value in values))
        return "\n".join(lines)


def diagnose(posterior: Samples | Draws, x: Any = None) -> Diagnosis:
    """Diagnostics of a sampler's draws, of the parameters or (with inputs `x`) of the predictions.

    For networks pass `x`: weights may be permuted between chains that predict the same. Draws with
    weights are taken as they are, all alike.

    Example:
        >>> import jax.numpy as jnp
        >>> normal = lambda x: -0.5 * jnp.sum(x**2)
        >>> drawn = credo.sample(normal, jnp.zeros(2), credo.HMC(num_leapfrog=5))
        >>> bool(credo.diagnose(drawn).rhat.max() < 1.1)
        True
    """
    if not isinstance(posterior, Samples | Draws):
        raise CredoError(
            f"only the draws of a sampler can be diagnosed, got {type(posterior).__name__}"
        )
    if x is None:
        draws = flat_draws(posterior.draws)
    elif isinstance(posterior, Draws):
        raise CredoError("draws of a bare density predict nothing; call diagnose without x")
    else:
        draws = chain_outputs(posterior, jnp.asarray(check_inputs(posterior, x)))
    history = posterior.record.history
    warmup = posterior.record.num_warmup
    after = {name: values[:, warmup:] for name, values in history.items()}
    return Diagnosis(
        rhat(draws), ess_bulk(draws), ess_tail(draws), mcse_mean(draws),
        int(after["divergent"].sum()) if "divergent" in after else 0,
        ebfmi(after["energy"]) if "energy" in after else None,
        after["acceptance"].mean(axis=1) if "acceptance" in after else None,
    )  # fmt: skip
