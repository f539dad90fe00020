"""Operators of TorchScript that have no place in the operator table: numbers, text, lists, dicts, and what
the core does itself for tensors.

Takes nothing. Gives nothing: importing it fills `signatures.PRIMITIVE`.
Keeps true: each is one line, its schema (PyTorch's) and a function of all its arguments, in order.
"""

from __future__ import annotations

import operator as py
from typing import TYPE_CHECKING, Any

import facula
from facula import autograd, core
from facula.jit._logging import add_stat_value, time_point
from facula.jit.primitive_numbers import int_of_tensor, to_int, wrapped
from facula.jit.signatures import primitive
from facula.jit.value_texts import shown
from facula.ops.table.schemas.codes import code_of, dtype_of, memory_format_of

if TYPE_CHECKING:
    from facula.jit.builder import Builder


__all__: list[str] = []

# ------------------------------------------------------------------ comparisons, bits

for _name, _run in (("eq", py.eq), ("ne", py.ne), ("lt", py.lt), ("le", py.le), ("gt", py.gt),
                    ("ge", py.ge)):  # fmt: skip
    for _pair in (("int", "int"), ("float", "float"), ("int", "float"), ("float", "int"),
                  ("Scalar", "Scalar"), ("str", "str")):  # fmt: skip
        _own = "_".join(dict.fromkeys(_pair))
        primitive(f"aten::{_name}.{_own}({_pair[0]} a, {_pair[1]} b) -> bool", _run)
for _name, _run in (("eq", py.eq), ("ne", py.ne)):
    primitive(f"aten::{_name}.bool(bool a, bool b) -> bool", _run)
    primitive(f"aten::{_name}.device(Device a, Device b) -> bool", _run)
    primitive(f"aten::{_name}.complex(complex a, complex b) -> bool", _run)


def _lists_equal(a: list[Any], b: list[Any]) -> bool:
    if len(a) != len(b):
        return False
    tensors = any(isinstance(x, core.Tensor) for x in a)
    return all(map(core_equal, a, b)) if tensors else a == b


def core_equal(a: Any, b: Any) -> bool:
    """Whether two tensors have the same elements."""
    return bool(facula.equal(a, b))


primitive("aten::eq.list(t[] a, t[] b) -> bool", _lists_equal)
primitive("aten::ne.list(t[] a, t[] b) -> bool", lambda a, b: not _lists_equal(a, b))
primitive("aten::lt.list(t[] a, t[] b) -> bool", py.lt)
primitive("aten::gt.list(t[] a, t[] b) -> bool", py.gt)
primitive("aten::eq.dict(Dict(k, t) a, Dict(k, t) b) -> bool", py.eq)
for _name, _run in (("__and__", py.and_), ("__or__", py.or_), ("__xor__", py.xor)):
    primitive(f"aten::{_name}.bool(bool a, bool b) -> bool", _run)
    primitive(f"aten::{_name}.int(int a, int b) -> int", _run)
    primitive(f"aten::{_name}.Tensor(Tensor a, Scalar b) -> Tensor", _run)
    primitive(f"aten::{_name}.Tensors(Tensor a, Tensor b) -> Tensor", _run)
primitive("aten::__not__(bool a) -> bool", py.not_)


def _same(a: Any, b: Any) -> bool:
    """Whether two values are one: numbers have no identity beside their value."""
    return a is b or (type(a) is type(b) and type(a) in (int, float) and a == b)


primitive("aten::__is__(any a, any b) -> bool", _same)
primitive("aten::__isnot__(any a, any b) -> bool", lambda a, b: not _same(a, b))
for _kind in ("int", "float", "bool", "str", "Tensor", "Device"):
    primitive(f"aten::hash.{_kind}({_kind} a) -> int", hash)
primitive("aten::hash.generic(t value) -> int", hash)
primitive("aten::is_scripting() -> bool", lambda: True)


def _least(a: Any, b: Builder) -> Any:
    return a if a < b else b


def _greatest(a: Any, b: Builder) -> Any:
    return a if a > b else b


for _name, _run, _pairwise in (("min", min, _least), ("max", max, _greatest)):
    for _pair in (("int", "float"), ("float", "int")):
        primitive(f"prim::{_name}.{'_'.join(_pair)}({_pair[0]} a, {_pair[1]} b) -> float",
                  lambda a, b, run=_pairwise: float(run(a, b)))  # fmt: skip
    for _kind in ("int", "float", "Scalar"):
        primitive(f"prim::{_name}.{_kind}({_kind} a, {_kind} b) -> {_kind}", _pairwise)
    for _kind in ("int", "float", "bool"):
        primitive(f"prim::{_name}.self_{_kind}({_kind}[] self) -> {_kind}", _run)
