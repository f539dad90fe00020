"""facula under the name of torch, for programs that were written for PyTorch.

Takes nothing. Gives `install_as_torch`, after which `import torch` means facula in this process and
in its child processes; `facula run script.py` does the same before it runs a script.
Keeps true: there is one module object per name (`torch.nn.init` is `facula.nn.init`), so that
patches of either are seen by both; without the call nothing changes.
"""

from .install import install_as_torch, is_installed
from .version import TorchVersion

__all__ = ["TorchVersion", "install_as_torch", "is_installed"]
