"""Examples in docstrings and in the README run; names in the documentation exist."""

import doctest
import importlib
import pkgutil
import re
from pathlib import Path

import pytest

import credo
from credo.engine import Descent

ROOT = Path(__file__).resolve().parent.parent
MODULES = ["credo", *(m.name for m in pkgutil.walk_packages(credo.__path__, "credo."))]
pytestmark = [
    pytest.mark.usefixtures("quick_compilation"),
    # Examples are short, and so are their chains: the library says so.
    pytest.mark.filterwarnings("ignore::credo.CredoWarning"),
]


def examples(module):
    """The docstring examples written in a module, with `credo` at hand."""
    names = vars(module) | {"credo": credo}
    found = doctest.DocTestFinder(exclude_empty=True).find(module, globs=names)
    return [test for test in found if test.examples]


def failures(tests):
    runner = doctest.DocTestRunner()
    return sum(runner.run(test).failed for test in tests)


WITH_EXAMPLES = [name for name in MODULES if ">>>" in Path(
    importlib.util.find_spec(name).origin
).read_text("utf-8")]  # fmt: skip


@pytest.mark.parametrize("name", WITH_EXAMPLES)
def test_docstring_examples(name, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    tests = examples(importlib.import_module(name))
    assert tests
    assert failures(tests) == 0


def test_a_wrong_example_is_caught(capsys):
    wrong = doctest.DocTestParser().get_doctest(">>> 1 + 1\n3\n", {}, "planted", None, None)
    assert failures([wrong]) == 1


@pytest.mark.parametrize("page", ["README.md", "docs/models.md", "docs/data.md"])
def test_pages(page, tmp_path, monkeypatch):
    """The Python blocks of a page run, one after the other (`py` marks what is shown only)."""
    if not (ROOT / page).exists():
        pytest.skip(f"no {page} beside the tests")
    monkeypatch.chdir(tmp_path)
    plan = Descent.plan

    def short(self, num_rows):  # a fit of 50 steps shows as well that the lines run
        return plan(self, num_rows)._replace(num_steps=50, num_warmup=50)

    monkeypatch.setattr(Descent, "plan", short)
    blocks = re.findall(r"```python\n(.*?)```", (ROOT / page).read_text("utf-8"), re.DOTALL)
    assert blocks
    exec(compile("\n".join(blocks), page, "exec"), {})


PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
FORMER_NAMES = ("decisions.md",)  # reasons may speak of what was


def missing_names(text: str) -> list[str]:
    """Dotted names such as `credo.networks.MLP` that Python does not find."""
    names = sorted(set(re.findall(r"\bcredo(?:\.[A-Za-z_]\w*)+", text)))
    return [name for name in names if not exists(name)]


def exists(name: str) -> bool:
    try:
        pkgutil.resolve_name(name)
    except (ImportError, AttributeError):
        return False
    return True


@pytest.mark.skipif(not (ROOT / "docs").exists(), reason="no docs beside the tests")
def test_names_in_the_documentation_exist():
    pages = [page for page in PAGES if page.name not in FORMER_NAMES]
    found = {page.name: missing_names(page.read_text("utf-8")) for page in pages}
    assert {name: missing for name, missing in found.items() if missing} == {}


def test_a_name_that_does_not_exist_is_caught():
    assert missing_names("`credo.networks.MLP` and `credo.Nothing`") == ["credo.Nothing"]
