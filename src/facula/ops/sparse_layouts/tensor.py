"""Sparse tensors: what they are made of, and how they are made and taken apart.

Takes: places (indices, or compressed and plain indices) and values. Gives: `SparseTensor`, a Tensor
without elements of its own, `compose` and `values_of`.
Keeps true: the parts that a sparse tensor stores have no history, the tensor itself has; gradients
pass between a sparse tensor and its values through `_sparse_compose` and `_sparse_values` only
(`sparse_convert`).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from facula import core
from facula.core.errors import fail
from facula.ops.table.registry import F

Tensor = core.Tensor

COO, CSR, CSC, BSR, BSC = (
    core.sparse_coo,
    core.sparse_csr,
    core.sparse_csc,
    core.sparse_bsr,
    core.sparse_bsc,
)
#: layouts whose compressed dimension is that of rows, and those that consist of blocks
BY_ROWS = (CSR, BSR)
BLOCKED = (BSR, BSC)

_WORDS = {
    core.strided: "Strided",
    COO: "Sparse",
    CSR: "SparseCsr",
    CSC: "SparseCsc",
    BSR: "SparseBsr",
    BSC: "SparseBsc",
}


def layout_word(layout: Any) -> str:
    """A layout as error texts name it."""
    return _WORDS[layout]


class SparseTensor(core.Tensor):
    """A tensor given by the places and the values of its specified elements.

    COO: `places` is `(indices,)`, [sparse dimensions, count]; compressed layouts: `(compressed,
    plain)`. Elements that are not specified are zeros.
    """

    _is_sparse_tensor = True
    _prints_plain = True
    __torch_function__ = core._disabled_torch_function_impl

    _places: tuple[Any, ...]
    _stored: Any
    _form: Any
    _unique: bool

    # ---------------------------------------------------------------- metadata

    @property
    def device(self) -> Any:
        """Where the values are."""
        return self._stored.device

    is_cpu = property(lambda self: self._stored.is_cpu)
    is_cuda = property(lambda self: self._stored.is_cuda)
    is_meta = property(lambda self: self._stored.is_meta)
    is_sparse = property(lambda self: self._form is COO)
    is_sparse_csr = property(lambda self: self._form is CSR)

    @property
    def layout(self) -> Any:
        """`sparse_coo`, `sparse_csr`, ..."""
        return self._form

    def sparse_dim(self) -> int:
        """The number of dimensions that the places index."""
        return self._places[0].shape[0] if self._form is COO else 2

    def dense_dim(self) -> int:
        """The number of dimensions that each value has."""
        if self._form is COO:
            return self._stored.dim() - 1
        blocks = 2 if self._form in BLOCKED else 0
        return self._stored.dim() - self._places[0].dim() - blocks

    def _nnz(self) -> int:
        """The number of specified elements (or blocks), of one matrix of a batch."""
        return self._places[-1].shape[-1]

    _dimI, _dimV = sparse_dim, dense_dim

    def get_device(self) -> int:
        """The device's number, -1 for the CPU."""
        return self._stored.get_device()

    def stride(self, dim: object = None) -> Any:
        """Zeros for COO, which has no elements in memory; compressed layouts raise."""
        if self._form is not COO:
            self._lacks("stride", f"{self._matrices()} tensors do not have strides")
        return (0,) * self.dim() if dim is None else 0

    def _matrices(self) -> str:
        return f"Sparse {str(self._form)[-3:].upper()}"

    def is_contiguous(self, **_: object) -> bool:
        """False for COO, which has no elements in memory; compressed layouts raise."""
        if self._form is not COO:
            self._lacks("is_contiguous", f"{self._matrices()} tensors do not have is_contiguous")
        return False

    def data_ptr(self) -> int:
        """Raises: sparse tensors have no storage."""
        return self._lacks(
            "data_ptr", "Cannot access data pointer of Tensor that doesn't have storage"
        )

    def untyped_storage(self) -> Any:
        """Raises: sparse tensors have no storage."""
        fail(
            NotImplementedError,
            "storage",
            "Cannot access storage of SparseTensorImpl",
            self._form,
            "its parts have storage: indices() and values()",
        )

    storage = _typed_storage = untyped_storage

    def storage_offset(self) -> int:
        """Zero for COO, which has no storage; compressed layouts raise."""
        if self._form is not COO:
            self._lacks("storage_offset", "a tensor with storage was required")
        return 0

    def is_shared(self) -> bool:
        """Whether the values lie in memory that other processes see."""
        return self._stored.is_shared()

    def numpy(self, **_: object) -> Any:
        """Raises: NumPy has no sparse arrays."""
        fail(
            TypeError,
            "numpy",
            f"can't convert {layout_word(self._form)} layout tensor to numpy",
            self._form,
            "use Tensor.to_dense() first",
        )

    def __array__(self, dtype: core.dtype | None = None) -> Any:
        return self.numpy()

    def _lacks(self, op: str, text: str) -> Any:
        fail(RuntimeError, op, text, self._form, "use to_dense() first")

    def tolist(self) -> Any:
        """The elements as nested lists."""
        self._lacks("tolist", "a dense tensor was required")

    def item(self) -> Any:
        """The only element as a number."""
        if self.numel() != 1:
            return super().item()
        return self.to_dense().item()

    # ---------------------------------------------------------------- parts

    def _values(self) -> Any:
        """The values without history."""
        if self._form is not COO:
            self._cannot("_values")
        return self._stored.detach()

    def _indices(self) -> Any:
        """The indices as they are stored."""
        if self._form is not COO:
            self._cannot("_indices")
        return self._places[0]

    def values(self) -> Any:
        """The values, part of the history; of a coalesced tensor."""
        if self._form is COO and not self._unique:
            self._uncoalesced("values")
        return F._sparse_values(self)

    def indices(self) -> Any:
        """The indices of a coalesced tensor."""
        if self._form is not COO:
            self._unlike("indices", "sparse coordinate")
        if not self._unique:
            self._uncoalesced("indices")
        return self._places[0].detach()

    def _uncoalesced(self, name: str) -> None:
        fail(
            RuntimeError,
            name,
            f"Cannot get {name} on an uncoalesced tensor, please call .coalesce() first",
            "an uncoalesced tensor",
            hint="coalesce() adds up the values of equal places",
        )

    def _unlike(self, name: str, wanted: str) -> None:
        _raise_layout(name, wanted, self)

    def crow_indices(self) -> Any:
        """Where each row's entries start."""
        return self._compressed("crow_indices", BY_ROWS, 0)

    def col_indices(self) -> Any:
        """The column of each entry."""
        return self._compressed("col_indices", BY_ROWS, 1)

    def ccol_indices(self) -> Any:
        """Where each column's entries start."""
        return self._compressed("ccol_indices", (CSC, BSC), 0)

    def row_indices(self) -> Any:
        """The row of each entry."""
        return self._compressed("row_indices", (CSC, BSC), 1)

    def _compressed(self, name: str, layouts: tuple[Any, ...], part: int) -> Any:
        if self._form not in layouts:
            self._unlike(name, f"sparse {'row' if layouts is BY_ROWS else 'column'} compressed")
        return self._places[part].detach()

    def is_coalesced(self) -> bool:
        """Whether the places are sorted and each stands once."""
        if self._form is not COO:
            self._unlike("is_coalesced", "sparse coordinate")
        return self._unique

    def _coalesced_(self, coalesced: bool) -> SparseTensor:
        """Say whether the places are sorted and unique, unchecked."""
        self._unique = coalesced
        return self

    # ---------------------------------------------------------------- copies and history

    def detach(self) -> Any:
        """The same parts without history."""
        return shell(self._places, self._stored, self.shape, self._form, self._unique)

    data = property(detach, lambda self, other: _assign_data(self, other))

    def clone(self, *, memory_format: core.memory_format | None = None) -> Any:
        """A copy, part of the history."""
        return rebuilt(self, values_of(self).clone(), tuple(p.clone() for p in self._places))

    def contiguous(self, **_: object) -> Any:
        """Raises: sparse tensors have no order in memory."""
        self._lacks("contiguous", "unsupported memory format option Contiguous")

    def to(self, *args: object, **kwargs: object) -> Any:
        """The tensor with values of another dtype, on another device."""
        if args and isinstance(args[0], Tensor):
            args = (args[0].device, args[0].dtype, *args[1:])
        kwargs.pop("memory_format", None)
        values = values_of(self)
        made = values.to(*args, **kwargs)
        if made is values:
            return self
        return rebuilt(self, made, tuple(p.to(made.device) for p in self._places))

    def type(self, dtype: core.dtype | None = None, non_blocking: bool = False) -> Any:
        """The name of the tensor type, or the tensor with another dtype."""
        if dtype is not None:
            return super().type(dtype) if isinstance(dtype, str) else self.to(dtype)
        package, _, word = super().type().rpartition(".")
        return f"{package}.sparse.{word}" if self._form is COO else f"{package}.sparse_csr.{word}"

    def copy_(self, src: Any, non_blocking: bool = False) -> Any:
        """Take the elements of another sparse tensor of this shape."""
        if not isinstance(src, SparseTensor):
            self._lacks(
                "copy_", "copy_() between dense and sparse Tensors is not implemented; a sparse one"
            )
        if src.shape != self.shape:
            fail(
                RuntimeError,
                "copy_",
                f"a source of shape {list(self.shape)}",
                list(src.shape),
                hint="sparse_resize_() changes the shape of self",
            )
        made = F.to_sparse(src, None, layout=self._form) if src._form is not self._form else src
        values = values_of(made).to(self.dtype).clone()
        return assign(self, rebuilt(made, values, tuple(p.clone() for p in made._places)))

    def zero_(self) -> Any:
        """Drop every specified element."""
        sparse = self.sparse_dim()
        return assign(self, nothing(self.shape, self.dtype, self.device, self._form, sparse))

    def fill_(self, value: object) -> Any:
        """Set every specified element of a compressed layout; COO has zero only."""
        if self._form is not COO:
            return assign(self, rebuilt(self, F.full_like(values_of(self), value)))
        if value != 0:
            self._cannot("fill_")
        return self.zero_()

    def resize_(self, *sizes: object, memory_format: core.memory_format | None = None) -> Any:
        """Raises: see `sparse_resize_`."""
        self._cannot("resize_")

    def resize_as_(self, other: Any, *, memory_format: core.memory_format | None = None) -> Any:
        """Take the shape of another sparse tensor: as `sparse_resize_` with its dimensions."""
        if not isinstance(other, SparseTensor) or {self._form, other._form} != {COO}:
            self._cannot("resize_")
        return self.sparse_resize_(other.shape, other.sparse_dim(), other.dense_dim())

    def set_(self, *_: object, **__: object) -> Any:
        """Raises: sparse tensors have no memory of their own to put elsewhere."""
        self._cannot("set_")

    def share_memory_(self) -> Any:
        """Put the parts into memory that other processes can map."""
        for part in (*self._places, self._stored):
            part.share_memory_()
        return self

    def _cannot(self, name: str) -> None:
        fail(
            NotImplementedError,
            name,
            f"Could not run 'aten::{name}' with arguments from the "
            f"'{layout_word(self._form)}CPU' backend",
            hint="use to_dense() first",
        )

    def detach_(self) -> Any:
        """Cut the tensor off its history."""
        core.take_history(self, self.detach())
        return self

    def __deepcopy__(self, memo: dict[int, Any]) -> Any:
        if not self.is_leaf:
            fail(
                RuntimeError,
                "deepcopy",
                "Only Tensors created explicitly by the user support the deepcopy protocol",
                "a result",
                hint="deepcopy x.detach()",
            )
        made = self.detach().clone()
        made.requires_grad_(self.requires_grad)
        memo[id(self)] = made
        if self.grad is not None:
            # lazily: who copies has imported it, others need not
            import copy

            made.grad = copy.deepcopy(self.grad, memo)
        return made

    def __reduce_ex__(self, protocol: object) -> Any:
        parts = tuple(p.detach() for p in self._places)
        state = (
            parts,
            self._stored.detach(),
            tuple(self.shape),
            str(self._form).rpartition(".")[2],
        )
        return _unpickled, (*state, self._unique, self.requires_grad)

    def sparse_resize_(self, size: object, sparse_dim: int, dense_dim: int) -> Any:
        """Change the shape: sparse dimensions only grow unless nothing is specified."""
        return self._resized(size, sparse_dim, dense_dim, clear=False)

    def sparse_resize_and_clear_(self, size: object, sparse_dim: int, dense_dim: int) -> Any:
        """Change the shape and drop every specified element."""
        return self._resized(size, sparse_dim, dense_dim, clear=True)

    def _resized(self, size: Any, sparse_dim: int, dense_dim: int, clear: bool) -> Any:
        if len(size) != sparse_dim + dense_dim:
            fail(
                RuntimeError,
                "sparse_resize_",
                f"number of dimensions must be sparse_dim ({sparse_dim}) + dense_dim ({dense_dim})",
                len(size),
                hint=f"give {sparse_dim + dense_dim} sizes",
            )
        if clear or not self._nnz():
            return assign(self, nothing(size, self.dtype, self.device, COO, sparse_dim))
        kept = sparse_dim == self.sparse_dim() and tuple(size[sparse_dim:]) == tuple(
            self.shape[sparse_dim:]
        )
        if not kept or any(new < old for new, old in zip(size, self.shape, strict=False)):
            fail(
                RuntimeError,
                "sparse_resize_",
                "sizes that keep the dense dimensions and shrink no sparse one were required",
                list(size),
                "use sparse_resize_and_clear_()",
            )
        return assign(self, shell(self._places, self._stored, size, COO, self._unique))

    # ---------------------------------------------------------------- subscripts

    def __getitem__(self, index: Any) -> Any:
        return subscript(self, index)

    def __setitem__(self, index: object, value: object) -> None:
        fail(
            TypeError,
            "setitem",
            "a dense tensor was required: Cannot assign to a sparse tensor",
            self._form,
            "use to_dense() first",
        )


