"""An ONNX graph while it is written: nodes, constants and weights.

Takes names of ONNX operators with values, numbers and attributes. Gives `Value`, and `Graph`, whose
`op` appends a node.
Keeps true: nodes stand in the order in which they are needed; every name is unique and follows from
the model alone; a constant is written once; weights are kept as tensors and copied by nobody.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from typing import Any

from facula import core
from facula.core.errors import fail
from facula.onnx import older_forms
from facula.onnx.errors import OnnxExporterError, UnsupportedOperatorError, onnx_package

Tensor = core.Tensor

#: facula's names of dtypes -> ONNX's
_ELEMENT_TYPES: dict[str, str] = {
    "f32": "FLOAT", "f64": "DOUBLE", "f16": "FLOAT16", "bf16": "BFLOAT16", "i64": "INT64",
    "i32": "INT32", "i16": "INT16", "i8": "INT8", "u8": "UINT8", "b8": "BOOL", "u16": "UINT16",
    "u32": "UINT32", "u64": "UINT64", "c64": "COMPLEX64", "c128": "COMPLEX128",
    "f8e4m3": "FLOAT8E4M3FN", "f8e5m2": "FLOAT8E5M2",
    "f8e4m3z": "FLOAT8E4M3FNUZ", "f8e5m2z": "FLOAT8E5M2FNUZ",
}  # fmt: skip


def element_type(dtype: core.dtype) -> int:
    """ONNX's number of a dtype."""
    name = _ELEMENT_TYPES.get(dtype.code)
    if name is None:
        fail(OnnxExporterError, "onnx.export", "a dtype that ONNX has was required", dtype,
             hint="convert the tensor with .float() or .half()")  # fmt: skip
    return getattr(onnx_package().TensorProto, name)


def dtype_of_element(number: int) -> Any:
    """The dtype with ONNX's number."""
    proto = onnx_package().TensorProto
    codes = {getattr(proto, name): code for code, name in _ELEMENT_TYPES.items()}
    by_code = {d.code: d for d in vars(core).values() if isinstance(d, core.dtype)}
    return by_code[codes[number]]


def bytes_of(tensor: Tensor) -> bytes:
    """The elements as ONNX stores them: in order, little end first."""
    plain = tensor.detach().resolve_conj() if tensor.dtype.is_complex else tensor.detach()
    if not plain.numel():
        return b""
    return plain.cpu().contiguous().reshape(-1).view(core.uint8).numpy().tobytes()


def tensor_proto(tensor: Tensor, name: str = "") -> Any:
    """A tensor as an ONNX message."""
    proto = onnx_package().TensorProto()
    proto.name = name
    proto.data_type = element_type(tensor.dtype)
    proto.dims.extend(int(n) for n in tensor.shape)
    proto.raw_data = bytes_of(tensor)
    return proto


class Value:
    """A value of the graph: its name, and dtype and sizes as far as they are known."""

    __slots__ = ("dtype", "name", "shape")

    def __init__(self, name: str, dtype: Any = None, shape: Sequence[Any] | None = None) -> None:
        self.name = name
        self.dtype = dtype
        #: sizes as numbers, which may be symbols; None where nothing is known
        self.shape = None if shape is None else tuple(shape)

    @property
    def rank(self) -> int:
        """The number of dimensions."""
        assert self.shape is not None, self.name
        return len(self.shape)

    def __repr__(self) -> str:
        return f"%{self.name}"


