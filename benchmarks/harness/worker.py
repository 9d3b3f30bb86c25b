"""One side of one row in a process of its own, doing a repetition whenever it is asked.

Separate processes: a library's threads, allocator and compiled programs stay with the side they
belong to.

    python worker.py ROW SIDE      a line on stdin -> one repetition -> a line of JSON on stdout
"""

import json
import os
import sys
import time
import traceback
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent.parent))

from harness import peak, row


def main(row_name: str, side: str) -> None:
    # What libraries print must not mix with the answers.
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)

    def answer(**values) -> None:
        print(json.dumps(values), file=answers, flush=True)

    try:
        repetition = timed(prepare, row_name, side, answer, evaluate=False)
        timed(repetition, answer)  # compiles, fills caches; its time is reported apart
        for _ in sys.stdin:
            timed(repetition, answer)
    except Exception as error:
        traceback.print_exc()
        answer(error=traceback.format_exception_only(error)[0].strip().splitlines()[0])


def prepare(row_name: str, side: str):
    sides = peak.SIDES if side in peak.SIDES else row.load(row_name).sides
    return sides[side]()


def timed(function, *arguments, evaluate=True):
    """Call the function, and answer with the seconds it took and the number it gave."""
    *arguments, answer = arguments
    began = time.perf_counter()
    result = function(*arguments)
    seconds = time.perf_counter() - began
    number = result() if evaluate and callable(result) else result
    answer(seconds=seconds, result=None if callable(number) or number is None else float(number))
    return result


if __name__ == "__main__":
    main(*sys.argv[1:])
