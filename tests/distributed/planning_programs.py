"""What ranks do in `test_planning.py`: each function's result is printed as JSON."""

from __future__ import annotations

import json
import sys
from typing import Any

from joined import begin

from facula import distributed as dist
from facula.distributed.planning import MODELS, Layout
from facula.distributed.planning.prediction import held, simulated
from facula.distributed.planning.program import Rank
from facula.distributed.traffic import counting

#: by number of ranks
LAYOUTS = {
    2: [
        Layout(data=2, strategy="ddp", batch=2, length=16), Layout(data=2, length=16),
        Layout(tensor=2, length=16), Layout(pipeline=2, batch=4, microbatches=4, length=8),
        Layout(data=2, length=16, recompute=True), Layout(tensor=2, length=16, recompute=True),
    ],
    4: [
        Layout(data=2, tensor=2, length=16), Layout(data=2, tensor=2, strategy="ddp", length=16),
        Layout(data=2, pipeline=2, batch=2, microbatches=2, length=8),
        Layout(tensor=2, pipeline=2, batch=2, microbatches=2, length=8), Layout(data=4, length=16),
        Layout(tensor=4, length=16), Layout(pipeline=4, batch=4, microbatches=4, length=8),
    ],
}  # fmt: skip


def measured() -> Any:
    """What a real step holds and exchanges, and what is predicted for this rank's stage."""
    rank, size = begin()
    real = []
    for layout in LAYOUTS[size]:
        one = Rank(MODELS["tiny"], layout, "cpu")
        one.step()
        one.optimizer.zero_grad()
        with counting() as traffic:
            one.step()
        memory = held(one)
        real.append([traffic.kinds(), memory.parameters, memory.gradients, memory.states])
        dist.barrier()
    places = [one.data * one.tensor for one in LAYOUTS[size]]
    dist.destroy_process_group()
    found = []
    for layout, place, (kinds, *sizes) in zip(LAYOUTS[size], places, real, strict=True):
        memory, traffic = simulated(MODELS["tiny"], layout, rank // place)
        want = [memory.parameters, memory.gradients, memory.states]
        found.append(
            [json.loads(json.dumps(kinds)), json.loads(json.dumps(traffic.kinds())), sizes, want]
        )
    return found


if __name__ == "__main__":
    print(json.dumps(globals()[sys.argv[1]]()))
