"""Weights from a URL, under PyTorch's first name for it.

Takes and gives what `facula.hub` does. Keeps true: it holds nothing of its own.
"""

from facula.torch_api.hub import load_state_dict_from_url as load_url
from facula.torch_api.hub import tqdm

__all__ = ["load_url", "tqdm"]
