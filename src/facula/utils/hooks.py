"""Hooks: this name *is* the module `facula.autograd.hooks`."""

import sys

from facula.autograd import hooks

sys.modules[__name__] = hooks
