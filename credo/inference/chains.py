"""What the fields that all samplers have mean: how long chains run and what they keep."""

from typing import Any

from credo.inference.method import COUNT, NOT_NEGATIVE, POSITIVE, Plan, check_fields

CHAINS = {"num_samples": COUNT, "num_chains": COUNT, "thin": COUNT, "num_warmup": NOT_NEGATIVE}
ADAPTED = {"step_size": POSITIVE, "target_acceptance": (0.0, 0.999)}


def check_chains(method: Any, **bounds: tuple[float, float]) -> None:
    """Validate the fields of a sampler: those of every chain, and the given ones."""
    adapted = ADAPTED if hasattr(method, "target_acceptance") else {}
    check_fields(method, **(CHAINS | adapted | bounds))


def plan_chains(method: Any, **more: Any) -> Plan:
    """num_warmup steps, then num_samples draws `thin` steps apart."""
    steps = method.num_warmup + method.num_samples * method.thin
    return Plan(steps, method.num_warmup, method.thin, method.num_chains, **more)
