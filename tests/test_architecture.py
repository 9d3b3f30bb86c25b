"""Imports go one way, `import credo` stays light, and no file names a machine."""

import ast
import json
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent

# A folder (or module) may import those to its left. "credo" is the public namespace itself, which
# gathers names from everywhere: only what is built on the whole library may import it.
FREE = ("errors", "files", "caching", "keys", "struct", "fields", "saving")
ORDER = (
    *("data", "networks", "model", "likelihoods", "priors", "engine", "posterior", "predictive"),
    *("evaluation", "inference", "landscape", "credo", "experiments", "report", "sklearn", "app"),
)

HEAVY = ("pandas", "sklearn", "matplotlib", "scipy.stats", "blackjax", "pooch", "PIL")

# An absolute path of two or more parts, where a string, a word or a link begins. What stands before
# the slash of a fraction, a URL, a relative path, a glob or a regular expression rules it out, and
# so does the end of a regular expression in JavaScript, as in (/ab/g).
ABSOLUTE_PATH = re.compile(
    r"(?:(?<![\w./\\~$})\]*|‖%-])|(?<=file://))"
    r"(?!(?<=\()/[\w.-]+/[gimsuy]{0,2}[,).])"
    r"/(?P<first>[A-Za-z][\w.-]+)/[\w.-]+"
)
SYSTEM_FOLDERS = ("bin", "dev", "etc", "proc", "sys", "usr")  # the same wherever there is a POSIX

# Where packages come from is for each machine to say: options, settings and addresses of an index.
PACKAGE_INDEX = re.compile(
    r"--(?:(?:extra-)?index-url|default-index|find-links)\b"
    r"|\b(?:pip|uv)\b[^\n]*\s(?:--index|-[if])[\s=]"
    r"|\b(?:PIP|UV)_(?:\w+_)?(?:INDEX|LINKS)"
    r"|^\s*(?:extra-)?index[-_]url\s*="
    r"|\[\[(?:tool\.uv\.)?index\]\]"
    r"|[\w-]\.[a-z]+(?::\d+)?(?:/[\w.-]+)*/simple\b(?!\.)"
    r"|://[^\s/]+(?:/[\w.-]+)*/simple\b(?!\.)",
    re.MULTILINE,
)


