"""Rules for callables that are written in C, or whose meaning is known without their code.

Takes: the interpreter (`d`), and a call's arguments. Gives: its result.
Keeps true: a rule stands in `RULES` (which `table` fills) under the very object that it is for;
what is pure and called with known arguments is computed (`is_pure`) and needs no rule.
"""

from __future__ import annotations

import bisect
import types
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

from facula import core
from facula.capture.breaks import Break

if TYPE_CHECKING:
    from facula.capture.interpreter.symbolic import Symbolic


Rule = Callable[..., Any]
RULES: dict[Any, Rule] = {}
#: what gives the rules of a package, by its name; asked when a callable of it is met
LATER: dict[str, Callable[[], dict[Any, Rule]]] = {}
#: rules for methods of objects of C, by class and name; they get the owner, too
METHODS: dict[tuple[type, str], Rule] = {}

PURE_TYPES = (str, bytes, int, float, bool, complex, range, core.dtype, core.device, type(None))
_PURE_MODULES = frozenset("math cmath operator _operator builtins itertools _bisect".split())
_IMPURE = frozenset(
    (
        print,
        input,
        open,
        exec,
        eval,
        compile,
        __import__,
        breakpoint,
        globals,
        locals,
        vars,
        dir,
        id,
        hash,
        bisect.insort_left,
        bisect.insort_right,
    )
)


def rule(*objects: Any) -> Callable[[Rule], Rule]:
    """The rule for these callables."""

    def put(function: Rule) -> Rule:
        for obj in objects:
            RULES[obj] = function
        return function

    return put


def rule_for(obj: object) -> Rule | None:
    """The rule for a callable, None where there is none."""
    try:
        found = RULES.get(obj)
    except TypeError:
        return None
    if found is None and LATER:
        for package in LATER.keys() & {*_packages(obj)}:
            enter(package)
        return RULES.get(obj)
    return found


def enter(package: str) -> None:
    """Enter the rules of a package, of which a captured program has something."""
    later = LATER.pop(package, None)
    if later is not None:
        for known, entry in later().items():
            RULES.setdefault(known, entry)  # a rule of the program's own stays


def _packages(obj: object) -> Iterator[str]:
    """The packages that an object, its class and its owner come from."""
    for home in (obj, type(obj), type(getattr(obj, "__self__", None))):
        module = getattr(home, "__module__", None)
        if isinstance(module, str):
            yield module.partition(".")[0]


def is_pure(obj: Callable[..., Any]) -> bool:
    """Whether a C function only computes."""
    try:
        if obj in _IMPURE:
            return False
    except TypeError:
        return False
    if is_core_function(obj):
        return obj.__name__.startswith(("is_", "get_", "can_cast", "promote_types"))
    if isinstance(obj, types.BuiltinFunctionType):
        owner = getattr(obj, "__self__", None)
        if isinstance(owner, types.ModuleType):
            return owner.__name__ in _PURE_MODULES
        pure = tuple(kind for kind in PURE_TYPES if kind is not type(None))
        return isinstance(owner, pure) or owner in pure
    return (getattr(type(obj), "__module__", "") == "numpy") and type(obj).__name__ == "ufunc"


#: functions of the core that make tensors
_CREATION = frozenset(
    "tensor as_tensor asarray empty empty_strided empty_like from_numpy scalar_tensor".split()
)


def is_core_function(obj: object) -> bool:
    """Whether it is a function of the core that is no operator."""
    module = getattr(obj, "__module__", None) or ""
    kinds = (type(core.Tensor.copy_), types.BuiltinFunctionType)
    return isinstance(obj, kinds) and module.startswith("facula")


def makes_tensors(obj: Any) -> bool:
    """Whether it is a function of the core that makes tensors."""
    return is_core_function(obj) and obj.__name__ in _CREATION


def fold_text(d: Symbolic, function: Callable[..., Any], args: list, kwargs: dict) -> Any:
    """A function on texts, computed; not where it calls a function of the program."""
    if any(d.force(arg).cls is types.FunctionType for arg in (*args, *kwargs.values())):
        raise Break("unsupported-call", f"{function.__name__}, which calls a function")
    return d.fold(function, args, kwargs)
