"""`SummaryWriter`: event files for TensorBoard.

Takes: scalars, tensors, figures and models. Gives: `SummaryWriter`; `FileWriter` and
`RecordWriter`, what it writes with; `summary`, the messages. Keeps true: no library is needed to
write, beside Pillow for moving, scaled and drawn-on images and matplotlib for its figures.
"""

from facula.utils.tensorboard import summary
from facula.utils.tensorboard._records import RecordWriter
from facula.utils.tensorboard.writer import FileWriter, SummaryWriter

__all__ = ["FileWriter", "RecordWriter", "SummaryWriter", "summary"]
