"""Context managers that decorate functions too, under PyTorch's name."""

from facula.autograd.grad_mode import ContextDecorator as _DecoratorContextManager
from facula.autograd.grad_mode import context_decorator

__all__ = ["_DecoratorContextManager", "context_decorator"]
