"""What the accelerator module asks of a backend, and what it says where there is none."""

import pytest

import facula
from facula import accelerator, core

NAMES = (
    "current_stream empty_cache empty_host_cache get_device_capability get_memory_info "
    "max_memory_allocated max_memory_reserved memory_allocated memory_reserved memory_stats "
    "reset_accumulated_memory_stats reset_peak_memory_stats current_device_idx"
).split()


@pytest.mark.parametrize("name", NAMES)
def test_without_an_accelerator(name, monkeypatch):
    monkeypatch.setattr(accelerator, "current_accelerator", lambda check_available=False: None)
    with pytest.raises(RuntimeError, match="an accelerator was required"):
        getattr(accelerator, name)()


class Backend:
    """One that counts."""

    index, peak = 0, 7

    def memory_allocated(self, index):
        return 10 + index

    def get_memory_info(self, index):
        return 3, 4

    def reset_peak_memory_stats(self, index):
        self.peak = index

    def set_device(self, index):
        self.index = index


def test_with_one(monkeypatch):
    backend = Backend()
    monkeypatch.setitem(core.BACKENDS, "xpu", backend)
    device = lambda check_available=False: core.device("xpu", backend.index)  # noqa: E731
    monkeypatch.setattr(accelerator, "current_accelerator", device)
    assert accelerator.memory_allocated() == 10 and accelerator.memory_allocated("xpu:2") == 12
    assert accelerator.get_memory_info(1) == (3, 4)
    accelerator.reset_peak_memory_stats(5)
    assert backend.peak == 5
    with accelerator.device_index(3):
        assert accelerator.current_device_index() == 3 and accelerator.memory_allocated() == 13
    with accelerator.device_index(None):
        assert backend.index == 0
    with pytest.raises(RuntimeError, match="a backend that has memory_stats"):
        accelerator.memory_stats()
    assert facula.accelerator is accelerator
