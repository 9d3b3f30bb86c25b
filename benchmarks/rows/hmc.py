"""Hamiltonian Monte Carlo on a small regression network: gradients per second."""

import numpy as np
from harness.row import Row

CHAINS, TRAJECTORIES, LEAPFROG, STEP_SIZE = 4, 200, 32, 5e-4
NOISE = 0.3


def data():
    random = np.random.default_rng(0)
    x = random.normal(size=(692, 8)).astype(np.float32)
    y = np.sin(x.sum(axis=1)) + NOISE * random.normal(size=692)
    return x, y.astype(np.float32)


def initial(key):
    """The same law of starting points for all: He et al. 2015, as credo's MLP starts."""
    import jax

    first, last = jax.random.split(key)
    return {
        "w0": 0.5 * jax.random.normal(first, (8, 50)),
        "b0": jax.numpy.zeros(50),
        "w1": 50**-0.5 * jax.random.normal(last, (50, 1)),
        "b1": jax.numpy.zeros(1),
    }


def log_joint(x, y):
    """The density credo samples, written as a user of the peers would write it."""
    import jax
    import jax.numpy as jnp

    def density(params):
        hidden = jax.nn.relu(x @ params["w0"] + params["b0"])
        error = (y - (hidden @ params["w1"] + params["b1"])[:, 0]) / NOISE
        squares = sum(jnp.sum(leaf**2) for leaf in params.values())
        return -0.5 * jnp.sum(error**2) - 0.5 * squares

    return density


def credo():
    import warnings

    import credo

    warnings.simplefilter("ignore", credo.CredoWarning)  # a fixed step size may accept too much
    model = credo.Model(credo.networks.MLP(hidden=(50,)), credo.likelihoods.Normal(NOISE))
    method = credo.HMC(
        num_samples=TRAJECTORIES,
        num_warmup=0,
        num_chains=CHAINS,
        num_leapfrog=LEAPFROG,
        step_size=STEP_SIZE,
        jitter=0.0,
    )

    def repetition():
        posterior = credo.fit(model, data(), method, progress=False)
        return posterior.record.history["acceptance"].mean()

    return repetition


def blackjax(spread=None):
    """All chains under vmap, the run one compiled scan; `spread` places the chains."""
    import blackjax
    import jax
    import jax.numpy as jnp

    kernel = blackjax.hmc(log_joint(*data()), STEP_SIZE, jnp.ones(501), LEAPFROG)

    def chain(key):
        def step(state, step_key):
            state, info = kernel.step(step_key, state)
            return state, (state.position, info.acceptance_rate)

        start = kernel.init(initial(key))
        return jax.lax.scan(step, start, jax.random.split(key, TRAJECTORIES))[1]

    run = jax.jit(jax.vmap(chain)) if spread is None else spread(jax.vmap(chain))
    keys = jax.random.split(jax.random.key(0), CHAINS)
    return lambda: jax.block_until_ready(run(keys))[1].mean()


def blackjax_devices():
    """The same, the chains shared out over one XLA device for each core."""
    import os

    cores = min(os.cpu_count(), CHAINS)
    os.environ["XLA_FLAGS"] = f"--xla_force_host_platform_device_count={cores}"
    import jax

    mesh = jax.make_mesh((cores,), ("chain",), (jax.sharding.AxisType.Auto,))
    over = jax.P("chain")
    return blackjax(
        lambda f: jax.jit(
            jax.shard_map(f, mesh=mesh, in_specs=over, out_specs=over, check_vma=False)
        )
    )


def numpyro():
    import jax
    import numpyro.infer

    density = log_joint(*data())
    kernel = numpyro.infer.HMC(
        potential_fn=lambda params: -density(params),
        step_size=STEP_SIZE,
        num_steps=LEAPFROG,
        trajectory_length=None,
        adapt_step_size=False,
        adapt_mass_matrix=False,
    )
    keys = jax.random.split(jax.random.key(0), CHAINS)
    # What MCMC(chain_method="vectorized") runs, without its compiling again for every run.
    start = kernel.init(keys, 0, jax.vmap(initial)(keys), (), {})

    @jax.jit
    def run(state):
        def step(state, _):
            state = kernel.sample(state, (), {})
            return state, (state.z, state.accept_prob)

        return jax.lax.scan(step, state, length=TRAJECTORIES)[1]

    return lambda: jax.block_until_ready(run(start))[1].mean()


ROW = Row(
    title="HMC: 8-50-1 ReLU network, 692 rows, 4 chains",
    sides={
        "credo": credo,
        "BlackJAX": blackjax,
        "BlackJAX, a device per core": blackjax_devices,
        "NumPyro": numpyro,
    },
    work=CHAINS * TRAJECTORIES * LEAPFROG,
    unit="gradients/s",
    targets={"BlackJAX": 2.5},
    tolerance=0.2,
    note=(
        "Fixed step size, 32 leapfrog steps a trajectory, no adaptation; the same density and the "
        "same law of starting points; acceptances are compared. BlackJAX under vmap in one "
        "compiled scan, NumPyro with vectorized chains; credo through credo.fit."
    ),
)