class Graph:
    """The nodes of a model, and what translations append them with."""

    def __init__(self, opset: int) -> None:
        self.opset = opset
        self.nodes: list[Any] = []
        #: weights by name
        self.weights: dict[str, Tensor] = {}
        #: the versions of operator sets besides ONNX's own
        self.domains: dict[str, int] = {}
        #: functions that custom operators brought along
        self.functions: dict[tuple[str, str], Any] = {}
        #: how nodes that are appended are named, and what of the model they come from
        self.prefix = ""
        self.origin = ""
        self._names: set[str] = set()
        self._constants: dict[Any, Value] = {}

    def name(self, wanted: str) -> str:
        """A name that nothing else has."""
        found, count = wanted, 0
        while found in self._names or not found:
            count += 1
            found = f"{wanted}_{count}"
        self._names.add(found)
        return found

    def op(
        self,
        kind: str,
        *inputs: object,
        outputs: int = 1,
        gives: object = None,
        **attributes: object,
    ) -> Any:
        """Append a node and give its result, or a tuple of `outputs` results.

        Args:
            kind: the ONNX operator; `domain::Name` for one of another domain.
            inputs: values, None for those left out, numbers (which take the first value's dtype),
                lists of whole numbers (int64), tensors.
            gives: the dtype of the first result where it is not that of the first value.
            attributes: by name; a suffix `_i`, `_f`, `_s` or `_t`, as symbolic functions write it,
                is dropped.
        """
        form = older_forms.form_of(kind, self.opset)
        if form is not None:
            many = {"outputs": outputs} if outputs > 1 else {}
            return form(self, kind, *inputs, gives=gives, **many, **attributes)
        return self.append(kind, inputs, outputs, gives, **attributes)

    def append(
        self,
        kind: str,
        inputs: Sequence[Any],
        outputs: int = 1,
        gives: Any = None,
        **attributes: Any,
    ) -> Any:
        """`op` in the form of the graph's version."""
        domain, _, kind = kind.rpartition("::")
        if domain:
            self.domains.setdefault(domain, 1)
        first = next((x.dtype for x in inputs if isinstance(x, Value)), None)
        values = [None if x is None else self.value(x, first) for x in inputs]
        narrow = None if domain else self._too_narrow(kind, values)
        if narrow is None:
            names = self._node(domain, kind, values, outputs, attributes)
            made = tuple(Value(n, gives if gives is not None else first) for n in names)
            return made[0] if outputs == 1 else made
        wide = [
            self.cast(v, core.float32) if v is not None and v.dtype is narrow else v for v in values
        ]
        found = self.append(kind, wide, outputs, gives, **attributes)
        like = _like_operands(kind, self.opset, outputs)
        back = [
            self.cast(v, narrow) if same and gives is None else v
            for v, same in zip(_listed(found), like, strict=True)
        ]
        return back[0] if outputs == 1 else tuple(back)

    def _node(
        self,
        domain: str,
        kind: str,
        values: Sequence[Any],
        outputs: int,
        attributes: dict[str, Any],
    ) -> list[str]:
        """Append a node; the names of its results."""
        helper = onnx_package("onnx.helper")
        names = ["" if v is None else v.name for v in values]
        while names and not names[-1]:
            names.pop()
        results = [self.name(f"{self.prefix}/{kind}") for _ in range(outputs)]
        node = helper.make_node(kind, names, results, name=self.name(f"node_{results[0]}"))
        node.domain = domain
        if self.origin:
            node.doc_string = self.origin
        for key, given in sorted(attributes.items()):
            made = _attribute(helper, key, given)
            if made is not None:
                node.attribute.append(made)
        self.nodes.append(node)
        return results

    def known(self, x: Any) -> Any:
        """The number, or list of numbers, that a constant is; None for another value."""
        if not isinstance(x, Value):
            return x
        for (dtype, shape, data), value in self._constants.items():
            if value.name == x.name and data:
                return core.frombuffer(bytearray(data), dtype=dtype).reshape(shape).tolist()
        return None

    def _too_narrow(self, kind: str, values: Sequence[Any]) -> Any:
        """The 16-bit dtype among the operands that ONNX's operator does not take.

        What it does not take otherwise is an error.
        """
        for v, taken in zip(values, _taken(kind, self.opset, len(values)), strict=False):
            if v is None or v.dtype is None or not taken:
                continue
            name = f"tensor({_SPELLED.get(v.dtype.code, str(v.dtype).rpartition('.')[2])})"
            if name in taken:
                continue
            if v.dtype.is_floating_point and v.dtype.itemsize == 2 and "tensor(float)" in taken:
                return v.dtype
            required = f"a dtype that ONNX's {kind} takes (opset {self.opset}) was required"
            fail(UnsupportedOperatorError, "onnx.export", required, v.dtype,
                 hint="convert the operand, with .float() for example")  # fmt: skip
        return None

    def value(self, x: object, dtype: core.dtype | None = None) -> Value:
        """Anything as a value: numbers become constants of the dtype."""
        if isinstance(x, Value):
            return x
        if isinstance(x, Tensor):
            return self.constant(x)
        if isinstance(x, (list, tuple)):
            return self.sizes(x)
        if dtype is None:
            dtype = core.bool_ if isinstance(x, bool) else core.int64
            dtype = core.float32 if isinstance(x, float) else dtype
        return self.constant(core.tensor(x, dtype=dtype))

    def constant(self, tensor: Tensor) -> Value:
        """A known tensor as a value; the same one once only."""
        key = (tensor.dtype, tuple(tensor.shape), bytes_of(tensor))
        found = self._constants.get(key)
        if found is None:
            name = self.name(f"constant_{len(self._constants)}")
            node = onnx_package("onnx.helper").make_node(
                "Constant", [], [name], name=self.name(f"node_{name}"), value=tensor_proto(tensor)
            )
            self.nodes.append(node)
            found = self._constants[key] = Value(name, tensor.dtype, tensor.shape)
        return found

    def weight(self, name: str, tensor: Tensor) -> Value:
        """A tensor of the model, by its path."""
        self._names.add(name)
        self.weights[name] = tensor
        return Value(name, tensor.dtype, tensor.shape)

    # ---------------------------------------------------------------- often needed

    def cast(self, x: Value, dtype: core.dtype) -> Value:
        """`x` in a dtype."""
        return x if x.dtype is dtype else self.op("Cast", x, to=element_type(dtype), gives=dtype)

    def sizes(self, values: Sequence[Any]) -> Value:
        """Whole numbers, some of which may be values, as a vector."""
        if not any(isinstance(v, Value) for v in values):
            return self.constant(core.tensor([int(v) for v in values], dtype=core.int64))
        parts, run = [], []
        for v in [*values, None]:
            if v is not None and not isinstance(v, Value):
                run.append(int(v))
                continue
            if run:
                parts.append(self.sizes(run))
                run = []
            if v is not None:
                parts.append(self.op("Reshape", self.cast(v, core.int64), [1]))
        return parts[0] if len(parts) == 1 else self.op("Concat", *parts, axis=0)

    def size(self, x: Value, dim: int) -> Any:
        """A size of a value: a number, or a value where it may change."""
        known = None if x.shape is None else x.shape[dim]
        if type(known) is int:
            return known
        shape = self.op("Shape", x, start=dim, end=dim + 1 or None, gives=core.int64)
        return self.op("Squeeze", shape, [0])

    def reshape(self, x: Value, sizes: Sequence[Any]) -> Value:
        """`x` in other sizes, of which one may be -1 and some values."""
        sizes = list(sizes)
        dynamic = [i for i, n in enumerate(sizes) if isinstance(n, Value)]
        static = [n for n in sizes if not isinstance(n, Value)]
        if len(dynamic) == 1 and -1 not in static and 0 not in static:
            sizes[dynamic[0]] = -1
        zeros = {"allowzero": 1} if 0 in static or len(dynamic) > 1 else {}
        if -1 in sizes:  # ONNX lets 0 and -1 not stand together
            zeros = {}
        return self.op("Reshape", x, self.sizes(sizes), **zeros)

    def transpose(self, x: Value, order: Sequence[int]) -> Value:
        """`x` with its dimensions in another order."""
        if list(order) == list(range(len(order))):
            return x
        return self.op("Transpose", x, perm=list(order))

    def slice(self, x: Value, dim: int, start: object, stop: object, step: int = 1) -> Value:
        """A range along a dimension."""
        bounds = [self.sizes([n]) for n in (start, stop)]
        return self.op("Slice", x, *bounds, [dim], [step])