def _unpickled(
    places: tuple[Any, ...],
    values: Tensor,
    size: Sequence[int],
    layout: str,
    unique: bool,
    requires_grad: bool,
) -> SparseTensor:
    made = shell(places, values, size, getattr(core, layout), unique)
    made.requires_grad_(requires_grad)
    return made


# ------------------------------------------------------------------ making and taking apart


def shell(
    places: tuple[Any, ...], values: Tensor, size: Any, layout: core.layout | None, unique: bool
) -> SparseTensor:
    """A sparse tensor without history of parts without history."""
    unique = unique or layout is not COO or places[0].shape[1] < 2
    made = core.make_shell(SparseTensor, tuple(size), values.dtype)
    made._places, made._stored, made._form, made._unique = places, values, layout, unique
    return made


def nothing(
    size: Sequence[int],
    dtype: core.dtype,
    device: core.device | str | int | None,
    layout: Any,
    sparse_dim: int,
) -> Any:
    """A sparse tensor without specified elements."""
    size = tuple(size)
    if layout is COO:
        index = core.empty((sparse_dim, 0), dtype=core.int64, device=device)
        values = core.empty((0, *size[sparse_dim:]), dtype=dtype, device=device)
        return shell((index,), values, size, COO, True)
    if layout in BLOCKED or len(size) < 2:
        fail(
            RuntimeError,
            "zeros",
            "Only batched sparse compressed (non-block) tensors are supported, but got size",
            list(size),
            hint="layout=facula.sparse_coo takes any size",
        )
    lines = size[-2] if layout in BY_ROWS else size[-1]
    starts = F.zeros((*size[:-2], lines + 1), dtype=core.int64, device=device)
    plain = core.empty((*size[:-2], 0), dtype=core.int64, device=device)
    return shell(
        (starts, plain), core.empty(plain.shape, dtype=dtype, device=device), size, layout, True
    )


