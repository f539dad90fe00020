"""Gradients for each entry of a batch, by parameters that know its size: `ExpandedWeight`.

Re-exports; `call_for_per_sample_grads` (`facula.nn.utils._per_sample_grad`) is what programs call.
"""

from facula.nn.utils._expanded_weights.expanded_weight import ExpandedWeight

__all__ = ["ExpandedWeight"]
