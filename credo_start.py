"""Where the command `credo` begins: outside of the package, whose import takes seconds.

Until the command line listens to Ctrl-C itself, there is nothing to save, and one line says all.
"""

import os
import signal
import sys
from typing import Any


def _interrupted(*_: Any) -> None:
    # Not an exception: some library's import would catch it, or show a traceback.
    os.write(2, b"interrupted\n")
    os._exit(130)


def main() -> int:
    """Run the command line and return its exit code."""
    signal.signal(signal.SIGINT, _interrupted)
    from credo.app.main import main as run

    return run()


if __name__ == "__main__":
    sys.exit(main())
