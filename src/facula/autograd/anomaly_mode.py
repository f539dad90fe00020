"""Anomaly mode: where in the forward pass a failing gradient came from.

Takes a switch.  Gives context managers that turn the mode on.
Keeps true: with the mode on, a node notes the forward line and (with ``check_nan``) a NaN gradient
raises.
"""

from __future__ import annotations

import warnings

from facula import core

__all__ = ["detect_anomaly", "set_detect_anomaly"]


class set_detect_anomaly:
    """Switches the search for NaN in backward passes on or off: at once, or for a block.

    Args:
        mode: whether it is on
        check_nan: whether NaN is an error

    Example:
        >>> with facula.autograd.set_detect_anomaly(False):
        ...     facula.is_anomaly_enabled()
        False
    """

    def __init__(self, mode: bool, check_nan: bool = True) -> None:
        self.prev = core.is_anomaly_enabled()
        self.prev_check_nan = core.is_anomaly_check_nan_enabled()
        core.set_anomaly(mode, check_nan)

    def __enter__(self) -> None:
        return None

    def __exit__(self, *exc_info: object) -> None:
        core.set_anomaly(self.prev, self.prev_check_nan)


class detect_anomaly:
    """A block in which a backward pass that meets NaN raises, and errors of it name the forward line.

    It makes everything slower, and is for finding faults.

    Args:
        check_nan: whether NaN is an error

    Example:
        >>> import warnings
        >>> x = facula.tensor(0.0, requires_grad=True)
        >>> with warnings.catch_warnings():
        ...     warnings.simplefilter("ignore")
        ...     with facula.autograd.detect_anomaly():
        ...         try:
        ...             (x.sqrt() * 0).backward()
        ...         except RuntimeError as error:
        ...             print("nan" in str(error))
        True
    """

    def __init__(self, check_nan: bool = True) -> None:
        self.prev = core.is_anomaly_enabled()
        self.prev_check_nan = core.is_anomaly_check_nan_enabled()
        self.check_nan = check_nan
        warnings.warn(
            "Anomaly Detection has been enabled. This mode will increase the runtime and should "
            "only be enabled for "
            "debugging.",
            stacklevel=2,
        )

    def __enter__(self) -> None:
        self.prev = core.is_anomaly_enabled()
        self.prev_check_nan = core.is_anomaly_check_nan_enabled()
        core.set_anomaly(True, self.check_nan)

    def __exit__(self, *exc_info: object) -> None:
        core.set_anomaly(self.prev, self.prev_check_nan)
