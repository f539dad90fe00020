"""Overloads: an operator under the names by which programs, traces and tables know it.

Takes operators, their in-place forms, and methods of the core that overrides hear of.  Gives
`OpOverload`, an object for each name: callable, hashable, with PyTorch's attributes.
Keeps true: an operator has one schema, so overloads differ in name only; all overloads of an operator
are equal, and equal to the operator, so tables keyed by one are found by any.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from facula import core

if TYPE_CHECKING:
    from facula.ops.schema import Parameter

#: PyTorch's names for methods of Tensor that are no operators here
METHOD_NAMES = {"to": "_to_copy", "item": "_local_scalar_dense", "pin_memory": "_pin_memory"}
_IS_METHOD = type(core.Tensor.copy_)


class AliasInfo:
    """Whether an argument is written to."""

    def __init__(self, is_write: bool) -> None:
        self.is_write = is_write


class Argument:
    """An argument, or a result, of an overload."""

    def __init__(self, name: str, type: str, parameter: Parameter | None, is_write: bool) -> None:
        self.name = name
        self.type = type
        self.kwarg_only = parameter is not None and parameter.keyword_only
        self.default_value = (
            parameter.default if parameter is not None and parameter.has_default else None
        )
        self._has_default = parameter is not None and parameter.has_default
        self.alias_info = AliasInfo(True) if is_write else None
        self.is_out = False
        self.is_write = is_write

    def has_default_value(self) -> bool:
        """Whether it may be left out."""
        return self._has_default

    def __repr__(self) -> str:
        return f"{self.type} {self.name}"


class OverloadSchema:
    """The schema of an overload, with PyTorch's attributes."""

    def __init__(self, overload: OpOverload) -> None:
        self.name = overload._qualified_op_name
        self.overload_name = "" if overload._overloadname == "default" else overload._overloadname
        written = isinstance(overload._op, core.InplaceOp) or overload._opname.endswith("_")
        schema = overload._table_schema
        parameters = schema.parameters if schema is not None else ()
        mutates = getattr(overload._definition, "mutates", ())
        self.parameters = parameters
        self.arguments = [
            Argument(p.name, _type_text(p), p, (written and i == 0) or p.name in mutates)
            for i, p in enumerate(parameters)
        ]
        names = schema.results if schema is not None else ("",)
        self.returns = [Argument(name, "Tensor", None, False) for name in names]
        self.is_mutable = any(a.is_write for a in self.arguments) or written
        self.text = schema.text if schema is not None else f"{overload._opname}(...)"

    def __str__(self) -> str:
        dot = f".{self.overload_name}" if self.overload_name else ""
        _, _, rest = self.text.partition("(")
        return f"{self.name}{dot}({rest}"


def _type_text(p: Parameter) -> str:
    kind = {"Operand": "Tensor", "dtype": "ScalarType", "Number": "Scalar"}.get(p.type, p.type)
    if p.is_list:
        kind = f"{kind}[{p.length or ''}]"
    return kind + ("?" if p.optional else "")


class OpOverload:
    """One name of an operator: `facula.ops.aten.add.Tensor`."""

    def __init__(self, namespace: str, opname: str, overloadname: str, function: Any) -> None:
        self._op = function
        self.namespace = namespace
        self._opname = opname
        self._overloadname = overloadname
        self._qualified_op_name = f"{namespace}::{opname}"
        self._name = self._qualified_op_name + (
            f".{overloadname}" if overloadname != "default" else ""
        )
        self.__name__ = f"{opname}.{overloadname}"
        self.__qualname__ = self.__name__
        self._text = f"{namespace}.{opname}.{overloadname}"
        self._hash = hash(function)
        self._schema_of: OverloadSchema | None = None
        self.tags: list[Any] = []

    @property
    def __module__(self) -> str:  # type: ignore[override]
        return f"{core.DTYPE_PREFIX[0]}._ops.{self.namespace}"

    @property
    def _qualified_python_name(self) -> str:
        return f"{core.DTYPE_PREFIX[0]}.ops.{self._text}"

    @property
    def _definition(self) -> Any:
        return getattr(self._op, "definition", None)

    @property
    def __wrapped_definition__(self) -> Any:
        return self._op.__wrapped_definition__

    @property
    def _table_schema(self) -> Any:
        return getattr(self._definition, "schema", None)

    @property
    def _schema(self) -> OverloadSchema:
        if self._schema_of is None:
            self._schema_of = OverloadSchema(self)
        return self._schema_of

    @property
    def overloadpacket(self) -> Any:
        """All overloads of the operator."""
        from facula.ops.namespaces import namespace

        return getattr(namespace(self.namespace), self._opname)

    _overloadpacket = overloadpacket

    @property
    def op(self) -> Any:
        """The operator itself."""
        return self._op

    @property
    def is_view(self) -> bool:
        """Whether the result shares memory with an argument."""
        return getattr(self._definition, "kind", "") == "view"

    @property
    def kind(self) -> str:
        """The kind of the definition; "method" where the core does it without one."""
        return getattr(self._definition, "kind", "method")

    def name(self) -> str:
        """`aten::add.Tensor`."""
        return self._name

    def has_kernel_for_dispatch_key(self, key: Any) -> bool:
        """Kept for PyTorch's API: an operator has one implementation for all keys."""
        return True

    def decompose(self, *args: Any, **kwargs: Any) -> Any:
        """The result by other operators; `NotImplemented` for one that is no composite."""
        if self.kind != "composite":
            return NotImplemented
        bound, _ = core.bind_arguments(self._op, args, kwargs)
        return core.run_implementation(self._op, bound)

    def __call__(self, /, *args: Any, **kwargs: Any) -> Any:
        return self._op(*args, **kwargs)

    def __eq__(self, other: object) -> bool:
        if isinstance(other, OpOverload):
            return self._op is other._op
        return other is self._op

    def __hash__(self) -> int:
        return self._hash

    def __str__(self) -> str:
        return self._text

    def __repr__(self) -> str:
        return (
            f"<OpOverload(op='{self.namespace}.{self._opname}', overload='{self._overloadname}')>"
        )

    def __deepcopy__(self, memo: Any) -> OpOverload:
        return self

    def __copy__(self) -> OpOverload:
        return self

    def __reduce__(self) -> Any:
        return _find, (self.namespace, self._opname, self._overloadname)


