"""Names in generated code: of functions, of types, of nodes.

Takes functions, annotations and candidates for names.  Gives the dotted name under which a function
is found again, the text of a type, and names that are unique in a graph.
Keeps true: a dotted name that is given out leads back to the function; where there is none, the
function goes into the globals of the code.
"""

from __future__ import annotations

import builtins
import inspect
import keyword
import operator
import re
import sys
import types
import typing
from collections.abc import Callable
from typing import Any

from facula import core
from facula.core.errors import fail

#: operators of Python that have a form with assignment
INPLACE = frozenset(
    name[1:]
    for name in dir(operator)
    if name.startswith("i") and hasattr(operator, name[1:]) and hasattr(operator, f"__{name}__")
)
_CORE = "facula.core."
_ILLEGAL = re.compile(r"[^0-9a-zA-Z_]+")
_NUMBERED = re.compile(r"(.*)_(\d+)$")


def prefix() -> str:
    """The name under which programs know facula."""
    return str(core.DTYPE_PREFIX[0])


def is_name(text: object) -> bool:
    """Whether a text may stand in code as a name: an identifier that is no keyword."""
    return isinstance(text, str) and text.isidentifier() and not keyword.iskeyword(text)


def is_path(text: object) -> bool:
    """Whether a text may stand in code as a dotted name."""
    return isinstance(text, str) and all(map(is_name, text.split(".")))


def is_parameter(text: object) -> bool:
    """Whether a text may stand in the head of a function: a name, behind stars or not."""
    return isinstance(text, str) and is_name(re.sub(r"^\*{1,2}", "", text))


def checked_name(text: Any, op: str, what: str, allowed: Callable[[object], bool] = is_name) -> str:
    """A name that becomes code; raises ValueError for any other text.

    Args:
        op, what: who asks, and what the name is of, for the error.
        allowed: `is_name`, `is_path` or `is_parameter`.
    """
    if not allowed(text):
        fail(
            ValueError,
            op,
            f"an identifier was required as {what}",
            got=repr(text),
            hint="names become Python code: use letters, digits and underscores, and no keyword",
        )
    return str(text)


def snake_case(s: str) -> str:
    """`MyName2` as `my_name2`."""
    return re.sub(r"(?<=[a-z0-9])([A-Z])", r"_\1", s).lower()


def public_module(module: str) -> str:
    """The module as users write it."""
    root, dot, rest = module.partition(".")
    return prefix() + dot + rest if root == "facula" else module


def qualified_name(func: Callable[..., Any]) -> str:
    """The dotted name of a function; of one that belongs to no module its own name.

    Raises:
        RuntimeError: the name leads to something else.
    """
    own = getattr(func, "_qualified_python_name", None)
    if own is not None:  # an overload of an operator
        return str(own)
    name = getattr(func, "__name__", None)
    if name is None:
        fail(
            RuntimeError,
            "fx",
            "a function with a name was required",
            got=repr(func),
            hint="give it a __name__, as functions of def have",
        )
    if getattr(builtins, name, None) is func:
        return str(name)
    if isinstance(func, (types.MethodDescriptorType, types.WrapperDescriptorType)):
        return f"{public_module(func.__objclass__.__module__)}.{func.__objclass__.__name__}.{name}"
    if _is_tensor_method(func):
        return f"{prefix()}.Tensor.{name}"
    module = getattr(func, "__module__", None)
    if not isinstance(module, str):  # made by hand, or by a compiled library: it has its name only
        return str(name)
    if module == "_operator":
        module = "operator"
    if module.startswith(_CORE):
        return _core_name(func, name)
    if name == "<lambda>":
        try:
            name = inspect.getsource(func).split("=")[0].strip()
        except (OSError, TypeError):
            name = "lambda_function"
    return f"{public_module(str(module))}.{name}"


def _core_name(func: Callable[..., Any], name: str) -> str:
    """A function of the core by the shortest name that leads to it."""
    package = sys.modules[__name__.partition(".")[0]]
    low = package._C  # PyTorch's module of such names, loaded when a graph is written
    if getattr(package, name, None) is func:
        return f"{prefix()}.{name}"
    if getattr(low, f"_{name}", None) is func:
        return f"{prefix()}._C._{name}"
    return f"{public_module(func.__module__)}.{name}"


def _is_tensor_method(func: Any) -> bool:
    name = getattr(func, "__name__", "")
    return not isinstance(func, core.Op) and vars(core.Tensor).get(name) is func


