"""NumPy arrays in the interpreter: each is a tensor of the graph, under another class.

Takes: arrays of the outside, arrays of tensors, operators, attributes and indices on them. Gives:
symbolic arrays; `numpy_ufuncs`, `numpy_methods` and `numpy_functions` know what their calls mean.
Keeps true: an array and its tensor are one memory, inside of the graph and outside; dtypes are what
NumPy says; what has no translation is a break, so that NumPy itself does it; NumPy is imported when a
program uses it, not before.
"""

from __future__ import annotations

import functools
import importlib
import operator
import types
import warnings
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from facula import core
from facula.capture.breaks import Break, Earlier
from facula.capture.interpreter.domain import Part
from facula.capture.rules.callables import LATER, enter
from facula.capture.values.kinds import ArrayValue, Known, TensorValue
from facula.capture.values.sources import Source

if TYPE_CHECKING:
    from facula.capture.values.kinds import Value


_SYMBOLS = {
    "+": "add", "-": "subtract", "*": "multiply", "/": "true_divide", "//": "floor_divide",
    "%": "remainder", "**": "power", "@": "matmul", "&": "bitwise_and", "|": "bitwise_or",
    "^": "bitwise_xor", "<<": "left_shift", ">>": "right_shift",
    "<": "less", "<=": "less_equal", "==": "equal", "!=": "not_equal", ">": "greater",
    ">=": "greater_equal",
}  # fmt: skip
_UNARY = {"+": "positive", "-": "negative", "~": "invert"}
#: attributes that are views
_VIEWS = frozenset("T mT real imag".split())


def from_numpy(array: Any) -> Any:
    """The tensor on an array's memory; None where there is none, or where it may not be written."""
    return _tensor_on(array) if array.flags.writeable else None


def from_constant(array: Any) -> Any:
    """The tensor on the memory of an array that may not be written; None where there is none."""
    if array.flags.writeable:
        return None
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # a write is a break, so the warning would be wrong
        return _tensor_on(array)


def _tensor_on(array: Any) -> Any:
    try:
        tensor = core.from_numpy(array)
    except (TypeError, ValueError):
        return None  # no dtype of ours, negative strides, or another byte order
    return tensor if tensor.dtype in translation("dtypes").NUMPY else None


class Flags:
    """What an array says of its memory, as far as it is known while a program is captured."""

    def __init__(self, tensor: Any) -> None:
        rows = tensor.is_contiguous()
        columns = tensor.permute(*range(tensor.dim())[::-1]).is_contiguous()
        self.c_contiguous = self.contiguous = rows
        self.f_contiguous = columns
        self.fnc, self.forc = columns and not rows, columns or rows
        self.aligned = True

    def __getattr__(self, name: str) -> Any:
        raise Break("unsupported-attribute", f"ndarray.flags.{name}")

    def __getitem__(self, name: str) -> Any:
        return getattr(self, name.lower())


def to_array(tensor: Any) -> Any:
    """The array on a tensor's memory."""
    return tensor.numpy()


def array_of_tensor(value: object) -> Any:
    """A tensor as an array, anything else itself; in captured programs with its gradient."""
    return value.numpy() if isinstance(value, core.Tensor) else value


def to_scalar(tensor: Any) -> Any:
    """The number of NumPy's that is a tensor's element."""
    return tensor.numpy()[()]


def python_of(obj: Any) -> types.FunctionType | None:
    """The Python of a function of NumPy's that classes may override; None where there is none."""
    if type(obj).__name__ != "_ArrayFunctionDispatcher":
        return None
    found = obj._implementation
    return found if isinstance(found, types.FunctionType) else None


def _writes(array: ArrayValue) -> int:
    """How often an array's memory was written to; a known one is new when it enters the graph."""
    return core.writes(array.inner.fake) if isinstance(array.tensor, TensorValue) else 0


@functools.cache
def translation(part: str) -> Any:
    """A module of the translation; these import NumPy. The program has something of it: its rules, too."""
    enter("numpy")
    return importlib.import_module(f"facula.capture.numpy.{part}")


@functools.cache
def supported() -> bool:
    """Whether this is a NumPy whose results have dtypes that do not depend on values."""
    return int(importlib.import_module("numpy").__version__.partition(".")[0]) >= 2


def _numpy_rules() -> dict[Any, Any]:
    return translation("functions").rules() if supported() else {}


LATER["numpy"] = _numpy_rules


