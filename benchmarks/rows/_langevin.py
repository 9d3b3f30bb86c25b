"""What the rows of SGLD and SGHMC share: their peers on 784-500-500-10 at batch 128."""

from rows._images import WIDTHS, images, torch_mlp, weights

ROWS, BATCH, STEPS = 10_000, 128, 400
RATE = 1e-2  # on the mean loss: 1e-6 on the sum


def credo_chain(method):
    import warnings

    import credo

    warnings.simplefilter("ignore", credo.CredoWarning)  # one short chain proves nothing
    data = images(ROWS)
    model = credo.Model(credo.networks.MLP(hidden=WIDTHS[1:-1]), credo.Categorical(10))
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


def blackjax_chain(make_step):
    """`make_step(log_density)` gives (key, params, batch) → params; the run is one scan."""
    import jax

    params, log_density, (x, y) = jax_problem()
    step = make_step(log_density)

    @jax.jit
    def run(params, key, x, y):
        def one(params, key):
            batch_key, step_key = jax.random.split(key)
            rows = jax.random.randint(batch_key, (BATCH,), 0, ROWS)
            return step(step_key, params, (x[rows], y[rows])), None

        return jax.lax.scan(one, params, jax.random.split(key, STEPS))[0]

    def repetition():
        jax.block_until_ready(run(params, jax.random.key(0), x, y))

    return repetition


def posteriors_chain(build):
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
        state = transform.init({name: p.detach() for name, p in network.named_parameters()})
        for _ in range(STEPS):
            rows = torch.randint(ROWS, (BATCH,))
            state, _ = transform.update(state, (x[rows], y[rows]))

    return repetition