def _find(namespace: str, opname: str, overloadname: str) -> Any:
    from facula.ops import namespaces

    return getattr(getattr(namespaces.namespace(namespace), opname), overloadname)


# ------------------------------------------------------------------ the name of a call


def overload_name(function: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> str:
    """PyTorch's name for the overload that a call takes, as far as the definition tells it."""
    definition = getattr(function, "definition", None)
    if definition is None:
        if getattr(function, "__name__", "") == "fill_":
            return "Tensor" if len(args) > 1 and isinstance(args[1], core.Tensor) else "Scalar"
        return "default"
    rule = _RULES.get(definition)
    if rule is None:
        rule = _RULES[definition] = _rule_of(definition)
    return rule if isinstance(rule, str) else rule(args, kwargs)


_RULES: dict[Any, Any] = {}


def _rule_of(definition: Any) -> Any:
    """The name, or a function of the arguments that gives it."""
    parameters = definition.schema.parameters
    if definition.overload is not None:
        argument, equals, name = definition.overload.partition("=")
        return _given(parameters, argument, name) if equals else argument
    names = [p.name for p in parameters]
    if definition.kind == "pointwise" and len(parameters) > 1:
        return _operand_rule(definition, parameters)
    last = parameters[-1] if parameters else None
    if last is not None and last.type == "Operand" and not last.is_list:
        return lambda args, kwargs: "Tensor" if isinstance(args[-1], core.Tensor) else "Scalar"
    reduces = definition.kind == "operator" and "keepdim" in names and "dim" in names
    if reduces and parameters[names.index("dim")].default is None:
        return _given(parameters, "dim", "dim")
    return "default"


def _given(parameters: Any, argument: str, name: str) -> Any:
    position = [p.name for p in parameters].index(argument)

    def rule(args: tuple[Any, ...], kwargs: dict[str, Any]) -> str:
        value = args[position] if position < len(args) else kwargs.get(argument)
        return "default" if value is None else name

    return rule


def _operand_rule(definition: Any, parameters: Any) -> Any:
    """Names of elementwise operators by which of their operands are tensors."""
    second = parameters[1]
    if second.type != "Operand" or second.optional:
        return "default"
    if definition.result == "bool" or definition.dtypes == "bool int":
        return lambda args, kwargs: "Tensor" if isinstance(args[1], core.Tensor) else "Scalar"
    if second.name == "other" and definition.inplace and len(definition.strict) == 0:
        return "Tensor"
    if second.name == "exponent":
        return _power_rule
    return "default"


def _power_rule(args: tuple[Any, ...], kwargs: dict[str, Any]) -> str:
    if not isinstance(args[0], core.Tensor):
        return "Scalar"
    return "Tensor_Tensor" if isinstance(args[1], core.Tensor) else "Tensor_Scalar"


_MADE: dict[tuple[Any, str], OpOverload] = {}


def overload_of(function: Any, args: tuple[Any, ...] = (), kwargs: Any = None) -> Any:
    """The overload of an operator, in-place form or method that a call with these arguments takes."""
    if type(function) is OpOverload:
        return function
    name = overload_name(function, args, kwargs or {})
    made = _MADE.get((function, name))
    if made is None:
        made = _MADE[function, name] = _make(function, name)
    return made


def named_overload(namespace: str, opname: str, name: str, function: Any) -> OpOverload:
    """The overload of a given name."""
    made = _MADE.get((function, name))
    if made is None or made._opname != opname:
        made = OpOverload(namespace, opname, name, function)
        _MADE.setdefault((function, name), made)
    return made


def _make(function: Any, name: str) -> Any:
    definition = getattr(function, "definition", None)
    if definition is None:
        if type(function) is not _IS_METHOD:
            return function  # a function of the core that is neither operator nor method
        own = function.__name__.lstrip("_") if function.__name__ == "_item" else function.__name__
        return OpOverload("aten", METHOD_NAMES.get(own, own), name, function)
    space, _, own = definition.name.rpartition("::")
    inplace = isinstance(function, core.InplaceOp)
    return OpOverload(space or "aten", own + ("_" if inplace else ""), name, function)


core.OVERLOAD[0] = overload_of
