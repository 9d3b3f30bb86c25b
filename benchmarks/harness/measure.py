"""Runs the sides of a row in turns: A B C A B C …, so that a slow minute is slow for all."""

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from harness import peak, row

WORKER = Path(__file__).parent / "worker.py"
LOGS = Path(__file__).parent.parent / "results"


class Worker:
    """The process of one side."""

    def __init__(self, row_name: str, side: str) -> None:
        LOGS.mkdir(exist_ok=True)
        log = (LOGS / f"{row_name}-{side}.log".replace(" ", "-")).open("w")
        self.process = subprocess.Popen(
            [sys.executable, str(WORKER), row_name, side],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=log,
            text=True,
        )
        self.error = ""
        self.prepare_seconds = self._read()["seconds"]
        self.first_seconds = self._read()["seconds"] if not self.error else 0.0
        self.seconds: list[float] = []
        self.result: float | None = None

    def repeat(self, per_result: bool) -> None:
        """Ask for one repetition and wait for it."""
        if not self.error:
            print("again", file=self.process.stdin, flush=True)
            answer = self._read()
            self.result = answer.get("result")
            achieved = self.result if per_result and self.result else 1.0
            self.seconds.append(answer["seconds"] / achieved)

    def _read(self) -> dict[str, Any]:
        line = self.process.stdout.readline()
        answer = json.loads(line) if line else {"error": "the process ended; see its log"}
        self.error = answer.get("error", "")
        return {"seconds": 0.0} | answer

    def close(self) -> None:
        self.process.stdin.close()
        self.process.wait()


def measure(row_name: str, repetitions: int, say: Callable[[str], None]) -> dict[str, Any]:
    """Times of every side of a row: `{side: {seconds, first_seconds, …}}`."""
    chosen = row.load(row_name)
    sides = [*chosen.sides, *(peak.SIDES if chosen.flops else ())]
    workers: dict[str, Worker] = {}
    try:
        for side in sides:  # one after the other: nobody compiles while another is being timed
            say(f"{row_name}: preparing {side}")
            workers[side] = Worker(row_name, side)
        for repetition in range(repetitions):
            say(f"{row_name}: repetition {repetition + 1} of {repetitions}")
            for worker in workers.values():
                worker.repeat(chosen.per_result)
    finally:
        for worker in workers.values():
            worker.close()
    fields = ("seconds", "prepare_seconds", "first_seconds", "result", "error")
    return {side: {f: getattr(w, f) for f in fields} for side, w in workers.items()}
