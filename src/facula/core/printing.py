"""How a tensor is shown.

Takes a tensor and the print options; gives the text of `repr(tensor)`.  Keeps true: the text is
PyTorch's to the character; only the elements that are shown are read, so that printing a large
tensor costs no more than a small one; and printing changes nothing, records nothing and never
synchronises more than the copy it needs.
"""

import contextlib
import math
from collections.abc import Callable, Iterator
from typing import Any

from facula import core

__all__ = ["get_printoptions", "printoptions", "set_printoptions", "tensor_repr"]


class PrintOptions:
    """What `set_printoptions` sets; `sci_mode` None means that the values decide."""

    def __init__(self) -> None:
        self.precision = 4
        self.threshold: float = 1000
        self.edgeitems = 3
        self.linewidth = 80
        self.sci_mode: bool | None = None


OPTIONS = PrintOptions()

PROFILES: dict[str, dict[str, Any]] = {
    "default": {"precision": 4, "threshold": 1000, "edgeitems": 3, "linewidth": 80},
    "short": {"precision": 2, "threshold": 1000, "edgeitems": 2, "linewidth": 80},
    "full": {"precision": 4, "threshold": math.inf, "edgeitems": 3, "linewidth": 80},
}


def set_printoptions(
    precision: int | None = None,
    threshold: float | None = None,
    edgeitems: int | None = None,
    linewidth: int | None = None,
    profile: str | None = None,
    sci_mode: bool | None = None,
) -> None:
    """How tensors are printed.

    Args:
        precision: digits behind the point
        threshold: elements above which a tensor is shortened
        edgeitems: how many elements a shortened one shows at each end
        linewidth: characters a line
        profile: 'default', 'short' or 'full'
        sci_mode: whether numbers have exponents; None for as needed

    Example:
        >>> facula.set_printoptions(precision=2)
        >>> facula.tensor(1 / 3)
        tensor(0.33)
        >>> facula.set_printoptions(profile="default")
    """
    chosen = dict(PROFILES.get(profile, {})) if profile is not None else {}
    named = {
        "precision": precision,
        "threshold": threshold,
        "edgeitems": edgeitems,
        "linewidth": linewidth,
    }
    chosen.update({name: value for name, value in named.items() if value is not None})
    for name, value in chosen.items():
        setattr(OPTIONS, name, value)
    OPTIONS.sci_mode = sci_mode


def get_printoptions() -> dict[str, Any]:
    """The present options, as keyword arguments for `set_printoptions`."""
    return dict(vars(OPTIONS))


@contextlib.contextmanager
def printoptions(**options: Any) -> Iterator[None]:
    """Sets options for the length of a `with` block."""
    before = get_printoptions()
    set_printoptions(**options)
    try:
        yield
    finally:
        set_printoptions(**before)


class _Elided:
    """Marks, in a nested list, the place of what a summary leaves out."""


_ELIDED = _Elided()


def _shown(tensor: Any, summarize: bool) -> Any:
    """The tensor's values as nested lists, `_ELIDED` standing for what is left out."""
    if not summarize or tensor.dim() == 0:
        return tensor.tolist()
    edge, size = OPTIONS.edgeitems, tensor.shape[0]
    if edge == 0:
        return [_ELIDED]
    if size <= 2 * edge:
        whole = tensor.dim() == 1
        return tensor.tolist() if whole else [_shown(tensor[i], True) for i in range(size)]
    if tensor.dim() == 1:
        return [*tensor[:edge].tolist(), _ELIDED, *tensor[size - edge :].tolist()]
    first = [_shown(tensor[i], True) for i in range(edge)]
    last = [_shown(tensor[i], True) for i in range(size - edge, size)]
    return [*first, _ELIDED, *last]


def _flat(values: Any) -> Iterator[Any]:
    """The values of nested lists, in order."""
    if isinstance(values, list):
        for value in values:
            yield from _flat(value)
    elif values is not _ELIDED:
        yield values


class _Plain:
    """Writes integers and bools: as Python does, to the widest."""

    def __init__(self, values: list[Any]) -> None:
        self.width = max((len(str(value)) for value in values), default=1)

    def __call__(self, value: Any) -> str:
        return str(value).rjust(self.width)