def compose(places: Any, values: Tensor, size: Any, layout: Any = COO, unique: bool = False) -> Any:
    """A sparse tensor of its parts, part of the history of `values`."""
    return F._sparse_compose(values, tuple(places), tuple(size), layout, unique)


def rebuilt(like: Tensor, values: Tensor, places: Any = None) -> Any:
    """A sparse tensor with other values at the same places."""
    places = like._places if places is None else places
    return compose(places, values, like.shape, like._form, like._unique)


def values_of(sparse: SparseTensor) -> Any:
    """The values of any sparse tensor, part of its history."""
    if sparse.requires_grad and core.is_grad_enabled():
        return F._sparse_values(sparse)
    return sparse._stored


def _assign_data(target: SparseTensor, source: Any) -> None:
    assign(target, source, history=False)


def assign(target: SparseTensor, source: SparseTensor, history: bool = True) -> SparseTensor:
    """Let `target` be what `source` is: how in-place forms write."""
    recording = history and core.is_grad_enabled()
    if recording and target.requires_grad and target.is_leaf:
        fail(
            RuntimeError,
            "in-place",
            "a tensor that is no leaf was required: a leaf Variable that requires grad is being "
            "used in an in-place operation",
            hint="wrap the update in no_grad(), or work on x.clone()",
        )
    core.reshape_shell(target, tuple(source.shape), source.dtype)
    target._places, target._stored = source._places, source._stored
    target._form, target._unique = source._form, source._unique
    if recording:
        core.take_history(target, source)
    return target


