"""Random numbers as a function of a state: what programs without side effects draw from.

Takes: a generator once a draw (`_philox_state`), then the state alone (`_philox_fill`).
Gives: the elements that `random.draw` would give at that point of the generator.
Keeps true: the state is two numbers, the seed and the offset, as int64; the same state gives the
same elements however often it is used, so a mask need not be kept where its state is.
"""

from __future__ import annotations

from typing import Any

from facula import core
from facula.ops.random.streams import of_a_part
from facula.ops.table.registry import F, operator


@operator(
    "_philox_state(*, generator? generator=None, device? device=None) -> Tensor",
    names=(),
    out=False,
)
class PhiloxState:
    """The state of the next draw of a generator, `[seed, offset]`; the generator moves on."""

    #: two calls are two draws
    random = True

    def meta(generator, device):
        return core.empty((2,), dtype=core.int64, device=device)

    def cpu(out, generator, device):
        source = core.default_generator if generator is None else generator
        seed, offset = source.take()
        out[0], out[1] = seed - ((seed >> 63) << 64), offset


@operator(
    "_philox_fill(Tensor state, int[] size, str kind, any a=0.0, any b=1.0, *, dtype? dtype=None, "
    "device? device=None) -> Tensor",
    names=(),
    out=False,
)
class PhiloxFill:
    """New elements drawn from a state; `kind`, `a` and `b` are those of `core.random_fill`."""

    #: drawing again from a state costs less than keeping what was drawn
    cheap = True

    def meta(state, size, kind, a, b, dtype, device):
        where = state.device if device is None else device
        return core.empty(size, dtype=dtype, device=where)

    def cpu(out, state, size, kind, a, b, dtype, device):
        seed, offset = state.tolist()
        source = core.Generator()
        source.manual_seed(seed & 0xFFFFFFFFFFFFFFFF)
        source.set_offset(offset)
        core.random_fill(out, kind, a, b, source)

    def samples(S):
        state = core.tensor([7, 3])
        yield (state, (3, 4), "normal"), {}
        yield (state, (5,), "randint", 2, 9), {"dtype": core.int64}


class Draws:
    """Draws of a program that is traced: `draws(tensor, kind, a, b, generator)` is `random.draw`
    from a state, without writing to `tensor`.

    The generators go on as if numbers were drawn, so that a program which puts one back (to compute
    something again) gets the state that it had there; `restore` undoes that in the end.
    """

    def __init__(self) -> None:
        #: generator, seed and offset -> the state that stands for them in the trace
        self.states: dict[Any, Any] = {}
        #: the generators and what they were
        self.before: dict[int, tuple[Any, Any]] = {}

    def _next(self, generator: core.Generator | None) -> tuple[int, int, int]:
        """The number of the next draw; the generator moves on."""
        source = core.default_generator if generator is None else generator
        if id(source) not in self.before:
            self.before[id(source)] = (source, source.clone_state())
        seed, number = source.take()
        return id(source), seed, number

    def state(self, generator: core.Generator | None, device: core.device | None) -> Any:
        """The state of the next draw."""
        key = self._next(generator)
        found = self.states.get(key)
        if found is None:
            found = self.states[key] = F._philox_state(generator=generator, device=device)
        return found

    def restore(self) -> None:
        """Put the generators back to what they were before the trace."""
        for source, before in self.before.values():
            source.graphsafe_set_state(before)

    def __call__(
        self, tensor: core.Tensor, kind: str, a: Any, b: Any, generator: core.Generator | None
    ) -> Any:
        if core.by_element(generator):
            return self.in_order(tensor, kind, a, b, generator)
        return functional_draw(tensor, kind, a, b, self.state(generator, tensor.device))

    def in_order(
        self, tensor: core.Tensor, kind: str, a: object, b: object, generator: core.Generator | None
    ) -> Any:
        """A draw from PyTorch's stream. What a program draws again, having put the generator back, is
        what it drew before."""
        key = self._next(generator)
        found = self.states.get(key)
        if found is None:
            like: dict[str, Any] = {"generator": generator, "device": tensor.device}
            if tensor.dtype.is_complex:
                size, dtype = (*tensor.shape, 2), tensor.dtype.to_real()
                pairs = F._stream_fill(size, *of_a_part(kind, a, b), dtype=dtype, **like)
                found = F.view_as_complex(pairs)
            else:
                found = F._stream_fill(tensor.shape, kind, a, b, dtype=tensor.dtype, **like)
            self.states[key] = found
        return found


def functional_draw(tensor: core.Tensor, kind: str, a: object, b: object, state: object) -> Any:
    """What `random.draw` gives, from a state and without writing to `tensor`."""
    size, dtype = tuple(tensor.shape), tensor.dtype
    if not dtype.is_complex:
        return F._philox_fill(state, size, kind, a, b, dtype=dtype, device=tensor.device)
    pairs = F._philox_fill(
        state, (*size, 2), *of_a_part(kind, a, b), dtype=dtype.to_real(), device=tensor.device
    )
    return F.view_as_complex(pairs)
