"""Whether sizes that were marked as dynamic can change in a captured program.

Takes: a finished capture. Gives nothing, or raises.
Keeps true: a marked size for which no other value was found with which the program goes the same way is
an error that names the dimension; sizes that are equal are tried together and alone.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any

from facula import core
from facula.capture.values.kinds import NumberValue, TensorValue
from facula.capture.values.sizes import REFUSALS, Replay, value_of_number
from facula.capture.values.wrappers import WrapperValue
from facula.fx.experimental.symbolic_shapes import ConstraintViolationError

if TYPE_CHECKING:
    from facula.capture.interpreter.symbolic import Symbolic


Dimension = tuple[int, int]


def check_marks(world: Symbolic) -> None:
    """Raise for a marked dimension that the program fixes.

    Raises:
        ConstraintViolationError: names each such dimension and its value.
    """
    if world.out_of_range:
        raise ConstraintViolationError(_beyond(*world.out_of_range[0]))
    tensors = {
        id(v): v
        for v in world.tracked.values()
        if isinstance(v, TensorValue) and v.real is not None and not isinstance(v, WrapperValue)
    }
    marked = {key: v for key, v in tensors.items() if v.marked}
    if not marked:
        return
    fixed = [
        (value, dim)
        for value in marked.values()
        for dim in sorted(value.marked)
        if not _can_change(world, tensors, value, dim)
    ]
    if fixed:
        raise ConstraintViolationError(_text(fixed))


def _beyond(value: TensorValue, dim: int, bounds: tuple[int | None, int | None]) -> str:
    name = f"{value.source.label()}.size()[{dim}]"
    return (
        f"[compile] a size within the range of its mark was required (mark_dynamic(min={bounds[0]}, "
        f"max={bounds[1]})): Constraints violated ({name})!: got {int(value.fake.shape[dim])}\n"
        "hint: mark the dimension with a wider range"
    )


def _text(fixed: list[tuple[TensorValue, int]]) -> str:
    names = ", ".join(f"L['{v.source.label()}'].size()[{dim}]" for v, dim in fixed)
    lines = [
        f"  - {v.source.label()}.size()[{dim}] was marked as dynamic but the code fixes it to "
        f"{int(v.fake.shape[dim])}"
        for v, dim in fixed
    ]
    return (
        f"[compile] sizes that can change were required (mark_dynamic): Constraints violated "
        f"({names})!\n" + "\n".join(lines) + "\nhint: take the mark away, use "
        "maybe_mark_dynamic, or write the code for all sizes"
    )


def _can_change(
    world: Symbolic, tensors: dict[int, TensorValue], value: TensorValue, dim: int
) -> bool:
    size = int(value.fake.shape[dim])
    if dim not in value.dynamic:
        return size < 2
    alike = [
        (key, d) for key, t in tensors.items() for d in t.dynamic if int(t.fake.shape[d]) == size
    ]
    groups: list[list[Dimension]] = [alike]
    if len(alike) > 1:
        groups.append([(id(value), dim)])
    return any(
        _goes_the_same_way(world, tensors, dict.fromkeys(group, other))
        for group in groups
        for other in _others(size)
    )


def _others(size: int) -> Iterator[int]:
    """Sizes to try: multiples keep what is divisible, neighbours what is compared."""
    seen = {size}
    for other in (size * 2, size + 1, size * 3, size - 1, size // 2, size + 7):
        if other >= 2 and other not in seen:
            seen.add(other)
            yield other


def _goes_the_same_way(
    world: Symbolic, tensors: dict[int, TensorValue], sizes: dict[Dimension, int]
) -> bool:
    replay = Replay(world.fakes, world.attached)
    for key, value in tensors.items():
        shape = tuple(sizes.get((key, d), int(n)) for d, n in enumerate(value.fake.shape))
        replay.inputs[key] = world.fakes.resized(value.real, shape)
        if value.node is not None:
            replay.values[value.node] = replay.inputs[key]
    for value in world.inputs:
        if isinstance(value, NumberValue):
            replay.values[value.node] = value.hint
    keys = core.thread_keys()
    try:
        _run_all(world, replay)
        return all(
            bool(value_of_number(number, replay)) == outcome for number, outcome in world.conditions
        )
    except REFUSALS:  # an operator that refuses the sizes is the answer
        return False
    finally:
        core.set_thread_keys(keys)


def _run_all(world: Symbolic, replay: Replay) -> None:
    nodes: Iterable[Any] = [n for n in world.graph.nodes if n.op != "output"]
    for node in nodes:
        replay.value(node)
