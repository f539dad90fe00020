"""Packed parameters of quantized layers in scripts: PyTorch's classes that code names, and files hold the state of.

Takes names below `__torch__.torch.classes`, and objects of the library's classes of packed parameters. Gives their
types, what a file keeps of an object, and the object of that.
Keeps true: an object out of a file is made by the operator that packs, so that weights and geometry are checked as
they are there; nothing else of the file is called.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

from facula import core
from facula.core.errors import fail
from facula.ops.table.schemas import types as T

__all__ = ["PackedType", "packed_type", "type_of_packed"]

_CLASSES = "__torch__.torch.classes."
_LINEAR, _CELL = "quantized.LinearPackedParamsBase", "rnn.CellParamsBase"
_TABLE = "quantized.EmbeddingPackedParamsBase"
_WEIGHT_AND_BIAS = T.tuple_of([T.TENSOR, T.optional_of(T.TENSOR)])


class PackedType(T.ClassType):
    """A class of packed parameters.

    `state_type` is what files keep, `state_of` takes it from an object, `packed` makes an object of it.
    """

    __slots__ = ("older", "packed", "state_of", "state_type")

    def __init__(
        self,
        name: str,
        python: tuple[type, ...],
        state_type: T.Type,
        state_of: Callable[[Any], Any],
        packed: Callable[..., Any],
        older: tuple[T.Type, ...] = (),
    ) -> None:
        super().__init__(_CLASSES + name, python=python)
        self.state_type, self.state_of, self.packed = state_type, state_of, packed
        #: the types of states that other versions of PyTorch wrote
        self.older = older

    def fill(self, obj: Any, state: Any) -> None:
        """Makes an object that is empty so far what a file's state says."""
        if not any(fits(state, kind) for kind in (self.state_type, *self.older)):
            fail(RuntimeError, "jit.load", f"a state {self.state_type.annotation_str} of {self.name} was required",
                 type(state).__name__, hint="the file is damaged, or no TorchScript program")  # fmt: skip
        made = self.packed(*state)
        obj.__class__ = type(made)
        vars(obj).update(vars(made))


class Method:
    """A method of such a class, as scripts call it."""

    def __init__(
        self, name: str, kind: PackedType, result: T.Type, run: Callable[..., Any]
    ) -> None:
        self.name, self.run, self._result = name, run, result
        self.parameters = [("self", kind, inspect.Parameter.empty)]

    def compiled(self) -> Method:
        """Itself: there is nothing to compile."""
        return self

    def result_type(self) -> T.Type:
        """The type of the result."""
        return self._result


def fits(value: Any, kind: T.Type) -> bool:
    """Whether a part of a state has a type."""
    if kind.kind == "Optional":
        return value is None or fits(value, kind.item)
    if kind.kind == "Tuple":
        return (
            isinstance(value, tuple)
            and len(value) == len(kind.inner)
            and all(map(fits, value, kind.inner))
        )
    if kind.kind == "List":
        return isinstance(value, list) and all(fits(v, kind.item) for v in value)
    if isinstance(kind, PackedType):
        return isinstance(value, kind.python)
    if kind == T.TENSOR:
        return isinstance(value, core.Tensor)
    return type(value) is {"int": int, "float": float, "str": str}.get(kind.kind)


_MADE: dict[str, PackedType] = {}
_BY_CLASS: dict[type, PackedType] = {}


def packed_type(qualified: str) -> PackedType | None:
    """The type of a qualified name; None of another name."""
    if not qualified.startswith(_CLASSES):
        return None
    if not _MADE:
        _fill()
    return _MADE.get(qualified.removeprefix(_CLASSES))


def type_of_packed(python: type) -> PackedType | None:
    """The type of a class of packed parameters; None of another class."""
    if "PackedParams" not in python.__name__ and python.__name__ != "CellParams":
        return None
    if not _MADE:
        _fill()
    if python.__name__ == "ConvPackedParams":
        return None  # by its dimensions: `type_of_object`
    return _BY_CLASS.get(python)


def type_of_object(value: Any) -> PackedType | None:
    """The type of packed parameters; None of other objects."""
    if type(value).__name__ == "ConvPackedParams":
        dims = max(2, len(value._stride))  # files keep one extent as two
        return packed_type(f"{_CLASSES}quantized.Conv{dims}dPackedParamsBase")
    return type_of_packed(type(value))


