"""Sizes that may change, as users of ONNX name them.

Takes `dynamic_axes` or `dynamic_shapes`, and a model's arguments. Gives what `export.export` takes, and
the names of symbols.
Keeps true: one name is one size, wherever it stands; a size without a name gets one.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from facula import core
from facula.core.errors import fail
from facula.export.dynamic_shapes import Dim, Resolved, ShapesCollection, arguments_by_name
from facula.fx import _pytree as pytree
from facula.fx.shape_env import ShapeEnv
from facula.fx.symbolic_run import sizes_of
from facula.onnx.errors import OnnxExporterError

if TYPE_CHECKING:
    from facula.nn import Module


Tensor = core.Tensor


def axes_by_dim(name: str, axes: Any) -> dict[int, str]:
    """The axes of one input or output: those without a name get one."""
    if isinstance(axes, Mapping):
        return {int(k): str(v) for k, v in axes.items()}
    return {int(axis): f"{name}_dynamic_axes_{k}" for k, axis in enumerate(axes, 1)}


def leaf_names(model: Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> list[str]:
    """The names of tensors among arguments: that of the parameter, numbered where it has several."""
    names = []
    for name, value in arguments_by_name(model, args, kwargs).items():
        leaves = [x for x in pytree.tree_leaves(value) if isinstance(x, Tensor)]
        names += [name] if len(leaves) == 1 else [f"{name}_{i}" for i in range(len(leaves))]
    return names


def from_axes(
    model: Module, args: tuple[Any, ...], kwargs: dict[str, Any], axes: Mapping[str, Any],
    input_names: Sequence[str] | None, output_names: Sequence[str] | None,
) -> tuple[Any, dict[str, dict[int, str]]]:  # fmt: skip
    """`dynamic_axes` as `dynamic_shapes`, and the names of the outputs' axes."""
    tensors = [x for x in pytree.tree_leaves((args, kwargs)) if isinstance(x, Tensor)]
    names = [*(input_names or ())][: len(tensors)]
    names += leaf_names(model, args, kwargs)[len(names) :]
    collection, pool = ShapesCollection(), dict[str, Dim]()
    of_outputs: dict[str, dict[int, str]] = {}
    for name, given in axes.items():
        by_dim = axes_by_dim(name, given)
        if name not in names:
            if name not in (output_names or ()):
                fail(OnnxExporterError, "onnx.export", f"dynamic_axes of the inputs {names} or of "
                     f"output_names {list(output_names or ())} were required", name,
                     hint="name inputs by input_names and outputs by output_names")  # fmt: skip
            of_outputs[name] = by_dim
            continue
        tensor = tensors[names.index(name)]
        collection[tensor] = {
            dim % max(tensor.dim(), 1): _dim(n, pool) for dim, n in by_dim.items()
        }
    return collection if len(collection) else None, of_outputs


def _dim(name: str, pool: dict[str, Dim]) -> Dim:
    if name not in pool:
        plain = "".join(c if c.isalnum() or c == "_" else "_" for c in name)
        pool[name] = Dim(plain if plain.isidentifier() else f"dim_{plain}")
        pool[name].__name__ = name
    return pool[name]


def with_dims(shapes: object, pool: dict[str, Dim]) -> Any:
    """`dynamic_shapes` with a `Dim` for every name."""
    if isinstance(shapes, str):
        return _dim(shapes, pool)
    if isinstance(shapes, dict):
        return {key: with_dims(value, pool) for key, value in shapes.items()}
    if isinstance(shapes, (tuple, list)):
        return type(shapes)(with_dims(value, pool) for value in shapes)
    return shapes


def symbol_names(
    model: object,
    args: tuple[Any, ...],
    kwargs: dict[str, Any],
    shapes: object,
    fakes: Sequence[Any],
) -> dict[str, str]:
    """The names that users gave to symbols."""
    if shapes is None:
        return {}
    resolved = Resolved(ShapeEnv(duck_shape=False))
    resolved.read(model, args, kwargs, shapes)
    tensors = [x for x in pytree.tree_leaves((args, kwargs)) if isinstance(x, Tensor)]
    found: dict[str, str] = {}
    for tensor, fake in zip(tensors, fakes, strict=True):
        shape, _ = resolved.shapes.get(id(tensor), (None, ""))
        entries = shape if isinstance(shape, dict) else dict(enumerate(shape or ()))
        for dim, what in entries.items():
            symbol = sizes_of(fake)[dim].symbol
            if symbol is not None and isinstance(what, Dim):
                found.setdefault(symbol, what.__name__)
    return found
