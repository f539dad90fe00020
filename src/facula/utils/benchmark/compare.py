"""`Compare`: measurements side by side in a table.

Takes: measurements with labels. Gives: text, one table a label, one row a sub-label and number of
threads, one column a description.
Keeps true: a table has one unit, and a row or column is never mixed of different tasks.
"""

from __future__ import annotations

import enum
import math
from collections import defaultdict

from facula.core.errors import fail
from facula.utils.benchmark.measurement import (
    Measurement,
    ordered_unique,
    select_unit,
    trim_sigfig,
    unit_to_english,
)

BEST, GOOD, BAD, VERY_BAD, PLAIN = (
    "\033[92m\033[1m",
    "\033[34m",
    "\033[2m\033[91m",
    "\033[31m",
    "\033[0m",
)


class Colorize(enum.Enum):
    """Within what the cells of a table are coloured against each other."""

    NONE = "none"
    COLUMNWISE = "columnwise"
    ROWWISE = "rowwise"


class _Table:
    """The measurements of one label."""

    def __init__(
        self, results: list[Measurement], colorize: Colorize, trim: bool, warn: bool
    ) -> None:
        self.results = results
        self.colorize = colorize
        self.trim = trim
        self.warn = warn
        self.label = results[0].label or ""
        self.unit, self.scale = select_unit(min(r.median for r in results))
        self.columns = ordered_unique((r.env, r.description or "") for r in results)
        self.rows = ordered_unique((r.num_threads, r.as_row_name) for r in results)
        self.cells = {
            (r.num_threads, r.as_row_name, r.env, r.description or ""): r for r in results
        }

    def cell(self, row: tuple[int, str], column: tuple[str, str]) -> Measurement | None:
        """The measurement at a place, or None."""
        return self.cells.get((*row, *column))

    def digits(self, column: tuple[str, str]) -> int:
        """How many places after the point a column shows."""
        found = [m for row in self.rows if (m := self.cell(row, column)) is not None]
        places = []
        for m in found:
            leading = math.floor(math.log10(m.median / self.scale)) if m.median > 0 else 0
            places.append(max(m.significant_figures - 1 - leading, 0))
        return min(max(places, default=0), 1 if not self.trim else 5)

    def text(self, m: Measurement | None, column: tuple[str, str]) -> str:
        """What a cell shows."""
        if m is None:
            return ""
        value = m.median / self.scale
        if self.trim:
            value = trim_sigfig(value, m.significant_figures)
        shown = f"{value:.{self.digits(column)}f}"
        if self.warn and m.has_warnings:
            shown += f" (! {100 * m.iqr / m.median:.0f}%)"
        return shown

    def colour(self, row: tuple[int, str], column: tuple[str, str], shown: str) -> str:
        """The text in the colour of its rank."""
        m = self.cell(row, column)
        if m is None or self.colorize is Colorize.NONE:
            return shown
        if self.colorize is Colorize.ROWWISE:
            rivals = [self.cell(row, c) for c in self.columns]
        else:
            rivals = [self.cell(r, column) for r in self.rows if r[0] == row[0]]
        best = min(r.median for r in rivals if r is not None)
        if m.median <= best * 1.01:
            return f"{BEST}{shown}{PLAIN}"
        if m.median <= best * 1.1:
            return f"{GOOD}{shown}{PLAIN}"
        if m.median > best * 2:
            return f"{VERY_BAD}{shown}{PLAIN}"
        return f"{BAD}{shown}{PLAIN}" if m.median > best * 1.25 else shown

    def _heads(self) -> list[str]:
        several = len({env for env, _ in self.columns}) > 1
        return [f"[{env}] {text}".strip() if several else text for env, text in self.columns]

    def render(self) -> str:
        """The table as text."""
        heads = self._heads()
        names = [name for _, name in self.rows]
        first = max(len(name) for name in names) + 6
        shown = {
            (row, column): self.text(self.cell(row, column), column)
            for row in self.rows
            for column in self.columns
        }
        widths = [
            max(len(head), *(len(shown[row, column]) for row in self.rows))
            for head, column in zip(heads, self.columns, strict=True)
        ]
        head = " " * first + "".join(f"  |  {h:^{w}}" for h, w in zip(heads, widths, strict=True))
        width = len(head)
        title = f" {self.label} " if self.label else ""
        lines = ["[" + title.center(max(width - 2, len(title) + 2), "-") + "]", head]
        threads: int | None = None
        for row in self.rows:
            if row[0] != threads:
                threads = row[0]
                lines.append(f"{threads} threads: ".ljust(width, "-"))
            cells = ""
            for column, w in zip(self.columns, widths, strict=True):
                text = shown[row, column]
                cells += "  |  " + " " * (w - len(text)) + self.colour(row, column, text)
            lines.append(f"      {row[1]:<{first - 6}}{cells}")
        lines += ["", f"Times are in {unit_to_english(self.unit)}s ({self.unit})."]
        return "\n".join(lines)


class Compare:
    """Measurements of several tasks as tables; runs of the same task are put together."""

    def __init__(self, results: list[Measurement]) -> None:
        self._results: list[Measurement] = []
        self.extend_results(results)
        self._trim_significant_figures = False
        self._colorize = Colorize.NONE
        self._highlight_warnings = False

    def extend_results(self, results: list[Measurement]) -> None:
        """Add measurements."""
        for result in results:
            if not isinstance(result, Measurement):
                fail(
                    ValueError,
                    "Compare",
                    "measurements were required (Expected an instance of `Measurement`)",
                    got=type(result).__name__,
                    hint="Timer(stmt).blocked_autorange() makes one",
                )
        self._results += results

    def trim_significant_figures(self) -> None:
        """Show the digits that mean something only."""
        self._trim_significant_figures = True

    def colorize(self, rowwise: bool = False) -> None:
        """Colour the cells by rank: within a column, or within a row."""
        self._colorize = Colorize.ROWWISE if rowwise else Colorize.COLUMNWISE

    def highlight_warnings(self) -> None:
        """Mark the cells whose times spread widely."""
        self._highlight_warnings = True

    def __str__(self) -> str:
        groups: dict[str | None, list[Measurement]] = defaultdict(list)
        for m in Measurement.merge(self._results):
            groups[m.label].append(m)
        return "\n\n".join(
            _Table(
                group, self._colorize, self._trim_significant_figures, self._highlight_warnings
            ).render()
            for group in groups.values()
        )

    def print(self) -> None:
        """Print the tables."""
        print(str(self))
