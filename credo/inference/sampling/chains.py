"""What the fields that all samplers have mean: how long chains run and what they keep."""

from typing import Any

from credo.engine import Plan
from credo.fields import COUNT, POSITIVE, Range, at_least, between, check_fields

CHAINS = {"num_samples": COUNT, "num_chains": COUNT, "thin": COUNT, "num_warmup": at_least(0)}
ADAPTED = {
    "step_size": POSITIVE,
    "target_acceptance": between(0, 1, low_included=False, high_included=False),
}


def check_chains(method: Any, **ranges: Range) -> None:
    """Validate the fields of a sampler: those of every chain, and the given ones."""
    adapted = ADAPTED if method.has_acceptance else {}
    check_fields(method, **(CHAINS | adapted | ranges))


def plan_chains(method: Any, **more: Any) -> Plan:
    """num_warmup steps, then num_samples draws `thin` steps apart."""
    steps = method.num_warmup + method.num_samples * method.thin
    return Plan(steps, method.num_warmup, method.thin, method.num_chains, **more)
