"""What a new size costs in a dynamic graph: `python benchmarks/new_sizes.py [--sizes N]`.

Takes a small transformer layer, compiled, whose sequences get longer with each call. Gives, for forward
alone and for forward with backward, the processor time (ms) of the first calls, of a call with a size that
was not seen before (least, median), and of the same call again. Keeps true: each size comes once before it
comes again; the difference of the two is what the compiler adds.
"""

import argparse
import statistics
import time
from typing import Any

import facula
from facula import nn


class Layer(nn.Module):
    """Attention and two linear layers, with norms before them."""

    def __init__(self, width: int = 64, heads: int = 4) -> None:
        super().__init__()
        self.heads = heads
        self.inner = nn.Linear(width, 3 * width)
        self.outer = nn.Linear(width, width)
        self.norms = nn.ModuleList([nn.LayerNorm(width), nn.LayerNorm(width)])
        self.feed = nn.Sequential(
            nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width)
        )

    def forward(self, x: Any) -> Any:
        """(batch, length, width) to the same."""
        batch, length, width = x.shape
        parts = self.inner(self.norms[0](x)).view(batch, length, 3, self.heads, width // self.heads)
        q, k, v = parts.permute(2, 0, 3, 1, 4)
        seen = nn.functional.scaled_dot_product_attention(q, k, v)
        x = x + self.outer(seen.transpose(1, 2).reshape(batch, length, width))
        return x + self.feed(self.norms[1](x))


def measure(train: bool, sizes: int) -> None:
    """Print the times of one kind of call."""
    layer = facula.compile(Layer())

    def took(length: int) -> float:
        x = facula.randn(2, length, 64)
        begin = time.process_time()
        with facula.set_grad_enabled(train):
            y = layer(x)
            if train:
                y.sum().backward()
        return 1e3 * (time.process_time() - begin)

    first = [took(length) for length in (10, 20, 30, 36, 34, 38)]
    new, again = [], []
    for length in range(39, 39 + sizes):
        new.append(took(length))
        again.append(took(length))
    shown = ", ".join(f"{each:.0f}" for each in first)
    name = "forward and backward" if train else "forward"
    print(f"{name}: first calls {shown} ms")
    added = statistics.median(a - b for a, b in zip(new, again, strict=True))
    print(
        f"  new size {min(new):.2f} least, {statistics.median(new):.2f} median; again "
        f"{statistics.median(again):.2f}; the compiler adds {added:.2f} ms"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--sizes", type=int, default=25)
    options = parser.parse_args()
    for train in (False, True):
        measure(train, options.sizes)


if __name__ == "__main__":
    main()
