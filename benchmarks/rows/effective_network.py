"""Effective draws per second of the predictions of a small network, warm-up included."""

from harness.row import Row

from rows._effective import CHAINS, blackjax_nuts, numpyro_nuts, smallest_effective_size
from rows.hmc import NOISE, data, initial, log_joint

WARMUP, SAMPLES, LEAPFROG, INPUTS = 200, 200, 100, 20


def outputs(params):
    import jax

    x = data()[0][:INPUTS]
    hidden = jax.nn.relu(x @ params["w0"] + params["b0"])
    return (hidden @ params["w1"] + params["b1"])[:, 0]


def credo():
    import warnings

    import credo

    warnings.simplefilter("ignore", credo.CredoWarning)
    model = credo.Model(credo.networks.MLP(hidden=(50,)), credo.likelihoods.Normal(NOISE))
    method = credo.HMC(
        num_warmup=WARMUP, num_samples=SAMPLES, num_chains=CHAINS, num_leapfrog=LEAPFROG,
        step_size=1e-3, mass="diagonal", target_acceptance=0.7,
    )  # fmt: skip
    seeds = iter(range(100))

    def repetition():
        posterior = credo.fit(model, data(), method, next(seeds), progress=False)

        def size():
            means = credo.predict(posterior, data()[0][:INPUTS], CHAINS * SAMPLES).means
            return smallest_effective_size(means[..., 0].reshape(CHAINS, SAMPLES, INPUTS))

        return size

    return repetition


def peer(nuts):
    return nuts(log_joint(*data()), initial, WARMUP, SAMPLES, outputs)


ROW = Row(
    title="Effective draws: predictions of 8-50-1, 692 rows, 4 chains",
    sides={
        "credo": credo,
        "BlackJAX, NUTS": lambda: peer(blackjax_nuts),
        "NumPyro, NUTS": lambda: peer(numpyro_nuts),
    },
    unit="draws/s",
    per_result=True,
    targets={"BlackJAX, NUTS": 2.5, "NumPyro, NUTS": 2.5},
    note=(
        "200 steps of warm-up and 200 draws for all, the warm-up counted; the smallest "
        "effective sample size, bulk or tail, of the outputs at 20 inputs. credo: HMC with "
        "100 leapfrog steps and scales that the chains learn together."
    ),
)
