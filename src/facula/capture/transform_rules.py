"""Function transforms in captured programs: `vmap`, `grad` and their kin become one node.

Takes: a transform, the function that it is given, and arguments. Gives: the transform's result.
Keeps true: the function runs inside of the transform whenever the graph runs; tensors that it closes
over are arguments of the node, and the globals that it names are guarded.
"""

from __future__ import annotations

import types
from typing import Any

from facula.capture.breaks import Break
from facula.capture.machine import UNBOUND
from facula.capture.values import FunctionValue, Known, PartialValue, TensorValue

#: transforms that give a function
_NAMES = ("vmap", "grad", "grad_and_value", "jacrev", "jacfwd", "hessian")


def call_transformed(*args: Any) -> Any:
    """Stands for the call of a transformed function; its rule does the work."""
    raise RuntimeError("[capture] a rule was required for a transformed function")


def put(table: dict) -> None:
    """Fill in the rules."""
    from facula import func

    for name in _NAMES:
        transform = getattr(func, name)
        table[transform] = _given(transform)
    table[call_transformed] = _call


def _given(transform: Any) -> Any:
    def rule(d: Any, args: list, kwargs: dict) -> Any:
        options = {name: d.constant_of(value) for name, value in kwargs.items()}
        more = [d.constant_of(value) for value in args[1:]]
        made = (transform, tuple(more), options)
        return d.made(PartialValue(Known(call_transformed), [Known(made), d.force(args[0])], {}))

    return rule


def _call(d: Any, args: list, kwargs: dict) -> Any:
    transform, more, options = args[0].obj
    function = d.force(args[1])
    cells: list[Any]
    lifted: list[Any]
    if isinstance(function, Known):
        code, names = None, function.obj
        cells, lifted = [], []
    elif isinstance(function, FunctionValue):
        code, names = function.code, function.globals
        cells, lifted = _closure(d, function)
        _guard_globals(d, code, names, set())
    else:
        raise Break("unsupported-call", f"a transform of a {function.cls.__name__}")
    defaults = tuple(d.constant_of(v) for v in getattr(function, "defaults", ()))

    def run(closed: Any, *inner: Any, **words: Any) -> Any:
        real = names if code is None else _function(code, names, cells, closed, defaults)
        return transform(real, *more, **options)(*inner, **words)

    run.__name__ = run.__qualname__ = (
        f"{transform.__name__}_of_{getattr(code, 'co_name', 'operator')}"
    )
    return d.graph_call(run, [d.build_tuple(lifted), *args[2:]], kwargs)


def _closure(d: Any, function: FunctionValue) -> tuple[list[Any], list[Any]]:
    """What the cells hold (None for a tensor), and the tensors among them."""
    cells: list[Any] = []
    lifted: list[Any] = []
    for cell in function.cells:
        content = d.read_cell(cell)
        if isinstance(content, TensorValue):
            cells.append(UNBOUND)
            lifted.append(content)
        else:
            cells.append(d.constant_of(content))
    return cells, lifted


def _function(code: Any, names: dict, cells: list, closed: Any, defaults: tuple) -> Any:
    tensors = iter(closed)
    closure = tuple(types.CellType(next(tensors) if c is UNBOUND else c) for c in cells)
    return types.FunctionType(code, names, code.co_name, defaults or None, closure)


def _guard_globals(d: Any, code: types.CodeType, names: dict, seen: set) -> None:
    """Guard the globals that a function and what it calls name."""
    from facula.capture.reading import is_trusted_name
    from facula.capture.sources import held

    if code in seen or is_trusted_name(names.get("__name__")):
        return
    seen.add(code)
    for name in code.co_names:
        if name in names:
            value = d.wrap(names[name], held(names).item(name))
            if isinstance(value, FunctionValue):
                _guard_globals(d, value.code, value.globals, seen)
            elif isinstance(value, TensorValue):
                raise Break("unsupported-value", f"the global tensor {name} inside of a transform")
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            _guard_globals(d, constant, names, seen)
