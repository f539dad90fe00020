"""What a captured program asks of where the elements of tensors lie: strides, offsets, orders.

Takes: tensors of the segment. Gives: known answers, and strides as products of sizes that may change.
Keeps true: an answer that other inputs may change is guarded (of tensors from outside) or a fact of the
replay for other sizes (of tensors that the segment made).
"""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any

from facula import core
from facula.capture.breaks import Break, Respecialise
from facula.capture.interpreter.domain import Part
from facula.capture.values.kinds import Known, NodeValue, NumberValue, TensorValue
from facula.capture.values.wrappers import WrapperValue

#: methods that tell of the layout alone, and whose answers differ between inputs that a segment serves
QUESTIONS = frozenset("dim_order is_contiguous is_non_overlapping_and_dense storage_offset".split())


def _contiguous_in(tensor: core.Tensor, memory_format: Any) -> bool:
    return tensor.is_contiguous(memory_format=memory_format)


def _order_checked(tensor: core.Tensor, ambiguity_check: Any) -> Any:
    return tensor.dim_order(ambiguity_check=ambiguity_check)


#: those with a keyword: its name, and the question with the keyword's value behind the tensor, where a guard has it
_WITH_KEYWORD = {
    "is_contiguous": ("memory_format", _contiguous_in),
    "dim_order": ("ambiguity_check", _order_checked),
}


def order_of(tensor: core.Tensor) -> tuple[Any, ...]:
    """The dimensions from the innermost, -1 behind a repeated one's; strides, where there are gaps."""
    order = sorted(range(tensor.dim()), key=lambda d: (tensor.stride(d), -d))
    step, found = 1, []
    for d in order:
        if tensor.stride(d) == 0 and tensor.size(d) > 1:
            found.append((d, -1))
            continue
        if tensor.stride(d) != step:
            return tuple(tensor.stride())
        found.append((d, 0))
        step *= tensor.size(d)
    return tuple(found)


class Layouts(Part):
    """The part of `Symbolic` that knows strides."""

    def layout_method(
        self, name: str, tensor: TensorValue, args: list[Any], kwargs: dict[str, Any]
    ) -> Any:
        """The answer to one of `QUESTIONS`, asked with what the program passes."""
        if not args and not kwargs:
            return self.lift(self.asked_layout(tensor, getattr(core.Tensor, name)))
        keyword, question = _WITH_KEYWORD.get(name, ("", None))
        if args or question is None or set(kwargs) != {keyword}:
            raise Break("fake-error", f"Tensor.{name}() with arguments that it does not take")
        wanted = self.constant_of(kwargs[keyword])
        wanted = tuple(wanted) if isinstance(wanted, list) else wanted  # a guard holds it
        try:
            answer = self.asked_layout(tensor, question, wanted)
        except (TypeError, RuntimeError) as error:
            raise Break("fake-error", f"{type(error).__name__} in Tensor.{name}()") from error
        return self.lift(answer)

    def asked_layout(self, tensor: TensorValue, question: Callable[..., Any], *more: Any) -> Any:
        """What a function says of a tensor's layout, for the inputs that the segment is kept for."""
        if tensor.source is not None:
            answer = question(tensor.real, *more)
            if (
                tensor.dynamic or question is core.Tensor.storage_offset
            ):  # others are guarded anyway
                self.guards.add("equal", tensor.source.apply(question, *more), answer)
            return answer if _is_as_given(tensor) else question(tensor.fake, *more)
        answer = question(tensor.fake, *more)
        absolute = question is core.Tensor.storage_offset
        if absolute and not self.any_dynamic:  # counted from where the inputs' memories begin
            for given in self.inputs:
                if isinstance(given, TensorValue) and given.source is not None:
                    self.asked_layout(given, question)
        if self.any_dynamic:
            if self.enclosing or absolute:
                raise Respecialise  # what is inside of a transform is not replayed for other sizes
            given = (NodeValue(tensor.fake, tensor.node), *map(Known, more))
            number = NumberValue(answer, question, given)
            expected = NumberValue(True, operator.eq, (number, Known(answer)))
            self.conditions.append((expected, True))
        return answer

    def strides_of(self, tensor: TensorValue) -> Any:
        """`tensor.stride()`."""
        steps = tuple(tensor.fake.stride())
        fixed = tensor.source is not None and not tensor.dynamic
        if not self.any_dynamic or fixed or isinstance(tensor, WrapperValue):
            return self.constant(steps)
        order = self.asked_layout(tensor, order_of)
        if order == steps:
            return self.constant(steps)
        found: list[Any] = [Known(0)] * len(steps)
        step: Any = Known(1)
        for d, repeated in order:
            if not repeated:
                found[d] = step
                step = self.binary("*", step, self.size_of(tensor, d))
        return self.build_tuple(found)


def _is_as_given(tensor: TensorValue) -> bool:
    """Whether an input still has the sizes and strides that it came with."""
    found, real = tensor.fake, tensor.real
    return (found.shape, found.stride()) == (real.shape, real.stride())
