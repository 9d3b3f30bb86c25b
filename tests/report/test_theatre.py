"""The theatre plays what `credo.sample` drew, and what it draws beside it is the truth."""

import base64
import json
import re

import jax.numpy as jnp
import numpy as np
import pytest

import credo
from credo.errors import CredoError, DivergedError
from credo.report import theatre
from credo.report.theatre import SAMPLERS, Recorder, Sampler, recordings, write_theatre
from credo.report.theatre_densities import BINS, DENSITIES, bar_masses, mass_above

NUM_STEPS = 24
RING = next(each for each in DENSITIES if each.name == "ring")
FEW = tuple(each for each in DENSITIES if each.name in ("normal", "ring"))

pytestmark = pytest.mark.filterwarnings("ignore::credo.CredoWarning")


def sampler_named(name: str, *step_sizes: float) -> Sampler:
    found = next(each for each in SAMPLERS if each.name == name)
    changed = {"step_sizes": step_sizes or found.step_sizes[1:2]}
    return Sampler(**{**vars(found), **changed})


def data_of(page: str) -> dict:
    return json.loads(re.search(r'<script type="application/json" id="\w+">(.*)</script>', page)[1])


def unpacked(text: str, num_points: int) -> np.ndarray:
    return np.frombuffer(base64.b64decode(text), "<i2").reshape(-1, num_points, 2) / 1000


@pytest.fixture(scope="module")
def page(tmp_path_factory) -> str:
    path = tmp_path_factory.mktemp("theatre") / "theatre.html"
    samplers = [sampler_named(name) for name in ("metropolis", "sgld", "hmc", "nuts")]
    write_theatre(path, NUM_STEPS, 3, samplers=samplers, densities=FEW)
    assert [each.name for each in path.parent.iterdir()] == ["theatre.html"]
    return path.read_text("utf-8")


@pytest.mark.parametrize("name", ["metropolis", "sgld", "hmc", "nuts"])
def test_the_page_plays_what_credo_drew(page, name):
    """Exactly what a user gets who never heard of the theatre: the spy changes no bit."""
    sampler = sampler_named(name)
    method = sampler.method(NUM_STEPS, sampler.step_sizes[0])
    drawn = credo.sample(RING.log_density, jnp.array(RING.start), method, 3)
    played = data_of(page)["runs"][f"{name}/ring/{sampler.step_sizes[0]:g}"]
    expected = np.asarray(drawn.draws, float)[0]
    np.testing.assert_allclose(np.reshape(played["path"], (-1, 2)), expected, atol=1e-3)


@pytest.mark.parametrize(("name", "num_points"), [("metropolis", 1), ("hmc", 10)])
def test_a_step_ends_at_its_proposal_or_where_it_began(page, name, num_points):
    sampler = sampler_named(name)
    run = data_of(page)["runs"][f"{name}/normal/{sampler.step_sizes[0]:g}"]
    proposals = unpacked(run["points"], num_points)[:, -1]
    path = np.vstack([FEW[0].start, np.reshape(run["path"], (-1, 2))])
    accepted = np.isclose(path[1:], proposals, atol=2e-3).all(axis=1)
    stayed = (path[1:] == path[:-1]).all(axis=1)
    assert (accepted | stayed).all() and accepted.any()
    assert stayed.any() or name == "hmc"


def test_nuts_ends_at_a_point_it_passed():
    recorder = Recorder([RING])
    every_point = Sampler(**{**vars(sampler_named("nuts", 0.4)), "num_points": 256})
    recording = recorder.record(every_point, RING, 0.4, NUM_STEPS, 0)
    assert recording.points is not None and len(recording.evaluations) == NUM_STEPS
    starts = np.vstack([RING.start, recording.path[:-1]])
    for start, end, passed in zip(starts, recording.path, recording.points, strict=True):
        assert (end == start).all() or (end == passed).all(axis=1).any()
    assert recording.evaluations.min() >= 1


def test_a_run_that_diverges_is_shown_until_then():
    wild = sampler_named("sgld", 5.0)
    with pytest.raises(DivergedError) as caught:
        credo.sample(FEW[0].log_density, jnp.array(FEW[0].start), wild.method(NUM_STEPS, 5.0))
    recording = Recorder(FEW).record(wild, FEW[0], 5.0, NUM_STEPS, 0)
    assert recording.stop_message == str(caught.value)
    assert 1 <= len(recording.path) <= theatre.diverged_at(caught.value)
    assert np.isfinite(recording.path).all() and len(recording.evaluations) == len(recording.path)
    shown = theatre.as_json(recording)
    assert shown["stop_message"] == recording.stop_message and json.dumps(shown, allow_nan=False)


