"""Profiles as files: traces that chrome://tracing, Perfetto and TensorBoard read.

Takes events and notes about the run. Gives a JSON file, compressed when its name ends in `.gz`.
Keeps true: times are microseconds from `baseTimeNanoseconds`; a backward node points back to the
operator that recorded it.
"""

from __future__ import annotations

import gzip
import json
import os
import socket
import sys
from collections.abc import Iterable
from typing import Any

from facula.autograd.profiler_events import FunctionEvent
from facula.autograd.profiler_recorder import MEMORY_EVENT_NAME

_CATEGORY = {0: "cpu_op", 1: "cpu_op", 7: "user_annotation"}


def _header(process: int, threads: Iterable[int]) -> list[dict[str, Any]]:
    """The names under which viewers show the process and its threads."""

    def about(what: str, thread: int, **args: object) -> dict[str, Any]:
        return {"ph": "M", "name": what, "ts": 0, "pid": process, "tid": thread, "args": args}

    records = [
        about("process_name", 0, name=os.path.basename(sys.executable) or "python"),
        about("process_labels", 0, labels="CPU"),
        about("process_sort_index", 0, sort_index=process),
    ]
    for thread in threads:
        records.append(about("thread_name", thread, name=f"thread {thread}"))
        records.append(about("thread_sort_index", thread, sort_index=thread))
    return records


def _details(event: FunctionEvent) -> dict[str, Any]:
    details: dict[str, Any] = {"External id": event.id, "Ev Idx": event.id - 1}
    if event.input_shapes:
        details["Input Dims"] = event.input_shapes
        details["Input type"] = event.input_dtypes
        details["Concrete Inputs"] = [str(given) for given in event.concrete_inputs]
    if event.stack:
        details["Call stack"] = ";".join(event.stack)
    if event.sequence_nr >= 0:
        details["Sequence number"] = event.sequence_nr
        details["Fwd thread id"] = event.fwd_thread or 0
    if event.cpu_memory_usage:
        details["Bytes"] = event.cpu_memory_usage
    if event.flops:
        details["Flops"] = event.flops
    return details


def _record(event: FunctionEvent, process: int) -> dict[str, Any]:
    place = {"pid": process, "tid": event.thread, "ts": event.time_range.start}
    if event.name == MEMORY_EVENT_NAME:
        args = {"Device Type": 0, "Device Id": -1, "Bytes": event.cpu_memory_usage}
        return {
            "ph": "i",
            "cat": "cpu_instant_event",
            "s": "t",
            "name": event.name,
            **place,
            "args": args,
        }
    return {
        "ph": "X",
        "cat": _CATEGORY.get(event.scope, "cpu_op"),
        "name": event.name,
        **place,
        "dur": event.time_range.elapsed_us(),
        "args": _details(event),
    }


def _flows(events: list[FunctionEvent], process: int) -> list[dict[str, Any]]:
    """Arrows from the innermost operators that recorded nodes to these nodes' runs."""
    recorded: dict[int, FunctionEvent] = {}
    flows: list[dict[str, Any]] = []
    for event in events:
        if event.sequence_nr < 0:
            continue
        if event.scope == 0:
            recorded[event.sequence_nr] = event
            continue
        source = recorded.pop(event.sequence_nr, None)
        if source is None:
            continue
        number = len(flows) // 2 + 1
        for phase, end in (("s", source), ("f", event)):
            flow = {"ph": phase, "id": number, "pid": process, "tid": end.thread}
            flow |= {"ts": end.time_range.start, "cat": "fwdbwd", "name": "fwdbwd"}
            flows.append(flow | ({"bp": "e"} if phase == "f" else {}))
    return flows


def write_trace(
    path: str, events: Iterable[FunctionEvent], start_wall: int, notes: dict[str, Any]
) -> None:
    """Write the events to `path`; `notes` are further entries of the file."""
    events = sorted(events, key=lambda event: event.time_range.start)
    process = os.getpid()
    records = _header(process, sorted({event.thread for event in events}))
    records += [_record(event, process) for event in events]
    records += _flows(events, process)
    content = {
        "schemaVersion": 1,
        "deviceProperties": [],
        "host_name": socket.gethostname(),
        "displayTimeUnit": "ms",
        "baseTimeNanoseconds": start_wall,
        **notes,
        "traceName": str(path),
        "traceEvents": records,
    }
    text = json.dumps(content, default=str)
    if str(path).endswith(".gz"):
        with gzip.open(path, "wt", encoding="utf-8") as file:
            file.write(text)
    else:
        with open(path, "w", encoding="utf-8") as file:
            file.write(text)
