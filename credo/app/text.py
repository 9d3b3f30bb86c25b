"""Plain text for the terminal."""

from collections.abc import Mapping, Sequence

from credo.evaluation import Estimate


def columns(rows: Sequence[Sequence[str]]) -> str:
    """Rows of words, each column as wide as its widest word.

    Example:
        >>> print(columns([("map", "a mode"), ("dropout", "masks")]))
        map      a mode
        dropout  masks
    """
    widths = [max(len(row[index]) for row in rows) for index in range(len(rows[0]))]
    lines = ["  ".join(word.ljust(width) for word, width in zip(row, widths)) for row in rows]
    return "\n".join(line.rstrip() for line in lines)


def score_table(scores: Mapping[str, Estimate]) -> str:
    """One line per metric: its name, its value, its standard error."""
    return columns([(name.replace("_", " "), str(score)) for name, score in scores.items()])
