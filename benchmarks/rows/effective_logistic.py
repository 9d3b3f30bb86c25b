"""Effective draws per second on Bayesian logistic regression, warm-up included."""

import numpy as np
from harness.row import Row

from rows._effective import CHAINS, blackjax_nuts, numpyro_nuts, smallest_effective_size

WARMUP, SAMPLES = 500, 1000


def problem():
    import jax
    import jax.numpy as jnp
    from sklearn.datasets import load_breast_cancer

    x, y = load_breast_cancer(return_X_y=True)
    x = (x - x.mean(axis=0)) / x.std(axis=0)
    design = jnp.asarray(np.column_stack([x, np.ones(len(x))]), jnp.float32)
    signs = jnp.asarray(2.0 * y - 1, jnp.float32)

    def log_density(w):
        return jnp.sum(jax.nn.log_sigmoid(signs * (design @ w))) - 0.5 * jnp.sum(w**2)

    return log_density, lambda key: 0.1 * jax.random.normal(key, (31,))


def credo(method):
    import warnings

    import credo

    warnings.simplefilter("ignore", credo.CredoWarning)
    settings = {"num_warmup": WARMUP, "num_samples": SAMPLES, "num_chains": CHAINS}
    made = {
        "hmc": lambda: credo.HMC(mass="dense", trajectory=2.2, **settings),
        "nuts": lambda: credo.NUTS(**settings),
    }[method]()
    log_density, start = problem()
    seeds = iter(range(100))

    def repetition():
        drawn = credo.sample(log_density, start, made, next(seeds), progress=False)
        return lambda: smallest_effective_size(drawn.draws)

    return repetition


def peer(nuts):
    return nuts(*problem(), WARMUP, SAMPLES, lambda position: position)


ROW = Row(
    title="Effective draws: logistic regression, 569 rows, 31 weights, 4 chains",
    sides={
        "credo": lambda: credo("hmc"),
        "credo, NUTS": lambda: credo("nuts"),
        "BlackJAX, NUTS": lambda: peer(blackjax_nuts),
        "NumPyro, NUTS": lambda: peer(numpyro_nuts),
    },
    unit="draws/s",
    per_result=True,
    targets={"BlackJAX, NUTS": 2.5, "NumPyro, NUTS": 2.5},
    note=(
        "scikit-learn's breast cancer data, standardized, prior N(0, 1). 500 steps of warm-up and "
        "1,000 draws for all, the warm-up counted; the smallest effective sample size, bulk or "
        "tail, of the 31 weights. credo: HMC with dense scales that the chains learn together."
    ),
)
