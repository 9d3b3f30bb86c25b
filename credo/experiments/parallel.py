"""Many small fits side by side, with one progress bar for all of them."""

import sys
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

Task = TypeVar("Task")
Result = TypeVar("Result")


def in_parallel(
    function: Callable[[Task], Result], tasks: Iterable[Task], num_workers: int, title: str
) -> list[Result]:
    """function(task) for every task, in order; compiled programs leave Python's lock to others.

    The first failure, or Ctrl-C, drops what has not begun. The bar is shown on a terminal only.
    """
    from rich.console import Console
    from rich.progress import track

    tasks = list(tasks)
    pool = ThreadPoolExecutor(num_workers)
    try:
        futures = [pool.submit(function, task) for task in tasks]
        quiet = not sys.stderr.isatty()
        shown = track(futures, title, console=Console(stderr=True), disable=quiet, transient=True)
        return [future.result() for future in shown]
    finally:
        pool.shutdown(cancel_futures=True)
