"""Steps of training on several ranks against PyTorch: `python benchmarks/several_ranks.py [CASE ...]`.

Takes cases (`ddp-resnet18`, `ddp-gpt2`, `fsdp2-resnet18`, `fsdp2-gpt2`; default: all) and, with `--other`, an
interpreter that has PyTorch. Gives the least seconds of a step with one thread on each rank, the ratio, and
the largest difference of the losses; with `--memory`, what a rank of FSDP2 holds between two steps,
and what it may hold. Keeps true: both frameworks run one script on the same numbers, and take turns, so that
a busy machine slows both; who waits for its turn waits for a line of input.
"""

import argparse
import importlib
import json
import os
import socket
import subprocess
import sys
import time
import zlib
from typing import Any

import numpy as np

CASES = ["ddp-resnet18", "ddp-gpt2", "fsdp2-resnet18", "fsdp2-gpt2"]


# ------------------------------------------------------------------ models, written once for both


def resnet18(torch: Any) -> Any:
    nn = torch.nn

    class Block(nn.Module):
        def __init__(self, before: int, width: int, stride: int) -> None:
            super().__init__()
            self.body = nn.Sequential(
                nn.Conv2d(before, width, 3, stride, 1, bias=False), nn.BatchNorm2d(width),
                nn.ReLU(inplace=True),
                nn.Conv2d(width, width, 3, 1, 1, bias=False), nn.BatchNorm2d(width),
            )  # fmt: skip
            self.skip = nn.Identity()
            if stride != 1 or before != width:
                conv = nn.Conv2d(before, width, 1, stride, bias=False)
                self.skip = nn.Sequential(conv, nn.BatchNorm2d(width))
            self.relu = nn.ReLU(inplace=True)

        def forward(self, x: Any) -> Any:
            return self.relu(self.body(x) + self.skip(x))

    stem = [nn.Conv2d(3, 64, 7, 2, 3, bias=False), nn.BatchNorm2d(64), nn.ReLU(inplace=True)]
    blocks, before = [], 64
    for width in (64, 128, 256, 512):
        blocks += [Block(before, width, 1 + (width > 64)), Block(width, width, 1)]
        before = width
    head = [nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(512, 1000)]
    return nn.Sequential(*stem, nn.MaxPool2d(3, 2, 1), *blocks, *head)


