"""`TorchVersion`, under the name by which programs import it.

Re-exports; nothing else.
"""

from .alias.version import TorchVersion

__all__ = ["TorchVersion"]