def same_places(a: SparseTensor, b: SparseTensor) -> bool:
    """Whether two tensors share their places object by object."""
    return a._form is b._form and all(
        x is y or (x.shape == y.shape and core.address_of(x) == core.address_of(y))
        for x, y in zip(a._places, b._places, strict=True)
    )


# ------------------------------------------------------------------ subscripts


def subscript(self: SparseTensor, index: object) -> Any:
    """``self[index]`` with ints, slices, None and Ellipsis, or one index tensor."""
    entries = index if isinstance(index, tuple) else (index,)
    used = sum(e is not None and e is not Ellipsis for e in entries)
    if used > self.dim():
        fail(
            IndexError,
            "index",
            f"at most {self.dim()} indices were required",
            used,
            hint="None and ... do not count",
        )
    made: Any = self
    dim = 0
    for entry in entries:
        if entry is Ellipsis:
            dim = made.dim() - sum(e is not None for e in entries[entries.index(Ellipsis) + 1 :])
        elif entry is None:
            made, dim = F.unsqueeze(made, dim), dim + 1
        elif isinstance(entry, slice):
            made, dim = F.slice(made, dim, entry.start, entry.stop, entry.step or 1), dim + 1
        elif isinstance(entry, (core.Tensor, list)) and not isinstance(entry, bool):
            chosen = entry if isinstance(entry, core.Tensor) else core.tensor(entry)
            if chosen.dtype is core.bool:
                chosen = chosen.nonzero().reshape(-1)
            if chosen.dim() == 0:
                made = F.select(made, dim, int(chosen))
            else:
                made, dim = F.index_select(made, dim, chosen), dim + 1
        else:
            made = F.select(made, dim, entry.__index__())
    return made


