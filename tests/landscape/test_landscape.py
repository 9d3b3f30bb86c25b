"""Landscape analysis against what must be so: permuted copies, convex models, guessers, curves."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.flatten_util import ravel_pytree

import credo
from credo.engine import pick, stack
from credo.landscape import alignment, functions, paths, subspaces
from credo.likelihoods import Categorical
from credo.model import check_data
from credo.networks import MLP, LeNet
from credo.posterior import Record, Samples

pytestmark = pytest.mark.usefixtures("float64")

RNG = np.random.default_rng(0)
X = RNG.normal(size=(150, 5))
Y = (X[:, 0] * X[:, 1] > 0).astype(int) + 2 * (X[:, 2] > 0.5)
TIMES = np.linspace(0, 1, 21)


def trained(hidden, key, num_steps=600):
    model = credo.Model(MLP(hidden=hidden), Categorical(4))
    method = credo.MAP(num_steps=num_steps, batch_size=50, learning_rate=1e-2)
    drawn = credo.fit(model, (X, Y), method, key).draws
    return model, jax.tree.map(lambda leaf: leaf[0, 0], drawn)


@pytest.fixture(scope="module")
def networks(float64):
    """Two solutions from different keys."""
    model, first = trained((16, 12), 0)
    return model, first, trained((16, 12), 1)[1]


def labels(model, params, x=X):
    return np.asarray(model.outputs(params, jnp.asarray(x))).argmax(axis=1)


def line_barrier(model, first, second, data=(X, Y)):
    losses = paths.path_losses(model, data, stack([first, second]), paths.line(TIMES))
    return paths.barrier(TIMES, losses)


def distance(first, second):
    flat = [np.asarray(ravel_pytree(tree)[0]) for tree in (first, second)]
    return np.linalg.norm(flat[0] - flat[1]) / np.linalg.norm(flat[0])


def test_a_permuted_copy_is_the_same_function_elsewhere(networks):
    model, first, _ = networks
    order = alignment.random_permutations(3, model, first)
    copy = alignment.permute(model, first, order)
    assert functions.disagreement(labels(model, first), labels(model, copy)).value == 0
    assert distance(first, copy) > 0.5
    assert functions.cosine_matrix(stack([first, copy]))[0, 1] < 0.8
    assert line_barrier(model, first, copy) > 0.05
    aligned, found = alignment.align(model, first, copy)
    assert distance(first, aligned) < 1e-12
    assert abs(line_barrier(model, first, aligned)) < 1e-12
    for name, inverse in found.items():
        np.testing.assert_array_equal(order[name][inverse], np.arange(len(inverse)))


def test_permuting_only_one_side_of_a_layer_is_another_function(networks):
    model, first, _ = networks
    order = alignment.random_permutations(3, model, first)["dense0"]
    network = dict(first["network"])
    network["dense0"] = {kind: leaf[..., order] for kind, leaf in network["dense0"].items()}
    broken = {**first, "network": network}
    assert functions.disagreement(labels(model, first), labels(model, broken)).value > 0.1


def test_alignment_of_a_convnet():
    model = credo.Model(LeNet(channels=(4, 6), hidden=(7,), kernel=3), Categorical(3))
    params = model.init(jax.random.key(0), (14, 14, 1))
    images = RNG.normal(size=(10, 14, 14, 1))
    copy = alignment.permute(model, params, alignment.random_permutations(1, model, params))
    outputs = [np.asarray(model.outputs(p, jnp.asarray(images))) for p in (params, copy)]
    np.testing.assert_allclose(outputs[0], outputs[1], rtol=1e-10, atol=1e-12)
    assert distance(params, copy) > 0.5
    assert distance(params, alignment.align(model, params, copy)[0]) < 1e-12


def test_alignment_brings_different_solutions_closer(networks):
    model, first, second = networks
    aligned, _ = alignment.align(model, first, second)
    np.testing.assert_array_equal(labels(model, second), labels(model, aligned))
    assert distance(first, aligned) < distance(first, second)
    assert line_barrier(model, first, aligned) < line_barrier(model, first, second)


def test_only_known_networks_can_be_aligned():
    own = credo.networks.Functions(lambda key: {}, lambda params, x: x)
    model = credo.Model(own, Categorical(2))
    with pytest.raises(credo.CredoError, match="MLP and LeNet"):
        alignment.align(model, {"network": {}}, {"network": {}})


@pytest.mark.parametrize("seed", range(5))
def test_a_convex_model_has_no_barrier(seed):
    model = credo.Model(MLP(hidden=()), Categorical(4))
    first, second = (model.init(jax.random.key(2 * seed + i), (5,)) for i in (0, 1))
    assert line_barrier(model, first, second) < 0


def test_the_barrier_is_measured_from_the_chord():
    losses = 1 + 3 * TIMES
    assert abs(paths.barrier(TIMES, losses)) < 1e-12
    assert paths.barrier(TIMES, losses + TIMES * (1 - TIMES)) == pytest.approx(0.25)
    assert losses.max() - losses[0] > 2  # what a barrier above the first end would say


def test_a_barrier_needs_a_point_between_the_ends():
    for times in ([0.0, 1.0], [0.0], []):
        with pytest.raises(credo.CredoError, match=f"at least 3 points.*got {len(times)} times"):
            paths.barrier(times, np.ones(len(times)))
    with pytest.raises(credo.CredoError, match="21 times and 20 losses"):
        paths.barrier(TIMES, np.ones(20))


def test_path_losses_are_those_of_the_networks(networks):
    model, first, second = networks
    found = paths.path_losses(model, (X, Y), stack([first, second]), paths.line([0, 0.3, 1]))
    middle = jax.tree.map(lambda a, b: 0.7 * a + 0.3 * b, first, second)
    batch = check_data(model, (X, Y))
    expected = [-np.mean(model.log_likelihood(p, batch)) for p in (first, middle, second)]
    np.testing.assert_allclose(found, expected, rtol=1e-10)


def test_losses_of_many_rows_are_means_over_all_of_them(networks, monkeypatch):
    model, first, second = networks
    ends, times = stack([first, second]), paths.line([0.5])
    whole = paths.path_losses(model, (X, Y), ends, times)
    paths._losses.clear_cache()
    monkeypatch.setattr(paths, "BLOCK_ROWS", 64)  # 150 rows: the last block is not full
    np.testing.assert_allclose(paths.path_losses(model, (X, Y), ends, times), whole, rtol=1e-12)
    paths._losses.clear_cache()


@pytest.fixture(scope="module")
def tunnel(networks):
    model, first, second = networks
    return paths.train_tunnel(0, model, (X, Y), first, second, 800, 1e-2, batch_size=50)


def test_the_loss_of_a_tunnel_is_that_of_a_random_place_on_it(networks):
    model, first, second = networks
    objective = paths.Tunnel(model, first, second)
    control = jax.tree.map(jnp.zeros_like, first)
    for seed in range(3):
        key = jax.random.key(seed)
        loss, _ = objective.loss(key, control, check_data(model, (X, Y)))
        anchors, time = stack([first, control, second]), jax.random.uniform(key)
        expected = paths.path_losses(model, (X, Y), anchors, paths.bezier(np.array([time])))
        assert float(loss) == pytest.approx(expected[0], rel=1e-9)


def test_a_tunnel_of_the_same_key_is_the_same(networks):
    model, first, second = networks
    settings = {"num_steps": 5, "batch_size": 50}
    one, again, other = (
        ravel_pytree(paths.train_tunnel(key, model, (X, Y), first, second, **settings))[0]
        for key in (0, 0, 1)
    )
    np.testing.assert_array_equal(one, again)
    assert np.abs(one - other).max() > 1e-6


def test_a_curve_ends_where_it_should(networks, tunnel):
    _, first, second = networks
    curve = paths.combine(stack([first, tunnel, second]), paths.bezier(TIMES))
    for index, end in ((0, first), (-1, second)):
        assert jax.tree.all(jax.tree.map(lambda c, e: bool((c == e).all()), *[
            jax.tree.map(lambda leaf, i=index: leaf[i], curve), end
        ]))  # fmt: skip


def test_the_tunnel_is_lower_than_the_line(networks, tunnel):
    model, first, second = networks
    ends = stack([first, second])
    straight = paths.path_losses(model, (X, Y), ends, paths.line(TIMES))

    def highest(control):
        anchors = stack([first, control, second])
        return paths.path_losses(model, (X, Y), anchors, paths.bezier(TIMES)).max()

    assert highest(tunnel) < 0.5 * straight.max()
    middle = paths.combine(ends, [0.5, 0.5])  # an untrained tunnel is the line itself
    assert highest(middle) == pytest.approx(straight.max(), rel=0.05)


def test_predictions_change_along_the_tunnel(networks, tunnel):
    """Fort's finding: between the ends lie other functions, which fit as well as they do."""
    model, first, second = networks
    elsewhere = np.random.default_rng(9).normal(size=(500, 5))
    inner = slice(5, 16)  # t from 0.25 to 0.75

    def fits(anchors, coefficients):
        losses = paths.path_losses(model, (X, Y), anchors, coefficients)
        return losses[inner].max() < 1.2 * max(losses[0], losses[-1])

    def differs(anchors, coefficients):
        curve = paths.combine(anchors, coefficients)
        along = [labels(model, pick(curve, i), elsewhere) for i in range(len(TIMES))]
        ends = along[0], along[-1]
        apart = [functions.disagreement(end, other).value for end in ends for other in along[inner]]
        return min(apart) > 0.03

    tunnelled = stack([first, tunnel, second]), paths.bezier(TIMES)
    assert fits(*tunnelled) and differs(*tunnelled)
    # planted: a path that jumps from end to end, and one that leaves the valley
    ends = stack([first, second])
    jump = ends, paths.line(TIMES > 0.5)
    assert fits(*jump) and not differs(*jump)
    straight = ends, paths.line(TIMES)
    assert not fits(*straight)


