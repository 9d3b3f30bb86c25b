"""Measure credo beside its peers, in turns, and print ratios with their spread.

python benchmarks/run.py                       all rows
python benchmarks/run.py hmc mlp_step          some rows
python benchmarks/run.py --repetitions 3       quicker, less certain
python benchmarks/run.py --page                also write docs/results/benchmarks.md
"""

import argparse
import json
import sys
from pathlib import Path

import numpy as np
from harness import machine, peak, report, row, summary
from harness.measure import measure

HERE = Path(__file__).resolve().parent
PAGE = HERE.parent / "docs" / "results" / "benchmarks.md"


def main() -> int:
    options = parse()
    load = machine.load_average()
    if load > 0.5:
        say(f"the machine is busy (load {load:.1f}): the times will be too long, the ratios wrong")
    rows = {name: row.load(name) for name in options.rows}
    times = {name: measured(rows[name], name, options.repetitions) for name in options.rows}
    results = {
        "machine": machine.describe(),
        "repetitions": options.repetitions,
        "load": load,
        "peaks": peaks(times),
        "notes": {name: chosen.note for name, chosen in rows.items()},
        "summary": {name: summary.summarize(rows[name], times[name]) for name in rows},
        "times": times,
    }
    save(results)
    report.print_table([entry for entries in results["summary"].values() for entry in entries])
    print(" ".join(f"{side}: {value:,.0f} GFLOP/s." for side, value in results["peaks"].items()))
    if options.page:
        report.write_page(options.page, results)
    problems = [summary.disagreement(rows[name], times[name]) for name in rows]
    for problem in filter(None, problems):
        say(problem)
    failed = any(times[name][next(iter(rows[name].sides))]["error"] for name in rows)
    return int(failed or any(problems))


def measured(chosen: row.Row, name: str, repetitions: int) -> dict:
    """Times of a row; its table is printed at once, for a run that is interrupted later."""
    times = measure(name, repetitions, say)
    report.print_table(summary.summarize(chosen, times))
    return times


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("rows", nargs="*", help=f"which of: {', '.join(row.names())}")
    parser.add_argument("--repetitions", type=int, default=11, help="turns of every side")
    parser.add_argument("--page", nargs="?", type=Path, const=PAGE, help="write the Markdown page")
    options = parser.parse_args()
    unknown = set(options.rows) - set(row.names())
    if unknown:
        parser.error(f"no such row: {', '.join(sorted(unknown))}; rows: {', '.join(row.names())}")
    if options.repetitions < 1:
        parser.error(f"at least 1 repetition is needed, got {options.repetitions}")
    options.rows = options.rows or row.names()
    return options


def peaks(times: dict) -> dict[str, float]:
    """The best large product of all rows in each backend, in GFLOP/s."""
    best: dict[str, float] = {}
    for side in peak.SIDES:
        seconds = [t for sides in times.values() for t in sides.get(side, {}).get("seconds", [])]
        if seconds:
            best[side.removeprefix("peak ")] = peak.FLOPS / float(np.min(seconds)) / 1e9
    return best


def save(results: dict) -> None:
    folder = HERE / "results"
    folder.mkdir(exist_ok=True)
    (folder / "latest.json").write_text(json.dumps(results, indent=1))


def say(message: str) -> None:
    print(message, file=sys.stderr, flush=True)


if __name__ == "__main__":
    sys.exit(main())
