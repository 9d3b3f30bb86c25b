"""What the rows of effective draws share: NUTS by the peers, warm-up included."""

CHAINS = 4


def smallest_effective_size(draws):
    """Bulk or tail, of all quantities, (chain, draw, quantity); one estimate for every side."""
    from credo.evaluation.diagnostics import ess_bulk, ess_tail

    return float(min(ess_bulk(draws).min(), ess_tail(draws).min()))


def blackjax_nuts(log_density, start, num_warmup, num_samples, collect):
    """Window adaptation and NUTS under vmap, one compiled program."""
    import blackjax
    import jax

    def chain(key):
        start_key, warm_key, key = jax.random.split(key, 3)
        warmup = blackjax.window_adaptation(blackjax.nuts, log_density)
        (state, settings), _ = warmup.run(warm_key, start(start_key), num_steps=num_warmup)
        kernel = blackjax.nuts(log_density, **settings)

        def step(state, key):
            state, _ = kernel.step(key, state)
            return state, collect(state.position)

        return jax.lax.scan(step, state, jax.random.split(key, num_samples))[1]

    run = jax.jit(jax.vmap(chain))
    keys = iter(jax.random.split(jax.random.key(0), 100))

    def repetition():
        draws = jax.block_until_ready(run(jax.random.split(next(keys), CHAINS)))
        return lambda: smallest_effective_size(draws)

    return repetition


def numpyro_nuts(log_density, start, num_warmup, num_samples, collect):
    """What MCMC(chain_method="vectorized") runs, without its compiling again for every run."""
    import jax
    import numpyro.infer

    kernel = numpyro.infer.NUTS(potential_fn=lambda position: -log_density(position))
    keys = iter(jax.random.split(jax.random.key(0), 100))
    first = jax.random.split(jax.random.key(1), CHAINS)
    prepared = kernel.init(first, num_warmup, jax.vmap(start)(first), (), {})

    @jax.jit
    def run(state):
        def advance(_, state):
            return kernel.sample(state, (), {})

        state = jax.lax.fori_loop(0, num_warmup, advance, state)

        def step(state, _):
            state = kernel.sample(state, (), {})
            return state, jax.vmap(collect)(state.z)

        return jax.lax.scan(step, state, length=num_samples)[1]

    def repetition():
        seeds = jax.random.split(next(keys), CHAINS)
        draws = jax.block_until_ready(run(prepared._replace(rng_key=seeds)))
        return lambda: smallest_effective_size(draws.swapaxes(0, 1))

    return repetition
