"""From times to ratios: paired by repetition, with their spread."""

from typing import Any

import numpy as np

from harness import peak
from harness.row import Row


def summarize(row: Row, times: dict[str, Any]) -> list[dict[str, Any]]:
    """One entry for each side of a row that ran: its value, ratio, share of the peak, target."""
    first = next(iter(row.sides))
    if times[first]["error"]:
        return [{"row": row.title, "side": first, "error": times[first]["error"]}]
    best_peak = _peak_seconds(times)
    reference = np.array(times[first]["seconds"])
    return [_entry(row, side, times, reference, best_peak) for side in row.sides]


def _entry(row: Row, side: str, times: dict, reference: np.ndarray, best_peak) -> dict[str, Any]:
    entry: dict[str, Any] = {"row": row.title, "side": side, "error": times[side]["error"]}
    if entry["error"]:
        return entry
    seconds = np.array(times[side]["seconds"])
    entry |= {"value": shown(row, np.median(seconds)), "unit": row.unit}
    entry["best"] = shown(row, seconds.min())
    # The first repetition's extra time is compilation, the filling of caches, lazy imports.
    entry["first_seconds"] = max(0.0, times[side]["first_seconds"] - float(np.median(seconds)))
    if side != next(iter(row.sides)):
        ratios = seconds / reference if row.ratio == "speed" else reference / seconds
        entry["ratio"] = float(np.median(ratios))
        entry["spread"] = [float(q) for q in np.quantile(ratios, [0.1, 0.9])]
        entry |= {"target": row.targets.get(side), "compares": row.ratio}
        entry["met"] = _met(row, side, entry["ratio"])
    if best_peak is not None:
        shares = row.flops * row.work / peak.FLOPS * best_peak / seconds
        entry["share"] = float(np.median(shares))
        if side == next(iter(row.sides)) and row.share_target:
            entry |= {"share_target": row.share_target, "met": entry["share"] >= row.share_target}
    return entry


def _met(row: Row, side: str, ratio: float) -> bool | None:
    if side not in row.targets:
        return None
    return ratio >= row.targets[side] if row.ratio == "speed" else ratio <= row.targets[side]


def _peak_seconds(times: dict[str, Any]) -> np.ndarray | None:
    """The faster of the two backends in every repetition, while the machine was as it was then."""
    sides = [times[side] for side in peak.SIDES if side in times]
    measured = [side["seconds"] for side in sides if not side["error"]]
    return np.min(measured, axis=0) if measured else None


def shown(row: Row, seconds: float) -> float:
    if row.unit.endswith("/s"):
        return float(row.work / seconds)
    return float(seconds / row.work * (1000 if row.unit.startswith("ms") else 1))


def disagreement(row: Row, times: dict[str, Any]) -> str:
    """What to say where the sides did not do the same work; nothing where they did."""
    results = {side: times[side]["result"] for side in row.sides if not times[side]["error"]}
    if row.tolerance is None or None in results.values():
        return ""
    values = np.array(list(results.values()))
    if np.ptp(values) <= row.tolerance * np.abs(values).max():
        return ""
    listed = ", ".join(f"{side} {value:.5g}" for side, value in results.items())
    return f"{row.title}: the sides did not do the same work, for their results differ: {listed}"
