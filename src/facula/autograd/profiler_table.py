"""Profiles as text: the table that `key_averages().table()` gives.

Takes events and what to show of them. Gives a string.
Keeps true: columns that no event fills are left out; rows keep the order that was asked for.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from facula.autograd.profiler_events import FunctionEvent, FunctionEventAvg
from facula.autograd.profiler_formats import format_memory, format_time
from facula.autograd.profiler_recorder import MEMORY_EVENT_NAME
from facula.core.errors import fail

Event = FunctionEvent | FunctionEventAvg

_SPACE = "  "
_NUMBER_WIDTH = 12
_UNITS = {"s": 1e6, "ms": 1e3, "us": 1.0}
_FLOPS = ((1e15, "PFLOPs"), (1e12, "TFLOPs"), (1e9, "GFLOPs"), (1e6, "MFLOPs"), (1e3, "KFLOPs"))

#: a column: heading, text of an event, width (0 for numbers), whether it stands at the left
Column = tuple[str, Callable[[Any], str], int, bool]


def _cut(text: str, width: int | None) -> str:
    if width is None or len(text) <= width:
        return text
    return text[: max(width - 3, 0)] + "..."


def _share(part: float, whole: float) -> str:
    return f"{100.0 * part / whole:.2f}%" if whole else "NaN"


def _flops_scale(events: Sequence[Event]) -> tuple[float, str]:
    largest = max((event.flops or 0 for event in events), default=0)
    return next(((scale, name) for scale, name in _FLOPS if largest >= scale), (1.0, "FLOPs"))


def _ordered(events: Sequence[Event], sort_by: str | None, top_level: bool) -> list[Any]:
    rows: list[Any] = [e for e in events if not top_level or e.cpu_parent is None]
    if sort_by is None:
        return rows
    sort_by = sort_by.replace("cuda", "device").replace("xpu", "device")
    if rows and not hasattr(rows[0], sort_by):
        fail(
            AttributeError,
            "table",
            "sort_by: an attribute of events was required",
            repr(sort_by),
            hint="for example 'cpu_time_total' or 'count'",
        )
    return sorted(rows, key=lambda event: getattr(event, sort_by), reverse=True)


def _times(total: float, text: Callable[[float], str]) -> list[Column]:
    def exact(event: Any) -> str:
        return "--" if event.is_async else _share(event.self_cpu_time_total, total)

    return [
        ("Self CPU %", exact, 0, False),
        ("Self CPU", lambda e: text(e.self_cpu_time_total), 0, False),
        (
            "CPU total %",
            lambda e: "--" if e.is_async else _share(e.cpu_time_total, total),
            0,
            False,
        ),
        ("CPU total", lambda e: text(e.cpu_time_total), 0, False),
        ("CPU time avg", lambda e: text(e.cpu_time), 0, False),
    ]


def _memory() -> list[Column]:
    return [
        ("CPU Mem", lambda e: format_memory(e.cpu_memory_usage), 0, False),
        ("Self CPU Mem", lambda e: format_memory(e.self_cpu_memory_usage), 0, False),
    ]


def _columns(
    rows: list[Any],
    widths: tuple[int, int, int],
    text: Callable[[float], str],
    total: float,
    with_memory: bool,
    flops: tuple[float, str] | None,
) -> list[Column]:
    columns: list[Column] = [("Name", lambda e: _cut(e.key, widths[0]), -1, True)]
    columns += _times(total, text)
    if with_memory:
        columns += _memory()
    columns.append(("# of Calls", lambda e: str(e.count), 0, False))
    if any(event.node_id != -1 for event in rows):
        columns.append(("Node ID", lambda e: str(e.node_id), 0, False))
    if any(event.input_shapes for event in rows):
        columns.append(("Input Shapes", lambda e: _cut(str(e.input_shapes), widths[1]), -1, False))
    if any(event.stack for event in rows):
        columns.append(
            ("Source Location", lambda e: _cut(e.stack[0] if e.stack else "", widths[2]), -1, True)
        )
    if flops is not None:
        scale, name = flops
        columns.append(
            (f"Total {name}", lambda e: f"{e.flops / scale:.3f}" if e.flops else "--", 0, False)
        )
    return columns


def build_table(
    events: Sequence[Event],
    *,
    total: float,
    with_memory: bool,
    with_flops: bool,
    sort_by: str | None,
    row_limit: int,
    widths: tuple[int, int, int],
    header: str | None,
    top_level_events_only: bool,
    time_unit: str | None,
) -> str:
    """The events as text, see `EventList.table`."""
    if time_unit is not None and time_unit not in _UNITS:
        fail(
            ValueError,
            "table",
            "time_unit: 's', 'ms' or 'us' was required",
            repr(time_unit),
            hint="leave time_unit out to have it chosen",
        )
    if not events:
        return ""

    def text(time_us: float) -> str:
        if time_unit is None:
            return format_time(time_us)
        return f"{time_us / _UNITS[time_unit]:.3f}{time_unit}"

    rows = _ordered(events, sort_by, top_level_events_only)
    shown = [row for row in rows if row.key != MEMORY_EVENT_NAME or row.self_cpu_memory_usage]
    shown = shown if row_limit < 0 else shown[:row_limit]
    flops = _flops_scale(events) if with_flops else None
    columns = _columns(shown, widths, text, total, with_memory, flops)
    cells = [[column[1](row) for column in columns] for row in shown]
    sizes = [
        max(_NUMBER_WIDTH if column[2] == 0 else 0, len(column[0]), *(len(r[i]) for r in cells), 0)
        for i, column in enumerate(columns)
    ]
    rule = _SPACE.join("-" * size for size in sizes) + _SPACE

    def line(values: list[str]) -> str:
        return _SPACE.join(value.rjust(s) for value, s in zip(values, sizes, strict=True)) + _SPACE

    lines = [rule, line([column[0] for column in columns]), rule, *map(line, cells), rule]
    if header is not None:
        lines[:0] = ["=" * len(rule), header]
    if top_level_events_only:
        lines += ["=" * len(rule), "This report only display top-level ops statistics"]
    lines.append(f"Self CPU time total: {text(total)}")
    return "\n".join(lines) + "\n"
