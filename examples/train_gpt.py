"""Trains a small language model on Python's own library: `python examples/train_gpt.py`.

Takes the source files of the standard library as bytes; prints the loss, then text that the model
writes.  Keeps true: the last tenth of the bytes is never trained on, and the loss on it is what is
reported as validation.
"""

import argparse
import math
import sysconfig
import time
from pathlib import Path

import numpy

import facula
from facula import nn
from facula.nn import functional as F


class Block(nn.Module):
    """Causal self-attention and a two-layer network, each behind a norm. [Radford et al. 2019]"""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.norm1 = nn.LayerNorm(width)
        self.attention = nn.Linear(width, 3 * width)
        self.projection = nn.Linear(width, width)
        self.norm2 = nn.LayerNorm(width)
        self.network = nn.Sequential(
            nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width)
        )

    def forward(self, x: facula.Tensor) -> facula.Tensor:
        batch, length, width = x.shape
        parts = self.attention(self.norm1(x)).view(batch, length, 3, self.heads, -1)
        query, key, value = parts.permute(2, 0, 3, 1, 4)
        mixed = F.scaled_dot_product_attention(query, key, value, is_causal=True)
        x = x + self.projection(mixed.transpose(1, 2).reshape(batch, length, width))
        return x + self.network(self.norm2(x))


class GPT(nn.Module):
    """A decoder over bytes."""

    def __init__(self, context: int, width: int, heads: int, layers: int) -> None:
        super().__init__()
        self.context = context
        self.tokens = nn.Embedding(256, width)
        self.positions = nn.Embedding(context, width)
        self.blocks = nn.Sequential(*(Block(width, heads) for _ in range(layers)))
        self.norm = nn.LayerNorm(width)
        self.apply(self.initialise)

    @staticmethod
    def initialise(module: nn.Module) -> None:
        if isinstance(module, (nn.Linear, nn.Embedding)):
            nn.init.normal_(module.weight, std=0.02)
        if isinstance(module, nn.Linear):
            nn.init.zeros_(module.bias)

    def forward(self, tokens: facula.Tensor) -> facula.Tensor:
        x = self.tokens(tokens) + self.positions(facula.arange(tokens.shape[1]))
        # the output layer shares its weights with the input
        return F.linear(self.norm(self.blocks(x)), self.tokens.weight)


def load_text(limit: int) -> facula.Tensor:
    """Bytes of the standard library's modules, in the order of their names."""
    files = sorted(Path(sysconfig.get_paths()["stdlib"]).glob("*.py"))
    text = b"\n".join(path.read_bytes() for path in files)[:limit]
    return facula.from_numpy(numpy.frombuffer(text, numpy.uint8).astype(numpy.int64))


def batch_of(data: facula.Tensor, count: int, length: int) -> tuple[facula.Tensor, facula.Tensor]:
    """Random windows, and the same one byte later."""
    starts = facula.randint(0, len(data) - length - 1, (count, 1))
    windows = data[starts + facula.arange(length + 1)]
    return windows[:, :-1], windows[:, 1:]


def loss_on(model: GPT, data: facula.Tensor, count: int) -> facula.Tensor:
    """Mean cross-entropy a byte, in nats."""
    inputs, targets = batch_of(data, count, model.context)
    return F.cross_entropy(model(inputs).flatten(0, 1), targets.flatten())


def write(model: GPT, start: str, count: int, temperature: float) -> str:
    """Text that the model goes on with."""
    model.eval()
    tokens = facula.tensor([list(start.encode())])
    with facula.no_grad():
        for _ in range(count):
            scores = model(tokens[:, -model.context :])[:, -1] / temperature
            choice = facula.multinomial(F.softmax(scores, dim=-1), 1)
            tokens = facula.cat([tokens, choice], dim=1)
    return bytes(tokens[0].tolist()).decode("utf-8", "replace")


def train(settings: argparse.Namespace) -> GPT:
    """Trains and prints; the learning rate warms up and falls along a cosine."""
    facula.manual_seed(settings.seed)
    text = load_text(settings.bytes)
    split = len(text) * 9 // 10
    model = GPT(settings.context, settings.width, settings.heads, settings.layers)
    parameters = sum(p.numel() for p in model.parameters())
    print(f"{len(text):,} bytes, {parameters:,} parameters")
    optimizer = facula.optim.AdamW(model.parameters(), lr=settings.rate, weight_decay=0.1)
    begin = time.perf_counter()
    for step in range(1, settings.steps + 1):
        warm = min(1.0, step / 20)
        fall = 0.5 * (1 + math.cos(math.pi * step / settings.steps))
        optimizer.param_groups[0]["lr"] = settings.rate * warm * (0.1 + 0.9 * fall)
        optimizer.zero_grad()
        loss = loss_on(model, text[:split], settings.batch)
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        if step % settings.report == 0 or step == 1:
            with facula.no_grad():
                validation = loss_on(model, text[split:], settings.batch).item()
            speed = step * settings.batch * settings.context / (time.perf_counter() - begin)
            print(
                f"step {step:4d}  loss {loss.item():.3f}  validation {validation:.3f}  "
                f"{speed:,.0f} bytes/s",
                flush=True,
            )
    return model


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--steps", type=int, default=300)
    parser.add_argument("--batch", type=int, default=16, help="windows per step")
    parser.add_argument("--context", type=int, default=128, help="bytes per window")
    parser.add_argument("--width", type=int, default=128)
    parser.add_argument("--heads", type=int, default=4)
    parser.add_argument("--layers", type=int, default=4)
    parser.add_argument("--rate", type=float, default=2e-3)
    parser.add_argument("--bytes", type=int, default=4_000_000, help="at most so much text")
    parser.add_argument("--report", type=int, default=25, help="steps between reports")
    parser.add_argument("--sample", type=int, default=300, help="bytes to write at the end")
    parser.add_argument("--seed", type=int, default=0)
    return parser.parse_args()


def main() -> None:
    settings = parse()
    model = train(settings)
    print("\n" + write(model, "def ", settings.sample, 0.8))


if __name__ == "__main__":
    main()
