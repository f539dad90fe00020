"""Where PyTorch keeps the exception that goes between processes."""

from facula.data.worker import ExceptionWrapper, KeyErrorMessage

__all__ = ["ExceptionWrapper", "KeyErrorMessage"]