for _kind in ("bool", "int", "float", "str"):
    primitive(f"aten::any.{_kind}({_kind}[] self) -> bool", any)
    primitive(f"aten::all.{_kind}({_kind}[] self) -> bool", all)

# ------------------------------------------------------------------ conversions

for _kind, _make in (("Int", to_int), ("Float", float), ("Bool", bool), ("Complex", complex)):
    _word = _kind.lower()
    _of_tensor = int_of_tensor if _kind == "Int" else (lambda a, run=_make: run(a.item()))
    primitive(f"aten::{_kind}.Tensor(Tensor a) -> {_word}", _of_tensor)
    for _from in ("int", "float", "bool", "Scalar", "str"):
        primitive(f"aten::{_kind}.{_from}({_from} a) -> {_word}", _make)
primitive("aten::Complex.complex(complex a) -> complex", complex)
primitive("aten::Complex.pair(float a, float b) -> complex", complex)
primitive("aten::Complex.pair_int(int a, int b) -> complex", complex)
primitive("aten::IntImplicit(Tensor a) -> int", int_of_tensor)
primitive("aten::FloatImplicit(Tensor a) -> float", lambda a: float(a.item()))
primitive("aten::ScalarImplicit(Tensor a) -> Scalar", lambda a: a.item())
primitive("aten::item(Tensor self) -> Scalar", lambda a: a.item())
primitive("prim::NumToTensor(Scalar a) -> Tensor", facula.tensor)
primitive("aten::scalar_tensor(Scalar s, *, dtype? dtype=None, layout? layout=None, Device? device=None, "
          "bool? pin_memory=None) -> Tensor",
          lambda s, d, _, dev, p: facula.tensor(s, dtype=dtype_of(d), device=dev))  # fmt: skip
primitive("aten::str(any a) -> str", shown)
primitive("aten::ord(str a) -> int", ord)
primitive("aten::chr(int a) -> str", chr)
primitive("aten::hex(int a) -> str", hex)
primitive("aten::oct(int a) -> str", oct)
primitive("aten::bin(int a) -> str", bin)


# ------------------------------------------------------------------ tensors: what the core does itself

for _name in (
    "dim",
    "numel",
    "element_size",
    "storage_offset",
    "get_device",
    "sparse_dim",
    "dense_dim",
):
    primitive(f"aten::{_name}(Tensor self) -> int", lambda a, own=_name: getattr(a, own)())
for _name in ("is_floating_point", "is_complex", "is_signed", "is_pinned", "is_coalesced", "is_conj",
              "is_neg", "is_inference", "is_nonzero"):  # fmt: skip
    primitive(f"aten::{_name}(Tensor self) -> bool", lambda a, own=_name: getattr(a, own)())
primitive("aten::size(Tensor self) -> int[]", lambda a: list(a.shape))
primitive("aten::size.int(Tensor self, int dim) -> int", lambda a, d: a.size(d))
primitive("aten::stride(Tensor self) -> int[]", lambda a: list(a.stride()))
primitive("aten::stride.int(Tensor self, int dim) -> int", lambda a, d: a.stride(d))
primitive("aten::len.Tensor(Tensor t) -> int", len)
primitive("aten::is_contiguous(Tensor self, *, int memory_format=0) -> bool",
          lambda a, m: a.is_contiguous(memory_format=memory_format_of(m)))  # fmt: skip
primitive("aten::contiguous(Tensor self, *, int memory_format=0) -> Tensor",
          lambda a, m: a.contiguous(memory_format=memory_format_of(m)))  # fmt: skip
primitive("aten::copy_(Tensor self, Tensor src, bool non_blocking=False) -> Tensor",
          lambda a, b, n: a.copy_(b, n))  # fmt: skip
primitive("aten::set_(Tensor self) -> Tensor", lambda a: a.set_())
primitive("aten::set_.source_Tensor(Tensor self, Tensor source) -> Tensor", lambda a, b: a.set_(b))
primitive("aten::copy_.number(Tensor self, Scalar src, bool non_blocking=False) -> Tensor",
          lambda a, b, n: a.fill_(b))  # fmt: skip