def exact_draws(name: str, rng: np.random.Generator, count: int) -> np.ndarray:
    """Draws that need no chain, written down from the definition of each density."""
    x, y = rng.normal(size=(2, count))
    if name == "normal":
        return np.stack([x, 0.9 * x + np.sqrt(1 - 0.9**2) * y], axis=1)
    if name == "banana":
        return np.stack([1.6 * x, 0.5 * (1.6 * x) ** 2 + 0.5 * y], axis=1)
    if name == "funnel":
        return np.stack([x * np.exp(1.5 * y / 2), 1.5 * y], axis=1)
    if name == "mixture":
        centers = np.array([[-2.0, -1.3], [2.0, -1.3], [0.0, 2.2]])
        return centers[rng.integers(3, size=count)] + 0.6 * np.stack([x, y], axis=1)
    radii = 3.0 + 0.3 * x
    radii = rng.choice(radii, count, p=radii / radii.sum())  # a ring of radius r is 2πr long
    angles = rng.uniform(0, 2 * np.pi, count)
    return radii[:, None] * np.stack([np.cos(angles), np.sin(angles)], axis=1)


def shares_of_the_picture(density, draws: np.ndarray) -> np.ndarray:
    return (draws - density.center) / (2 * density.reach) + 0.5


def bars_hold(density, draws: np.ndarray) -> bool:
    """Is every bar within 4.5 standard errors of its mass? There are 400 in all."""
    shares = shares_of_the_picture(density, draws)
    expected = np.stack([bar_masses(density, coordinate) for coordinate in (0, 1)])
    counts = [np.histogram(shares[:, coordinate], BINS, (0, 1))[0] for coordinate in (0, 1)]
    error = np.sqrt(expected * (1 - expected) / len(draws)) + 1 / len(draws)
    return bool((np.abs(np.stack(counts) / len(draws) - expected) < 4.5 * error).all())


def contours_hold(density, draws: np.ndarray) -> bool:
    above = mass_above(density)
    shares = shares_of_the_picture(density, draws)
    inside = ((shares >= 0) & (shares < 1)).all(axis=1)
    column, row = (shares[inside] * len(above)).astype(int).T
    levels = np.array([0.5, 0.8, 0.95])
    held = (above[row, column][:, None] <= levels).sum(axis=0) / len(draws)
    return bool((np.abs(held - levels) < 0.02).all())  # cells are wide where the funnel is narrow


@pytest.mark.parametrize("density", DENSITIES, ids=lambda each: each.name)
def test_contours_and_marginals_are_those_of_the_density(density, rng):
    draws = exact_draws(density.name, rng, 40_000)
    assert bars_hold(density, draws) and contours_hold(density, draws)


def test_swapped_axes_and_a_wider_density_are_caught(rng):
    for density in DENSITIES[1:3]:
        draws = exact_draws(density.name, rng, 40_000)
        for wrong in (draws[:, ::-1], 1.1 * draws):
            assert not bars_hold(density, wrong) and not contours_hold(density, wrong)


def test_the_page_stands_alone(page):
    assert not re.search(r"https?:|src=|<link|@import|url\(|fetch\(", page)
    assert theatre.PLACEHOLDER not in page


def test_no_text_can_end_the_script():
    hostile = "</script><script>alert(1)</script>"
    shown = theatre.theatre_page({"text": hostile})
    assert hostile not in shown and data_of(shown) == {"text": hostile}


def test_effective_draws_count_up_to_the_end():
    path = np.random.default_rng(0).normal(size=(100, 2))
    found = theatre.effective_draws(path)
    assert len(found) == 100 // theatre.ESS_EVERY and 50 < found[-1] < 200
    assert theatre.effective_draws(np.zeros((40, 2))) == [0, 0]


def test_bad_requests(tmp_path):
    with pytest.raises(CredoError, match="no folder"):
        write_theatre(tmp_path / "nowhere" / "theatre.html")
    with pytest.raises(CredoError, match="num_steps is 3"):
        write_theatre(tmp_path / "theatre.html", 3)
    assert not list(tmp_path.iterdir())


def test_every_player_and_density_has_its_say():
    names = {each.name for each in SAMPLERS}
    assert names == {"metropolis", "mala", "sgld", "sghmc", "hmc", "nuts"}
    assert all(each.text.endswith(".") for each in (*SAMPLERS, *DENSITIES))
    assert all(len(each.step_sizes) >= 3 for each in SAMPLERS)
    assert recordings(NUM_STEPS, samplers=[], densities=FEW)["runs"] == {}
