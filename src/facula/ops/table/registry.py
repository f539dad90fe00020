"""The operator table: the decorators that define an operator, and the table they fill.

Takes: a schema and a body (a function or a class), as `docs/architecture.md` describes.
Gives: for each definition one callable `core.Op`, stored in `TABLE` by name and in `F` as an attribute, with the places
where it appears in the public API.
Keeps true: an operator is defined once; everything else that names it is derived from this table.
"""

from __future__ import annotations

import math
from collections import namedtuple
from collections.abc import Callable, Mapping
from types import MappingProxyType, SimpleNamespace
from typing import Any, Literal

from facula import core
from facula.core.errors import fail
from facula.ops.table.definition import Definition, parts_of
from facula.ops.table.schema import Schema, parse

#: every operator by name
TABLE: dict[str, core.Op] = {}

#: the same operators as attributes: the way in which formulas call each other (`F.gather(x, 0, index)`)
F = SimpleNamespace()


#: where operators appear: module path below facula ("" is facula itself, "Tensor" the class) -> name -> callable
PLACES: dict[str, dict[str, Any]] = {}


def own_operators() -> dict[str, core.Op]:
    """facula's operators by name, without those that a program added (`library::name`)."""
    return {name: operator for name, operator in TABLE.items() if "::" not in name}


def place(definition: Definition, operator: core.Op) -> None:
    """Enter an operator, and its in-place form, where it appears in the public API.

    Its first name is the operator itself, and so are those in `nn.functional`, as in PyTorch; what is called by
    another name is an alias.
    """
    writes, form, alias = definition.inplace, operator.inplace, core.Alias
    for number, name in enumerate(definition.names):
        module, _, last = name.rpartition(".")
        own = not number or module == "nn.functional"
        PLACES.setdefault(module, {})[last] = operator if own else alias(operator, module, last)
        if writes and not last.startswith("__"):
            PLACES[module][last + "_"] = form if own else alias(form, module, last + "_")


def register(definition: Definition) -> core.Op:
    """Make the callable of a definition and enter it into the table.

    Raises:
        ValueError: an operator of that name exists.
    """
    if definition.name in TABLE:
        fail(
            ValueError,
            definition.name,
            "an operator is defined once",
            "a second definition (it exists already)",
            hint="give the new one another name",
        )
    operator = core.Op(definition)
    definition.complete(operator)
    TABLE[definition.name] = operator
    setattr(F, definition.name, operator)
    place(definition, operator)
    return operator


def _decorator(
    kind: type[Definition], schema: str, fields: dict[str, Any]
) -> Callable[[Any], core.Op]:
    def decorate(body: Callable[..., Any]) -> core.Op:
        return register(kind(parse(schema), body, dict(fields)))

    return decorate


def _elements(*args: object) -> int:
    """How many elements the broadcast of all tensors among the arguments has."""
    shapes = [tuple(a.shape) for a in args if isinstance(a, core.Tensor)]
    rank = max(map(len, shapes), default=0)
    padded = [(1,) * (rank - len(shape)) + shape for shape in shapes]
    return math.prod(
        max(sizes, key=lambda n: n != 1 and n + 1) for sizes in zip(*padded, strict=True)
    )


#: the field `result` of elementwise operators, in words
RESULT_DTYPES = {
    "same": "of the dtype to which the arguments are promoted",
    "float": "of a floating dtype: integers become the default one",
    "bool": "of bools",
    "b8": "of bools",
    "real": "of the real dtype of a complex argument, else of its own",
    "real_float": "of a real floating dtype",
}