def imported_folders(source: str, module: tuple[str, ...], is_package: bool) -> Iterator[str]:
    """Yield the folder of credo that each import statement names, wherever it stands."""
    package = module if is_package else module[:-1]
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            names = [alias.name.split(".") for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            start = list(package[: len(package) - node.level + 1]) if node.level else []
            start += node.module.split(".") if node.module else []
            names = [[*start, alias.name] for alias in node.names]
        else:
            continue
        for parts in names:
            if parts[0] == "credo":
                folder = parts[1] if len(parts) > 1 else "credo"
                yield folder if folder in (*ORDER, *FREE) or is_folder(folder) else "credo"


def is_folder(name: str) -> bool:
    return (ROOT / "credo" / name).is_dir() or (ROOT / "credo" / f"{name}.py").is_file()


def rank(folder: str) -> int:
    if folder in FREE:
        return -1
    assert folder in ORDER, f"credo/{folder} has no place in ORDER of {Path(__file__).name}: add it"
    return ORDER.index(folder)


def wrong_imports(source: str, path: str) -> list[str]:
    """Say which imports of the file at `path` (relative to the root) go against the order."""
    parts = Path(path).with_suffix("").parts
    is_package = parts[-1] == "__init__"
    module = parts[:-1] if is_package else parts
    if module == ("credo",):
        return []
    return [
        f"{path} imports credo.{folder}, which lies to its right"
        for folder in imported_folders(source, module, is_package)
        if rank(folder) > rank(module[1])
    ]


def test_imports_go_one_way():
    files = sorted((ROOT / "credo").rglob("*.py"))
    assert files
    wrong = [
        line
        for file in files
        for line in wrong_imports(file.read_text("utf-8"), file.relative_to(ROOT).as_posix())
    ]
    assert not wrong, "\n".join(wrong)


@pytest.mark.parametrize(
    ("path", "source"),
    [
        ("credo/data/planted.py", "import credo.report.html"),
        ("credo/data/planted.py", "from credo.networks import MLP"),
        ("credo/data/planted.py", "def late():\n    from credo import networks"),
        ("credo/model/planted.py", "from ..inference import method"),
        ("credo/model/__init__.py", "from ..app import main"),
        ("credo/model/likelihoods/planted.py", "from ...engine import run"),
        ("credo/engine/planted.py", "from credo.inference.method import Method"),
        ("credo/engine/planted.py", "from credo.posterior import Samples"),
        ("credo/predictive/planted.py", "from ..evaluation import metrics"),
        ("credo/evaluation/planted.py", "from credo.landscape import paths"),
        ("credo/inference/verbs/planted.py", "from credo.landscape import paths"),
        ("credo/inference/planted.py", "import credo"),
        ("credo/inference/planted.py", "from credo import fit"),
        ("credo/errors.py", "from credo.data import load"),
        ("credo/struct.py", "from credo.engine import run"),
        ("credo/saving.py", "def late():\n    from credo.posterior import Samples"),
    ],
)
def test_an_import_to_the_right_is_caught(path, source):
    assert wrong_imports(source, path)


@pytest.mark.parametrize(
    ("path", "source"),
    [
        ("credo/app/planted.py", "import credo\nfrom credo.report import html"),
        ("credo/inference/planted.py", "from ..posterior import samples\nfrom . import method"),
        (
            "credo/inference/point/planted.py",
            "from ...engine import run\nfrom ..method import Method",
        ),
        ("credo/inference/__init__.py", "from .registry import METHODS\nfrom credo import errors"),
        ("credo/engine/planted.py", "from credo.data.source import Source\nimport credo.struct"),
        ("credo/landscape/planted.py", "from credo.inference import fit"),
        ("credo/data/planted.py", "import jax\nimport sklearn.datasets\nfrom credo import files"),
    ],
)
def test_an_import_to_the_left_passes(path, source):
    assert not wrong_imports(source, path)


def test_every_room_has_a_place():
    found = {
        path.stem for path in (ROOT / "credo").iterdir() if path.is_dir() or path.suffix == ".py"
    }
    found -= {"__init__", "__main__", "__pycache__"}
    assert found == {*ORDER, *FREE} - {"credo"}


def optimizer_steps(source: str) -> list[str]:
    """Where a module applies an optimiser's update.

    That is a call of `apply_updates`, under whatever name it was imported, or of an `update` whose
    result is taken apart: updates and the optimiser's new memory. To make an optimiser that the
    engine then runs is no step of it.
    """
    tree = ast.parse(source)
    appliers = {"apply_updates"}
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom):
            own = [alias for alias in node.names if alias.name == "apply_updates"]
            appliers |= {alias.asname for alias in own if alias.asname}
    found = []
    for node in ast.walk(tree):
        taken_apart = (
            (isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Tuple | ast.List))
            or isinstance(node, ast.Subscript)
        )  # fmt: skip
        if taken_apart and isinstance(node.value, ast.Call):
            name = ast.unparse(node.value.func)
            if name.endswith(".update"):
                found.append(f"line {node.lineno} takes apart {name}")
        if isinstance(node, ast.Call):
            name = ast.unparse(node.func)
            if name.split(".")[-1] in appliers:
                found.append(f"line {node.lineno} calls {name}")
    return found


def test_only_the_engine_applies_an_optimizers_update():
    files = sorted((ROOT / "credo").rglob("*.py"))
    engine = ROOT / "credo" / "engine"
    wrong = {
        file.relative_to(ROOT).as_posix(): steps
        for file in files
        if engine not in file.parents and (steps := optimizer_steps(file.read_text("utf-8")))
    }
    assert not wrong, wrong
    assert any(optimizer_steps(file.read_text("utf-8")) for file in engine.rglob("*.py"))


@pytest.mark.parametrize(
    "source",
    [
        "import optax\nparams = optax.apply_updates(params, updates)",
        "import optax as ox\ndef step(p, u):\n    return ox.apply_updates(p, u)",
        "from optax import apply_updates\nparams = apply_updates(params, updates)",
        "from optax import apply_updates as move\nparams = move(params, updates)",
        "import equinox as eqx\nmodel = eqx.apply_updates(model, updates)",
        "from optax import adam\nrule = adam(1e-3)\nupdates, memory = rule.update(g, memory)",
        "updates, memory = method.transformation(target, params).update(gradient, memory, params)",
        "import optax\nupdates = optax.adam(1e-3).update(gradient, memory)[0]",
    ],
)
def test_a_second_loop_is_caught(source):
    assert optimizer_steps(source)


