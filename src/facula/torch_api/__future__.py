"""How modules change their parameters: PyTorch's switches of what `to`, `double` and `load_state_dict` do.

Takes and gives booleans. Keeps true: both are off until a program asks; they count for the whole process.
"""

from __future__ import annotations

from facula.nn.modules.module_conversions import ON_CONVERSION

__all__ = [
    "get_overwrite_module_params_on_conversion",
    "get_swap_module_params_on_conversion",
    "set_overwrite_module_params_on_conversion",
    "set_swap_module_params_on_conversion",
]


def set_overwrite_module_params_on_conversion(value: bool) -> None:
    """Have conversions of a module (`module.double()`) make new parameters, not change the data of the old ones.

    Args:
        value: whether they do; off at the start.

    Example:
        >>> facula.__future__.set_overwrite_module_params_on_conversion(True)
        >>> layer = facula.nn.Linear(2, 2)
        >>> weight = layer.weight
        >>> layer.double().weight is weight
        False
        >>> facula.__future__.set_overwrite_module_params_on_conversion(False)
    """
    ON_CONVERSION["overwrite"] = bool(value)


def get_overwrite_module_params_on_conversion() -> bool:
    """Whether conversions make new parameters.

    Example:
        >>> facula.__future__.get_overwrite_module_params_on_conversion()
        False
    """
    return ON_CONVERSION["overwrite"]


def set_swap_module_params_on_conversion(value: bool) -> None:
    """Have conversions and `load_state_dict` exchange parameters with the new ones (`utils.swap_tensors`).

    The parameters stay the same objects whatever their class, device or dtype becomes; `load_state_dict` asks
    `parameter.module_load(value)` for what a parameter is to become.

    Args:
        value: whether they do; off at the start.

    Example:
        >>> facula.__future__.set_swap_module_params_on_conversion(True)
        >>> layer = facula.nn.Linear(2, 2)
        >>> weight = layer.weight
        >>> layer.double().weight is weight, weight.dtype
        (True, facula.float64)
        >>> facula.__future__.set_swap_module_params_on_conversion(False)
    """
    ON_CONVERSION["swap"] = bool(value)


def get_swap_module_params_on_conversion() -> bool:
    """Whether conversions and `load_state_dict` exchange parameters.

    Example:
        >>> facula.__future__.get_swap_module_params_on_conversion()
        False
    """
    return ON_CONVERSION["swap"]