class Pointwise(Definition):
    """Elementwise: the body builds a scalar expression (`ops.expr.scalar`)."""

    kind = "pointwise"
    inplace: bool = True
    flops: Callable[..., int] | None = staticmethod(_elements)
    #: the dtype of the result: "same" as the computation's, its "real" part's, "bool" ("b8": the expression
    #: gives one), "float" (integers become floats), "real_float" (and complex numbers real ones)
    result: Literal["same", "real", "bool", "b8", "float", "real_float"] = "same"
    #: the kinds of numbers that are taken, of "bool int float complex"
    dtypes: str = "bool int float complex"
    #: operands that have a dtype of their own: name -> code
    compute: dict[str, str] | None = None
    #: where samples may lie: bounds of all operands, or of each by name
    domain: tuple[float | None, float | None] | dict[str, tuple[float, float]] | None = None
    #: whether there is a gradient; it is derived from the expression
    differentiable: bool = True
    #: the gradient where it is not the expression's derivative
    explicit_backward: Callable[..., Any] | None = None
    #: its steps in 16-bit floats where it is differentiated again and PyTorch's formula takes others than the kernel's
    #: expression: operand -> a function of what the kernel reads (decorator `steps`); None: it rounds once, as one
    #: operator there
    steps: Mapping[int, Callable[..., Any]] | None = MappingProxyType({})
    #: the values of attributes for which kernels are built ahead
    prebuilt: tuple[Any, ...] = ()
    #: the operands that must be tensors
    strict: tuple[str, ...] = ()
    #: whether one bool among the operands is an error, where others would be promoted
    refuses_bools: bool = False
    #: what PyTorch says of numbers that are not taken, where that is more than that there is no kernel
    refusal: str = ""
    #: whether integer divisors of zero are refused
    nonzero_divisor: bool = False
    #: whether negative exponents of integers are refused
    nonnegative_exponent: bool = False
    #: numbers that must fit the common dtype, by argument: "all" dtypes are looked at, "narrow" (integers and small
    #: floats) or "wide" ones (all but small floats); "computed", which other parameters are, gives small floats the
    #: range of float32. A number that does not fit is PyTorch's error about a value that cannot be converted
    fits: Mapping[str, str] = MappingProxyType({})
    #: looks at the arguments before the call
    check: Callable[..., None] | None = None
    #: whether there is no kernel for a dtype and attributes
    unsupported: Callable[..., bool] | None = None

    def complete(self, operator: core.Op) -> None:
        core.prepare_pointwise(operator)

    def result_words(self) -> str:
        return f"of the shape to which the arguments broadcast, {RESULT_DTYPES[self.result]}"

    def restrictions(self) -> list[str]:
        kinds = ", ".join(self.dtypes.split())
        return [f"Kinds of numbers: {kinds}.", *([] if self.differentiable else ["No gradient."])]


def _kinds(schema: Schema) -> list[tuple[object, ...]]:
    """What the arguments of a schema are, but for their names and defaults."""
    return [(p.type, p.is_list, p.optional, p.variadic) for p in schema.parameters]


class View(Definition):
    """Index arithmetic: `geometry` names a function of the core, or is one that gives the view."""

    kind = "view"
    out: bool = False
    copied: tuple[str, ...] = ("",)
    #: the function of the core that gives the view, by name, or a function that does
    geometry: str | Callable[..., Any] | None = None

    def __init__(self, schema: Schema, body: Any, fields: dict[str, Any]) -> None:
        super().__init__(schema, body, {**parts_of(body), **fields})

    def result_words(self) -> str:
        return "on the same memory, so that writes to one are seen in the other"

    def complete(self, operator: core.Op) -> None:
        if isinstance(self.geometry, str):
            self._check_geometry(self.geometry)
        formula = core.make_formula(operator, self.backward) if self.backward else None
        operator.set_impl(self.geometry if callable(self.geometry) else None, formula)

    def _check_geometry(self, geometry: str) -> None:
        """A function of the core takes its arguments by place: a schema must have those of its owner."""
        if self.name == geometry:  # its owner
            return
        owner = TABLE[geometry].definition if geometry in TABLE else None
        if not isinstance(owner, View) or owner.geometry != geometry:
            fail(
                ValueError,
                self.name,
                "the name of a view of the core was required as geometry (transpose, select, ...)",
                repr(geometry),
                hint="or give a function of the arguments that returns the view",
            )
        if _kinds(self.schema) != _kinds(owner.schema):
            fail(
                ValueError,
                self.name,
                f"geometry {geometry!r} takes the arguments of {owner.schema.text!r}",
                self.schema.text,
                hint="give the operator these arguments, or a function that returns the view",
            )


class Operator(Definition):
    """A structured primitive: meta, kernels and formulas stand in a class."""

    kind = "operator"
    keeps: bool = True
    #: an empty result (or results) for the arguments; it checks them
    meta: Callable[..., Any] | None = None
    #: computes into the result; of one whose shape depends on elements, gives it
    cpu: Callable[..., Any] | None = None

    def __init__(self, schema: Schema, body: Any, fields: dict[str, Any]) -> None:
        super().__init__(schema, body, {**parts_of(body), **fields})
        self.wrap_results = _result_type(self.schema)
        self.keeps = self.keeps and not self.dynamic

    def complete(self, operator: core.Op) -> None:
        formula = core.make_formula(operator, self.backward) if self.backward else None
        operator.set_impl(self._dynamic() if self.dynamic else self._static(), formula)

    def _static(self) -> Callable[..., Any]:
        meta, cpu, wrap = _given(self.meta), _given(self.cpu), self.wrap_results

        def run(*args: Any) -> Any:
            out = meta(*args)
            if isinstance(out, tuple):
                if not out:  # no pieces of nothing
                    return out
                first = out[0]
            else:
                first = out
            if not first.is_meta:
                cpu(out, *args)
            return wrap(out) if wrap is not None else out

        return run

    def _dynamic(self) -> Callable[..., Any]:
        name, cpu, meta, wrap = self.name, _given(self.cpu), self.meta, self.wrap_results

        def run(*args: Any) -> Any:
            if any(isinstance(a, core.Tensor) and a.is_meta for a in args):
                core.errors.fail(
                    NotImplementedError,
                    name,
                    "tensors with data were required, since the result's shape depends on them",
                    got="a meta tensor",
                )
            if meta is not None:
                meta(*args)
            out = cpu(*args)
            return wrap(out) if wrap is not None and isinstance(out, tuple) else out

        return run


