"""PyTorch's names for the overloads of operators, which have one schema each here.

Takes an operator, an in-place form or a method of the core, and the arguments of a call. Gives
`overload_name`.
Keeps true: the name follows from the definition: its kind, its parameters, or what it says itself.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from facula import core

if TYPE_CHECKING:
    from facula.ops.table.definition import Definition


def overload_name(
    function: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]
) -> str:
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


def _rule_of(definition: Definition) -> Any:
    """The name, or a function of the arguments that gives it."""
    if definition.overload is not None:
        return _said(definition)
    return _derived(definition)


def _derived(definition: Definition) -> Any:
    """What follows from the kind of the definition and its parameters."""
    parameters = definition.schema.parameters
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


#: what an argument is, in the rules of a definition
_KINDS: dict[str, Any] = {
    "": lambda value: value is not None,
    "int": lambda value: isinstance(value, int) and not isinstance(value, bool),
    "Tensor": lambda value: isinstance(value, core.Tensor),
    "bool": lambda value: isinstance(value, bool),
    "str": lambda value: isinstance(value, str),
    "dtype": lambda value: isinstance(value, core.dtype),
    "number": lambda value: isinstance(value, (int, float, complex)),
}


def _said(definition: Definition) -> Any:
    """What a definition says: a name, or rules such as `dim=dim_IntList, split_size:int=Tensor` and
    `src:Tensor+reduce=reduce`; the first that holds counts, and a name behind them is for all other calls.
    """
    parameters = definition.schema.parameters
    names = [p.name for p in parameters]
    rules: list[tuple[list[tuple[int, str, Any]], str]] = []
    otherwise: Any = None
    for part in str(definition.overload).split(", "):
        conditions, equals, name = part.partition("=")
        pairs = [condition.partition(":")[::2] for condition in conditions.split("+")]
        if not equals:
            otherwise = part
        else:
            rules.append(([(names.index(a), a, _KINDS[kind]) for a, kind in pairs], name))
    if not rules:
        return otherwise
    if otherwise is None:
        plain = len(rules) == 1 and rules[0][0][0][2] is _KINDS[""]
        otherwise = "default" if plain else _derived(definition)

    def rule(args: tuple[Any, ...], kwargs: dict[str, Any]) -> str:
        for conditions, name in rules:
            if all(
                holds(args[position] if position < len(args) else kwargs.get(argument))
                for position, argument, holds in conditions
            ):
                return name
        return otherwise if isinstance(otherwise, str) else str(otherwise(args, kwargs))

    return rule


def _given(parameters: tuple[Any, ...], argument: str, name: str) -> Any:
    position = [p.name for p in parameters].index(argument)

    def rule(args: tuple[Any, ...], kwargs: dict[str, Any]) -> str:
        value = args[position] if position < len(args) else kwargs.get(argument)
        return "default" if value is None else name

    return rule


def _operand_rule(definition: Any, parameters: tuple[Any, ...]) -> Any:
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
