"""`vmap`: a function of one entry as a function of batches.

Takes a function, and where the inputs and outputs have their batch dimension.  Gives the mapped
function.
Keeps true: all mapped inputs have one size; errors name the function and the argument; with a
`chunk_size` the batch runs in parts that are joined again.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

from facula import core
from facula.autograd.transforms.batching import VmapLevel
from facula.autograd.transforms.levels import is_batched, wrap
from facula.autograd.transforms.tree import Structure, broadcast, flatten
from facula.core.errors import fail
from facula.ops.table.registry import F

Tensor = core.Tensor


def name_of(function: Callable[..., Any]) -> str:
    """What errors call a function."""
    return getattr(function, "__name__", None) or repr(function)


def _check_inputs(in_dims: object, args: tuple[Any, ...], name: str) -> None:
    if not isinstance(in_dims, (int, tuple)) or isinstance(in_dims, bool):
        fail(
            ValueError,
            "vmap",
            (
                f"vmap({name}, in_dims={in_dims}, ...)(<inputs>): expected `in_dims` to be "
                "int or a (potentially nested) tuple matching the structure of inputs, got: "
                f"{type(in_dims)}."
            ),
            hint=(
                "in_dims=0 for all inputs, or a tuple with one entry for each, None for what "
                "is not mapped"
            ),
        )
    if not args:
        fail(
            ValueError,
            "vmap",
            (
                f"vmap({name})(<inputs>): got no inputs. Maybe you forgot to add inputs, or "
                "you are trying to vmap over a function with no inputs. The latter is "
                "unsupported."
            ),
            hint="pass the mapped tensor by position",
        )


def in_dims_of(
    in_dims: object, args: tuple[Any, ...], function: Callable[..., Any]
) -> tuple[int, list, list, Any]:
    """(size, a dimension or None a leaf, the leaves, their structure)."""
    name = name_of(function)
    _check_inputs(in_dims, args, name)
    leaves, structure = flatten(args)
    dims = broadcast(in_dims, structure)
    if dims is None:
        fail(
            ValueError,
            "vmap",
            (
                f"vmap({name}, in_dims={in_dims}, ...)(<inputs>): in_dims is not compatible "
                f"with the structure of `inputs`. in_dims has structure {flatten(in_dims)[1]} "
                f"but inputs has structure {structure}."
            ),
            hint=("one entry for each input; a single int or None stands for a whole list or dict"),
        )
    where = f"vmap({name}, in_dims={in_dims}, ...)(<inputs>): "
    found = [_checked_dim(where, dim, leaf) for dim, leaf in zip(dims, leaves, strict=True)]
    sizes = [leaf.shape[d] for d, leaf in zip(found, leaves, strict=True) if d is not None]
    return _one_size(sizes), found, leaves, structure


def _one_size(sizes: list[int]) -> int:
    """The size that all mapped inputs have."""
    if not sizes:
        fail(
            ValueError,
            "vmap",
            "vmap: Expected at least one Tensor to vmap over",
            hint="in_dims must name a dimension of one of them",
        )
    if any(size != sizes[0] for size in sizes):
        fail(
            ValueError,
            "vmap",
            (
                "vmap: Expected all tensors to have the same size in the mapped dimension, "
                f"got sizes {sizes} for the mapped dimension"
            ),
            hint="None in in_dims keeps a tensor whole",
        )
    return sizes[0]


def _checked_dim(where: str, dim: int | None, leaf: core.Tensor) -> int | None:
    if dim is None:
        return None
    if not isinstance(dim, int):
        fail(
            ValueError,
            "vmap",
            (
                f"{where}Got in_dim={dim} for an input but in_dim must be either an integer "
                "dimension or None."
            ),
            hint="None keeps the input whole",
        )
    if not isinstance(leaf, Tensor) and not maps_itself(leaf):
        fail(
            ValueError,
            "vmap",
            (
                f"{where}Got in_dim={dim} for an input but the input is of type {type(leaf)}. "
                "We cannot vmap over non-Tensor arguments, please use None as the respective "
                "in_dim"
            ),
            hint="facula.as_tensor(value) could be mapped",
        )
    if not -leaf.dim() <= dim < leaf.dim():
        fail(
            ValueError,
            "vmap",
            (
                f"{where}Got in_dim={dim} for some input, but that input is a Tensor of "
                f"dimensionality {leaf.dim()} so expected in_dim to satisfy -{leaf.dim()} <= "
                f"in_dim < {leaf.dim()}."
            ),
            hint="unsqueeze(0) gives it a dimension to map over, None keeps it whole",
        )
    return dim % leaf.dim()


def _out_dims_of(out_dims: int, structure: Structure, function: Callable[..., Any]) -> list[Any]:
    name = name_of(function)
    flat = flatten(out_dims)[0]
    if any(d is not None and (not isinstance(d, int) or isinstance(d, bool)) for d in flat):
        fail(
            ValueError,
            "vmap",
            (
                f"vmap({name}, ..., out_dims={out_dims}): `out_dims` must be an int, None or "
                "a python collection of ints representing where in the outputs the vmapped "
                "dimension should appear."
            ),
            hint="out_dims=0 puts the batch in front",
        )
    if structure.kind is None and isinstance(out_dims, tuple) and len(out_dims) == 1:
        out_dims = out_dims[0]
    dims = broadcast(out_dims, structure)
    if dims is None:
        fail(
            ValueError,
            "vmap",
            (
                f"vmap({name}, ..., out_dims={out_dims}): out_dims is not compatible with the "
                f"structure of `outputs`. out_dims has structure {flatten(out_dims)[1]} but "
                f"outputs has structure {structure}."
            ),
            hint="one int stands for all outputs",
        )
    return dims


def maps_itself(value: object) -> bool:
    """Whether something that is no tensor says itself what one entry of it is.

    Containers of tensors do (tensordict's): `_add_batch_dim(in_dim=, vmap_level=)` gives an entry, whose
    `_maybe_remove_batch_dim(name, vmap_level=, batch_size=, out_dim=)` gives the batch back.
    """
    return not isinstance(value, Tensor) and hasattr(type(value), "_add_batch_dim")


def add_batch_dim(value: Any, in_dim: int, vmap_level: int) -> Any:
    """An entry, at a level of `vmap`, of the batch that lies along a dimension."""
    if maps_itself(value):
        return value._add_batch_dim(in_dim=in_dim, vmap_level=vmap_level)
    return wrap(value, in_dim % value.dim(), vmap_level)


def remove_batch_dim(
    value: Any, vmap_level: int, batch_size: int, out_dim: int | None, name: str = "function"
) -> Any:
    """The batch behind an entry of a level, along `out_dim`; None asks for what is not mapped.

    Raises:
        ValueError: it is mapped though `out_dim` is None, or it is no tensor.
        IndexError: `out_dim` is none of its dimensions.
    """
    if maps_itself(value):
        return value._maybe_remove_batch_dim(
            name, vmap_level=vmap_level, batch_size=batch_size, out_dim=out_dim
        )
    if out_dim is None:
        if is_batched(value, vmap_level):
            fail(
                ValueError,
                "vmap",
                f"vmap({name}, ...): `{name}` can not return a BatchedTensor when out_dim is None",
                hint="out_dims=0 puts the batch in front",
            )
        return value
    if not isinstance(value, Tensor):
        fail(
            ValueError,
            "vmap",
            (
                f"vmap({name}, ...): `{name}` must only return Tensors, got type {type(value)}. "
                "Did you mean to set out_dims= to None for output?"
            ),
            hint="facula.as_tensor(value) makes one",
        )
    if not is_batched(value, vmap_level):
        shape = list(value.shape)
        where = out_dim % (len(shape) + 1)
        return value.unsqueeze(where).expand((*shape[:where], batch_size, *shape[where:]))
    return _with_batch_at(value, out_dim)


def _with_batch_at(entry: core.Tensor, dim: int) -> Tensor:
    """The batch behind an entry, along this dimension."""
    inner = entry.value
    if not -inner.dim() <= dim < inner.dim():
        fail(
            IndexError,
            "vmap",
            f"a dimension in [{-inner.dim()}, {inner.dim() - 1}] was required as out_dim",
            got=f"{dim} (Dimension out of range)",
            hint="out_dims=0 puts the batch in front",
        )
    dim %= inner.dim()
    return inner if dim == entry.batch_dim else inner.movedim(entry.batch_dim, dim)


def run_mapped(
    function: Callable[..., Any],
    size: int,
    dims: list,
    leaves: list,
    structure: Structure,
    out_dims: Any,
    randomness: str,
    kwargs: dict[str, Any],
) -> Any:
    """Run the function once, on wrappers of the mapped leaves."""
    with VmapLevel(size, randomness) as level:
        wrapped = [
            leaf if d is None else add_batch_dim(leaf, d, level.number)
            for d, leaf in zip(dims, leaves, strict=True)
        ]
        outputs = function(*structure.build(wrapped), **kwargs)
        results, shape = flatten(outputs)
        where = _out_dims_of(out_dims, shape, function)
    made = [
        remove_batch_dim(v, level.number, size, d, name_of(function))
        for v, d in zip(results, where, strict=True)
    ]
    return shape.build(made)


def _run_in_chunks(
    function: Callable[..., Any],
    size: int,
    dims: list,
    leaves: list,
    structure: Structure,
    out_dims: Any,
    randomness: str,
    kwargs: dict[str, Any],
    chunk: int,
) -> Any:
    parts = []
    # the same numbers for all entries: each part begins where the first one did; a trace draws none
    again = randomness == "same" and not core.DISPATCH_MODES
    state = core.default_generator.get_state() if again else None
    for start in range(0, size, chunk):
        count = min(chunk, size - start)
        if start and state is not None:
            core.default_generator.set_state(state)
        some = [
            leaf if d is None else leaf.narrow(d, start, count)
            for d, leaf in zip(dims, leaves, strict=True)
        ]
        parts.append(
            run_mapped(function, count, dims, some, structure, out_dims, randomness, kwargs)
        )
    rows, shape = [flatten(p)[0] for p in parts], flatten(parts[0])[1]
    where = _out_dims_of(out_dims, shape, function)
    joined = [
        column[0] if d is None else F.cat(column, d)
        for column, d in zip(zip(*rows, strict=True), where, strict=True)
    ]
    return shape.build(joined)


def check_randomness(randomness: str) -> None:
    """Raise unless it is one of the three ways of drawing random numbers."""
    if randomness not in ("error", "different", "same"):
        fail(
            RuntimeError,
            "vmap",
            (
                "Only allowed values for randomness are 'error', 'different', or 'same'. Got "
                f"{randomness}"
            ),
            hint="'different' draws for every entry, 'same' once for all",
        )


def vmap(
    func: Callable[..., Any],
    in_dims: object = 0,
    out_dims: object = 0,
    randomness: str = "error",
    *,
    chunk_size: int | None = None,
) -> Callable[..., Any]:
    """The function of batches that a function is for one entry.

    Args:
        func: of tensors
        in_dims: the batch dimension of each input, nested like them; None for inputs without
        out_dims: where the batch goes in each output
        randomness: whether random operators are an 'error', 'different' for each entry, or the
            'same'
        chunk_size: entries that are computed together; None for all

    Raises:
        ValueError: ``in_dims`` do not fit the inputs, or batch sizes differ.

    Example:
        >>> facula.vmap(facula.dot)(facula.ones(3, 2), facula.ones(3, 2))
        tensor([2., 2., 2.])
        >>> facula.vmap(facula.func.grad(lambda x: x**3))(facula.tensor([1.0, 2.0]))
        tensor([ 3., 12.])
    """
    check_randomness(randomness)
    if not (chunk_size is None or chunk_size > 0):
        fail(
            ValueError,
            "vmap",
            f"vmap: chunk_size should be None or greater than 0. (got {chunk_size})",
            hint="chunk_size=None takes all entries at once",
        )

    @functools.wraps(func)
    def mapped(*args: object, **kwargs: object) -> Any:
        size, dims, leaves, structure = in_dims_of(in_dims, args, func)
        if chunk_size is not None and chunk_size < size:
            return _run_in_chunks(
                func, size, dims, leaves, structure, out_dims, randomness, kwargs, chunk_size
            )
        return run_mapped(func, size, dims, leaves, structure, out_dims, randomness, kwargs)

    return mapped