class _Real:
    """Writes floating-point numbers in the one notation that suits all of them."""

    # Whole numbers are written `3.`; others with `precision` digits; in scientific notation where
    # they differ by more than a factor 1000, or one is above 1e8, or one that is not whole is below
    # 1e-4.

    def __init__(self, values: list[float]) -> None:
        counted = [value for value in values if value != 0 and math.isfinite(value)]
        self.width, self.whole, self.scientific = 1, True, False
        if not counted:
            return
        sizes = [abs(value) for value in counted]
        smallest, largest = min(sizes), max(sizes)
        self.whole = all(value == math.ceil(value) for value in counted)
        if OPTIONS.sci_mode is None:
            self.scientific = largest / smallest > 1000 or largest > 1e8 or smallest < 1e-4
        else:
            self.scientific = OPTIONS.sci_mode
        self.width = max(1, *(len(self._digits(value)) for value in counted))

    def _digits(self, value: float) -> str:
        if self.scientific:
            return f"{value:.{OPTIONS.precision}e}"
        if self.whole:
            return f"{value:.0f}." if math.isfinite(value) else f"{value:.0f}"
        return f"{value:.{OPTIONS.precision}f}"

    def __call__(self, value: float) -> str:
        return self._digits(value).rjust(self.width)


class _Complex:
    """Writes complex numbers: each part in the notation that suits it."""

    def __init__(self, values: list[complex]) -> None:
        self.real = _Real([value.real for value in values])
        self.imaginary = _Real([value.imag for value in values])
        self.width = self.real.width + self.imaginary.width + 1  # and the j

    def __call__(self, value: complex) -> str:
        imaginary = self.imaginary(value.imag).lstrip() + "j"
        sign = "" if imaginary[0] in "+-" else "+"
        return self.real(value.real) + sign + imaginary


def _writer(dtype: Any, values: list[Any]) -> Any:
    if dtype.is_complex:
        return _Complex(values)
    return _Real(values) if dtype.is_floating_point else _Plain(values)


def _write(values: Any, dim: int, indent: int, write: Any) -> str:
    """Nested lists of depth `dim` as text whose lines after the first are indented by `indent`."""
    if dim == 0:
        return write(values)
    if dim > 1:
        parts = [
            "..." if value is _ELIDED else _write(value, dim - 1, indent + 1, write)
            for value in values
        ]
        return "[" + ("," + "\n" * (dim - 1) + " " * (indent + 1)).join(parts) + "]"
    # a lone mark stands by itself, one between numbers is set off from them
    mark = "..." if len(values) == 1 else " ..."
    words = [mark if value is _ELIDED else write(value) for value in values]
    in_line = max(1, math.floor((OPTIONS.linewidth - indent) / (write.width + 2)))
    lines = [", ".join(words[i : i + in_line]) for i in range(0, len(words), in_line)]
    return "[" + (",\n" + " " * (indent + 1)).join(lines) + "]"


def contents(tensor: Any, indent: int) -> str:
    """The brackets and numbers of a dense tensor."""
    if tensor.numel() == 0:
        return "[]"
    values = _shown(tensor, tensor.numel() > OPTIONS.threshold)
    return _write(values, tensor.dim(), indent, _writer(tensor.dtype, list(_flat(values))))


def _join(text: str, suffixes: list[str], indent: int, force_newline: bool) -> str:
    """Adds the suffixes, each on the last line if it fits there, and the closing bracket."""
    parts = [text]
    column = len(text) - text.rfind("\n") + 1
    for suffix in suffixes:
        if force_newline or column + len(suffix) + 2 > OPTIONS.linewidth:
            parts.append(",\n" + " " * indent + suffix)
            column = indent + len(suffix)
            force_newline = False
        else:
            parts.append(", " + suffix)
            column += len(suffix) + 2
    return "".join(parts) + ")"


# layout: the parts of a sparse tensor, each a label and the method that gives it
_SPARSE_PARTS = {
    "sparse_coo": (("indices", "_indices"), ("values", "_values")),
    "sparse_csr": (
        ("crow_indices", "crow_indices"),
        ("col_indices", "col_indices"),
        ("values", "values"),
    ),
    "sparse_csc": (
        ("ccol_indices", "ccol_indices"),
        ("row_indices", "row_indices"),
        ("values", "values"),
    ),
}
_SPARSE_PARTS["sparse_bsr"] = _SPARSE_PARTS["sparse_csr"]
_SPARSE_PARTS["sparse_bsc"] = _SPARSE_PARTS["sparse_csc"]


