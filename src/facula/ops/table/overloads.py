"""`facula.ops.<namespace>.<name>.<overload>`: operators under the names by which programs, traces and
tables know them.

Takes names, operators, their in-place forms, and methods of the core that overrides hear of. Gives
namespaces, packets (one operator with its overloads) and `OpOverload`s: callable, hashable, with
PyTorch's attributes.
Keeps true: an operator has one schema, so overloads differ in name only; all overloads of an operator
are equal, and equal to the operator, so tables keyed by one are found by any. A namespace exists as
soon as an operator of it is defined; `aten` holds facula's own.
"""

from __future__ import annotations

from collections.abc import Iterator
from types import FunctionType
from typing import TYPE_CHECKING, Any

from facula import core
from facula.ops.table.registry import PLACES, TABLE, own_operators

if TYPE_CHECKING:
    from facula.ops.table.schemas.function import FunctionSchema

#: PyTorch's names for methods of Tensor that are no operators here
METHOD_NAMES = {"to": "_to_copy", "item": "_local_scalar_dense", "pin_memory": "_pin_memory"}
#: what they take behind the tensor
METHOD_ARGUMENTS = {"copy_": ("src", "non_blocking"), "fill_": ("value",)}
_IS_METHOD = type(core.Tensor.copy_)
#: namespaces whose names are those of the table without a prefix
OWN = ("aten", "prims", "facula")
#: slot: (namespace, name) -> an operator whose module is imported when it is asked for, or None
ON_DEMAND: list[Any] = [lambda namespace, name: None]
_METHODS = {theirs: ours for ours, theirs in METHOD_NAMES.items()}


class OpOverload:
    """One name of an operator: `facula.ops.aten.add.Tensor`."""

    def __init__(self, namespace: str, opname: str, overloadname: str, function: Any) -> None:
        self._op = function
        #: what tables know it as: the operator of PyTorch's name, which has other arguments in a few cases
        self._known_as = function
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
        self._schema_of: FunctionSchema | None = None

    @property
    def __module__(self) -> str:  # type: ignore[override]
        return f"{core.DTYPE_PREFIX[0]}._ops.{self.namespace}"

    @property
    def _qualified_python_name(self) -> str:
        return f"{core.DTYPE_PREFIX[0]}.ops.{self._text}"

    @property
    def tags(self) -> list[Any]:
        """What is known of the operator beside its schema."""
        # lazily: few programs ask, and a class of names takes long to make
        from facula.ops.table.tags import tags_of

        below = getattr(TABLE.get(f"_{self._opname}"), "definition", None)
        return tags_of(self._definition, below, isinstance(self._op, core.InplaceOp))

    @property
    def _given_schema(self) -> str:
        """The text that a program gave its own operator; empty for the table's."""
        return getattr(self._definition, "given_schema", "")

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
    def _schema(self) -> FunctionSchema:
        """What the overload takes and gives."""
        if self._schema_of is None:
            # lazily: few programs ask, and types of schemas take long to load
            from facula.ops.table.schemas.overloads import schema_of

            self._schema_of = schema_of(self)
        return self._schema_of

    @property
    def overloadpacket(self) -> Any:
        """All overloads of the operator."""
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

    @property
    def _defined_in_python(self) -> bool:
        """Whether a program has defined it."""
        return self.kind == "custom"

    def name(self) -> str:
        """`aten::add.Tensor`."""
        return self._name

    def has_kernel_for_dispatch_key(self, key: object) -> bool:
        """True: an operator has one implementation for all keys."""
        return True

    def decompose(self, *args: object, **kwargs: object) -> Any:
        """The result by other operators; `NotImplemented` for one that is no composite."""
        if self.kind != "composite":
            return NotImplemented
        bound, _ = core.bind_arguments(self._op, args, kwargs)
        return core.run_implementation(self._op, bound)

    def __call__(self, /, *args: Any, **kwargs: Any) -> Any:
        return self._op(*args, **kwargs)

    def __eq__(self, other: object) -> bool:
        if isinstance(other, OpOverload):
            return self._known_as is other._known_as
        return other is self._known_as

    def __hash__(self) -> int:
        return self._hash

    def __str__(self) -> str:
        return self._text

    def __repr__(self) -> str:
        return (
            f"<OpOverload(op='{self.namespace}.{self._opname}', overload='{self._overloadname}')>"
        )

    def __deepcopy__(self, memo: object) -> OpOverload:
        return self

    def __copy__(self) -> OpOverload:
        return self

    def __reduce__(self) -> Any:
        return _find, (self.namespace, self._opname, self._overloadname)


def _find(space: str, opname: str, overloadname: str) -> Any:
    """What unpickling calls."""
    return getattr(getattr(namespace(space), opname), overloadname)


# ------------------------------------------------------------------ the overload of a call

