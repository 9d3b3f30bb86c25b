"""What the rows of SGLD and SGHMC share: their peers on 784-500-500-10 at batch 128."""

import functools

from harness.row import Row

from rows._images import WIDTHS, images, images_on_device, torch_mlp, weights

ROWS, BATCH, STEPS = 10_000, 128, 400
RATE = 1e-2  # on the mean loss: 1e-6 on the sum


def credo_chains(sampler, num_chains):
    import warnings

    import credo

    warnings.simplefilter("ignore", credo.CredoWarning)  # one short chain proves nothing
    data = images_on_device(ROWS)
    method = sampler(
        learning_rate=RATE, num_chains=num_chains, num_warmup=STEPS - 1, num_samples=1, thin=1,
        batch_size=BATCH,
    )  # fmt: skip
    model = credo.Model(credo.networks.MLP(hidden=WIDTHS[1:-1]), credo.likelihoods.Categorical(10))
    return lambda: credo.fit(model, data, method, progress=False).record.history["loss"].mean()


def jax_problem():
    """Parameters, the log density estimated from a batch, and the data."""
    import jax
    import jax.numpy as jnp

    x, y = (jnp.asarray(part) for part in images(ROWS))
    params = [(jnp.asarray(w), jnp.zeros(w.shape[1])) for w in weights()]

    def log_density(params, batch):
        units, labels = batch
        for index, (weight, bias) in enumerate(params):
            units = (jax.nn.relu(units) if index else units) @ weight + bias
        picked = jnp.take_along_axis(jax.nn.log_softmax(units), labels[:, None], axis=1)
        squares = sum(jnp.sum(leaf**2) for leaf in jax.tree.leaves(params))
        return ROWS * jnp.mean(picked) - 0.5 * squares

    return params, log_density, (x, y)


def blackjax_chains(make_step, num_chains, gradients_per_call=1):
    """`make_step(log_density)` gives (key, params, batch) → params; a chain is one scan."""
    import jax

    params, log_density, (x, y) = jax_problem()
    step = make_step(log_density)

    def chain(params, key, x, y):
        def one(params, key):
            batch_key, step_key = jax.random.split(key)
            rows = jax.random.randint(batch_key, (BATCH,), 0, ROWS)
            return step(step_key, params, (x[rows], y[rows])), None

        return jax.lax.scan(one, params, jax.random.split(key, STEPS // gradients_per_call))[0]

    # One after another: under vmap four chains took longer.
    run = jax.jit(chain)
    keys = jax.random.split(jax.random.key(0), num_chains)

    def repetition():
        for key in keys:
            jax.block_until_ready(run(params, key, x, y))

    return repetition


def posteriors_chains(build, num_chains):
    """`build(log_posterior)` gives a transform of the posteriors library."""
    import torch
    from torch.func import functional_call

    network = torch_mlp()
    x, y = (torch.from_numpy(part) for part in images(ROWS))

    def log_posterior(params, batch):
        outputs = functional_call(network, params, (batch[0],))
        error = torch.nn.functional.cross_entropy(outputs, batch[1])
        squares = sum((leaf**2).sum() for leaf in params.values())
        return -ROWS * error - 0.5 * squares, torch.tensor([])

    transform = build(log_posterior)

    def repetition():
        for _ in range(num_chains):
            state = transform.init({name: p.detach() for name, p in network.named_parameters()})
            for _ in range(STEPS):
                rows = torch.randint(ROWS, (BATCH,))
                state, _ = transform.update(state, (x[rows], y[rows]))

    return repetition


def credo_sgld(num_chains):
    import credo

    return credo_chains(credo.SGLD, num_chains)


def credo_sghmc(num_chains):
    import credo

    return credo_chains(credo.SGHMC, num_chains)


def blackjax_sgld(num_chains):
    import blackjax
    import jax

    def make_step(log_density):
        kernel = blackjax.sgld(jax.grad(log_density))
        return lambda key, params, batch: kernel.step(key, params, batch, RATE / ROWS)

    return blackjax_chains(make_step, num_chains)


def blackjax_sghmc(num_chains):
    import blackjax
    import jax

    def make_step(log_density):
        kernel = blackjax.sghmc(jax.grad(log_density), num_integration_steps=10)
        return lambda key, params, batch: kernel.step(key, params, batch, RATE / ROWS)

    return blackjax_chains(make_step, num_chains, gradients_per_call=10)


def posteriors_sgld(num_chains):
    import posteriors

    return posteriors_chains(lambda f: posteriors.sgmcmc.sgld.build(f, lr=RATE / ROWS), num_chains)


def posteriors_sghmc(num_chains):
    import posteriors

    def build(log_posterior):
        return posteriors.sgmcmc.sghmc.build(log_posterior, lr=(RATE / ROWS) ** 0.5)

    return posteriors_chains(build, num_chains)


def langevin_row(name, num_chains, sides, note):
    chains = "one chain" if num_chains == 1 else f"{num_chains} chains"
    return Row(
        title=f"{name} step: 784-500-500-10, batch 128, {chains}",
        sides={side: functools.partial(make, num_chains) for side, make in sides.items()},
        work=STEPS * num_chains,
        unit="steps/s",
        targets={"BlackJAX": 1.2, "posteriors": 2.5},
        note=note,
    )
