"""Checkpointing: this name *is* the module `facula.autograd.checkpoint`."""

import sys

from facula.autograd import checkpoint

sys.modules[__name__] = checkpoint