_MADE: dict[tuple[Any, str], OpOverload] = {}
#: overloads by other names that operators have: `aten.subtract.Tensor`
_ALIASES: dict[tuple[Any, str, str], OpOverload] = {}


def overload_of(function: Any, args: tuple[Any, ...] = (), kwargs: Any = None) -> Any:
    """The overload of an operator, in-place form or method that a call with these arguments takes."""
    if type(function) is OpOverload:
        return function
    function = core.operator_of(function)
    # lazily: import reads little code
    from facula.ops.table.overload_names import overload_name

    name = overload_name(function, args, kwargs or {})
    made = _MADE.get((function, name))
    if made is None:
        made = _MADE[function, name] = _make(function, name)
    return made


class _OfEither(OpOverload):
    # the table's operator, or one with PyTorch's arguments
    _theirs: Any

    def __call__(self, /, *args: Any, **kwargs: Any) -> Any:
        return (self._op if takes(self._op, args, kwargs) else self._theirs)(*args, **kwargs)


def named_overload(namespace: str, opname: str, name: str, function: Any) -> OpOverload:
    """The overload of a name: that of calls under the operator's own name, else one for itself."""
    made = _MADE.get((function, name))
    if made is None:
        made = _make(function, name)
        if type(made) is OpOverload:
            _MADE[function, name] = made
    if type(made) is OpOverload and made._opname == opname and made.namespace == namespace:
        return made
    alias = _ALIASES.get((function, opname, name))
    if alias is None:
        alias = _ALIASES[function, opname, name] = OpOverload(namespace, opname, name, function)
    return alias


def _make(function: Any, name: str) -> Any:
    definition = getattr(function, "definition", None)
    if definition is None:
        if type(function) is not _IS_METHOD:
            return function  # a function of the core that is neither operator nor method
        own = function.__name__.lstrip("_") if function.__name__ == "_item" else function.__name__
        return OpOverload("aten", METHOD_NAMES.get(own, own), name, function)
    space, _, own = definition.name.rpartition("::")
    own, dot, overload = own.partition(".")
    name = overload if dot else name
    inplace = isinstance(function, core.InplaceOp)
    if definition.stands_for:
        made = OpOverload("aten", definition.stands_for, name, function)
        made._known_as = TABLE[definition.stands_for]
        made._hash = hash(made._known_as)
        return made
    return OpOverload(space or "aten", own + ("_" if inplace else ""), name, function)


# ------------------------------------------------------------------ packets and namespaces


def takes(function: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> bool:
    """Whether an operator takes these arguments."""
    try:
        core.bind_arguments(function, args, kwargs)
    except TypeError:
        return False
    return True


class Packet:
    """One operator with its overloads."""

    def __init__(self, qualname: str, function: Any) -> None:
        self._qualified_op_name = qualname
        self._function = function
        self.__name__ = qualname.rpartition("::")[2]

    @property
    def __doc__(self) -> str | None:  # type: ignore[override]
        """The operator's, which is made when somebody asks for it."""
        return self._function.__doc__

    @property
    def _schema(self) -> Any:
        return self._function.__wrapped_definition__.schema

    @property
    def __wrapped_definition__(self) -> Any:
        return self._function.__wrapped_definition__

    def overloads(self) -> list[str]:
        """The names of the overloads: one schema takes all that PyTorch's take."""
        own = _own_overloads(self._qualified_op_name)
        if own:
            plain = ["default"] if self._qualified_op_name in TABLE else []
            return plain + own
        # lazily: import reads little code
        from facula.ops.table.overload_names import overload_name

        return [overload_name(self._function, (None,) * 8, {})]

    @property
    def op(self) -> Any:
        """The operator itself."""
        return self._function

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        for function in self._candidates():  # the first that takes the arguments
            if takes(function, args, kwargs):
                return function(*args, **kwargs)
        return self._function(*args, **kwargs)

    def _candidates(self) -> list[Any]:
        """The operators of a name that programs have overloaded, if any."""
        definition = getattr(self._function, "definition", None)
        if definition is None or definition.kind != "custom":
            return []
        qualname = self._qualified_op_name
        names = _own_overloads(qualname)
        plain = [qualname] if names else []
        found = [TABLE.get(name) for name in (*plain, *(f"{qualname}.{n}" for n in names))]
        return [operator for operator in found if operator is not None]

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):
            if "_qualified_op_name" not in self.__dict__:  # while it is copied
                raise AttributeError(name)
            raise AttributeError(f"'{self._qualified_op_name}' has no attribute {name!r}")
        space, _, own = self._qualified_op_name.partition("::")
        registered = TABLE.get(f"{self._qualified_op_name}.{name}")
        if registered is not None:
            return named_overload(space, own, name, registered)
        theirs = _public(own, True) if space in OWN else None
        if theirs is not None:
            made = _OfEither(space, own, name, self._function)
            made._theirs = theirs
            return made
        return named_overload(space, own, name, self._function)

    def __copy__(self) -> Packet:
        return self

    def __deepcopy__(self, memo: object) -> Packet:
        return self  # there is one of each

    def __eq__(self, other: object) -> bool:
        if isinstance(other, Packet):
            return self._function is other._function
        return other is self._function or getattr(other, "_op", None) is self._function

    def __hash__(self) -> int:
        return hash(self._function)

    def __str__(self) -> str:
        return self._qualified_op_name.replace("::", ".")

    def __repr__(self) -> str:
        return f"<operator packet {self._qualified_op_name}>"


