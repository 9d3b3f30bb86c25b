"""What `import credo` costs beyond the libraries it stands on."""

from harness.row import Row

from rows._fresh import fresh

ROW = Row(
    title="Import, in a new process",
    sides={
        "credo": lambda: fresh("import credo"),
        "jax, equinox": lambda: fresh("import jax, equinox"),
        "torch": lambda: fresh("import torch"),
    },
    unit="ms",
    targets={"jax, equinox": 1.3},
    ratio="time",
    note="Wall-clock time of a process that imports and ends; byte code and files cached.",
)