def result_of(operator: str, given: Callable[[str], Any]) -> T.Type | None:
    """The type that an operator of the namespace `quantized` gives where its schema does not say it."""
    if not _MADE:
        _fill()
    name = operator.removeprefix("quantized::")
    if name.startswith(("linear_prepack", "linear_dynamic_fp16_prepack")):
        return _MADE[_LINEAR]
    if name.startswith("make_quantized_cell_params"):
        return _MADE[_CELL]
    if name == "embedding_bag_prepack":
        return _MADE[_TABLE]
    if name == "embedding_bag_unpack":
        return T.TENSOR
    if name.startswith("conv") and name.endswith("_prepack"):
        dims = "2" if "1d" in name or "2d" in name else "3"
        return _MADE[f"quantized.Conv{dims}dPackedParamsBase"]
    if name.endswith(("_unpack", "_unpack_fp16")):
        return _WEIGHT_AND_BIAS
    return None


def _fill() -> None:
    # lazily: programs without quantized layers do not need them
    from facula.quantization import convolution, embedding, linear

    # lazily: as above
    from facula.quantization.modules import recurrent_cells

    made = PackedType(_LINEAR, (linear.LinearPackedParams, linear.LinearPackedParamsFp16), _WEIGHT_AND_BIAS,
                      lambda p: p.unpack(), _linear)  # fmt: skip
    _MADE[_LINEAR] = made
    tensors, maybe = T.list_of(T.TENSOR), T.list_of(T.optional_of(T.TENSOR))
    for dims in (2, 3):
        name = f"quantized.Conv{dims}dPackedParamsBase"
        first = T.tuple_of([T.TENSOR, T.optional_of(T.TENSOR), *[tensors] * 3, T.TENSOR])
        third = T.tuple_of([T.INT, T.list_of(T.INT), maybe])
        _MADE[name] = PackedType(name, (convolution.ConvPackedParams,), T.tuple_of([T.STR, tensors, maybe]),
                                 convolution.state_of, convolution.packed_of_state, (first, third))  # fmt: skip
    state = T.tuple_of([T.INT, T.list_of(T.TENSOR), T.list_of(T.FLOAT), T.list_of(T.INT)])
    _MADE[_TABLE] = PackedType(
        _TABLE, (embedding.EmbeddingPackedParams,), state,
        lambda p: (1, [p.unpack()], [], [p.bit_rate()]), _embedding,
    )  # fmt: skip
    state = T.tuple_of([T.STR, *map(T.list_of, (T.TENSOR, T.FLOAT, T.INT, made))])
    _MADE[_CELL] = PackedType(_CELL, (recurrent_cells.CellParams,), state,
                              recurrent_cells.state_of, recurrent_cells.cell_of_state)  # fmt: skip
    for kind in _MADE.values():
        kind.methods["__getstate__"] = Method("__getstate__", kind, kind.state_type, kind.state_of)
        if kind.name.endswith("Cell" + "ParamsBase"):
            continue
        result = T.TENSOR if kind is _MADE[_TABLE] else _WEIGHT_AND_BIAS
        kind.methods["unpack"] = Method("unpack", kind, result, lambda p: p.unpack())
        if isinstance(kind.python, tuple):
            _BY_CLASS.update(dict.fromkeys(kind.python, kind))
    _BY_CLASS[recurrent_cells.CellParams] = _MADE[_CELL]


def _linear(weight: Any, bias: Any) -> Any:
    # lazily: as above
    from facula.quantization import linear

    pack = linear.linear_prepack if weight.is_quantized else linear.linear_prepack_fp16
    return pack(weight, bias)


def _embedding(version: int, tensors: list[Any], floats: list[float], numbers: list[int]) -> Any:
    # lazily: as above
    from facula.quantization import embedding

    if version != 1 or len(tensors) != 1:
        fail(RuntimeError, "jit.load", "a table of version 1 was required", f"version {version}, "
                           f"{len(tensors)} tensors",
             hint="the file is damaged, or of a later version")  # fmt: skip
    return embedding.embedding_bag_prepack(tensors[0])