def test_a_slice_meets_its_corners(networks):
    model, first, second = networks
    third = trained((16, 12), 2)[1]
    corners = stack([first, second, third])
    found = paths.plane_slice(model, (X, Y), corners, num_points=9, margin=0.0)
    exact = paths.path_losses(model, (X, Y), corners, np.eye(3))
    assert found.loss[0, 0] == pytest.approx(exact[0], rel=1e-9)
    assert found.loss[0, -1] == pytest.approx(exact[1], rel=1e-9)
    assert found.corners[2, 1] == pytest.approx(found.y[-1])
    flat = [np.asarray(ravel_pytree(p)[0]) for p in (first, second, third)]
    for i, j in ((0, 1), (0, 2), (1, 2)):
        apart = np.linalg.norm(flat[i] - flat[j])
        assert np.linalg.norm(found.corners[i] - found.corners[j]) == pytest.approx(apart)


@pytest.mark.parametrize("num_classes", [2, 10])
def test_uniform_guessers(num_classes):
    rng = np.random.default_rng(num_classes)
    guesses = rng.integers(num_classes, size=(2, 40_000))
    value, error = functions.disagreement(*guesses)
    exact = (num_classes - 1) / num_classes
    assert abs(value - exact) < 4 * error
    assert abs(value - 1 / num_classes) > 4 * error or num_classes == 2
    chance = 1 / num_classes
    assert functions.independent_disagreement(chance, chance, num_classes) == pytest.approx(exact)
    same = np.where(rng.random(40_000) < 0.2, guesses[0], guesses[1])  # not independent
    dependent = functions.disagreement(guesses[0], same)
    assert abs(dependent.value - exact) > 4 * dependent.error


