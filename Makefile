# make run | test | lint | docs | bench | clean: each creates and reuses .venv.
# PYTHON=python3.13 chooses the interpreter of a new .venv.
PYTHON ?= python3
export PIP_DISABLE_PIP_VERSION_CHECK := 1
export PIP_NO_INPUT := 1

.PHONY: run test lint docs bench clean
.NOTPARALLEL:
.DELETE_ON_ERROR:

run: .venv/installed
	.venv/bin/credo compare digits

test: .venv/installed-test
	.venv/bin/python -m pytest -n 2 --dist loadfile tests

lint: .venv/installed-dev
	.venv/bin/ruff format --check .
	.venv/bin/ruff check .
	.venv/bin/mypy

docs: .venv/installed-docs
	.venv/bin/mkdocs build --strict --quiet

bench:
	$(MAKE) -C benchmarks

clean:
	rm -rf .venv build dist site .pytest_cache .mypy_cache .ruff_cache .hypothesis
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

.venv/created:
	@command -v "$(PYTHON)" >/dev/null || { \
		echo "credo needs Python 3.11 or newer, and found no '$(PYTHON)'. On Debian: apt install python3 python3-venv" >&2; exit 1; }
	@"$(PYTHON)" -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { \
		echo "credo needs Python 3.11 or newer; '$(PYTHON)' is $$("$(PYTHON)" --version 2>&1). Name a newer one: make PYTHON=python3.13 ..." >&2; exit 1; }
	@"$(PYTHON)" -c 'import ensurepip, venv' 2>/dev/null || { \
		echo "'$(PYTHON)' has no venv module. On Debian: apt install python3-venv" >&2; exit 1; }
	"$(PYTHON)" -m venv --clear .venv
	@touch $@

# The stamps are remade only when the requirements change.
.venv/installed: pyproject.toml constraints.txt .venv/created
	.venv/bin/python -m pip install --quiet --constraint constraints.txt --editable .
	@touch $@

.venv/installed-%: pyproject.toml constraints.txt .venv/created
	.venv/bin/python -m pip install --quiet --constraint constraints.txt --editable '.[$*]'
	@touch $@
