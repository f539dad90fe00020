"""Training on many ranks, on paper: how much memory, how many bytes, how long.

Takes: a model, how its ranks are laid out, links. Gives: a `Prediction`, which `facula.distributed.plan` prints.
Keeps true: memory and bytes are counted in one rank's program, which runs on tensors without elements; time is an
estimate from them.
"""

from __future__ import annotations

from facula.distributed.planning.links import LINKS, Link, read_links
from facula.distributed.planning.models import MODELS, Config
from facula.distributed.planning.prediction import Prediction, predicted
from facula.distributed.planning.program import Layout

__all__ = [
    "LINKS", "MODELS", "Config", "Layout", "Link", "Prediction", "predicted", "read_links",
]  # fmt: skip
