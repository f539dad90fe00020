"""`facula.fx.experimental.proxy_tensor`: the module `facula.fx.proxy_tensor` under PyTorch's name.

Takes nothing.  Gives that module itself.
Keeps true: it holds nothing of its own.
"""

import sys

from facula.fx import proxy_tensor

sys.modules[__name__] = proxy_tensor
