"""The operator table: the decorators that define an operator, and the table they fill.

Takes: a schema and a body (a function or a class), as `docs/architecture.md` describes.
Gives: for each definition one callable `core.Op`, stored in `TABLE` by name and in `F` as an attribute, with the places
where it appears in the public API.
Keeps true: an operator is defined once; everything else that names it is derived from this table.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

from facula import core
from facula.ops.schema import Schema, parse

#: every operator by name
TABLE: dict[str, core.Op] = {}

#: the same operators as attributes: the way in which formulas call each other (`F.gather(x, 0, index)`)
F = SimpleNamespace()


class Definition:
    """What was written about one operator; `core.Op` runs it."""

    kind = "operator"
    has_inplace = False
    has_out = True

    def __init__(self, schema: Schema, body: Any, fields: dict[str, Any]) -> None:
        self.schema = schema
        self.name = schema.name
        self.body = body
        self.doc = inspect.cleandoc(body.__doc__ or "")
        names = fields.pop("names", None)
        self.names = tuple(names) if names is not None else (self.name, "Tensor." + self.name)
        self.inplace = fields.pop("inplace", self.has_inplace)
        self.out = fields.pop("out", self.has_out)
        for key, value in fields.items():
            setattr(self, key, value)

    def __repr__(self) -> str:
        return f"<{self.kind} {self.schema.text}>"


def register(definition: Definition) -> core.Op:
    """Make the callable of a definition and enter it into the table."""
    if definition.name in TABLE:
        raise ValueError(f"[{definition.name}] an operator is defined once: it exists already")
    operator = core.Op(definition)
    TABLE[definition.name] = operator
    setattr(F, definition.name, operator)
    return operator


def _decorator(
    kind: type[Definition], schema: str, fields: dict[str, Any]
) -> Callable[[Any], core.Op]:
    def decorate(body: Any) -> core.Op:
        return register(kind(parse(schema), body, dict(fields)))

    return decorate


class Pointwise(Definition):
    """Elementwise: the body builds a scalar expression (`ops.scalar`)."""

    kind = "pointwise"
    has_inplace = True
    result = "same"
    dtypes = "bool int float complex"
    compute: dict[str, str] | None = None
    domain: tuple[float, float] | None = None
    reference: Any = None
    differentiable = True
    prebuilt: tuple[Any, ...] = ()
    explicit_backward: Callable[..., Any] | None = None


class Reduction(Definition):
    """From `[outer, reduce, inner]` to `[outer, inner]`: the class holds accumulators and dtype rules."""

    kind = "reduction"


class Scan(Definition):
    """Along one dimension, shape kept."""

    kind = "scan"


class Rowwise(Definition):
    """A fused program over rows."""

    kind = "rowwise"


class View(Definition):
    """Index arithmetic: the body gives (shape, stride, offset) of a view of its first argument."""

    kind = "view"
    has_out = False


class Operator(Definition):
    """A structured primitive: meta, kernels and formulas stand in a class."""

    kind = "operator"

    def __init__(self, schema: Schema, body: Any, fields: dict[str, Any]) -> None:
        for key in ("names", "inplace", "out"):
            if key in vars(body):
                fields.setdefault(key, vars(body)[key])
        super().__init__(schema, body, fields)
        self.meta = _function(body, "meta")
        self.cpu = _function(body, "cpu")
        self.dynamic = bool(vars(body).get("dynamic", False))
        self.backward = _function(body, "backward")
        self.jvp = _function(body, "jvp")
        self.vmap = _function(body, "vmap")
        self.samples = _function(body, "samples")
        self.errors = _function(body, "errors")
        self.reference = _function(body, "reference")


class Composite(Definition):
    """A Python function over other operators."""

    kind = "composite"


def _function(body: Any, name: str) -> Callable[..., Any] | None:
    value = vars(body).get(name)
    return value.__func__ if isinstance(value, staticmethod) else value


def pointwise(schema: str, **fields: Any) -> Callable[[Any], core.Op]:
    """Define an elementwise operator. Fields: see `Pointwise` and `docs/kernel_interfaces.md`."""
    return _decorator(Pointwise, schema, fields)


def reduction(schema: str, **fields: Any) -> Callable[[Any], core.Op]:
    """Define a reduction."""
    return _decorator(Reduction, schema, fields)


def scan(schema: str, **fields: Any) -> Callable[[Any], core.Op]:
    """Define a scan."""
    return _decorator(Scan, schema, fields)


def rowwise(schema: str, **fields: Any) -> Callable[[Any], core.Op]:
    """Define a fused row program."""
    return _decorator(Rowwise, schema, fields)


def view(schema: str, **fields: Any) -> Callable[[Any], core.Op]:
    """Define a view by its index arithmetic."""
    return _decorator(View, schema, fields)


def operator(schema: str, **fields: Any) -> Callable[[Any], core.Op]:
    """Define a structured operator."""
    return _decorator(Operator, schema, fields)


def composite(schema: str, **fields: Any) -> Callable[[Any], core.Op]:
    """Define an operator as a Python function over others."""
    return _decorator(Composite, schema, fields)
