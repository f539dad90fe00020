"""The class of nested tensors: rows of all entries in one tensor.

Takes: rows and the shapes of entries. Gives: `NestedTensor`, `packed`, and `RULES`: what operators do.
Keeps true: `_values` is an ordinary tensor, which has the history; where entries differ in dimensions
behind the first one, it is one-dimensional.
"""

from __future__ import annotations

import importlib
import itertools
import textwrap
from collections.abc import Callable, Sequence
from math import prod
from typing import Any, cast

import facula
from facula import core
from facula.core.errors import fail
from facula.namespaces.overrides import as_operator
from facula.ops.table.registry import TABLE

from .ragged import Ragged

Tensor = core.Tensor
Shape = tuple[int, ...]
#: by the operator's name: functions of its arguments
RULES: dict[str, Callable[..., Any]] = {}


class NestedTensor(Tensor):
    """A batch of tensors of different sizes."""

    _values: Any
    _shapes: tuple[Shape, ...]
    _form: Any
    #: the dimension in which entries differ, for layout jagged
    _ragged_idx: int
    #: the lengths in that dimension, shared by tensors of one origin
    _lengths_of_entries: Ragged
    #: the tensor that this one is a view of
    _viewed: Any = None
    #: of layout strided: whether the entries' dimensions were put in another order
    _turned = False
    #: in compiled programs it is made of its rows
    _facula_holds_tensors = True
    #: PyTorch's names for what entries with gaps have
    _lengths = _max_seqlen_tensor = _min_seqlen_tensor = None

    @staticmethod
    def make(
        values: Tensor, shapes: Sequence[Shape], layout: object, ragged: int = 1
    ) -> NestedTensor:
        """One on given rows."""
        made = Tensor._make_subclass(NestedTensor, core.empty((0,), dtype=values.dtype))
        made._values = values
        made._shapes = tuple(tuple(s) for s in shapes)
        made._form = layout
        made._ragged_idx = ragged
        return made

    def _with(self, values: Tensor, shapes: Sequence[Shape] | None = None) -> NestedTensor:
        """The same entries with other rows."""
        shapes = self._shapes if shapes is None else shapes
        made = NestedTensor.make(values, shapes, self._form, self._ragged_idx)
        made._turned = self._turned
        return made._akin(self)

    def _akin(self, other: NestedTensor) -> NestedTensor:
        """This tensor, with the other one's size of the ragged dimension where the lengths are equal."""
        alike = other._form is self._form is core.jagged and "_lengths_of_entries" not in vars(self)
        if alike and self._ragged_lengths() == other._ragged_lengths():
            self._lengths_of_entries = other._ragged()
        return self

    def _shares_sizes(self, other: NestedTensor) -> bool:
        """Whether the other one's ragged dimension has the very size of this one's."""
        return self._form is core.jagged is other._form and self._ragged() is other._ragged()

    def _ragged_lengths(self) -> tuple[int, ...]:
        return tuple([s[self._ragged_idx - 1] for s in self._shapes if s])

    def _ragged(self) -> Ragged:
        known: Ragged | None = self.__dict__.get("_lengths_of_entries")
        if known is None:
            known = self._lengths_of_entries = Ragged(self._ragged_lengths())
        return known

    def __tensor_flatten__(self) -> tuple[list[str], Any]:
        """The names of the tensors that it is made of, and what else makes it."""
        return ["_values"], (self._shapes, self._form, self._ragged_idx)

    @staticmethod
    def __tensor_unflatten__(parts: Any, context: Any, size: object, stride: object) -> Any:
        """The tensor of these parts."""
        return NestedTensor.make(parts["_values"], *context)

    @property
    def _is_packed(self) -> bool:
        """Whether entries differ in their first dimension alone."""
        if self._values.dim() == 1 and self._shapes and len(self._shapes[0]) != 1:
            return False
        return len({s[1:] for s in self._shapes}) <= 1 and (
            not self._shapes or bool(self._shapes[0])
        )

    def _rows(self) -> tuple[Tensor, ...]:
        """The entries."""
        if self._is_packed:
            return tuple(self._values.split([s[0] for s in self._shapes])) if self._shapes else ()
        parts = self._values.split([prod(s) for s in self._shapes])
        return tuple(p.reshape(s) for p, s in zip(parts, self._shapes, strict=True))

    @classmethod
    def __torch_function__(
        cls,
        func: Callable[..., Any],
        types: object,
        args: tuple[Any, ...] = (),
        kwargs: dict[str, Any] | None = None,
    ) -> Any:
        func, args = as_operator(func, args)
        name = getattr(func, "__name__", str(func))
        found = cls._found(func, name, args, kwargs)
        first = next((x for x in args if isinstance(x, NestedTensor)), None)
        if first is None or found is first:
            return found
        known = TABLE.get(name)
        is_view = known is not None and known.definition.kind == "view"
        place, jagged = core.storage_place(first._values), first._form is core.jagged
        for made in found if isinstance(found, (tuple, list)) else (found,):
            if isinstance(made, NestedTensor):
                made._akin(first)
                if made._values is first._values:
                    made._viewed = first._viewed
                shared = (
                    made._values is not first._values and core.storage_place(made._values) == place
                )
                if (is_view or shared) and not name.startswith("_unsafe") and jagged:
                    made._viewed = first if first._base is None else first._base
        return found

    @classmethod
    def _found(
        cls, func: Callable[..., Any], name: str, args: Any, kwargs: dict[str, Any] | None
    ) -> Any:
        """What the rule of an operator gives."""
        in_place = name.endswith("_") and not name.endswith("__")
        # what other rules give is new, and the argument would stay as it is
        rule = RULES.get(name) or (None if in_place else RULES.get(name.strip("_")))
        if rule is not None:
            return rule(*args, **(kwargs or {}))
        inner = RULES["pointwise"](name.strip("_"), func, args, kwargs or {})
        if inner is NotImplemented and not in_place:
            inner = RULES["by definition"](name.strip("_"), args, kwargs or {})
        if inner is not NotImplemented:
            return inner
        if name == "__get__":  # a property that says something of any tensor
            found = core.run_without_overrides(func, args, kwargs or {})
            if not isinstance(found, Tensor):
                return found
        return fail(
            NotImplementedError,
            name,
            "an operator that nested tensors have was required",
            name,
            hint="take entries one by one: x.unbind(), or pad them: x.to_padded_tensor(0)",
        )

    # --- what it shows
    real = property(lambda self: self._with(self._values.real))
    imag = property(lambda self: self._with(self._values.imag))
    mT = property(lambda self: self.transpose(-2, -1))  # noqa: N815 - PyTorch's name
    is_nested = property(lambda self: True)
    layout = property(lambda self: self._form)
    dtype = property(lambda self: self._values.dtype)
    device = property(lambda self: self._values.device)
    is_leaf = property(lambda self: self._values.is_leaf)
    grad_fn = property(lambda self: self._values.grad_fn)

    @property
    def _base(self) -> Any:
        """What it is a view of: for layout jagged, unless it is the result of an operator, the rows."""
        return self._viewed

    def _is_view(self) -> bool:
        """Whether it shares the elements of another tensor."""
        return self._viewed is not None

    @property
    def requires_grad(self) -> bool:
        """Whether gradients are recorded."""
        return bool(self._values.requires_grad)

    @requires_grad.setter
    def requires_grad(self, value: bool) -> None:
        self._values.requires_grad = value

    @property
    def grad(self) -> Any:
        """The gradient of a leaf, nested alike."""
        return None if self._values.grad is None else self._with(self._values.grad)

    @grad.setter
    def grad(self, value: object) -> None:
        self._values.grad = value._values if isinstance(value, NestedTensor) else value

    def dim(self) -> int:
        """The number of dimensions, the batch counted."""
        return 1 + (len(self._shapes[0]) if self._shapes else 0)

    ndim = property(dim)

    def size(self, dim: int | None = None) -> Any:
        """A size that is the same in all entries; without a dimension all sizes, for layout jagged only."""
        if self._form is core.jagged:
            return self.shape if dim is None else self.shape[dim]
        if dim is None:
            return fail(
                RuntimeError,
                "size",
                "a dimension was required (Internal error: NestedTensorImpl doesn't support sizes)",
                "none",
                hint="x.size(0) is the number of entries, x.unbind() gives their shapes",
            )
        at = dim + self.dim() if dim < 0 else dim
        if at == 0:
            return len(self._shapes)
        sizes = {s[at - 1] for s in self._shapes}
        if len(sizes) == 1:
            return sizes.pop()
        return fail(
            RuntimeError,
            "size",
            f"a regular dimension was required (Given dimension {dim} is irregular and does not have "
            "a size.)",
            sorted(sizes),
            hint="x.unbind() gives the entries with their shapes",
        )

    @property
    def shape(self) -> Any:
        """Sizes; that of the ragged dimension is a symbol, for layout jagged only."""
        if self._form is core.strided:
            return self.size()
        return core.Size((len(self._shapes), *self._inner_sizes()))

    def _inner_sizes(self) -> list[Any]:
        sizes: list[Any] = list(self._shapes[0]) if self._shapes else []
        if sizes:
            sizes[self._ragged_idx - 1] = self._ragged().size
        return sizes

    def stride(self, dim: int | None = None) -> Any:
        """Steps between elements as if the ragged dimension were the first of the entries; layout jagged only."""
        if self._form is core.strided:
            return fail(
                RuntimeError,
                "stride",
                "layout jagged was required (Internal error: NestedTensorImpl doesn't support strides)",
                "layout strided",
                hint="x.unbind() gives the entries with their strides",
            )
        sizes = self._inner_sizes()
        at = self._ragged_idx - 1
        order = [at, *(d for d in range(len(sizes)) if d != at)]
        steps, step = [0] * len(sizes), 1
        for d in reversed(order):
            steps[d] = step
            step = sizes[d] * step
        found = (step, *steps)
        return found if dim is None else found[dim]

    def numel(self) -> int:
        """The number of elements of all entries."""
        return int(self._values.numel())

    def values(self) -> Tensor:
        """The rows of all entries."""
        return self._values

    def offsets(self) -> Tensor:
        """Where entries begin, and the end of the last one."""
        if self._form is core.strided:
            return core.as_tensor([0, *itertools.accumulate(self._ragged_lengths())])
        return self._ragged().offsets()

    @property
    def _offsets(self) -> Tensor:
        return self.offsets()

    @property
    def _max_seqlen(self) -> int:
        """The length of the longest entry."""
        return max((s[self._ragged_idx - 1] for s in self._shapes), default=0)

    @property
    def _min_seqlen(self) -> int:
        """The length of the shortest entry."""
        return min((s[self._ragged_idx - 1] for s in self._shapes), default=0)

    @property
    def _metadata_cache(self) -> dict[str, Tensor]:
        """The shortest and the longest length, each as the size of an empty tensor, as PyTorch keeps them."""
        lengths = {"min_seqlen": self._min_seqlen, "max_seqlen": self._max_seqlen}
        return {name: core.empty((length, 0)) for name, length in lengths.items()}

    def _get_max_seqlen(self) -> int:
        return self._max_seqlen

    def _get_min_seqlen(self) -> int:
        return self._min_seqlen

    _maybe_max_seqlen = property(_get_max_seqlen)
    _maybe_min_seqlen = property(_get_min_seqlen)

    def _nested_tensor_size(self) -> Tensor:
        """The shapes of the entries, one a row."""
        return core.tensor([list(s) for s in self._shapes], dtype=core.int64)

    def _nested_tensor_strides(self) -> Tensor:
        """How entries lie, one a row."""
        rows = [[prod(s[d + 1 :]) for d in range(len(s))] for s in self._shapes]
        return core.tensor(rows, dtype=core.int64)

    def _nested_tensor_storage_offsets(self) -> Tensor:
        """Where entries begin among all elements."""
        ends = [0]
        for s in self._shapes[:-1]:
            ends.append(ends[-1] + prod(s))
        return core.tensor(ends[: len(self._shapes)], dtype=core.int64)

    def is_contiguous(self, memory_format: core.memory_format | None = None) -> bool:
        """Whether entries lie in order, the ragged dimension in front."""
        in_front = not self._turned and (self._form is core.strided or self._ragged_idx == 1)
        return in_front and bool(self._values.is_contiguous())

    def __reduce_ex__(self, protocol: object) -> Any:
        parts = self._values.detach(), self._shapes, str(self._form), self._ragged_idx
        return _rebuilt, (*parts, self.requires_grad)

    def _file_parts(self) -> tuple[Any, ...]:
        """What files have of it."""
        # lazily: `files` makes such tensors
        return cast(
            "tuple[Any, ...]", importlib.import_module("facula.nested.files").parts_of(self)
        )

    def lengths(self) -> None:
        """None: entries follow one another without gaps."""
        return

    def __len__(self) -> int:
        return len(self._shapes)

    def __repr__(self, *, tensor_contents: object = None) -> str:
        if self._form is core.jagged:
            return (
                f"NestedTensor(size={tuple(self.shape)}, offsets={self.offsets()}, "
                f"contiguous={self.is_contiguous()})"
            )
        inner = ",\n".join(textwrap.indent(repr(row), "  ") for row in self._rows())
        return f"nested_tensor([\n{inner}\n])"

    # --- what has no operator
    def backward(self, gradient: Any = None, *args: object, **kwargs: object) -> None:
        """Gradients of the rows."""
        given = gradient._values if isinstance(gradient, NestedTensor) else gradient
        self._values.backward(given, *args, **kwargs)

    def requires_grad_(self, requires_grad: bool = True) -> NestedTensor:
        """Record gradients, or do not."""
        self._values.requires_grad_(requires_grad)
        return self

    def detach(self) -> NestedTensor:
        """The same entries without history."""
        return self._with(self._values.detach())

    def unbind(self, dim: int = 0) -> tuple[Tensor, ...]:
        """The entries."""
        found: tuple[Tensor, ...] = RULES["unbind"](self, dim)
        return found

    def to_padded_tensor(self, padding: float, output_size: Any = None) -> Tensor:
        """A dense tensor, filled up with `padding`."""
        rows = self._rows()
        if not rows:
            return facula.full((0,), padding, dtype=self._values.dtype, device=self._values.device)
        largest = [max(c) for c in zip(*self._shapes, strict=True)]
        wanted = [len(rows), *largest] if output_size is None else list(output_size)
        if len(wanted) != len(largest) + 1:
            fail(
                RuntimeError,
                "to_padded_tensor",
                "an output_size for each dimension was required (Length of output_size does not match NestedTensor "
                "dims. Broadcasting is not supported.)",
                wanted,
                hint=f"the tensor has {len(largest) + 1} dimensions",
            )
        if any(n < m for n, m in zip(wanted, (len(rows), *largest), strict=True)):
            fail(
                RuntimeError,
                "to_padded_tensor",
                f"an output_size of at least {[len(rows), *largest]} was required (Value in output_size "
                "is less than NestedTensor padded size. Truncation is not supported.)",
                wanted,
                hint="leave output_size out",
            )
        padded = []
        for row in rows:
            room = [n - m for n, m in zip(wanted[1:], row.shape, strict=True)]
            around = [x for n in reversed(room) for x in (0, n)]
            padded.append(facula.nn.functional.pad(row, around, value=padding))
        more = [facula.full_like(padded[0], padding)] * (wanted[0] - len(rows))
        return facula.stack(padded + more)