def type_text(annotation: Any) -> str:
    """An annotation as Python code writes it."""
    if annotation is None or annotation is type(None):
        return "None"
    if annotation is Ellipsis:
        return "..."
    if type(annotation) in (str, int, bool, bytes):
        return repr(annotation)
    if isinstance(annotation, list):  # the parameters of a Callable
        return f"[{', '.join(map(type_text, annotation))}]"
    origin = typing.get_origin(annotation)
    if origin is None:
        return _dotted_or_quoted(annotation)
    if not hasattr(annotation, "__args__"):  # a bare `typing.Tuple`
        return type_text(origin)
    arguments = ", ".join(map(type_text, typing.get_args(annotation))) or "()"  # the empty tuple's
    if origin in (typing.Union, types.UnionType):
        parts = typing.get_args(annotation)
        if len(parts) == 2 and type(None) in parts:
            other = parts[0] if parts[1] is type(None) else parts[1]
            return f"typing.Optional[{type_text(other)}]"
        return f"typing.Union[{arguments}]"
    base = getattr(annotation, "_name", None) or ""
    written_by_typing = type(annotation).__module__ == "typing" and is_name(base)
    return f"{f'typing.{base}' if written_by_typing else type_text(origin)}[{arguments}]"


def _dotted_or_quoted(annotation: type) -> str:
    """A type by its dotted name; what has none (a local class, a type variable) as a string."""
    if not isinstance(annotation, type):
        text = str(annotation)
    elif annotation.__module__ in ("builtins", "typing"):
        text = annotation.__qualname__
    else:
        text = f"{public_module(annotation.__module__)}.{annotation.__qualname__}"
    return text if is_path(text) else repr(text)


class Namespace:
    """The names of a graph: each is given out once."""

    def __init__(self) -> None:
        self._obj_to_name: dict[Any, str] = {}
        self._used_names: set[str] = set()
        self._counts: dict[str, int] = {}

    def create_name(self, candidate: str, obj: Any | None) -> str:
        """A name like `candidate` that is no keyword, no builtin and not taken.

        The same object (None: a new one each time) gets the same name again.
        """
        if obj is not None and obj in self._obj_to_name:
            return self._obj_to_name[obj]
        name = _ILLEGAL.sub("_", candidate) or "_unnamed"
        if name[0].isdigit():
            name = f"_{name}"
        base, number = name, 0
        match = _NUMBERED.match(name)
        if match is not None:
            base, number = match.group(1), int(match.group(2))
        number = max(number, self._counts.get(base, 0))
        taken = name in self._used_names or self._is_illegal(name, obj)
        while taken:
            number += 1
            name = f"{base}_{number}"
            taken = name in self._used_names or self._is_illegal(name, obj)
        self._used_names.add(name)
        self._counts[base] = number
        if obj is not None:
            self._obj_to_name[obj] = name
        return name

    def associate_name_with_obj(self, name: str, obj: object) -> None:
        """Say that a name that was made stands for an object."""
        self._obj_to_name[obj] = name

    def _is_illegal(self, name: str, obj: object) -> bool:
        if keyword.iskeyword(name):
            return True
        if name in vars(builtins):
            return vars(builtins)[name] is not obj
        if name in _CUSTOM_BUILTINS:
            return _CUSTOM_BUILTINS[name].obj is not obj
        return obj is None and name in ("nan", "inf", "NoneType", "device", prefix())


class CustomBuiltin(typing.NamedTuple):
    """A name that generated code may use, and the statement that brings it in."""

    import_str: str
    obj: Any


_CUSTOM_BUILTINS: dict[str, CustomBuiltin] = {}


def register_custom_builtin(name: str, import_str: str, obj: object) -> None:
    """Let generated code use a name: it stands for `obj`, and `import_str` brings it in."""
    checked_name(name, "register_custom_builtin", "the name of a builtin")
    _CUSTOM_BUILTINS[name] = CustomBuiltin(import_str, obj)


def custom_builtins() -> dict[str, CustomBuiltin]:
    """The names that generated code may use, with facula's own under the name that programs use."""
    own = prefix()
    package = sys.modules[__name__.partition(".")[0]]
    fixed = {
        "inf": CustomBuiltin("from math import inf", float("inf")),
        "nan": CustomBuiltin("from math import nan", float("nan")),
        "NoneType": CustomBuiltin("NoneType = type(None)", type(None)),
        own: CustomBuiltin(f"import {own}", package),
        "device": CustomBuiltin(f"from {own} import device", core.device),
    }
    return {**fixed, **_CUSTOM_BUILTINS}
