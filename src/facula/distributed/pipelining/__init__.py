"""A model's parts on different ranks, fed with micro-batches.

Takes: parts for each rank, or a whole module and where to cut it. Gives: `PipelineStage`, schedules,
`pipeline`.
Keeps true: gradients and outputs are those of the whole model on the whole batch.
"""

from __future__ import annotations

from facula.distributed.pipelining.schedules import (
    Schedule1F1B,
    ScheduleDualPipeV,
    ScheduleGPipe,
    ScheduleInterleaved1F1B,
    ScheduleInterleavedZeroBubble,
    ScheduleLoopedBFS,
    ScheduleZBVZeroBubble,
    _ScheduleForwardOnly,
)
from facula.distributed.pipelining.split import Pipe, SplitPoint, pipe_split, pipeline
from facula.distributed.pipelining.stage import PipelineStage, build_stage

__all__ = [
    "Pipe", "PipelineStage", "Schedule1F1B", "ScheduleDualPipeV", "ScheduleGPipe",
    "ScheduleInterleaved1F1B", "ScheduleInterleavedZeroBubble", "ScheduleLoopedBFS", "ScheduleZBVZeroBubble",
    "SplitPoint", "_ScheduleForwardOnly", "build_stage", "pipe_split", "pipeline",
]  # fmt: skip