class Arrays(Part):
    """The part of `Symbolic` that knows arrays."""

    array_inputs: list[ArrayValue]
    known_arrays: list[ArrayValue]
    uses_arrays: bool
    arrays_written: bool
    arrays_copied: list[tuple[int, ArrayValue, int]]

    # in and out -----------------------------------------------------------------------------------
    def array_from(self, array: Any, source: Source) -> ArrayValue | None:
        """An array of the outside; None where it can not be a tensor."""
        if not supported():
            return None
        function = from_numpy if array.flags.writeable else from_constant
        tensor = function(array)
        if tensor is None:
            return None
        inner_source = source.apply(function)
        self.guards.add("type", source, type(array))
        self.guards.add("type", inner_source, core.Tensor)
        value = ArrayValue(self._tensor(tensor, inner_source), type(array), False, source)
        value.real = array
        self.uses_arrays = True
        self.array_inputs.append(value)
        if self.arrays_written:
            self._refuse_overlap()
        return value

    def array_of(self, tensor: TensorValue, *, force: Any = None) -> ArrayValue:
        """`tensor.numpy()`."""
        if not supported():
            raise Break("data-dependent-value", "Tensor.numpy() with a NumPy before 2.0")
        fake = tensor.fake
        if force is not None and self.truth(force):
            tensor = self.graph_method("detach", tensor, [], {})
            fake = tensor.fake
        if fake.requires_grad and core.is_grad_enabled():
            try:
                translation("dtypes").operator_named("zeros")(1, requires_grad=True).numpy()
            except RuntimeError as error:
                self.raise_host(error)
        if type(tensor) is not TensorValue or fake.device.type != "cpu" or fake.is_conj():
            raise Break("unsupported-call", "numpy() of such a tensor")
        if fake.dtype not in translation("dtypes").NUMPY:
            raise Break("unsupported-call", f"numpy() of a tensor of {fake.dtype}")
        if fake.requires_grad:
            tensor = self.graph_method("detach", tensor, [], {})
        return self.array(tensor)

    def array(self, tensor: Any, scalar: bool = False) -> ArrayValue:
        """An array that is made in the segment."""
        return translation("dtypes").array_value(self, tensor, scalar)

    def known_array(self, array: Any) -> ArrayValue:
        """An array that was computed while the program is captured, new in each call."""
        made: ArrayValue = translation("dtypes").embedded(self, array)
        return made

    def array_write(self, array: ArrayValue) -> None:
        """Note that memory of an array is written to."""
        if array.scalar:
            raise Break("unsupported-mutation", "a write to a scalar of NumPy's")
        if any(not value.real.flags.writeable for value in self.array_inputs):
            raise Break("unsupported-mutation", "a write next to an array that is not writable")
        self.arrays_written = True
        for known in (array, *self.known_arrays):
            if known is array or isinstance(known.tensor, TensorValue):
                known.content = None  # it is in the graph from here on, as everything on its memory
        self._refuse_overlap()

    def _refuse_overlap(self) -> None:
        if self._arrays_overlap():
            raise Break("unsupported-mutation", "a write to arrays on one memory")

    def _arrays_overlap(self) -> bool:
        return any(core.overlapping(left.real, right.real) for left, right in self._array_pairs())

    def check_arrays(self) -> None:
        """End the segment earlier where what it wrote to is on the memory of something else."""
        for tick, array, before in self.arrays_copied:
            if _writes(array) != before:
                # a view of NumPy's became a copy, which would not see the write, or keep it
                self._refuse(tick, "a write to an array with reversed views")
        if not self.array_inputs:
            return
        if not self.writes_inputs():
            return
        self.arrays_written = True
        if self._arrays_overlap():
            self._refuse(0, "a write to arrays on one memory")

    def _refuse(self, tick: int, what: str) -> None:
        reason = Break("unsupported-mutation", what)
        self.locate(reason)
        raise Earlier(tick, reason)

    def _array_pairs(self) -> Iterator[tuple[TensorValue, TensorValue]]:
        """Inputs that could be on one memory, at least one of them an array's."""
        arrays = [value.inner for value in self.array_inputs]
        for n, array in enumerate(arrays):
            for other in (*arrays[:n], *self.inputs):
                if isinstance(other, TensorValue) and other not in arrays[n:]:
                    yield array, other

    def repeats_in_python(self) -> bool:
        """Whether the segment runs again in Python where its graph fails, to raise NumPy's errors."""
        return self.uses_arrays and not self.writes_inputs()

    def array_conditions(self) -> list[tuple[Source, Source]]:
        """The sources of tensors that must not be on one memory."""
        if not self.arrays_written:
            return []
        return [(left.source, right.source) for left, right in self._array_pairs()]

    # attributes -----------------------------------------------------------------------------------
    def array_attribute(self, owner: ArrayValue, name: str) -> Any:
        """An attribute of an array."""
        if owner.content is not None and name in ("shape", "ndim", "size", "nbytes", "itemsize"):
            return self.lift(getattr(owner.content, name))
        tensor = owner.inner
        if name == "shape":
            return self.build_tuple([self.size_of(tensor, n) for n in range(tensor.fake.dim())])
        if name == "ndim":
            return Known(tensor.fake.dim())
        if name in ("size", "nbytes"):
            count = self.graph_method("numel", tensor, [], {})
            size = Known(tensor.fake.element_size())
            return count if name == "size" else self.binary("*", count, size)
        if name == "itemsize":
            return Known(tensor.fake.element_size())
        if name == "dtype":
            return Known(translation("dtypes").NUMPY[tensor.fake.dtype])
        if name == "flags" and not self.any_dynamic:
            return Known(Flags(tensor.fake))
        if name == "device":
            return Known("cpu")
        if name == "__class__":
            return self.trusted(owner.kind)
        if name in _VIEWS:
            return translation("methods").view(self, owner, name)
        if not hasattr(owner.kind, name):
            self.no_attribute(owner.kind, name)
        return translation("methods").bound(self, owner, name)

    # operators ------------------------------------------------------------------------------------
    def array_binary(self, symbol: str, left: object, right: object) -> Any:
        """Arithmetic or a comparison."""
        if isinstance(left, TensorValue) or isinstance(right, TensorValue):
            raise Break("unsupported-call", "an operator of a tensor and an array")
        words: dict[str, Any] = {}
        if symbol not in _SYMBOLS:
            symbol = symbol[:-1]
            if isinstance(left, ArrayValue) and not left.scalar:
                words["out"] = left
        if (
            symbol == "**"
            and isinstance(right, Known)
            and right.obj == 2
            and type(right.obj) is int
        ):
            return self.array_ufunc("square", [left], words)  # as the operator of arrays does
        return self.array_ufunc(_SYMBOLS[symbol], [left, right], words)

    def array_unary(self, symbol: str, value: ArrayValue) -> Any:
        """A sign, or the other bits."""
        return self.array_ufunc(_UNARY[symbol], [value], {})

    def array_ufunc(self, name: str, args: list[Any], kwargs: dict[str, Any]) -> Any:
        """A universal function by its name."""
        functions = translation("ufuncs")
        return functions.call(self, functions.named(name), args, kwargs)

    def array_method(
        self, owner: ArrayValue, name: str, args: list[Any], kwargs: dict[str, Any]
    ) -> Any:
        """A method of an array."""
        return translation("methods").call(self, owner, name, args, kwargs)

    def array_items(self, owner: ArrayValue) -> Iterator[Any]:
        """The rows of an array."""
        if not owner.inner.fake.dim():
            self.fail(TypeError, "iteration over a 0-d array")
        count = self.constant_of(self.size_of(owner.inner, 0))
        return (self.array_getitem(owner, Known(n)) for n in range(count))

    # indices --------------------------------------------------------------------------------------
    def array_getitem(self, owner: ArrayValue, key: object) -> Any:
        """`array[key]`."""
        known = translation("dtypes").folded(self, operator.getitem, [owner, key], {})
        if known is not NotImplemented:
            return known
        found = translation("keys").key_of(self, owner, key)
        tensor = self.graph_call("[]", [owner.inner, self.build_tuple(found.parts)])
        if found.single is not None:
            tensor = self.graph_method("squeeze", tensor, [Known(found.single)], {})
        if found.reversed:
            tensor = self.graph_method("flip", tensor, [self.constant(tuple(found.reversed))], {})
        scalar = tensor.fake.dim() == 0 and not found.whole
        if scalar:
            tensor = self.graph_method("clone", tensor, [], {})
        made = self.array(tensor, scalar)
        copies = found.reversed or found.single is not None or owner.view_of is not None
        if scalar or not (copies and found.is_view):
            return made
        return self.array_view(made, operator.getitem, owner, (self.force(key),))

    def array_view(
        self, made: ArrayValue, function: Any, owner: ArrayValue, more: tuple[Any, ...]
    ) -> ArrayValue:
        """A copy for what NumPy has as a view; neither may be written afterwards in this segment."""
        self.arrays_copied += [(self.tick, array, _writes(array)) for array in (owner, made)]
        made.view_of = (function, owner, more)
        return made

    def array_setitem(self, owner: ArrayValue, key: object, value: Value) -> None:
        """`array[key] = value`."""
        found = translation("keys").key_of(self, owner, key)
        if found.reversed:
            raise Break("unsupported-mutation", "a write through a reversed view")
        given = translation("dtypes").element(self, value, owner.inner.fake.dtype)
        self.array_write(owner)
        self.graph_call(operator.setitem, [owner.inner, self.build_tuple(found.parts), given])


__all__ = [
    "Arrays",
    "array_of_tensor",
    "from_constant",
    "from_numpy",
    "python_of",
]
