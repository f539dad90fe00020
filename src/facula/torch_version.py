"""`TorchVersion`, under the name by which programs import it.

Re-exports; nothing else.
"""

from facula.alias.version import TorchVersion

__all__ = ["TorchVersion"]
