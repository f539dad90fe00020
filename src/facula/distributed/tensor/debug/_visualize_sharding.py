"""How a distributed tensor lies on its mesh, as a table of text.

Takes: a distributed tensor of one or two dimensions. Gives: a table, which rank 0 of the mesh prints.
Keeps true: each range of elements stands once, with all ranks that have it; nothing is exchanged.
"""

from __future__ import annotations

import itertools
from typing import Any

from facula.core.errors import fail
from facula.distributed.tensor._utils import piece_at
from facula.distributed.tensor.dtensor import DTensor

__all__ = ["visualize_sharding"]

Range = tuple[int, int]


def visualize_sharding(dtensor: DTensor, header: str = "", use_rich: bool = False) -> None:
    """Print which ranks have which elements of a distributed tensor, on the first rank of its mesh.

    Args:
        dtensor: of one or two dimensions
        header: a line above the table
        use_rich: kept for PyTorch's API: the table is plain text

    Raises:
        RuntimeError: it has more dimensions.
    """
    if dtensor.numel() == 0:
        return
    if not 1 <= dtensor.dim() <= 2:
        fail(RuntimeError, "visualize_sharding", "a tensor of one or two dimensions was required (visualize sharding "
             "supports only 1D or 2D DTensor)", f"{dtensor.dim()} dimensions",
             hint="take a slice of it")  # fmt: skip
    place = dtensor.device_mesh.get_coordinate()
    if place is None or any(place):
        return
    if header:
        print(header)
    print(_table(dtensor))


def _table(dtensor: DTensor) -> str:
    mesh, names = dtensor.device_mesh, ("Row", "Col")[-dtensor.dim() :]
    held: dict[tuple[Range, ...], list[str]] = {}
    for place in itertools.product(*(range(n) for n in mesh.shape)):
        shape, start = piece_at(dtensor.shape, mesh, place, dtensor.placements)
        if 0 in shape:
            continue
        ranges = tuple((a, a + n - 1) for a, n in zip(start, shape, strict=True))
        rank: Any = mesh.mesh[place].item()
        held.setdefault(ranges, []).append(f"{mesh.device_type}:{rank}")
    axes = [sorted({ranges[dim] for ranges in held}) for dim in range(dtensor.dim())]
    columns = [""] + [f"{names[-1]} {a}-{b}" for a, b in axes[-1]]
    rows: list[list[str]] = [columns]
    for row in axes[0] if len(axes) == 2 else [None]:
        label = "" if row is None else f"{names[0]} {row[0]}-{row[1]}"
        keys: list[Any] = [(column,) if row is None else (row, column) for column in axes[-1]]
        rows.append([label, *(", ".join(held.get(key, [])) for key in keys)])
    widths = [max(len(row[i]) for row in rows) for i in range(len(columns))]
    lines = [
        "  ".join(text.ljust(width) for text, width in zip(row, widths, strict=True)).rstrip()
        for row in rows
    ]
    lines.insert(1, "  ".join("-" * width for width in widths))
    return "\n".join(lines)
