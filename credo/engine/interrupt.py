"""Ctrl-C between chunks instead of inside one, so that the run can still save itself."""

import contextlib
import signal
import threading
from collections.abc import Callable, Iterator


@contextlib.contextmanager
def deferred_interrupt() -> Iterator[Callable[[], bool]]:
    """Yield a function that tells whether Ctrl-C was pressed; a second press stops at once."""
    pressed = threading.Event()

    def on_signal(*_) -> None:
        if pressed.is_set():
            raise KeyboardInterrupt
        pressed.set()

    if threading.current_thread() is not threading.main_thread():
        yield pressed.is_set
        return
    previous = signal.signal(signal.SIGINT, on_signal)
    try:
        yield pressed.is_set
    finally:
        signal.signal(signal.SIGINT, previous)
