"""What tensors of a program without writes show of which memory.

Takes: tensors, views that lead from one to the next, and the elements that a write gives one of them.
Gives: `Memory` and `Alias`: the elements of each tensor after all writes so far.
Keeps true: the elements of a memory are those of one tensor that nobody writes to; a view that shows more than this
tensor (`as_strided`, of elements between or beyond its own) is taken only while the memory is as it was found.
"""

from __future__ import annotations

from typing import Any

from facula import core
from facula.autograd.transforms.view_inverses import ViewStep, extent, put_back
from facula.core.errors import fail

Tensor = core.Tensor

core.set_type_attribute(Tensor, "_aliases", None)


class BeyondTensor(NotImplementedError):
    """A program writes to memory of which it shows more than the tensor that it was given."""


class Memory:
    """The elements behind a tensor and everything that is a view of it."""

    __slots__ = ("beside", "beyond", "external", "generation", "geometry", "hidden", "tensor")

    def __init__(self, tensor: Tensor, external: bool) -> None:
        #: the tensor that all others are views of
        self.tensor = tensor
        self.geometry = core.TensorMeta(tensor)
        #: whether the program found it, and so must leave it as eager execution would
        self.external = external
        #: how often it was written
        self.generation = 0
        #: whether all writes were none of autograd's business
        self.hidden = True
        #: whether a view was taken that shows elements which the tensor does not show
        self.beyond = False
        #: whether elements were read with the history of one view that are not all its own
        self.beside = False

    def reach(self, x: Tensor, size: tuple[Any, ...], stride: tuple[Any, ...], offset: Any) -> None:
        """Note a view of `x` that shows elements which the tensor does not show."""
        self.beyond = True
        held = x.untyped_storage().nbytes()
        numbers = (*x.shape, *x.stride(), *size, *stride, offset, held)
        if self.generation or any(type(n) is not int for n in numbers):  # what is for other sizes
            self.check()
        needed = extent(size, stride, offset) * x.dtype.itemsize
        if needed > held:
            fail(
                RuntimeError,
                "as_strided",
                f"a geometry inside the storage was required: setStorage: sizes {list(size)}, strides "
                f"{list(stride)}, storage offset {offset}, and itemsize {x.dtype.itemsize} requiring a "
                f"storage size of {needed} are out of bounds for storage of size {held}",
                hint="ask for fewer elements, smaller strides or a smaller offset",
            )

    def check(self) -> None:
        """Raise where the tensor does not hold all that is shown: what is written would be lost."""
        if self.beyond:
            fail(
                BeyondTensor,
                "as_strided",
                "a view inside of the tensor that it is taken of was required where that is written to",
                "one of elements between or beyond those of the tensor",
                hint="take the view of the tensor that owns the memory",
            )


class Alias:
    """What one tensor shows of a memory: everything, or a view of another alias."""

    __slots__ = ("generation", "memory", "parent", "run", "step", "value")

    def __init__(self, memory: Memory, value: Any, parent: Any = None, step: Any = None) -> None:
        self.memory = memory
        self.value = value
        self.parent: Alias | None = parent
        self.step: ViewStep | None = step
        self.generation = memory.generation
        #: the backward run in which the tensor was first seen, -1 outside of any
        self.run = core.current_graph_task_id()

    def current(self) -> Tensor:
        """The elements, after all writes so far."""
        if self.generation != self.memory.generation:
            if self.parent is None or self.step is None:
                fail(
                    AssertionError,
                    "functionalize",
                    "the value of a whole memory is always current",
                    hint="please report it: this is a fault of facula",
                )
            self.value = self.step.apply(self.parent.current())
            self.generation = self.memory.generation
        return self.value

    def root(self) -> Alias:
        """The alias of the whole memory."""
        alias = self
        while alias.parent is not None:
            alias = alias.parent
        return alias

    @property
    def detached(self) -> bool:
        """Whether a view on the way from the whole memory has no history."""
        alias = self
        while alias.parent is not None and alias.step is not None:
            if alias.step.detaches:
                return True
            alias = alias.parent
        return False

    def renew(self) -> None:
        """Let all that is shown of the memory come from the whole of it: it is about to be written."""
        memory, root = self.memory, self.root()
        if memory.beside:
            memory.beside = False
            memory.generation += 1
            root.generation = memory.generation

    def store(self, value: Tensor) -> None:
        """Make `value` the elements; others on the same memory follow."""
        alias, memory = self, self.memory
        hidden = not core.is_grad_enabled()
        if hidden and value.requires_grad:
            value = value.detach()
        own = value
        memory.check()
        steps, parents = [], []
        while alias.parent is not None and alias.step is not None:
            hidden = hidden or alias.step.detaches
            steps.append(alias.step)
            parents.append(alias.parent.current())
            alias = alias.parent
        value = restrided(put_back(steps, parents, value), memory.geometry)
        if hidden and alias.value.requires_grad:
            value = core.adopt_history(value.detach(), alias.value)
        memory.hidden = memory.hidden and hidden
        memory.generation += 1
        alias.value, alias.generation = value, memory.generation
        if alias is not self and not hidden:
            self.value, self.generation = own, memory.generation


def restrided(value: Tensor, meta: core.TensorMeta) -> Tensor:
    """`value` in the memory order of a tensor with `meta`, where that is one without gaps."""
    wanted = meta.strides
    if value.stride() == tuple(wanted):
        return value
    order = sorted(range(len(wanted)), key=lambda d: (-wanted[d], d))
    ordered = value.permute(order).contiguous()
    back = sorted(range(len(order)), key=order.__getitem__)
    made = ordered.permute(back)
    return made if made.stride() == tuple(wanted) else value.contiguous()
