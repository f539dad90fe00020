"""Modules of PyTorch are reached through their packages, without an import of their own."""

import subprocess
import sys

PROGRAM = """
import facula
facula.install_as_torch()
import torch
d = torch.distributions
assert d.multivariate_normal.MultivariateNormal is d.MultivariateNormal
assert d.studentT.StudentT is d.StudentT and d.half_normal.HalfNormal is d.HalfNormal
assert d.relaxed_categorical.RelaxedOneHotCategorical is d.RelaxedOneHotCategorical
assert d.exp_family.ExponentialFamily is d.ExponentialFamily
assert isinstance(torch.nn.parallel.scatter_gather.scatter, object)
assert torch.masked.maskedtensor.core.MaskedTensor and torch.distributed.algorithms.join.Join
import importlib
assert d.normal is importlib.import_module("torch.distributions.normal")
assert not hasattr(d, "no_such_part")
assert callable(torch.multiprocessing.spawn)
assert torch.mtia.is_available() is False and torch.mtia.device_count() == 0
try:
    torch.nn.no_such_part
except AttributeError as error:
    print(error)
"""


def test_parts_are_found_when_they_are_asked_for():
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout == "module 'torch.nn' has no attribute 'no_such_part'\n"