def _rebuilt(
    values: Tensor, shapes: tuple[Shape, ...], layout: str, ragged: int, requires_grad: bool
) -> NestedTensor:
    """What a pickle has of one."""
    form = core.jagged if layout.endswith("jagged") else core.strided
    return NestedTensor.make(values.requires_grad_(requires_grad), shapes, form, ragged)


def packed(parts: Sequence[Tensor], layout: core.layout, ragged: int = 1) -> NestedTensor:
    """The tensors as entries, which differ in dimension `ragged` for layout jagged."""
    if not parts:
        return NestedTensor.make(core.empty((0,)), (), layout)
    if len({t.dim() for t in parts}) > 1:
        fail(
            RuntimeError,
            "nested_tensor",
            "tensors of one number of dimensions were required (All Tensors given to nested_tensor must "
            "have the same dimension.)",
            [t.dim() for t in parts],
            hint="unsqueeze() adds a dimension",
        )
    shapes = [tuple(t.shape) for t in parts]
    ragged = ragged if layout is core.jagged else 1
    if len({s[1:] for s in shapes}) == 1 and shapes[0] and ragged == 1:
        return NestedTensor.make(facula.cat(list(parts)), shapes, layout)
    differing = [d for d, sizes in enumerate(zip(*shapes, strict=True), 1) if len(set(sizes)) > 1]
    if layout is core.jagged and len(differing) == 1:
        (ragged,) = differing
    if layout is core.jagged and (len(differing) > 1 or not shapes[0]):
        fail(
            RuntimeError,
            "nested_tensor",
            "tensors that differ in their first dimension alone were required for layout jagged (When "
            "constructing a nested tensor from list of tensors, all tensors must share the same sizes "
            "in all dimensions but the ragged one)",
            shapes,
            hint="layout=facula.strided takes any shapes of one rank",
        )
    return NestedTensor.make(facula.cat([t.reshape(-1) for t in parts]), shapes, layout, ragged)
