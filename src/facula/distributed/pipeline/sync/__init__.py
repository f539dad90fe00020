"""`Pipe`: the layers of a Sequential as a pipeline over micro-batches."""

from facula.distributed.pipeline.sync.pipe import NoChunk, Pipe, WithDevice
from facula.distributed.pipeline.sync.skip import pop, skippable, stash, verify_skippables

__all__ = ["NoChunk", "Pipe", "WithDevice", "pop", "skippable", "stash", "verify_skippables"]
