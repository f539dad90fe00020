"""Profiling programs: what ran, how long, on which shapes, with how much memory.

Takes a schedule and switches. Gives tables, traces and stacks.
Keeps true: the names are PyTorch's; a program without a running profiler pays nothing.
"""

from __future__ import annotations

from facula.autograd.profiler import kineto_available, record_function
from facula.profiler import profiler
from facula.profiler.profiler import (
    ProfilerAction,
    ProfilerActivity,
    RecordScope,
    profile,
    schedule,
    supported_activities,
    tensorboard_trace_handler,
)

__all__ = [
    "ProfilerAction",
    "ProfilerActivity",
    "RecordScope",
    "kineto_available",
    "profile",
    "profiler",
    "record_function",
    "schedule",
    "supported_activities",
    "tensorboard_trace_handler",
]
