"""The modules of this package under the names that PyTorch's have.

Takes nothing. Gives `common`, `compare`, `fuzzer`, `timer` and `valgrind_wrapper`.
Keeps true: each name is the module itself, so that what patches one patches the other.
"""

import sys

from facula.utils.benchmark import callgrind as valgrind_wrapper
from facula.utils.benchmark import compare, fuzzer, timer
from facula.utils.benchmark import measurement as common

__all__ = ["common", "compare", "fuzzer", "timer", "valgrind_wrapper"]

for _name in __all__:
    sys.modules[f"{__name__}.{_name}"] = globals()[_name]
