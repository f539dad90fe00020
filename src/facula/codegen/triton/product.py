"""Products of matrices as one Triton kernel: tiles of a result, in tensor cores where the dtype has them.

Takes: sizes, strides and dtypes of two operands, and of what is added. Gives: `product`, a `Kernel` for
`alpha * a @ b + beta * addend` over batches.
Keeps true: sums are kept in float32 (float64 for float64); float32 is multiplied as such, not rounded to 10 bits
before, unless `precision` says so; nothing outside of an operand is read.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from facula.codegen.triton.kernels import HEADER, Kernel
from facula.codegen.triton.math import TYPES, Unprintable
from facula.lower.loops.program import Buffer

__all__ = ["Factor", "product"]


class Factor(NamedTuple):
    """An operand `[batch, rows, columns]`: its buffer, and its strides (0 where it is the same for all)."""

    buffer: Buffer
    strides: tuple[int, int, int]


class _Sizes:
    """Sizes as arguments; 0 and 1 stand in the text."""

    def __init__(self) -> None:
        self.values: dict[int, str] = {}

    def __call__(self, value: int) -> str:
        return (
            str(value) if value in (0, 1) else self.values.setdefault(value, f"n{len(self.values)}")
        )


def _tiles(code: str, rows: int, columns: int) -> tuple[int, int, int, int, int]:
    """Rows, columns and depth of a tile, thread groups, stages."""
    small = rows * columns < 1024 * 1024 or rows < 128 or columns < 128
    if code in ("bf16", "f16"):
        return (64, 64, 64, 4, 4) if small else (128, 256, 64, 8, 3)
    if code == "f32":
        return (32, 64, 32, 4, 3) if small else (128, 128, 16, 8, 3)
    return 32, 32, 16, 4, 2


def _place(sizes: _Sizes, strides: Sequence[int], *variables: str) -> str:
    """Where elements lie, as a whole tile even where a stride is 0."""
    terms = [
        v if s == 1 else f"{v} * {sizes(s)}"
        for v, s in zip(variables, strides, strict=True)
        if s or v != "batch"
    ]
    return " + ".join(terms)


def _loop(
    a: Factor, b: Factor, sizes: _Sizes, kept: str, precision: str, wide: bool, ragged: bool
) -> list[str]:
    """The lines that sum a tile's products over the depth, into `total`."""
    edges = ("", "")
    if ragged:
        edges = " & (deep[None, :] < e2 - start)", " & (deep[:, None] < e2 - start)"
    return [
        "tile = tl.program_id(0)",
        f"batch = tl.program_id(1).to({'tl.int64' if wide else 'tl.int32'})",
        "down, across = tl.cdiv(e0, M), tl.cdiv(e1, N)",
        "group = tile // (8 * across)",
        "first = group * 8",
        "height = tl.minimum(down - first, 8)",
        "row = (first + tile % height) * M + tl.arange(0, M)",
        "column = (tile % (8 * across)) // height * N + tl.arange(0, N)",
        "deep = tl.arange(0, K)",
        f"left = b0 + {_place(sizes, a.strides, 'batch', 'row[:, None]', 'deep[None, :]')}",
        f"right = b1 + {_place(sizes, b.strides, 'batch', 'deep[:, None]', 'column[None, :]')}",
        f"total = tl.zeros((M, N), dtype={kept})",
        "for start in range(0, e2, K):",
        f"    x = tl.load(left, mask=(row[:, None] < e0){edges[0]}, other=0)",
        f"    y = tl.load(right, mask=(column[None, :] < e1){edges[1]}, other=0)",
        f'    total = tl.dot(x, y, total, input_precision="{precision}", out_dtype={kept})',
        f"    left += K * {sizes(a.strides[2])}",
        f"    right += K * {sizes(b.strides[1])}",
        "live = (row[:, None] < e0) & (column[None, :] < e1)",
    ]


def product(
    shape: tuple[int, int, int, int],
    a: Factor,
    b: Factor,
    result: Factor,
    addend: Factor | None = None,
    alpha: float = 1,
    beta: float = 1,
    precision: str = "ieee",
) -> Kernel:
    """The kernel of a product.

    Args:
        shape: (batches, rows, columns, depth)
        a: `[batches, rows, depth]`
        b: `[batches, depth, columns]`
        result: `[batches, rows, columns]`
        addend: what is added, of the result's shape by its strides
        alpha: factor of the product
        beta: factor of the addend
        precision: how float32 is multiplied: ieee, or tf32

    Raises:
        Unprintable: tiles of this dtype can not be multiplied.
    """
    batches, rows, columns, depth = shape
    code = a.buffer.code
    if code not in ("f32", "f64", "bf16", "f16") or b.buffer.code != code:
        raise Unprintable(f"[triton] a product of {code} and {b.buffer.code}")
    m, n, k, warps, stages = _tiles(code, rows, columns)
    sizes, wide = _Sizes(), max(f.buffer.extent for f in (a, b, result)) >= 2**31 - 2**24
    kept = "tl.float64" if code == "f64" else "tl.float32"
    buffers = [a.buffer, b.buffer, result.buffer]
    ragged = depth % k != 0
    body = _loop(a, b, sizes, kept, precision, wide, ragged)
    body += [f"total = total * {float(alpha)!r}"] if alpha != 1 else []
    if addend is not None:
        buffers.append(addend.buffer)
        at = _place(sizes, addend.strides, "batch", "row[:, None]", "column[None, :]")
        body.append(f"more = tl.load(b3 + {at}, mask=live, other=0).to({kept})")
        body.append(f"total += more * {float(beta)!r}" if beta != 1 else "total += more")
    at = _place(sizes, result.strides, "batch", "row[:, None]", "column[None, :]")
    body.append(f"tl.store(b2 + {at}, total.to({TYPES[result.buffer.code]}), mask=live)")
    arguments = [f"b{i}" for i in range(len(buffers))] + list(sizes.values.values())
    arguments += ["e0", "e1", "e2", "M: tl.constexpr", "N: tl.constexpr", "K: tl.constexpr"]
    signature = f"@triton.jit\ndef kernel({', '.join(arguments)}):"
    text = HEADER.format(shape="(1, 1)") + "\n\n"
    text += "\n".join([signature, *("    " + line for line in body)]) + "\n"
    grid = (-(-rows // m) * -(-columns // n), batches, 1)
    made = Kernel(
        text, buffers, list(sizes.values), [], [rows, columns, depth], {"M": m, "N": n, "K": k},
        grid, warps, wide,
    )  # fmt: skip
    made.stages = stages
    return made
