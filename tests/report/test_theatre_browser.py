"""The theatre in a browser: play, pause, speed, step size and target do what they say."""

import json
import re
import shutil
import subprocess
from dataclasses import replace
from html import unescape

import numpy as np
import pytest
from PIL import Image

from credo.report.theatre import SAMPLERS, write_theatre
from credo.report.theatre_densities import DENSITIES

BROWSER = next(
    filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None
)
FLAGS = (
    *("--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run"),
    *("--disable-background-networking", "--disable-component-update", "--disable-sync"),
    *("--virtual-time-budget=20000", "--window-size=1200,900"),
)
NUM_STEPS = 100
SIZES = {"metropolis": (1.5,), "hmc": (0.1, 0.3)}

pytestmark = [
    pytest.mark.skipif(BROWSER is None, reason="no chromium or google-chrome on the PATH"),
    pytest.mark.filterwarnings("ignore::credo.CredoWarning"),
]

# A visitor who knows the page only by what it shows.
VISITOR = """
<script>
(async () => {
  const byId = (id) => document.getElementById(id);
  const wait = (time) => new Promise((done) => setTimeout(done, time));
  // Without a screen and in virtual time the browser draws no frames, but its timers run.
  window.requestAnimationFrame = (draw) => setTimeout(() => draw(performance.now()), 16);
  const choose = (group, value) =>
    document.querySelector(`input[name=${group}][value="${value}"]`).click();
  const seen = {};
  const look = (name) => {
    seen[name] = {
      steps: parseInt(byId("steps").textContent),
      evaluations: parseInt(byId("evaluations").textContent.replaceAll(",", "")),
      button: byId("play").textContent,
      speed: byId("speed-value").textContent,
      picture: byId("canvas").toDataURL(),
      address: location.hash,
    };
  };
  const tenSteps = () => { for (let i = 0; i < 10; i++) byId("next").click(); };
  look("opened");
  byId("play").click();
  await wait(1500);
  look("played");
  byId("play").click();
  look("paused");
  await wait(1500);
  look("still paused");
  byId("speed").value = 4;
  byId("speed").dispatchEvent(new Event("input"));
  byId("play").click();
  await wait(1500);
  byId("play").click();
  look("fast");
  byId("restart").click();
  look("restarted");
  tenSteps();
  look("ten steps");
  choose("size", "0.1");
  look("other size");
  tenSteps();
  look("ten of other size");
  choose("density", "normal");
  tenSteps();
  look("ten on other target");
  choose("sampler", "metropolis");
  tenSteps();
  look("ten of other sampler");
  const report = document.createElement("pre");
  report.id = "seen";
  report.textContent = JSON.stringify(seen);
  document.body.append(report);
})();
</script>
"""


def browse(folder, address, *flags) -> str:
    command = [BROWSER, *FLAGS, f"--user-data-dir={folder / 'profile'}", *flags, address]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def page(tmp_path_factory, quick_compilation):
    path = tmp_path_factory.mktemp("browser") / "theatre.html"
    samplers = [replace(p, step_sizes=SIZES[p.name]) for p in SAMPLERS if p.name in SIZES]
    densities = [each for each in DENSITIES if each.name in ("normal", "ring")]
    write_theatre(path, NUM_STEPS, 0, samplers=samplers, densities=densities)
    return path


@pytest.fixture(scope="module")
def seen(page) -> dict:
    visited = page.with_name("visited.html")
    visited.write_text(page.read_text("utf-8").replace("</body>", f"{VISITOR}</body>"), "utf-8")
    scene = "sampler=hmc&target=ring&size=0.3&play=0"
    shown = browse(page.parent, f"{visited.as_uri()}#{scene}", "--dump-dom")
    found = re.search(r'<pre id="seen">(.*?)</pre>', shown, re.DOTALL)
    assert found is not None, "the visit did not come to its end"
    return json.loads(unescape(found[1]))


def test_play_moves_and_pause_stops(seen):
    assert (seen["opened"]["steps"], seen["opened"]["button"]) == (0, "Play")
    assert 0 < seen["played"]["steps"] < 15 and seen["played"]["button"] == "Pause"
    assert seen["played"]["picture"] != seen["opened"]["picture"]
    assert seen["paused"]["button"] == "Play"
    assert seen["still paused"] == seen["paused"]  # the picture too


def test_speed_and_restart(seen):
    slow = seen["played"]["steps"] - seen["opened"]["steps"]
    fast = seen["fast"]["steps"] - seen["paused"]["steps"]
    assert fast > 3 * slow and seen["fast"]["speed"] == "25 steps/s"
    assert seen["restarted"]["steps"] == seen["restarted"]["evaluations"] == 0
    assert seen["restarted"]["picture"] == seen["opened"]["picture"]


def test_step_size_target_and_sampler_change_what_is_played(seen):
    assert seen["other size"]["steps"] == 0
    tens = [name for name in seen if name.startswith("ten")]
    assert all(seen[name]["steps"] == 10 for name in tens)
    assert len({seen[name]["picture"] for name in tens}) == len(tens) == 4
    assert [seen[name]["evaluations"] for name in tens] == [100, 100, 100, 10]
    assert "size=0.1" in seen["ten of other size"]["address"]
    assert "target=normal" in seen["ten on other target"]["address"]
    assert "sampler=metropolis" in seen["ten of other sampler"]["address"]


def test_a_picture_of_the_page(page):
    """The chain's orange and the density's blue are on the left half: it is not blank."""
    shot = page.with_name("shot.png")
    scene = "sampler=hmc&target=ring&size=0.3&step=80"
    browse(page.parent, f"{page.as_uri()}#{scene}", f"--screenshot={shot}")
    assert shot.read_bytes().startswith(b"\x89PNG\r\n")
    colors = np.asarray(Image.open(shot).convert("RGB")).astype(int)
    warmth = colors[:, :600, 0] - colors[:, :600, 2]
    assert np.mean(warmth > 60) > 0.01 and np.mean(warmth < -60) > 0.01
