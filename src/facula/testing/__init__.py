"""What tests need: comparisons that say what differs, and tensors to try things on.

Keeps true: the names, rules and messages are those of `torch.testing`.
"""

from facula.testing.comparison import assert_allclose, assert_close
from facula.testing.creation import make_tensor

__all__ = ["assert_allclose", "assert_close", "make_tensor"]