def test_independent_mistakes_at_given_accuracies():
    rng = np.random.default_rng(1)
    y = rng.integers(5, size=60_000)

    def wrong(share):
        other = (y + rng.integers(1, 5, size=len(y))) % 5
        return np.where(rng.random(len(y)) < share, other, y)

    value, error = functions.disagreement(wrong(0.1), wrong(0.3))
    assert abs(value - functions.independent_disagreement(0.9, 0.7, 5)) < 4 * error
    assert abs(value - (1 - 0.9 * 0.7)) > 4 * error  # forgets equal mistakes


def test_the_plane():
    y = np.array([0, 1, 2, 0])
    probs = np.eye(3)[[[0, 1, 2, 1], [0, 1, 2, 0]]]
    plane = functions.diversity_accuracy(np.array([0, 1, 0, 0]), probs, y)
    assert plane.accuracy.tolist() == [0.75, 1.0] and plane.disagreement.tolist() == [0.5, 0.25]
    assert plane.normalized[0] == 2.0 and np.isnan(plane.normalized[1])


def test_labels_of_other_inputs_are_refused():
    with pytest.raises(credo.CredoError, match="shapes"):
        functions.disagreement(np.zeros(3, int), np.zeros(4, int))


def test_a_map_keeps_neighbours():
    rng = np.random.default_rng(0)
    centers = rng.dirichlet(np.ones(4), size=(3, 30))
    probs = np.concatenate([c + 0.01 * rng.normal(size=(15, 30, 4)) for c in centers])
    places = functions.prediction_map(probs, seed=0)
    distances = np.linalg.norm(places[:, None] - places[None], axis=2)
    np.fill_diagonal(distances, np.inf)
    group = np.repeat(np.arange(3), 15)
    assert np.mean(group[distances.argmin(axis=1)] == group) == 1
    with pytest.raises(credo.CredoError, match="at least 4"):
        functions.prediction_map(probs[:3])


