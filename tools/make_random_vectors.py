"""Writes PyTorch's random numbers for a few seeds: `python tools/make_random_vectors.py` (needs torch).

Takes the calls below. Gives `tests/oracles/random_vectors.json`: by name the call as text, and by dtype and size
digests of what it gives and of the number that follows (the bytes themselves where they are few).
Keeps true: nothing here imports facula; the calls are Python that reads the same in both, with `torch`, `F`, `n`, `d`;
numbers are those of PyTorch's wheels for x86-64 with AVX2, not on an Intel processor (`docs/random_numbers.md`).
"""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any

TARGET = Path(__file__).resolve().parent.parent / "tests" / "oracles" / "random_vectors.json"
SIZES = (0, 1, 2, 15, 16, 17, 31, 32, 33, 1000)
FLOATS = ("float32", "float64", "float16", "bfloat16")
WIDE = ("float32", "float64")
INTEGERS = ("uint8", "int8", "int16", "int32", "int64")
#: name -> call, dtypes
CALLS: dict[str, tuple[str, tuple[str, ...]]] = {
    "rand": ("torch.rand(n, dtype=d)", (*FLOATS, "complex64", "complex128")),
    "randn": ("torch.randn(n, dtype=d)", (*FLOATS, "complex64", "complex128")),
    "randint": ("torch.randint(-5, 90, (n,), dtype=d)", (*FLOATS, *INTEGERS[1:])),
    "randint long": ("torch.randint(-(2**31), 2**40, (n,))", ("int64",)),
    "randint 2**28": ("torch.randint(0, 2**28, (n,))", ("int64",)),
    "randperm": ("torch.randperm(n, dtype=d)", ("int64", "float32")),
    "uniform_": ("torch.empty(n, dtype=d).uniform_(-0.3, 1.75)", FLOATS),
    "normal_": ("torch.empty(n, dtype=d).normal_(0.3, 1.7)", FLOATS),
    "normal_ pairs": (
        "torch.cat([torch.empty(k, dtype=d).normal_() for k in (1, 3, n, 2)])",
        FLOATS,
    ),
    "normal": (
        "torch.normal(torch.ones(n, dtype=d), torch.full((n,), 0.3, dtype=d))",
        FLOATS,
    ),
    "normal mean": ("torch.normal(torch.full((n,), 0.7, dtype=d), 1.7)", FLOATS),
    "bernoulli_": ("torch.empty(n, dtype=d).bernoulli_(0.3)", (*FLOATS, *INTEGERS, "bool")),
    "bernoulli": ("torch.bernoulli(torch.full((n,), 0.25, dtype=d))", FLOATS),
    "exponential_": ("torch.empty(n, dtype=d).exponential_(1.7)", FLOATS),
    "geometric_": ("torch.empty(n, dtype=d).geometric_(0.3)", (*FLOATS, *INTEGERS)),
    "cauchy_": ("torch.empty(n, dtype=d).cauchy_(0.3, 1.7)", FLOATS),
    "log_normal_": ("torch.empty(n, dtype=d).log_normal_(0.3, 0.7)", FLOATS),
    "random_": ("torch.empty(n, dtype=d).random_()", (*FLOATS, *INTEGERS, "bool")),
    "random_ to": ("torch.empty(n, dtype=d).random_(100)", (*FLOATS, *INTEGERS)),
    "random_ on": ("torch.empty(n, dtype=d).random_(-(2**63), None)", ("int64",)),
    "multinomial": ("torch.multinomial(torch.arange(1, n + 2).to(d), 40, True)", FLOATS),
    "multinomial once": (
        "torch.multinomial(torch.arange(1, 2 * n + 3).to(d), n // 2 + 1)",
        WIDE,
    ),
    "poisson": ("torch.poisson((torch.arange(n) % 40).to(d))", FLOATS),
    "binomial": (
        "torch.binomial((torch.arange(n) % 90).to(d), torch.full((n,), 0.375, dtype=d))",
        WIDE,
    ),
    "gamma": ("torch._standard_gamma((torch.arange(n) % 9 + 0.25).to(d))", WIDE),
    "dirichlet": ("torch._sample_dirichlet(torch.full((n, 2), 0.75, dtype=d))", WIDE),
    "dropout": ("F.dropout(torch.ones(n, dtype=d), 0.3)", FLOATS),
    "dropout2d": ("F.dropout2d(torch.ones(n, 3, 2, 1, dtype=d), 0.3)", FLOATS),
    "alpha_dropout": ("F.alpha_dropout(torch.ones(n, dtype=d), 0.3, True)", FLOATS),
    "native_dropout": ("torch.native_dropout(torch.ones(n, dtype=d), 0.3, True)[0]", FLOATS),
    "rrelu": ("F.rrelu(1 - torch.arange(n).to(d) % 3, 0.125, 0.5, True)", (*WIDE, "bfloat16")),
    "transposed": ("torch.empty(n, 3, dtype=d).t().normal_()", FLOATS),
    "columns": ("torch.empty(n, 6, dtype=d)[:, 1:4].uniform_()", FLOATS),
    "channels last": (
        "torch.rand_like(torch.empty(2, 3, n, 2, dtype=d).to(memory_format=torch.channels_last))",
        FLOATS,
    ),
    "permuted": ("torch.randn_like(torch.empty(n, 2, 3, dtype=d).permute(2, 0, 1))", FLOATS),
    "generator": ("torch.randn(n, dtype=d, generator=torch.Generator().manual_seed(9))", FLOATS),
    "state": ("(torch.randn(n, dtype=d), torch.get_rng_state())[1]", FLOATS),
    "trunc_normal_": ("torch.nn.init.trunc_normal_(torch.empty(n, 2, dtype=d), std=1.5)", WIDE),
    "kaiming": ("torch.nn.init.kaiming_uniform_(torch.empty(n + 1, 2, dtype=d))", WIDE),
    "linear": ("torch.nn.Linear(n + 1, 3, dtype=d).weight.detach()", WIDE),
    "shuffle": (
        "torch.tensor(list(torch.utils.data.RandomSampler(range(n + 1))), dtype=d)",
        ("int64",),
    ),
    "loader": (
        "torch.stack(list(torch.utils.data.DataLoader(torch.arange(n + 1), shuffle=True)) * 2)",
        ("int64",),
    ),
    "split": (
        "torch.tensor(torch.utils.data.random_split(range(n), [n - n // 3, n // 3])[0].indices)",
        ("int64",),
    ),
}


def digest(torch: Any, x: Any) -> str:
    """Of few bytes all, of many a hash."""
    x = torch.view_as_real(x) if x.is_complex() else x
    data = bytes(x.contiguous().view(-1).view(torch.uint8).tolist()) if x.numel() else b""
    return data.hex() if len(data) <= 32 else hashlib.sha256(data).hexdigest()[:32]


def drawn(torch: Any, call: str, dtype: str, size: int) -> list[str]:
    """Digests of a call's result and of the number that follows it."""
    torch.manual_seed(1000 + size)
    names = {"torch": torch, "F": torch.nn.functional, "n": size, "d": getattr(torch, dtype)}
    return [digest(torch, eval(call, names)), digest(torch, torch.rand(1))]  # noqa: S307 - the calls above


def main() -> None:
    """Write the file."""
    import torch

    vectors = {
        name: {
            "call": call,
            "results": {d: {str(n): drawn(torch, call, d, n) for n in SIZES} for d in dtypes},
        }
        for name, (call, dtypes) in CALLS.items()
    }
    TARGET.write_text(
        json.dumps(vectors, indent=None, separators=(",", ":")).replace('},"', '},\n"') + "\n"
    )


if __name__ == "__main__":
    main()