def _own_overloads(qualname: str) -> list[str]:
    """The overloads that programs have defined one by one for a name (`library.define("ns::f.int", ...)`)."""
    if "::" not in qualname:
        return []
    prefix = f"{qualname}."
    return [name.removeprefix(prefix) for name in TABLE if name.startswith(prefix)]


def _public(name: str, theirs: bool = False) -> Any:
    # what the root package has; `theirs`: only where it is not the table's operator of this name
    found = core.operator_of(PLACES[""].get(name))
    own = theirs and getattr(getattr(found, "definition", None), "stands_for", "") != name
    return None if own else found


# compiled programs look at the table once
_public._facula_constant_result = True  # type: ignore[attr-defined]


def _core_method(name: str) -> Any:
    """A method that overrides are told about under this name: of the core, as `clone`, or of the layouts,
    as `values`; None for operators."""
    method = getattr(core.Tensor, _METHODS.get(name, name), None)
    known = TABLE.get(name)
    replaces = known is None or known.definition.kind == "composite"
    of_layouts = type(method) is FunctionType and ".ops." in method.__module__
    return method if replaces and (of_layouts or type(method) is _IS_METHOD) else None


class Namespace:
    """The operators of one namespace as attributes."""

    def __init__(self, name: str) -> None:
        self.name = name
        self._packets: dict[str, Packet] = {}

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(f"Invalid attribute '{name}' for '_OpNamespace' '{self.name}'")
        function = self._find(name)
        if getattr(function, "namespace", "") == "higher_order":
            return function  # operators that take functions have no overloads
        known = self._packets.get(name)
        if known is None or known._function is not function:
            known = self._packets[name] = Packet(f"{self.name}::{name}", function)
        return known

    def _find(self, name: str) -> Any:
        if self.name not in OWN:
            found = TABLE.get(f"{self.name}::{name}")
            for own in _own_overloads(f"{self.name}::{name}") if found is None else ():
                found = TABLE[f"{self.name}::{name}.{own}"]
                break
        else:
            found = _core_method(name) or TABLE.get(name)
            found = found or _public(name)
            if found is None and name.endswith("_") and name[:-1] in TABLE:
                found = TABLE[name[:-1]].inplace
        if found is None:
            found = ON_DEMAND[0](self.name, name)
        if found is None:
            raise AttributeError(f"'_OpNamespace' '{self.name}' object has no attribute '{name}'")
        return found

    def __dir__(self) -> list[str]:
        if self.name in OWN:
            return sorted(own_operators())
        prefix = f"{self.name}::"
        names = {n.removeprefix(prefix).partition(".")[0] for n in TABLE if n.startswith(prefix)}
        return sorted(names)

    def __iter__(self) -> Iterator[str]:
        return iter(self.__dir__())

    def __repr__(self) -> str:
        return f"<operators of the namespace {self.name!r}>"


_NAMESPACES: dict[str, Namespace] = {}


def namespace(name: str) -> Namespace:
    """The namespace of a name; it may still be empty."""
    return _NAMESPACES.setdefault(name, Namespace(name))


def known_namespaces() -> set[str]:
    """The namespaces that have operators."""
    return {*OWN, *(name.partition("::")[0] for name in TABLE if "::" in name)}


def packet_of(operator: Any) -> Packet:
    """The packet of an operator."""
    space, _, name = operator.name.rpartition("::")
    return getattr(namespace(space or "aten"), name.partition(".")[0])


def _defaults(operator: Any, keyword_only: bool) -> dict[str, Any]:
    """The defaults of an operator's parameters, as functions have them."""
    given = operator.__signature__.parameters.values()
    return {
        p.name: p.default
        for p in given
        if p.default is not p.empty and (p.kind.name == "KEYWORD_ONLY") is keyword_only
    }


core.OVERLOAD[0] = overload_of
core.OP_ATTRIBUTES.update(
    overloadpacket=packet_of,
    _overloadpacket=packet_of,
    _schema=lambda operator: operator.definition.schema,
    _overloadname=lambda operator: overload_of(operator)._overloadname,
    __defaults__=lambda operator: tuple(_defaults(operator, False).values()) or None,
    __kwdefaults__=lambda operator: _defaults(operator, True) or None,
    namespace=lambda operator: operator.name.rpartition("::")[0] or "aten",
)
