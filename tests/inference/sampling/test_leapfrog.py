"""The integrator of HMC: symplectic, reversible, of second order; wrong ones fail these checks."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from credo.inference.sampling.hmc import Phase, hamiltonian, leapfrog

pytestmark = pytest.mark.usefixtures("float64")

FREQUENCY = 1.7


def oscillator(q):
    return -0.5 * FREQUENCY**2 * jnp.sum(q**2)


def quartic(q):
    """An anharmonic well in two dimensions with a coupling."""
    return -0.25 * jnp.sum(q**4) - 0.5 * q[0] ** 2 - 0.3 * q[0] * q[1] ** 2


def full_kicks(density, start, step_size, num_steps):
    """Planted: each momentum update is a full one, so that momenta move twice too far."""

    def one(_, phase):
        momentum = phase.momentum + step_size * phase.gradient
        position = phase.position + step_size * momentum
        log_density, gradient = density(position)
        return Phase(position, momentum + step_size * gradient, log_density, gradient)

    return jax.lax.fori_loop(0, num_steps, one, start)


def euler(density, start, step_size, num_steps):
    """Planted: position and momentum move at once."""

    def one(_, phase):
        position = phase.position + step_size * phase.momentum
        momentum = phase.momentum + step_size * phase.gradient
        return Phase(position, momentum, *density(position))

    return jax.lax.fori_loop(0, num_steps, one, start)


def flow(integrate, log_density, step_size, num_steps):
    """The map (q, p) → phase after a trajectory."""
    density = jax.value_and_grad(log_density)
    return jax.jit(lambda q, p: integrate(density, Phase(q, p, *density(q)), step_size, num_steps))


Q, P = np.array([0.8, -0.4]), np.array([0.3, 1.1])


def shadow_drift(integrate):
    """Change of ½p² + ½ω²q²(1 − ω²ε²/4), which leapfrog conserves on an oscillator."""
    epsilon = 0.3

    def shadow(q, p):
        return 0.5 * p**2 + 0.5 * FREQUENCY**2 * q**2 * (1 - (FREQUENCY * epsilon) ** 2 / 4)

    end = flow(integrate, oscillator, epsilon, 1000)(Q[:1], P[:1])
    return float(np.abs(shadow(end.position, end.momentum) - shadow(Q[:1], P[:1]))[0])


def test_shadow_energy_is_conserved():
    assert shadow_drift(leapfrog) < 1e-12
    assert not shadow_drift(full_kicks) < 1e-3


def return_error(integrate):
    """Distance from the start after going there and, with the momentum turned, back."""
    there = flow(integrate, quartic, 0.1, 50)
    end = there(Q, P)
    back = there(end.position, -end.momentum)
    return float(np.abs(np.concatenate([back.position - Q, back.momentum + P])).max())


def test_reversible():
    assert return_error(leapfrog) < 1e-12
    assert not return_error(euler) < 1e-3


def log_volume_change(integrate):
    there = flow(integrate, quartic, 0.1, 20)

    def joined(phase):
        end = there(phase[:2], phase[2:])
        return jnp.concatenate([end.position, end.momentum])

    jacobian = jax.jacfwd(joined)(np.concatenate([Q, P]))
    return abs(np.linalg.slogdet(jacobian)[1])


def test_volume_is_preserved():
    assert log_volume_change(leapfrog) < 1e-12
    assert not log_volume_change(euler) < 1e-3


def order(integrate):
    """Slope of log |ΔH| against log ε for trajectories of the same length."""
    steps = np.array([40, 80, 160])
    errors = []
    for num in steps:
        there = flow(integrate, quartic, 2.0 / num, int(num))
        start = flow(integrate, quartic, 0.0, 1)(Q, P)
        errors.append(abs(float(hamiltonian(there(Q, P)) - hamiltonian(start))))
    return np.polyfit(np.log(1 / steps), np.log(errors), 1)[0]


def test_energy_error_is_of_second_order():
    assert abs(order(leapfrog) - 2) < 0.05
    assert not abs(order(full_kicks) - 2) < 0.5
    assert not abs(order(euler) - 2) < 0.5


def test_the_last_gradient_is_handed_on():
    """So that a trajectory costs one gradient a step; a stale one would bias the next."""
    end = flow(leapfrog, quartic, 0.1, 5)(Q, P)
    log_density, gradient = jax.value_and_grad(quartic)(end.position)
    np.testing.assert_allclose(end.gradient, gradient, rtol=1e-12)
    np.testing.assert_allclose(end.log_density, log_density, rtol=1e-12)


def test_the_hamiltonian_sums_over_a_pytree():
    momentum = {"w": np.array([[1.0, 2.0]]), "b": np.array([3.0])}
    assert hamiltonian(Phase(None, momentum, 5.0, None)) == 7.0 - 5.0