primitive("aten::fill_(Tensor self, Scalar value) -> Tensor", lambda a, v: a.fill_(v))
primitive("aten::fill_.Tensor(Tensor self, Tensor value) -> Tensor", lambda a, v: a.fill_(v))
primitive("aten::zero_(Tensor self) -> Tensor", lambda a: a.zero_())
primitive("aten::type_as(Tensor self, Tensor other) -> Tensor", lambda a, b: a.type_as(b))
primitive("aten::requires_grad_(Tensor self, bool requires_grad=True) -> Tensor",
          lambda a, r: a.requires_grad_(r))  # fmt: skip
primitive("aten::backward(Tensor self, Tensor? gradient=None, bool? retain_graph=None, "
          "bool create_graph=False) -> ()", lambda a, g, r, c: a.backward(g, r, c))  # fmt: skip
primitive("aten::backward.TensorList(Tensor[] tensors, Tensor?[]? grad_tensors=None, bool? retain_graph=None, "
          "bool create_graph=False) -> ()", autograd.backward)  # fmt: skip
primitive("aten::grad(Tensor[] outputs, Tensor[] inputs, Tensor?[]? grad_outputs=None, bool? retain_graph=None, "
          "bool create_graph=False, bool allow_unused=False) -> Tensor?[]",
          lambda o, i, g, r, c, u: list(autograd.grad(o, i, g, r, c, allow_unused=u)))  # fmt: skip
primitive("aten::resize_(Tensor self, int[]... size) -> Tensor", lambda a, s: a.resize_(s))
for _name in (
    "values",
    "indices",
    "crow_indices",
    "col_indices",
    "ccol_indices",
    "row_indices",
    "_values",
    "_indices",
):
    primitive(f"aten::{_name}(Tensor self) -> Tensor", lambda a, own=_name: getattr(a, own)())
primitive("aten::_nnz(Tensor self) -> int", lambda a: a._nnz())
primitive("aten::matrix_H(Tensor self) -> Tensor", lambda a: a.mH)
primitive("aten::numpy_T(Tensor self) -> Tensor", lambda a: a.T)


def _to(
    a: core.Tensor, device: core.device | str | int | None, dtype: int, copy: bool, form: int | None
) -> Any:
    options: dict[str, Any] = {"copy": copy}
    if form is not None:
        options["memory_format"] = memory_format_of(form)
    if device is not None:
        options["device"] = device
    if dtype is not None:
        options["dtype"] = dtype_of(dtype)
    return a.to(**options)


_REST = "bool non_blocking=False, bool copy=False"
_FORM = "*, int? memory_format=None) -> Tensor"
primitive(f"aten::to.device(Tensor self, Device device, int dtype, {_REST}, {_FORM}".replace(", *,", ", "),
          lambda a, d, t, n, c, m: _to(a, d, t, c, m))  # fmt: skip
primitive(f"aten::to.dtype(Tensor self, int dtype, {_REST}, int? memory_format=None) -> Tensor",
          lambda a, t, n, c, m: _to(a, None, t, c, m))  # fmt: skip
primitive(f"aten::to.other(Tensor self, Tensor other, {_REST}, int? memory_format=None) -> Tensor",
          lambda a, o, n, c, m: _to(a, o.device, code_of(o.dtype), c, m))  # fmt: skip
primitive("aten::to.dtype_layout(Tensor self, *, int? dtype=None, int? layout=None, Device? device=None, "
          "bool? pin_memory=None, bool non_blocking=False, bool copy=False, int? memory_format=None) "
          "-> Tensor", lambda a, t, y, d, p, n, c, m: _to(a, d, t, c, m))  # fmt: skip
primitive("aten::to.prim_device(Tensor self, Device? device, int? dtype=None, bool non_blocking=False, "
          "bool copy=False) -> Tensor", lambda a, d, t, n, c: _to(a, d, t, c, None))  # fmt: skip
primitive("aten::to.prim_dtype(Tensor self, int? dtype=None, bool non_blocking=False, bool copy=False) "
          "-> Tensor", lambda a, t, n, c: _to(a, None, t, c, None))  # fmt: skip