def gpt2(torch: Any, width: int = 768, depth: int = 12, heads: int = 12, words: int = 50257) -> Any:
    nn, functional = torch.nn, torch.nn.functional

    class Attention(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.attend, self.project = nn.Linear(width, 3 * width), nn.Linear(width, width)

        def forward(self, x: Any) -> Any:
            batch, length, _ = x.shape
            parts = self.attend(x).split(width, dim=2)
            q, k, v = (p.view(batch, length, heads, -1).transpose(1, 2) for p in parts)
            y = functional.scaled_dot_product_attention(q, k, v, is_causal=True)
            return self.project(y.transpose(1, 2).reshape(batch, length, width))

    class Block(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
            self.attention = Attention()
            self.mlp = nn.Sequential(
                nn.Linear(width, 4 * width), nn.GELU(approximate="tanh"), nn.Linear(4 * width, width)
            )  # fmt: skip

        def forward(self, x: Any) -> Any:
            x = x + self.attention(self.norm1(x))
            return x + self.mlp(self.norm2(x))

    class GPT2(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.tokens, self.places = nn.Embedding(words, width), nn.Embedding(1024, width)
            self.blocks = nn.ModuleList([Block() for _ in range(depth)])
            self.norm, self.head = nn.LayerNorm(width), nn.Linear(width, words, bias=False)
            self.head.weight = self.tokens.weight

        def forward(self, ids: Any) -> Any:
            x = self.tokens(ids) + self.places(torch.arange(ids.shape[1]))
            for block in self.blocks:
                x = block(x)
            return self.head(self.norm(x))

    return GPT2()


def filled(torch: Any, model: Any) -> Any:
    """The model with weights that depend on names and shapes only."""
    with torch.no_grad():
        for name, p in model.named_parameters():
            random = np.random.RandomState(zlib.crc32(name.encode()))
            value = np.full(tuple(p.shape), float(name.endswith("weight")))
            if p.dim() > 1:
                scale = 0.02 if p.dim() == 2 else (2 / np.prod(tuple(p.shape)[1:])) ** 0.5
                value = random.standard_normal(tuple(p.shape)) * scale
            p.copy_(torch.from_numpy(value.astype("float32")))
    return model


# ------------------------------------------------------------------ one rank


def prepared(torch: Any, case: str, batch: int) -> tuple[Any, Any, Any]:
    """The wrapped model, its optimizer, and a function that runs one step."""
    rank = int(os.environ["RANK"])
    kind, name = case.split("-")
    model: Any = filled(torch, (resnet18 if name == "resnet18" else gpt2)(torch))
    random = np.random.RandomState(rank)
    if name == "resnet18":
        x = torch.from_numpy(random.standard_normal((batch, 3, 224, 224)).astype("float32"))
        y = torch.from_numpy(random.randint(0, 1000, batch))
    else:
        x, y = (torch.from_numpy(random.randint(0, 50257, (batch, 128))) for _ in "xy")
    if kind == "ddp":
        model = torch.nn.parallel.DistributedDataParallel(model)
    else:
        fsdp = importlib.import_module(f"{torch.__name__}.distributed.fsdp")
        for inner in model.modules():
            if type(inner).__name__ == "Block":
                fsdp.fully_shard(inner)
        fsdp.fully_shard(model)
    if name == "resnet18":
        optimizer = torch.optim.SGD(model.parameters(), lr=1e-3, momentum=0.9)
    else:
        optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4)
    loss_of = torch.nn.functional.cross_entropy

    def step() -> float:
        optimizer.zero_grad()
        loss = loss_of(model(x).flatten(0, -2), y.flatten())
        loss.backward()
        optimizer.step()
        return float(loss.detach())

    return model, optimizer, step


def held(model: Any, optimizer: Any) -> dict[str, int]:
    """Bytes of pieces, gradients and states that this rank holds, of all, and of the largest unit."""

    def local(some: list[Any]) -> int:
        """Tensors that share a storage hold it once."""
        pieces = [t.to_local() if hasattr(t, "to_local") else t for t in some]
        storages = [t.untyped_storage() for t in pieces]
        return sum({s.data_ptr(): s.nbytes() for s in storages}.values())

    parameters = list(model.parameters())
    tensors = [*parameters, *(p.grad for p in parameters)]
    tensors += [v for s in optimizer.state.values() for v in s.values() if hasattr(v, "dim")]
    units = [m for m in model.modules() if hasattr(m, "unshard")]
    sizes = {}
    for unit in reversed(units):
        mine = [p for p in unit.parameters() if id(p) not in sizes]
        sizes |= {id(p): (id(unit), p.numel() * p.element_size()) for p in mine}
    by_unit: dict[int, int] = {}
    for unit_id, size in sizes.values():
        by_unit[unit_id] = by_unit.get(unit_id, 0) + size
    total = sum(t.numel() * t.element_size() for t in tensors)
    return {"held": local(tensors), "total": total, "unit": max(by_unit.values())}


def resident() -> int:
    """Bytes of this process in memory, without what it shares."""
    with open("/proc/self/smaps_rollup") as file:
        fields = dict(line.split(":", 1) for line in file if line.count(":") == 1)
    return int(fields["Anonymous"].split()[0]) << 10


def serve(framework: str, case: str, batch: int) -> None:
    """A rank: runs as many steps as each line of input says, and tells the time and the loss."""
    torch = importlib.import_module(framework)
    distributed = importlib.import_module(f"{framework}.distributed")
    torch.set_num_threads(1)
    distributed.init_process_group("gloo")
    before = resident()
    model, optimizer, step = prepared(torch, case, batch)
    for line in sys.stdin:
        if line.strip() == "memory":
            found = {**held(model, optimizer), "resident": resident() - before}
            print(json.dumps(found), flush=True)
            continue
        distributed.barrier()
        start, loss = time.perf_counter(), 0.0
        for _ in range(int(line)):
            loss = step()
        taken = (time.perf_counter() - start) / int(line)
        print(json.dumps({"seconds": taken, "loss": loss}), flush=True)


# ------------------------------------------------------------------ all ranks


class Side:
    """The ranks of one framework."""

    def __init__(self, python: str, framework: str, case: str, ranks: int, batch: int) -> None:
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            port = str(probe.getsockname()[1])
        line = [python, __file__, "--serve", framework, "--batch", str(batch), case]
        base = {
            **os.environ,
            "MASTER_ADDR": "127.0.0.1",
            "MASTER_PORT": port,
            "OMP_NUM_THREADS": "1",
        }
        self.ranks = [
            subprocess.Popen(
                line, env={**base, "RANK": str(r), "LOCAL_RANK": str(r), "WORLD_SIZE": str(ranks)},
                stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
            )
            for r in range(ranks)
        ]  # fmt: skip

    def ask(self, line: str) -> list[dict[str, Any]]:
        """Each rank's answer."""
        for rank in self.ranks:
            assert rank.stdin is not None
            rank.stdin.write(line + "\n")
            rank.stdin.flush()
        return [json.loads(rank.stdout.readline()) for rank in self.ranks if rank.stdout]

    def close(self) -> None:
        """The ranks end."""
        for rank in self.ranks:
            assert rank.stdin is not None
            rank.stdin.close()
        for rank in self.ranks:
            try:
                rank.wait(60)
            except subprocess.TimeoutExpired:
                rank.kill()


def compared(case: str, options: argparse.Namespace) -> None:
    """Run a case on both sides in turn, and print what came out."""
    batch = options.batch or (4 if "resnet" in case else 1)
    sides = {"facula": Side(sys.executable, "facula", case, options.ranks, batch)}
    if options.other:
        sides["torch"] = Side(options.other, "torch", case, options.ranks, batch)
    least: dict[str, float] = {}
    losses: dict[str, list[float]] = {name: [] for name in sides}
    for number in range(options.rounds + 1):
        for name, side in sides.items():
            answers = side.ask(str(options.steps if number else 2))
            losses[name] += [a["loss"] for a in answers]
            if number:  # the first round makes graphs, buckets and states
                taken = max(a["seconds"] for a in answers)
                least[name] = min(taken, least.get(name, taken))
    text = "  ".join(f"{name} {1000 * value:.0f} ms" for name, value in least.items())
    if options.other:
        apart = max(abs(a - b) for a, b in zip(losses["facula"], losses["torch"], strict=True))
        text += f"  ratio {least['torch'] / least['facula']:.2f}  losses differ by {apart:.1e}"
    print(f"{case:16} {text}", flush=True)
    if options.memory and case.startswith("fsdp2"):
        for name, side in sides.items():
            got = max(side.ask("memory"), key=lambda found: found["held"])
            allowed = 1.05 * got["total"] / options.ranks + got["unit"]
            shown = {k: f"{v / (1 << 20):.0f} MiB" for k, v in {**got, "allowed": allowed}.items()}
            print(f"{'':16} {name}: {shown}")
    for side in sides.values():
        side.close()


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("cases", nargs="*", default=CASES)
    parser.add_argument("--other", help="an interpreter that has PyTorch")
    parser.add_argument("--ranks", type=int, default=2)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--steps", type=int, default=2)
    parser.add_argument("--batch", type=int, default=0)
    parser.add_argument("--memory", action="store_true")
    parser.add_argument("--serve", metavar="FRAMEWORK", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.serve:
        serve(options.serve, options.cases[0], options.batch)
        return
    for case in options.cases:
        compared(case, options)


if __name__ == "__main__":
    main()
