"""What tests need: comparisons that say what differs, and tensors to try things on.

Keeps true: the names, rules and messages are those of `torch.testing`.
"""

from facula.testing.comparison import assert_allclose, assert_close
from facula.testing.creation import make_tensor
from facula.testing.file_check import FileCheck

__all__ = ["FileCheck", "assert_allclose", "assert_close", "make_tensor"]
