"""Checks of exported programs under PyTorch's module name; they stand in `export.verifier`.

Takes nothing. Gives: `Verifier`. Keeps true: it holds nothing of its own.
"""

from facula.export.verifier import SpecViolationError, Verifier, load_verifier

__all__ = ["SpecViolationError", "Verifier", "load_verifier"]
