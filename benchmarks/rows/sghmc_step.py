"""A step of SGHMC with noise on 650,000 weights."""

from harness.row import Row

from rows._langevin import BATCH, RATE, ROWS, STEPS, blackjax_chain, credo_chain, posteriors_chain


def credo():
    import credo

    return credo_chain(
        credo.SGHMC(
            learning_rate=RATE, num_chains=1, num_warmup=STEPS - 1, num_samples=1, thin=1,
            batch_size=BATCH,
        )
    )  # fmt: skip


def blackjax():
    import blackjax
    import jax

    def make_step(log_density):
        kernel = blackjax.sghmc(jax.grad(log_density), num_integration_steps=1)
        return lambda key, params, batch: kernel.step(key, params, batch, RATE / ROWS)

    return blackjax_chain(make_step)


def posteriors():
    import posteriors

    return posteriors_chain(lambda f: posteriors.sgmcmc.sghmc.build(f, lr=(RATE / ROWS) ** 0.5))


ROW = Row(
    title="SGHMC step: 784-500-500-10, batch 128",
    sides={"credo": credo, "BlackJAX": blackjax, "posteriors": posteriors},
    work=STEPS,
    unit="steps/s",
    targets={"BlackJAX": 1.2, "posteriors": 2.5},
    note="As in the row of SGLD; BlackJAX with one gradient and a fresh momentum per step.",
)
