"""Imports go one way, `import credo` stays light, and no file names a machine."""

import ast
import json
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent

# A folder (or module) may import those to its left. "credo" is the public namespace itself, which
# gathers names from everywhere: only what is built on the whole library may import it.
FREE = ("errors", "files", "caching", "keys")
ORDER = (
    *("data", "networks", "model", "posterior", "predictive", "linearized"),
    *("evaluation", "inference"),
    *("decisions", "credo", "experiments", "report", "sklearn", "app"),
)

HEAVY = ("pandas", "sklearn", "matplotlib", "scipy.stats", "blackjax", "pooch", "PIL")

MACHINE_PATHS = ("/work/", "/tmp/w/", "/root/")
INDEX_ADDRESSES = ("pypi.org/simple", "--index-url", "--extra-index-url", "--find-links")


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
        ("credo/model/planted.py", "from ..inference import engine"),
        ("credo/model/__init__.py", "from ..app import main"),
        ("credo/predictive.py", "from .evaluation import metrics"),
        ("credo/inference/planted.py", "import credo"),
        ("credo/inference/planted.py", "from credo import fit"),
        ("credo/errors.py", "from credo.data import load"),
    ],
)
def test_an_import_to_the_right_is_caught(path, source):
    assert wrong_imports(source, path)


@pytest.mark.parametrize(
    ("path", "source"),
    [
        ("credo/app/planted.py", "import credo\nfrom credo.report import html"),
        ("credo/inference/planted.py", "from ..posterior import samples\nfrom . import engine"),
        ("credo/inference/__init__.py", "from .engine import run\nfrom credo import errors"),
        ("credo/data/planted.py", "import jax\nimport sklearn.datasets\nfrom credo import files"),
    ],
)
def test_an_import_to_the_left_passes(path, source):
    assert not wrong_imports(source, path)


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


def machine_traces(text: str) -> list[str]:
    return [trace for trace in (*MACHINE_PATHS, *INDEX_ADDRESSES) if trace in text]


def test_no_file_names_a_machine_or_an_index():
    if not (ROOT / ".git").exists() or shutil.which("git") is None:
        pytest.skip("not a git checkout: tracked files unknown")
    listed = subprocess.run(
        ["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, text=True, check=True
    )
    files = [ROOT / name for name in listed.stdout.split("\0") if name]
    wrong = {
        str(file.relative_to(ROOT)): traces
        for file in files
        if file.is_file() and file != Path(__file__).resolve()
        if (traces := machine_traces(file.read_text("utf-8", errors="replace")))
    }
    assert not wrong


def test_a_machine_path_is_caught():
    assert machine_traces("open('/work/data.csv')") == ["/work/"]
    assert machine_traces("pip install --extra-index-url x y")
    assert not machine_traces("pip install -c constraints.txt -e .")
