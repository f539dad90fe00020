"""Functions are named as PyTorch's own texts name them, under its name; under facula's own, where they are found."""

import json

import facula
from tests.alias.test_alias import installed

NAMES = """
import json, pickle, torch
import torch.nn.functional as F
functions = [torch.fft.fft, torch.linalg.norm, torch.special.i0, F.linear, F.logsigmoid, torch.einsum, F.layer_norm,
             torch.add, F.avg_pool2d, torch.is_tensor, torch.set_default_device, F.softplus]
print(json.dumps([[f.__module__, f.__name__] for f in functions]))
print(json.dumps([pickle.loads(pickle.dumps(f)) is f for f in functions]))
print(json.dumps([torch.overrides.resolve_name(f) for f in functions[:4]]))
print(json.dumps([repr(F.linear), repr(torch.add).partition(' at ')[0], repr(torch.einsum).partition(' at ')[0]]))
"""


def test_modules_and_names_are_those_of_pytorch():
    out = [json.loads(line) for line in installed(NAMES).splitlines()]
    assert out[0] == [
        ["torch._C._fft", "fft_fft"], ["torch._C._linalg", "linalg_norm"], ["torch._C._special", "special_i0"],
        ["torch._C._nn", "linear"], ["torch._C._nn", "log_sigmoid"], ["torch.functional", "einsum"],
        ["torch.nn.functional", "layer_norm"], ["torch", "add"], ["torch._C._nn", "avg_pool2d"], ["torch", "is_tensor"],
        ["torch", "set_default_device"], ["torch._C._nn", "softplus"],
    ]  # fmt: skip
    assert all(out[1])
    assert out[2] == [
        "torch.fft.fft", "torch.linalg.norm", "torch.special.i0", "torch.nn.functional.linear",
    ]  # fmt: skip
    assert out[3] == [
        "<built-in function linear>", "<built-in method add of type object", "<function einsum",
    ]  # fmt: skip


GRAPH = """
import torch, pickle
import torch.nn.functional as F
def f(x, w):
    return F.gelu(F.linear(x, w)) + torch.fft.fft(x).real + torch.special.i0(x) + torch.einsum('ij->ij', x)
gm = torch.fx.symbolic_trace(f)
x, w = torch.rand(3, 3), torch.rand(3, 3)
again = pickle.loads(pickle.dumps(gm))
print(torch.equal(gm(x, w), f(x, w)), torch.equal(again(x, w), f(x, w)))
print(gm.code)
"""


def test_texts_of_graphs_are_those_of_pytorch_and_run():
    said, code = installed(GRAPH).split("\n", 1)
    assert said == "True True"
    for call in (
        "torch._C._nn.linear(x, w)", "torch._C._nn.gelu(linear)", "fft_fft = torch._C._fft.fft_fft(x)",
        "special_i0 = torch._C._special.special_i0(x)", "torch.functional.einsum('ij->ij', x)",
    ):  # fmt: skip
        assert call in code


OFFERED = """
import torch
class Like:
    @classmethod
    def __torch_function__(cls, func, types, args=(), kwargs=None):
        return torch.overrides.resolve_name(func)
print(torch.numel(Like()), torch.is_complex(Like()), torch.nn.init.uniform_(Like()), torch.fft.fft(Like()))
print(torch.is_complex in torch.overrides.get_testing_overrides())
"""


def test_functions_of_python_are_offered_to_overrides_by_their_names():
    out = installed(OFFERED).split()
    assert out == [
        "torch.numel",
        "torch.is_complex",
        "torch.nn.init.uniform_",
        "torch.fft.fft",
        "True",
    ]


def test_own_names_lead_to_the_public_function():
    for function in (facula.fft.fft, facula.special.i0, facula.nn.functional.linear, facula.einsum):
        place, name = function.__module__, function.__name__
        found = facula
        for part in place.split(".")[1:]:
            found = getattr(found, part)
        assert getattr(found, name) is function
        assert repr(function).startswith("<operator ")