def _sparse_contents(tensor: Any, layout: str, indent: int, bare: bool) -> str:
    """The parts of a sparse tensor, a line each."""
    written = []
    for label, method in _SPARSE_PARTS[layout]:
        part = getattr(tensor, method)().detach()
        prefix = f"{label}=tensor("
        text = "..." if bare else contents(part, indent + len(prefix))
        if bare or part.numel() == 0:
            text += f", size={tuple(part.shape)}"
        written.append(prefix + text + ")")
    return (",\n" + " " * indent).join(written)


# forward-mode differentiation puts a function here that splits a tensor into value and tangent
unpack_dual: Callable[[Any], tuple[Any, Any]] | None = None


def _default_dtypes() -> tuple[Any, tuple[Any, ...]]:
    """The default floating dtype, and every dtype that needs no mention."""
    default = core.get_default_dtype()
    complex_default = core.complex128 if default == core.float64 else core.complex64
    return default, (default, complex_default, core.int64, core.bool)


def _suffixes(tensor: Any, layout: str, bare: bool) -> list[str]:
    """What follows the contents, up to the layout: device, size, dtype."""
    default, unmentioned = _default_dtypes()
    found = []
    if tensor.device.type not in ("cpu", "meta") or (tensor.device.type == "meta" and bare):
        found.append(f"device='{tensor.device}'")
    size = f"size={tuple(tensor.shape)}"
    if layout != "strided":
        found.append(size)
        if not bare:
            found.append(f"nnz={tensor._nnz()}")
    elif bare or (tensor.numel() == 0 and tensor.dim() != 1):
        found.append(size)
    elif tensor.numel() > 0 and not OPTIONS.edgeitems:
        found.append(size)
    # with no elements to tell it, any dtype but the default is mentioned
    silent = layout == "strided" and (bare or tensor.numel() == 0)
    if tensor.dtype != default and (silent or tensor.dtype not in unmentioned):
        found.append(f"dtype={tensor.dtype}")
    return found


def _history(tensor: Any) -> list[str]:
    """The suffix about gradients, from the tensor itself and not from what printing made of it."""
    try:
        node = tensor.grad_fn
    except RuntimeError:
        # an in-place change made under no_grad to a view made under no_grad has no valid history
        return ["grad_fn=<Invalid>"]
    if node is not None:
        return [f"grad_fn=<{node.name().rpartition('::')[2]}>"]
    return ["requires_grad=True"] if tensor.requires_grad else []


def _has_data(tensor: Any) -> bool:
    """Whether the tensor's device keeps elements; a backend without them says `has_data = False`."""
    kind = tensor.device.type
    return kind != "meta" and getattr(core.BACKENDS.get(kind), "has_data", True)


def _is_plain(tensor: Any) -> bool:
    kind = type(tensor)
    return getattr(kind, "_prints_plain", kind.__name__ in ("Tensor", "Parameter"))


def tensor_repr(tensor: Any, *, tensor_contents: str | None = None) -> str:
    """`repr(tensor)`; `tensor_contents` replaces the numbers. No dispatch mode hears of it."""
    keys = core.suspend_dispatch()
    try:
        return _repr(tensor, tensor_contents)
    finally:
        core.set_thread_keys(keys)


def _repr(tensor: Any, tensor_contents: str | None) -> str:
    plain = _is_plain(tensor)
    prefix = "tensor(" if plain else f"{type(tensor).__name__}("
    value, tangent = unpack_dual(tensor) if unpack_dual is not None else (tensor, None)
    value = value.detach()
    layout = str(value.layout).rpartition(".")[2]
    bare = not _has_data(value) or getattr(type(tensor), "_prints_without_data", False)
    suffixes = _suffixes(value, layout, bare)
    if tensor_contents is not None:
        text = tensor_contents
    elif layout != "strided":
        text = _sparse_contents(value, layout, len(prefix), bare)
    else:
        text = "..." if bare else contents(value, len(prefix))
    if layout != "strided":
        suffixes.append(f"layout={value.layout}")
    suffixes += _history(tensor)
    if tangent is not None:
        suffixes.append(f"tangent={tangent}")
    shown = _join(prefix + text, suffixes, len(prefix), layout == "sparse_coo")
    if not plain and getattr(tensor, "_is_param", False):
        return f"Parameter({shown})"
    return shown
