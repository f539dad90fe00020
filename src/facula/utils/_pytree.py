"""`facula.utils._pytree`: the module `facula.fx._pytree` under PyTorch's name.

Takes nothing.  Gives that module itself, so that both names share their registered containers.
Keeps true: it holds nothing of its own.
"""

import sys

from facula.fx import _pytree

sys.modules[__name__] = _pytree
