"""Whether this build has collectives: it has none.

Takes nothing. Gives the questions that programs ask before they use more than one process. Keeps
true: the answers are those of a PyTorch that was built without `torch.distributed`.
"""

from __future__ import annotations

__all__ = ["is_available", "is_initialized", "is_torchelastic_launched"]


def is_available() -> bool:
    """Whether process groups can be made."""
    return False


def is_initialized() -> bool:
    """Whether the default process group has been made."""
    return False


def is_torchelastic_launched() -> bool:
    """Whether an elastic launcher started this process."""
    return False
