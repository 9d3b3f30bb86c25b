"""A progress bar on the terminal; silence elsewhere."""

import sys
from typing import Any


class Progress:
    """Steps done, speed, latest figures, time left. Shown by default only on a terminal."""

    def __init__(self, total: int, done: int, title: str, show: bool | None) -> None:
        self.bar: Any = None
        if show or (show is None and sys.stderr.isatty()):
            from rich.console import Console
            from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeRemainingColumn
            from rich.progress import Progress as RichProgress

            self.bar = RichProgress(
                TextColumn("{task.description}"),
                BarColumn(),
                MofNCompleteColumn(),
                TextColumn("{task.fields[speed]}"),
                TextColumn("{task.fields[figures]}"),
                TimeRemainingColumn(),
                console=Console(stderr=True),
                transient=True,
            )
            self.task = self.bar.add_task(
                title, total=total, completed=done, figures="", speed="compiling"
            )

    def __enter__(self) -> "Progress":
        if self.bar is not None:
            self.bar.start()
        return self

    def __exit__(self, *_: Any) -> None:
        if self.bar is not None:
            self.bar.stop()

    def update(self, done: int, figures: dict[str, Any]) -> None:
        if self.bar is None:
            return
        shown = ("nll", "acceptance", "log_joint")
        text = "  ".join(
            f"{n.replace('_', ' ')} {float(figures[n]):.4g}" for n in shown if n in figures
        )
        speed = self.bar.tasks[0].speed
        rate = f"{speed:,.0f} steps/s" if speed else ""
        self.bar.update(self.task, completed=done, figures=text, speed=rate)