@pytest.mark.parametrize(
    "source",
    [
        "import optax\nversion = optax.__version__",
        "import optax\ndef fit(optimizer: optax.GradientTransformation): ...",
        "from credo.engine import descend\nlearned = descend(rule, learned, memory, loss)",
        "import optax\nrule = optax.chain(optax.clip(1.0), optax.adam(1e-3))",
        "digest.update(text)\nposterior = credo.update(posterior, data)",
    ],
)
def test_what_is_no_optimizers_step_passes(source):
    assert not optimizer_steps(source)


def heavy_modules_after(statement: str) -> list[str]:
    listing = f"[name for name in {HEAVY} if name in sys.modules]"
    code = f"{statement}\nimport json, sys\nprint(json.dumps({listing}))"
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True
    )
    return json.loads(done.stdout)


def test_importing_credo_is_light():
    assert heavy_modules_after("import credo") == []


def test_a_heavy_import_is_caught():
    assert "pooch" in heavy_modules_after("import credo, pooch")


def tracked_files() -> list[Path]:
    if not (ROOT / ".git").exists() or shutil.which("git") is None:
        pytest.skip("not a git checkout: tracked files unknown")
    listed = subprocess.run(
        ["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, text=True, check=True
    )
    files = [ROOT / name for name in listed.stdout.split("\0") if name]
    return [file for file in files if file.is_file()]  # not one that was just moved


def machine_traces(text: str, own_folders: set[str]) -> list[str]:
    """Absolute paths that only some machines have, and package indexes.

    A path that begins with a folder of the repository is meant from its root.
    """
    paths = [
        match.group()
        for match in ABSOLUTE_PATH.finditer(text)
        if match["first"] not in own_folders | set(SYSTEM_FOLDERS)
    ]
    return paths + [match.group() for match in PACKAGE_INDEX.finditer(text)]


def test_no_file_names_a_machine_or_an_index():
    files = tracked_files()
    own_folders = {file.relative_to(ROOT).parts[0] for file in files}
    wrong = {
        str(file.relative_to(ROOT)): traces
        for file in files
        if b"\0" not in (content := file.read_bytes())  # an image
        if (traces := machine_traces(content.decode("utf-8", errors="replace"), own_folders))
    }
    assert not wrong


# Put together from parts, so that this file names no machine either.
FOLDER = "/".join(["", "home", "someone"])
INDEX = "/".join(["packages.example.org", "simple"])


@pytest.mark.parametrize(
    "text",
    [
        f"open('{FOLDER}/data.csv')",
        f'data = f"{FOLDER}"',
        f"See {FOLDER}/notes.md.",
        f"[notes]({FOLDER}/notes.md)",
        f"run >{FOLDER}/log",
        f"PATH=bin:{FOLDER}/bin",
        f"file://{FOLDER}",
        "/".join(["(", "tmp", "a1b2", "c"]),
        f"pip install --{'index-url'} x y",
        f"pip install --{'extra-index-url'}=x y",
        f"uv pip install --{'default-index'} x y",
        f"uv add {'--index'} x y",
        f"pip install {'-i'} x y",
        f"pip install --{'find-links'} wheels y",
        f"export PIP_{'INDEX_URL'}=x",
        f"export UV_{'INDEX'}=x",
        f"[global]\n{'index-url'} = x",
        f"[[{'tool.uv.index'}]]",
        f"https://{INDEX}/",
        f"at {INDEX}",
        "http://" + "/".join(["localhost:3141", "root", "simple"]),
    ],
)
def test_a_machine_or_an_index_is_caught(text):
    assert machine_traces(text, {"docs"})


@pytest.mark.parametrize(
    "text",
    [
        "pip install -c constraints.txt -e .",
        "https://github.com/someone/credo/blob/main/README.md",
        "https://example.org/a/simple.html, a/simple/rule, and/or/not",
        "N/B, 1/n/2, (a + b)/two/three, ‖w‖/num/data, x²/num/data",
        "<b>x</b></td>, <br/>, s.replace(/ab/g, '')",
        "[page](docs/results/index.md), [page](/docs/results/index.md), ../results/index.md",
        "#!/usr/bin/env python, 2>/dev/null, open('/proc/self/maps'), ~/data/x, $HOME/data/x",
        "f'{folder}/data/x', **/data/x, r'\\/data/x', the folder /tmp",
    ],
)
def test_other_slashes_pass(text):
    assert not machine_traces(text, {"docs"})
