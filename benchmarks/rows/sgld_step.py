"""A step of SGLD with noise on 650,000 weights."""

from harness.row import Row

from rows._langevin import BATCH, RATE, ROWS, STEPS, blackjax_chain, credo_chain, posteriors_chain


def credo():
    import credo

    return credo_chain(
        credo.SGLD(
            learning_rate=RATE, num_chains=1, num_warmup=STEPS - 1, num_samples=1, thin=1,
            batch_size=BATCH,
        )
    )  # fmt: skip


def blackjax():
    import blackjax
    import jax

    def make_step(log_density):
        kernel = blackjax.sgld(jax.grad(log_density))
        return lambda key, params, batch: kernel.step(key, params, batch, RATE / ROWS)

    return blackjax_chain(make_step)


def posteriors():
    import posteriors

    return posteriors_chain(lambda f: posteriors.sgmcmc.sgld.build(f, lr=RATE / ROWS))


ROW = Row(
    title="SGLD step: 784-500-500-10, batch 128",
    sides={"credo": credo, "BlackJAX": blackjax, "posteriors": posteriors},
    work=STEPS,
    unit="steps/s",
    targets={"BlackJAX": 1.2, "posteriors": 2.5},
    note="One chain. credo through credo.fit; BlackJAX in one compiled scan; posteriors in a loop.",
)
