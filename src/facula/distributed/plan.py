"""What training on many ranks would take: `python -m facula.distributed.plan`.

Takes: a model, how its ranks are laid out, links. Gives: a table: memory for each rank, bytes for each step, seconds.
Keeps true: nothing of the size of the model is allocated; one rank's program runs on tensors without elements.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence

from facula import core
from facula.distributed.planning import LINKS, MODELS, Layout, Prediction, predicted, read_links

__all__ = ["main", "table"]

_DTYPES = {"float32": None, "bfloat16": core.bfloat16, "float16": core.float16}


def _bytes(count: float) -> str:
    for unit in ("B", "KiB", "MiB", "GiB"):
        if count < 1024 or unit == "GiB":
            return f"{count:.1f} {unit}" if unit != "B" else f"{count:.0f} B"
        count /= 1024
    return ""


def table(name: str, found: Prediction) -> str:
    """A prediction as text.

    Example:
        >>> from facula.distributed import plan
        >>> from facula.distributed.planning import MODELS, Layout, predicted
        >>> text = plan.table("tiny", predicted(MODELS["tiny"], Layout(data=2, length=8)))
        >>> text.splitlines()[0]
        'tiny: 197,184 parameters on 2 ranks (data 2, tensor 1, pipeline 1; fsdp2)'
    """
    layout, memory = found.layout, found.memory
    lines = [
        f"{name}: {found.parameters:,} parameters on {layout.ranks} ranks (data {layout.data}, tensor "
        f"{layout.tensor}, pipeline {layout.pipeline}; {layout.strategy})",
        "memory of a rank",
    ]
    parts = {
        "parameters": memory.parameters, "gradients": memory.gradients, "states of AdamW": memory.states,
        "gathered at a time": memory.whole, "kept for backward": memory.kept, "together": memory.total(),
    }  # fmt: skip
    lines += [f"  {label:24}{_bytes(size):>14}" for label, size in parts.items()]
    lines.append("exchanges of a rank in a step: how many, of how many bytes")
    for kind, (count, payload) in found.traffic.kinds().items():
        lines.append(f"  {kind:24}{count:>8} {_bytes(payload):>14}")
    lines.append(f"  {'sent':24}{'':8} {_bytes(found.traffic.total().sent):>14}")
    tokens = layout.batch * layout.data * layout.length
    lines += [
        "time of a step",
        f"  {'products':24}{found.compute:>12.4f} s  ({found.flops / 1e12:.1f} TFLOP)",
        f"  {'exchanges between them':24}{found.between:>12.4f} s",
        f"  {'exchanges beside them':24}{found.beside:>12.4f} s",
        f"  {'waiting in the pipeline':24}{100 * found.idle:>12.1f} %",
        f"  {'step':24}{found.step:>12.4f} s  ({tokens / found.step:,.0f} tokens a second)",
    ]
    return "\n".join(lines) + "\n"


def main(arguments: Sequence[str] | None = None) -> None:
    """Print the table for the command line."""
    parser = argparse.ArgumentParser(prog="python -m facula.distributed.plan",
                                     description="Memory, bytes and time of training on many ranks.")  # fmt: skip
    parser.add_argument("model", choices=sorted(MODELS))
    for name, text in (
        ("data", "ranks along which the batch is cut"), ("tensor", "ranks along which layers are cut"),
        ("pipeline", "stages of layers"), ("batch", "sequences for each rank of data"),
        ("microbatches", "parts of a batch in the pipeline"),
    ):  # fmt: skip
        parser.add_argument(f"--{name}", type=int, default=1, help=text)
    parser.add_argument("--length", type=int, default=2048, help="tokens of a sequence")
    parser.add_argument("--strategy", default="fsdp2", choices=["fsdp2", "ddp"])
    parser.add_argument(
        "--dtype", default="bfloat16", choices=list(_DTYPES), help="what fsdp2 computes with"
    )
    parser.add_argument("--recompute", action="store_true", help="compute layers again in backward")
    parser.add_argument("--links", help="a file with a table of links")
    parser.add_argument(
        "--flops", type=float, default=4e14, help="operations of a rank in a second"
    )
    given = parser.parse_args(arguments)
    layout = Layout(
        given.data, given.tensor, given.pipeline, given.strategy, given.batch, given.length,
        given.microbatches, _DTYPES[given.dtype], given.recompute,
    )  # fmt: skip
    links = read_links(given.links) if given.links else LINKS
    print(table(given.model, predicted(MODELS[given.model], layout, links, given.flops)), end="")


if __name__ == "__main__":
    main()