def _listed(found: object) -> list[Any]:
    return list(found) if isinstance(found, tuple) else [found]


#: ONNX's words for dtypes in schemas, where they are not facula's
_SPELLED = {"f32": "float", "f64": "double"}


@cache
def _taken(kind: str, opset: int, count: int) -> list[Any]:
    """The types that each operand of an ONNX operator may have."""
    defs = onnx_package("onnx.defs")
    if not defs.has(kind):
        return []
    newest = defs.get_schema(kind)
    try:
        schema = defs.get_schema(kind, max_inclusive_version=opset)
    except defs.SchemaError:
        versions = [s for s in defs.get_all_schemas_with_history() if s.name == newest.name]
        least = min(s.since_version for s in versions if not s.domain)
        fail(UnsupportedOperatorError, "onnx.export", f"an opset_version that has {kind} was required",
             opset, hint=f"pass opset_version={least}")  # fmt: skip
    allowed = {c.type_param_str: frozenset(c.allowed_type_strs) for c in schema.type_constraints}
    found = [allowed.get(i.type_str, frozenset((i.type_str,))) for i in schema.inputs]
    return found + found[-1:] * (count - len(found))


@cache
def _like_operands(kind: str, opset: int, count: int) -> list[bool]:
    """Which results of an ONNX operator are of its first operand's type."""
    schema = onnx_package("onnx.defs").get_schema(kind, max_inclusive_version=opset)
    found = [result.type_str == schema.inputs[0].type_str for result in schema.outputs]
    return (found + found[-1:] * count)[:count]


def _attribute(helper: Any, name: str, given: object) -> Any:
    """An attribute of a node; None for one that is not given."""
    stem, _, suffix = name.rpartition("_")
    if stem and suffix in ("i", "f", "s", "t"):
        name = stem
    if given is None:
        return None
    if isinstance(given, Tensor):
        given = tensor_proto(given)
    if isinstance(given, (bool, int)):
        return helper.make_attribute(name, int(given))
    if isinstance(given, (list, tuple)):
        kind = onnx_package().AttributeProto.INTS if not given else None
        given = [int(g) if isinstance(g, (bool, int)) else g for g in given]
        return helper.make_attribute(name, given, attr_type=kind)
    return helper.make_attribute(name, given)
