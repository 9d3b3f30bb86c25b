"""Entry point of the command line: parse, run, and print in one line what went wrong.

Exit codes: 0 done, 2 bad input, 130 interrupted (Ctrl-C), 141 nobody reads the output any more.
"""

import io
import os
import signal
import sys
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import Any

from credo import CredoWarning
from credo.app.parse import parse
from credo.errors import CredoError, CredoNote


def main(arguments: Sequence[str] | None = None) -> int:
    """Run `credo ARGUMENTS` (those of the process by default) and return the exit code."""
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="backslashreplace")  # a terminal may not know ± or a class
    with _plain_warnings():
        try:
            if arguments is None:
                _insist_on_interrupts()
            parse(sys.argv[1:] if arguments is None else list(arguments)).run()
            sys.stdout.flush()
        except SystemExit as stop:  # tyro leaves this way after showing help
            return int(stop.code or 0)
        except CredoError as error:
            return _print_line(f"error: {error}", 2)
        except KeyboardInterrupt as stop:
            if hasattr(signal, "setitimer"):
                signal.setitimer(signal.ITIMER_REAL, 0)
            code = _print_line(str(stop) or "interrupted", 130)
            return code if arguments is not None else _leave(code)
        except BrokenPipeError:
            _discard_output()
            return 141
        except OSError as error:
            _discard_output()
            where = error.filename or "standard output"  # files have names, the output has none
            return _print_line(f"error: cannot read or write {where}: {error.strerror or error}", 2)
    return 0


def _print_line(text: str, code: int) -> int:
    print(" ".join(text.split()), file=sys.stderr)
    return code


def _insist_on_interrupts() -> None:
    """Raise Ctrl-C again until it is heard: raised in a callback of the collector, it is lost."""

    def interrupt(*_: Any) -> None:
        signal.setitimer(signal.ITIMER_REAL, 0.3)
        raise KeyboardInterrupt

    def show(lost: Any) -> None:
        if not issubclass(lost.exc_type, KeyboardInterrupt):  # that one comes again
            sys.__unraisablehook__(lost)

    if hasattr(signal, "setitimer"):
        sys.unraisablehook = show
        signal.signal(signal.SIGINT, interrupt)
        signal.signal(signal.SIGALRM, interrupt)


def _leave(code: int) -> int:
    """End at once: a compiler thread that was interrupted may crash Python's orderly exit."""
    with suppress(OSError, ValueError):
        sys.stdout.flush()
        sys.stderr.flush()
    os._exit(code)


def _discard_output() -> None:
    """Give up what is still buffered: Python would try to write it once more at exit."""
    with suppress(OSError, ValueError):  # not a real file: nothing is written at exit
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


@contextmanager
def _plain_warnings() -> Iterator[None]:
    def show(message: Warning | str, *_: Any, **__: Any) -> None:
        kind = "note" if isinstance(message, CredoNote) else "warning"
        _print_line(f"{kind}: {message}", 0)

    with warnings.catch_warnings():
        warnings.showwarning = show
        warnings.simplefilter("always", CredoWarning)
        # A compiled program that could not be stored costs time on the next run, nothing else.
        warnings.filterwarnings("ignore", ".*persistent compilation cache.*")
        yield


if __name__ == "__main__":
    sys.exit(main())
