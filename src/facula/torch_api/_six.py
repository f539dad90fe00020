"""Names that programs took from `torch._six` until PyTorch 1.13.

Takes: nothing. Gives: numbers and types of Python's own. Keeps true: nothing here is facula's.
"""

import collections.abc as container_abcs
from math import inf, nan

__all__ = ["container_abcs", "inf", "int_classes", "nan", "string_classes"]

string_classes = (str, bytes)
int_classes = int
