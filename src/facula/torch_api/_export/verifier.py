"""Checks of exported programs under PyTorch's module name; they stand in `export.verifier`.

Takes nothing. Gives: `Verifier`. Keeps true: it holds nothing of its own.
"""

from facula.export.verifier import SpecViolationError, TrainingVerifier, Verifier, load_verifier

TrainingIRVerifier = TrainingVerifier

__all__ = ["SpecViolationError", "TrainingIRVerifier", "Verifier", "load_verifier"]
