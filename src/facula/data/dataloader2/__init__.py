"""`DataLoader2`: pipes read by a service that says where they run.

Takes the last pipe of a graph. Gives its values. Keeps true: an order follows from the seed, whatever
reads; a state taken in the middle of a pass is enough to go on behind the value that was last given.
"""

from facula.data.dataloader2.loader import DataLoader2, DataLoader2Iterator
from facula.data.dataloader2.random import SeedGenerator
from facula.data.dataloader2.reading_service import (
    CheckpointableReadingServiceInterface,
    DistributedReadingService,
    InProcessReadingService,
    MultiProcessingReadingService,
    ReadingServiceInterface,
    SequentialReadingService,
)

__all__ = [
    "CheckpointableReadingServiceInterface",
    "DataLoader2",
    "DataLoader2Iterator",
    "DistributedReadingService",
    "InProcessReadingService",
    "MultiProcessingReadingService",
    "ReadingServiceInterface",
    "SeedGenerator",
    "SequentialReadingService",
]
