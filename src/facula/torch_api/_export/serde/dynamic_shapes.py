"""`dynamic_shapes` of an export as plain values, which files can hold.

Takes: `dynamic_shapes` with the inputs that they are for; or what was written. Gives: `DynamicShapesSpec`, or
a dictionary, in which sizes are names, expressions of names, numbers and hints; and the `dynamic_shapes` again.
Keeps true: sizes of one name are one `Dim` again; nothing that was written is evaluated as code.
"""

from __future__ import annotations

import dataclasses
import re
from typing import Any

from facula import core
from facula.capture.errors import UserError
from facula.core.errors import fail
from facula.export import Dim
from facula.export.dynamic_shapes import UNBOUNDED, DimHint
from facula.fx import _pytree as pytree

from .serialize import _dataclass_to_dict

__all__ = ["DynamicShapesSpec", "RootDim"]

_HINT = "_DimHint."
_HINTS = {"AUTO": Dim.AUTO, "DYNAMIC": Dim.DYNAMIC, "STATIC": Dim.STATIC}
#: a size in terms of a name: `2*dx + 1`
_LINEAR = re.compile(
    r"(?:(?P<factor>-?\d+)\*)?(?P<name>[^\W\d]\w*)(?:\s*(?P<sign>[+-])\s*(?P<offset>\d+))?"
)


@dataclasses.dataclass
class RootDim:
    """The bounds of a named size (`max` None: no bound), and the expressions that use the name."""

    min: int
    max: int | None
    derived: list[str]


@dataclasses.dataclass
class DynamicShapesSpec:
    """Shapes nested as the inputs are, and the names in them."""

    dynamic_shapes: Any
    dims: dict[str, RootDim]


def _refuse(required: str, got: object) -> Any:
    return fail(UserError, "export", required, got, hint="_dump_dynamic_shapes writes such values")


def _dump_dynamic_shapes(
    dynamic_shapes: Any,
    args: tuple[Any, ...],
    kwargs: dict[str, Any] | None = None,
    to_dict: bool = False,
) -> Any:
    """The shapes of inputs as plain values."""
    roots: dict[str, tuple[Dim, set[str]]] = {}
    values = [*args, *(kwargs or {}).values()]
    given = dynamic_shapes
    if isinstance(given, dict):
        given = list(given.values())
    shapes = [None] * len(values) if given is None else list(given)
    if len(shapes) != len(values):
        _refuse(f"shapes of {len(values)} inputs were required", len(shapes))
    written = tuple(
        _written(value, shape, f"[{n}]", roots)
        for n, (value, shape) in enumerate(zip(values, shapes, strict=True))
    )
    dims = {
        name: RootDim(dim.min, None if dim.max >= UNBOUNDED else dim.max, sorted(derived))
        for name, (dim, derived) in roots.items()
    }
    spec = DynamicShapesSpec(written if dynamic_shapes is not None else None, dims)
    return _dataclass_to_dict(spec) if to_dict else spec


def _written(value: Any, shape: Any, path: str, roots: dict[str, tuple[Dim, set[str]]]) -> Any:
    """The shapes of one input."""
    if isinstance(value, core.Tensor):
        entries = shape if isinstance(shape, dict) else dict(enumerate(shape or ()))
        return [_size(entries.get(dim), roots) for dim in range(value.dim())]
    leaves, spec = pytree.tree_flatten(value)
    if spec.is_leaf():
        return None if shape is None else _size(shape, roots)
    if shape is None:
        return pytree.tree_map(lambda leaf: _written(leaf, None, path, roots), value)
    if isinstance(value, dict):
        _same_kind(value, shape, path)
        return {k: _written(v, shape[k], f"{path}[{k!r}]", roots) for k, v in value.items()}
    if isinstance(value, (list, tuple)):
        _same_kind(value, shape, path)
        items: Any = value
    else:
        items = leaves
    pairs = enumerate(zip(items, shape, strict=True))
    made = [_written(v, s, f"{path}[{n}]", roots) for n, (v, s) in pairs]
    return tuple(made) if isinstance(value, tuple) else made


def _same_kind(value: object, shape: object, path: str) -> None:
    if type(value) is not type(shape):
        required = (
            "dynamic_shapes of the same structure as the inputs were required (Detected mismatch between the "
            f"structure of `inputs` and `dynamic_shapes`: `inputs{path}` is a {type(value)}, but "
            f"`dynamic_shapes{path}` is a {type(shape)})"
        )
        _refuse(required, shape)


def _size(what: Any, roots: dict[str, tuple[Dim, set[str]]]) -> Any:
    """One size: a name, an expression of one, a number, or a hint."""
    if isinstance(what, Dim):
        root = what.root
        _, derived = roots.setdefault(root.__name__, (root, set()))
        if root is not what:
            derived.add(what.__name__)
        return what.__name__
    if isinstance(what, DimHint):
        return f"{_HINT}{what.kind}"
    return f"{_HINT}STATIC" if what is None else int(what)


def _load_dynamic_shapes(spec: Any, from_dict: bool = False) -> Any:
    """The `dynamic_shapes` that were written.

    Raises:
        UserError: they are of another form.
    """
    if from_dict:
        if not isinstance(spec, dict):
            _refuse(f"With from_dict=True, expected `spec` to be a dict, got {type(spec)}", spec)
        read = DynamicShapesSpec(
            spec["dynamic_shapes"], {name: RootDim(**d) for name, d in spec["dims"].items()}
        )
    else:
        if not isinstance(spec, DynamicShapesSpec):
            _refuse(f"Expected `spec` to be a DynamicShapesSpec, got {type(spec)}", spec)
        read = spec
    dims = {name: _root(name, root) for name, root in read.dims.items()}
    known = dict(dims)
    for name, root in read.dims.items():
        for text in root.derived:
            known[text] = _derived(text, name, dims[name])
    return _read(read.dynamic_shapes, known, read.dims)


def _root(name: str, root: RootDim) -> Dim:
    for bound, optional in (("min", False), ("max", True)):
        value = getattr(root, bound)
        if type(value) is not int and not (optional and value is None):
            required = (
                f"Expected dims in `spec['dims']` to map `{bound}` to an int, got {name}: {value}"
            )
            _refuse(required, value)
    return Dim(name, min=root.min, max=root.max)


def _derived(text: str, name: str, root: Dim) -> Dim:
    found = _LINEAR.fullmatch(text)
    if found is None or found["name"] != name:
        _refuse(f"Expected derived expressions to be linear expressions, got {text}", text)
        raise AssertionError
    made = root if found["factor"] is None else root * int(found["factor"])
    if found["offset"] is None:
        return made
    offset = int(found["offset"])
    return made + offset if found["sign"] == "+" else made - offset


def _read(x: object, known: dict[str, Dim], dims: dict[str, RootDim]) -> Any:
    if isinstance(x, (list, tuple)):
        return type(x)(_read(item, known, dims) for item in x)
    if isinstance(x, dict):
        return {key: _read(item, known, dims) for key, item in x.items()}
    if not isinstance(x, str):
        return x
    if x.startswith(_HINT) and x.removeprefix(_HINT) in _HINTS:
        return _HINTS[x.removeprefix(_HINT)]
    if x not in known:
        required = (
            "Expected dims in `spec['dynamic_shapes']` to be tracked in `spec['dims']`, "
            f"got {x} which is not in {dims.keys()}"
        )
        _refuse(required, x)
    return known[x]