def test_subspaces_have_the_reach_they_say(networks):
    model, first, _ = networks
    record = Record((5,))
    flat = np.asarray(ravel_pytree(first)[0])
    around = subspaces.random_directions(0, model, first, record, 0.3, num_draws=8)
    for index in range(8):
        drawn = jax.tree.map(lambda leaf, i=index: leaf[0, i], around.draws)
        assert distance(first, drawn) == pytest.approx(0.3)
    steps = RNG.normal(size=(6, flat.size))
    unravel = ravel_pytree(first)[1]
    trajectory = stack([unravel(jnp.asarray(step)) for step in steps])
    diagonal = subspaces.diagonal_normal(model, first, trajectory, record, 2.0)
    np.testing.assert_allclose(ravel_pytree(diagonal.std)[0], 2 * steps.std(axis=0), rtol=1e-10)
    full = subspaces.low_rank_normal(model, first, trajectory, record, 2.0, rank=99)
    np.testing.assert_allclose(full.factor @ full.factor.T, 4 * np.cov(steps.T), atol=1e-10)
    one = subspaces.low_rank_normal(model, first, trajectory, record, 1.0, rank=1)
    top = np.linalg.eigvalsh(np.cov(steps.T))[-1]
    assert np.linalg.norm(one.factor) ** 2 == pytest.approx(top)
    noisy = subspaces.dropout(model, first, record, 0.5)
    assert sorted(noisy.rates) == ["dense1", "dense2"]  # hidden units, not inputs
    still = credo.predict(subspaces.dropout(model, first, record, 0.0), X, 3)
    alone = Samples(model, jax.tree.map(lambda leaf: leaf[None, None], first), record)
    np.testing.assert_allclose(still.probs, credo.predict(alone, X).probs, rtol=1e-10)


def test_bad_input_is_refused_in_words(networks):
    model, first, second = networks
    both = stack([first, second])
    with pytest.raises(credo.CredoError, match="rows, y has 5"):
        paths.path_losses(model, (X, Y[:5]), both, paths.line([0, 1]))
    with pytest.raises(credo.CredoError, match="class"):
        paths.path_losses(model, (X, Y + 100), both, paths.line([0, 1]))
    with pytest.raises(credo.CredoError, match="num_steps"):
        paths.train_tunnel(0, model, (X, Y), first, second, num_steps=-5)
    with pytest.raises(credo.CredoError, match="through 3 networks, got 2"):
        paths.plane_slice(model, (X, Y), both)
    for third in (second, first, jax.tree.map(lambda a, b: 2 * a - b, first, second)):
        with pytest.raises(credo.CredoError, match="span no plane"):
            paths.plane_slice(model, (X, Y), stack([first, second, third]))
    units = len(first["network"]["dense0"]["b"])
    for wrong in ({"dense7": np.arange(units)}, {"dense0": np.zeros(units, int)}):
        with pytest.raises(credo.CredoError, match="order of all its units"):
            alignment.permute(model, first, wrong)
    wide = credo.Model(MLP(hidden=(units + 1,)), model.likelihood)
    with pytest.raises(credo.CredoError, match="of one shape"):
        alignment.align(model, wide.init(jax.random.key(0), X.shape[1:]), first)
