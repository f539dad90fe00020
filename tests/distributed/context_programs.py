"""What ranks do in `test_context_parallel.py`: the result is printed as JSON."""

from __future__ import annotations

import json
import sys
from typing import Any

from joined import begin, error_of

import facula
from facula.distributed.device_mesh import init_device_mesh
from facula.distributed.tensor import Shard, distribute_tensor
from facula.distributed.tensor.experimental import context_parallel
from facula.distributed.tensor.experimental._attention import (
    _cp_options,
    context_parallel_unshard,
    set_rotate_method,
)
from facula.nn import functional


def whole(causal: bool, heads: int) -> tuple[list[Any], Any]:
    """Queries, keys and values in one process; the result by its definition, in float64."""
    facula.manual_seed(2)
    made = [facula.randn(2, n, 16, 4, dtype=facula.float64) for n in (4, heads, heads)]
    tensors = [t.requires_grad_(True) for t in made]
    q, k, v = tensors
    k, v = (t.repeat_interleave(4 // heads, 1) for t in (k, v))
    scores = q @ k.transpose(-1, -2) / 2.0
    if causal:
        scores = scores.masked_fill(facula.ones(16, 16).triu(1).bool(), float("-inf"))
    return tensors, facula.softmax(scores, -1) @ v


def attention() -> Any:
    rank, size = begin()
    mesh = init_device_mesh("cpu", (size,))
    found = []
    for method in ("allgather", "alltoall"):
        set_rotate_method(method)
        for balance in (True, False):
            _cp_options.enable_load_balance = balance
            for causal, heads in ((True, 4), (False, 4), (True, 2)):
                found.append(alike(mesh, causal, heads))
    set_rotate_method("allgather")
    _cp_options.enable_load_balance = True
    q = facula.randn(1, 1, 4, 4)
    with context_parallel(mesh):
        mask = error_of(functional.scaled_dot_product_attention, q, q, q, facula.ones(4, 4).bool())
    odd = error_of(enter, mesh, [facula.zeros(7)], [0])
    count = error_of(enter, mesh, [facula.zeros(8)], [])
    return [found, mask[1], odd[1], count[1]]


def views() -> Any:
    """Views of what was transposed and made contiguous, whose pieces lie otherwise."""
    rank, size = begin()
    mesh = init_device_mesh("cpu", (size,))
    whole = facula.arange(48.0).reshape(4, 3, 4)
    x = distribute_tensor(whole, mesh, [Shard(0)]).requires_grad_(True)
    y = x.transpose(1, 2).contiguous().view(4, 12)
    (y * y.detach()).sum().backward()
    want = whole.transpose(1, 2).reshape(4, 12)
    wrong = error_of(x.view, 5, 5)
    return [
        facula.equal(y.full_tensor(), want),
        facula.equal(x.grad.full_tensor(), whole),
        wrong[1],
    ]


def enter(mesh: Any, buffers: Any, dims: Any) -> None:
    with context_parallel(mesh, buffers=buffers, buffer_seq_dims=dims):
        raise AssertionError("the block is not entered")


def alike(mesh: Any, causal: bool, heads: int) -> bool:
    """Whether result and gradients are those of whole sequences, and buffers are whole again."""
    tensors, want = whole(causal, heads)
    up = facula.randn(*want.shape, dtype=facula.float64)
    want.backward(up)
    parts = [t.detach().clone() for t in (*tensors, up)]
    before = [t.clone() for t in parts]
    left = parts[3]
    with context_parallel(mesh, buffers=parts, buffer_seq_dims=[2] * 4, no_restore_buffers={left}):
        assert parts[0].shape[2] == 16 // mesh.size()
        given = [t.detach().clone().requires_grad_(True) for t in parts[:3]]
        out = functional.scaled_dot_product_attention(
            *given, is_causal=causal, enable_gqa=heads != 4
        )
        out.backward(parts[3])
    found = context_parallel_unshard(mesh, [out, *(t.grad for t in given)], [2] * 4)
    wanted = [want, *(t.grad for t in tensors)]
    good = all(bool((a - b).abs().max() < 1e-12) for a, b in zip(found, wanted, strict=True))
    restored = all(facula.equal(a, b) for a, b in zip(parts[:3], before[:3], strict=True))
    return good and restored and left.shape != before[3].shape


if __name__ == "__main__":
    print(json.dumps(globals()[sys.argv[1]]()))