primitive("aten::cpu(Tensor self) -> Tensor", lambda a: a.cpu())
primitive("aten::cuda(Tensor self) -> Tensor", lambda a: a.cuda())
primitive("prim::device(Tensor a) -> Device", lambda a: a.device)
primitive("prim::dtype(Tensor a) -> int", lambda a: code_of(a.dtype))
primitive("prim::layout(Tensor a) -> int", lambda a: code_of(a.layout))
for _name in ("is_cuda", "is_sparse", "is_mkldnn", "is_quantized", "is_meta", "is_leaf",
              "requires_grad", "is_cpu", "is_mps", "is_xpu", "is_nested", "is_vulkan", "is_sparse_csr"):  # fmt: skip
    primitive(f"prim::{_name}(Tensor a) -> bool", lambda a, own=_name: bool(getattr(a, own)))
for _name in ("data", "T", "mT", "H", "mH"):
    primitive(f"prim::{_name}(Tensor a) -> Tensor", lambda a, own=_name: getattr(a, own))
primitive("prim::grad(Tensor a) -> Tensor?", lambda a: a.grad)
for _name in ("ndim", "nbytes", "itemsize"):
    primitive(f"prim::{_name}(Tensor a) -> int", lambda a, own=_name: getattr(a, own))
primitive("prim::type(Device self) -> str", lambda d: d.type)
primitive("prim::index(Device self) -> int?", lambda d: d.index)
primitive("aten::device(str a) -> Device", core.device)
primitive("aten::device.with_index(str type, int index) -> Device", core.device)
primitive("prim::AddStatValue(str key, int val) -> ()", add_stat_value)
primitive("prim::TimePoint() -> int", time_point)
primitive("aten::get_default_dtype() -> int", lambda: code_of(facula.get_default_dtype()))

_MAKE = "*, int? dtype=None, Device? device=None, bool requires_grad=False) -> Tensor"


def _tensor(
    data: object, dtype: core.dtype, device: core.device | str | int | None, requires_grad: bool
) -> Any:
    made = facula.tensor(data, dtype=dtype_of(dtype), device=device)
    return made.requires_grad_() if requires_grad else made


for _kind in ("float", "int", "bool", "complex", "Tensor", "t[]"):
    primitive(f"aten::tensor.{_kind.replace('[]', '')}({_kind} t, {_MAKE}", _tensor)
primitive("aten::as_tensor(Tensor data, *, int? dtype=None, Device? device=None) -> Tensor",
          lambda a, t, d: facula.as_tensor(a, dtype=dtype_of(t), device=d))  # fmt: skip
for _kind in ("float", "int", "bool", "complex"):
    primitive(f"aten::as_tensor.{_kind}({_kind} data, *, int? dtype=None, Device? device=None) -> Tensor",
              lambda a, t, d: facula.as_tensor(a, dtype=dtype_of(t), device=d))  # fmt: skip
primitive("aten::as_tensor.list(t[] data, *, int? dtype=None, Device? device=None) -> Tensor",
          lambda a, t, d: facula.as_tensor(a, dtype=dtype_of(t), device=d))  # fmt: skip
primitive("aten::Size(int[] sizes) -> int[]", list)
primitive("aten::manual_seed(int seed) -> ()", facula.manual_seed)
primitive("aten::is_grad_enabled() -> bool", facula.is_grad_enabled)
primitive("aten::set_grad_enabled(bool val) -> ()", lambda v: core.set_grad_enabled(v) and None)


def _index(a: core.Tensor, places: list[Any]) -> Any:
    return a[tuple(slice(None) if i is None else i for i in places)]


def _index_put(a: core.Tensor, places: list[Any], values: core.Tensor, accumulate: bool) -> Any:
    given = tuple(slice(None) if i is None else i for i in places)
    if accumulate:
        return a.index_put_(tuple(places), values, accumulate=True)
    a[given] = values
    return a


primitive("aten::index(Tensor self, Tensor?[] indices) -> Tensor", _index)
primitive("aten::index_put_(Tensor self, Tensor?[] indices, Tensor values, bool accumulate=False) "
          "-> Tensor", _index_put)  # fmt: skip


primitive(
    "aten::__range_length(int lo, int hi, int step) -> int", lambda a, b, s: len(range(a, b, s))
)
primitive(
    "aten::__derive_index(int index, int start, int step) -> int",
    lambda i, a, s: wrapped(a + i * s),
)
primitive("aten::is_autocast_enabled() -> bool", lambda: bool(facula.is_autocast_enabled("cuda")))
primitive(
    "aten::is_autocast_cpu_enabled() -> bool", lambda: bool(facula.is_autocast_enabled("cpu"))
)


def _cpu_capability() -> str:
    backends: Any = facula.backends
    return backends.cpu.get_cpu_capability()


primitive("aten::_get_cpu_capability() -> str", _cpu_capability)