# ------------------------------------------------------------------ methods of dense tensors


def _raise_layout(name: str, wanted: str, tensor: core.Tensor) -> None:
    fail(
        RuntimeError,
        name,
        f"{name} expected {wanted} tensor layout but got {layout_word(tensor.layout)}",
        hint="to_sparse(), to_sparse_csr() and to_sparse_csc() convert",
    )


def _of_sparse_only(name: str, wanted: str) -> Callable[..., Any]:
    def method(self: Any, *args: object, **kwargs: object) -> Any:
        if isinstance(self, SparseTensor):  # called as a function: Tensor.crow_indices(x)
            return getattr(self, name)(*args, **kwargs)
        _raise_layout(name, wanted, self)

    method.__name__ = name
    method.__doc__ = "For sparse tensors only."
    return method


_WANTED = {"crow": "sparse row compressed", "col_": "sparse row compressed"}
_WANTED |= {"ccol": "sparse column compressed", "row_": "sparse column compressed"}
_WANTED |= {"indi": "sparse coordinate", "_ind": "sparse coordinate", "_val": "sparse coordinate"}


def _attach() -> None:
    """Give every method of sparse tensors that dense ones lack a form that says so."""
    for name, value in vars(SparseTensor).items():
        if callable(value) and not name.startswith("__") and not hasattr(Tensor, name):
            wanted = _WANTED.get(name[:4], "sparse")
            core.set_type_attribute(Tensor, name, _of_sparse_only(name, wanted))


_attach()
