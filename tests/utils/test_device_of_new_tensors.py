"""`utils._device`: the device of new tensors under the names of PyTorch's module."""

import facula
from facula.utils import _device


def test_blocks_and_functions_make_tensors_on_a_device():
    assert _device.CURRENT_DEVICE is None
    with _device.DeviceContext("meta"):
        assert facula.ones(2).is_meta and _device.CURRENT_DEVICE == facula.device("meta")
    assert not facula.ones(2).is_meta
    made = _device.device_decorator("meta", facula.zeros)(3, dtype=facula.float64)
    assert made.is_meta and made.dtype == facula.float64
    _device.set_device("meta")
    try:
        assert facula.ones(1).is_meta
    finally:
        _device.set_device(None)
    assert facula.ones(1).device.type == "cpu"
