"""Random networks, trained compiled and as they stand, over batches of changing sizes.

    python tools/fuzz_networks.py --seeds 0:200 --backend inductor

Takes: a range of seeds; each makes one module out of layers of `nn`, with residuals, branches on modes
and sizes, buffers that are written, and shared parameters, and an optimizer.
Gives: a line for each network whose compiled training differs; exit status 1 where there was one.
Keeps true: the same seed makes the same network and batches; outputs, gradients, parameters and buffers
are compared after every step.
"""

from __future__ import annotations

import argparse
import copy
import random
import sys
import warnings
from collections.abc import Callable
from typing import Any

import facula
from facula import nn

Tensor = facula.Tensor


class Residual(nn.Module):
    """A layer beside its input."""

    def __init__(self, inner: nn.Module, scale: float) -> None:
        super().__init__()
        self.inner, self.scale = inner, scale

    def forward(self, x: Tensor) -> Tensor:
        """`x` and a share of what the layer makes of it."""
        return x + self.inner(x) * self.scale


class Average(nn.Module):
    """Takes away a running mean, which it keeps while it is trained."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.register_buffer("mean", facula.zeros(width))
        self.calls = 0

    def forward(self, x: Tensor) -> Tensor:
        """`x` without the mean."""
        if self.training:
            self.calls += 1
            with facula.no_grad():
                self.mean.mul_(0.9).add_(x.detach().mean(0), alpha=0.1)
        return x - self.mean


class Gate(nn.Module):
    """One of two layers' values for each element."""

    def __init__(self, first: nn.Module, second: nn.Module) -> None:
        super().__init__()
        self.parts = nn.ModuleList([first, second])

    def forward(self, x: Tensor) -> Tensor:
        """The first layer where the input is positive, else the second."""
        first, second = (part(x) for part in self.parts)
        return facula.where(x > 0, first, second)


class Choice(nn.Module):
    """A layer that depends on the size of the batch."""

    def __init__(self, inner: nn.Module, bound: int) -> None:
        super().__init__()
        self.inner, self.bound = inner, bound

    def forward(self, x: Tensor) -> Tensor:
        """The layer for large batches, a scaled input for small ones."""
        return self.inner(x) if x.shape[0] > self.bound else x * (1 / x.shape[0])


class Several(nn.Module):
    """Several heads, of which the loss may leave some out."""

    def __init__(self, body: nn.Module, heads: list[nn.Module], used: int) -> None:
        super().__init__()
        self.body, self.heads, self.used = body, nn.ModuleList(heads), used

    def forward(self, x: Tensor) -> dict[str, Any]:
        """A dictionary of the heads' values; only the first ones count."""
        h = self.body(x)
        values = {f"head{n}": head(h) for n, head in enumerate(self.heads)}
        total = sum(v.square().mean() for v in list(values.values())[: self.used])
        return {"loss": total, **values, "size": len(x)}


