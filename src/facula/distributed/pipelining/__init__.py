"""A model's parts on different ranks, fed with micro-batches.

Takes: a part for each rank, or a whole module and where to cut it. Gives: `PipelineStage`, schedules,
`pipeline`.
Keeps true: gradients and outputs are those of the whole model on the whole batch.
"""

from __future__ import annotations

from facula.distributed.pipelining.schedules import Schedule1F1B, ScheduleGPipe
from facula.distributed.pipelining.split import Pipe, SplitPoint, pipeline
from facula.distributed.pipelining.stage import PipelineStage

__all__ = [
    "Pipe", "PipelineStage", "Schedule1F1B", "ScheduleGPipe", "SplitPoint", "pipeline",
]  # fmt: skip
