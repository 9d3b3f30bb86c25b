"""Compare methods, and show what was found: a table, a page, the numbers."""

from credo.report.compare import compare
from credo.report.conclusion import conclusion, verdict
from credo.report.page import write_report
from credo.report.results import Comparison, Run
from credo.report.table import comparison_table, print_table

__all__ = [
    "Comparison",
    "Run",
    "compare",
    "comparison_table",
    "conclusion",
    "print_table",
    "verdict",
    "write_report",
]