class Maker:
    """Makes the network of a seed."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.width = self.random.choice((4, 6, 8))
        self.shared = nn.Linear(self.width, self.width)

    def layer(self, depth: int = 0) -> nn.Module:
        """A layer from width to width."""
        w = self.width
        plain: list[Callable[[], nn.Module]] = [
            lambda: nn.Linear(w, w), lambda: self.shared, lambda: nn.LayerNorm(w), nn.ReLU,
            nn.GELU, nn.Tanh, nn.SiLU, lambda: nn.BatchNorm1d(w), lambda: nn.Dropout(0.0),
            lambda: Average(w), lambda: nn.GroupNorm(2, w), lambda: nn.Softmax(-1), nn.PReLU,
            lambda: nn.Sequential(nn.Linear(w, 2 * w), nn.GLU()),
        ]  # fmt: skip
        nested: list[Callable[[], nn.Module]] = [
            lambda: Residual(self.layer(depth + 1), self.random.choice((0.5, 1.0))),
            lambda: Gate(self.layer(depth + 1), self.layer(depth + 1)),
            lambda: Choice(self.layer(depth + 1), self.random.randint(2, 5)),
            lambda: nn.Sequential(self.layer(depth + 1), self.layer(depth + 1)),
        ]
        return self.random.choice(plain if depth > 2 else plain + nested * 2)()

    def network(self) -> nn.Module:
        """The whole network."""
        body = nn.Sequential(*[self.layer() for _ in range(self.random.randint(1, 4))])
        heads: list[nn.Module] = [
            nn.Linear(self.width, self.random.randint(1, 3)) for _ in range(3)
        ]
        return Several(body, heads, self.random.randint(1, 3))

    def optimizer(self, network: nn.Module) -> Any:
        """An optimizer for a network's parameters."""
        kind = self.random.choice(("SGD", "Adam", "AdamW", "RMSprop"))
        # a large eps: where a gradient is zero but for rounding, its sign says nothing
        words = {"momentum": 0.9} if kind == "SGD" else {"eps": 0.01}
        return getattr(facula.optim, kind)(network.parameters(), lr=0.01, **words)


def difference(expected: Any, found: Any) -> str | None:
    """What differs, None if nothing does."""
    if isinstance(expected, Tensor) and isinstance(found, Tensor):
        if expected.shape != found.shape or expected.requires_grad != found.requires_grad:
            return f"{tuple(expected.shape)} expected, got {tuple(found.shape)}"
        off = (expected.detach().double() - found.detach().double()).abs().max().item()
        if off > 1e-4 * max(1.0, expected.detach().abs().max().item()):
            return f"off by {off:.3g}"
        return None
    return None if type(expected) is type(found) and expected == found else f"{found!r}"


def compared(first: nn.Module, second: nn.Module) -> str | None:
    """What differs between the parameters, gradients and buffers of two networks."""
    for (name, p), q in zip(first.named_parameters(), second.parameters(), strict=True):
        for what, a, b in (("", p, q), (".grad", p.grad, q.grad)):
            text = difference(a, b)
            if text is not None:
                return f"{name}{what}: {text}"
    for (name, p), q in zip(first.named_buffers(), second.buffers(), strict=True):
        text = difference(p, q)
        if text is not None:
            return f"{name}: {text}"
    return None


def fault_of(seed: int, backend: str) -> str | None:
    """What differs in the training of a seed's network; None if nothing does."""
    facula.manual_seed(seed)
    facula.compiler.reset()
    maker = Maker(seed)
    plain = maker.network()
    compiled = copy.deepcopy(plain)
    optimizers = [Maker(seed).optimizer(n) for n in (plain, compiled)]
    call = facula.compile(compiled, backend=backend)
    for step, size in enumerate((4, 4, 6, 3, 7, 5)):
        x = facula.randn(size, maker.width)
        training = step != 3
        plain.train(training)
        compiled.train(training)
        expected, found = plain(x), call(x)
        for name, value in expected.items():
            text = difference(value, found[name])
            if text is not None:
                return f"step {step}: {name}: {text}"
        if training:
            for values, optimizer in zip((expected, found), optimizers, strict=True):
                optimizer.zero_grad()
                values["loss"].backward()
                optimizer.step()
        text = compared(plain, compiled)
        if text is not None:
            return f"step {step}: {text}"
    return None


def main() -> int:
    """Try the seeds."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--seeds", default="0:100")
    parser.add_argument("--backend", default="inductor")
    arguments = parser.parse_args()
    warnings.simplefilter("ignore")
    faults = 0
    for seed in range(*map(int, arguments.seeds.split(":"))):
        try:
            fault = fault_of(seed, arguments.backend)
        except Exception as error:  # noqa: BLE001 - whatever is raised is the fault
            fault = f"{type(error).__name__}: {error}"
        if fault is not None:
            faults += 1
            print(f"seed {seed}: {fault}", flush=True)
    return min(faults, 1)


if __name__ == "__main__":
    sys.exit(main())
