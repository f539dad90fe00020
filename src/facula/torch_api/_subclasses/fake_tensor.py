"""`facula._subclasses.fake_tensor`: the module `facula.fx.fake_tensor` under PyTorch's name.

Takes nothing.  Gives that module itself.
Keeps true: it holds nothing of its own.
"""

import sys

from facula.fx import fake_tensor

sys.modules[__name__] = fake_tensor