class Composite(Definition):
    """A Python function over other operators."""

    kind = "composite"
    keeps: bool = True

    def __init__(self, schema: Schema, body: Callable[..., Any], fields: dict[str, Any]) -> None:
        super().__init__(schema, body, fields)
        self.wrap_results = _result_type(self.schema)

    def complete(self, operator: core.Op) -> None:
        body = self.body if self.wrap_results is None else self._named()
        operator.set_impl(body if self.node is None else _labelled(body, self.node), None)

    def _named(self) -> Callable[..., Any]:
        """The body, with its results in the named tuple."""
        body, wrap = self.body, _given(self.wrap_results)

        def run(*args: Any) -> Any:
            results = body(*args)
            return wrap(results) if isinstance(results, tuple) else results

        return run


def _labelled(
    body: Callable[..., Any], node: str | Callable[..., str | None]
) -> Callable[..., Any]:
    """The body of a composite, with its last node called as PyTorch calls the node of the whole."""

    def run(*args: Any) -> Any:
        before = core.node_count()
        results = body(*args)
        if core.node_count() != before:
            for result in results if isinstance(results, (tuple, list)) else (results,):
                name = node if isinstance(node, str) else node(result, *args)
                if name is not None and isinstance(result, core.Tensor):
                    core.label_node(result, name, before)
        return results

    return run


#: the named tuples of operators with named results: `facula.return_types`
RETURN_TYPES: dict[str, type] = {}


def _result_type(schema: Schema) -> Callable[[tuple[Any, ...]], Any] | None:
    """The constructor of a named tuple when all of several results have names."""
    if len(schema.results) < 2 or not all(schema.results):
        return None
    return_type = return_type_of(schema.name, schema.results)
    return return_type._make  # type: ignore[attr-defined]


def return_type_of(name: str, fields: tuple[str, ...]) -> type:
    """The named tuple `return_types.name` with the given fields, made once.

    A library of the package's own lends its name to no type; those of programs do.
    """
    name = name.removeprefix("quantization::")
    if name not in RETURN_TYPES:
        made = namedtuple(name.rpartition("::")[2], fields, module="facula.return_types")  # type: ignore[misc]
        made.__new__ = _of_values_or_sequence(made)  # type: ignore[method-assign]
        made.__repr__ = _return_type_text  # type: ignore[method-assign]
        RETURN_TYPES[name] = made
    return RETURN_TYPES[name]


def _of_values_or_sequence(kind: Any) -> Callable[..., Any]:
    """How a named tuple is made: of its values, or of one sequence of them, as PyTorch's are."""
    plain, many = kind.__new__, len(kind._fields) > 1

    def make(cls: type, *values: Any, **named: object) -> Any:
        if many and len(values) == 1 and not named:
            return plain(cls, *values[0])
        return plain(cls, *values, **named)

    return make


def _return_type_text(self: Any) -> str:
    body = ",\n".join(f"{field}={value!r}" for field, value in zip(self._fields, self, strict=True))
    return f"{core.DTYPE_PREFIX[0]}.return_types.{type(self).__name__}(\n{body})"


def _given(function: Callable[..., Any] | None) -> Callable[..., Any]:
    """A function that this kind of definition has to have."""
    assert function is not None
    return function


def pointwise(schema: str, **fields: object) -> Callable[[Any], core.Op]:
    """Define an elementwise operator. Fields: see `Pointwise` and `docs/kernel_interfaces.md`."""
    return _decorator(Pointwise, schema, fields)


def view(schema: str, **fields: object) -> Callable[[Any], core.Op]:
    """Define a view by its index arithmetic."""
    return _decorator(View, schema, fields)


def operator(schema: str, **fields: object) -> Callable[[Any], core.Op]:
    """Define a structured operator."""
    return _decorator(Operator, schema, fields)


def composite(schema: str, **fields: object) -> Callable[[Any], core.Op]:
    """Define an operator as a Python function over others."""
    return _decorator(Composite, schema, fields)
