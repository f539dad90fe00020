"""How a call runs on pieces of tensors: equations of dimensions, for the field `shards` of definitions.

Takes: the arguments of a call, as shapes. Gives: an `Equation`, or the text of one.
Keeps true: where an equation says that a dimension may be cut, the call on the pieces gives the pieces of the
result (or numbers that add up to it); what it does not name must be whole.

An equation is like `"mk,kn->mn"`: a text for each tensor argument (of a list, each of its tensors), then one for
each result, with a letter for each dimension. Tensors may be cut along all dimensions of one letter. A letter that
a result lacks is summed over: what ranks get are parts of a sum (`:max`, `:avg`, ... behind the result say another
reduction; `:` alone that there is none). `.` is a dimension that must be whole, a capital one that is cut evenly only;
`+` in front of an argument says that it is added to the result, so that one rank alone may add it; `?` that its
elements are not read.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

__all__ = ["Equation", "broadcast", "rule_of"]

_LETTERS = "abcdefghijklmnopqrstuvwxyz"


class Equation(NamedTuple):
    """What `shards` gives where a text is not enough."""

    text: str
    #: the sizes of the results, where letters do not say them
    sizes: tuple[tuple[int, ...], ...] | None = None
    #: arguments for the pieces: from a function (letter, whole size) -> size of the piece
    local: Callable[[Callable[[str, int], int]], dict[str, Any]] | None = None


def letters(count: int, start: int = 0) -> str:
    """As many letters."""
    return _LETTERS[start : start + count]


def broadcast(shapes: Sequence[Sequence[int]]) -> str:
    """The equation of an elementwise call: dimensions of size 1 that are repeated must be whole."""
    rank = max((len(s) for s in shapes), default=0)
    names = letters(rank)
    whole = [1] * rank
    for shape in shapes:
        for i, size in enumerate(reversed(shape)):
            whole[-1 - i] = size if size != 1 else whole[-1 - i]

    def one(shape: Sequence[int]) -> str:
        start = rank - len(shape)
        return "".join(
            names[start + i] if size == whole[start + i] else "." for i, size in enumerate(shape)
        )

    return ",".join(one(s) for s in shapes) + "->" + names


def _dims(dim: object, rank: int) -> set[int]:
    if dim is None or (isinstance(dim, (tuple, list)) and not len(dim)):
        return set(range(rank))
    many = dim if isinstance(dim, (tuple, list)) else (dim,)
    return {d % rank for d in many} if rank else set()


def rule_of(words: str) -> Callable[..., Any]:
    """The rule that words name: a function of this module, and what it is given ("-": nothing)."""
    name, *given = words.split()
    found = globals()[name]
    values = [int(w) if w.isdigit() else "" if w == "-" else w for w in given]
    return found(*values) if name in _MADE else found


#: functions that give rules
_MADE = ("along", "convolution_weight", "reduction", "spread")


def reduction(kind: str, results: int = 1) -> Callable[..., str]:
    """A rule for `(self, dim, keepdim, ...)`: dimensions that go are combined by `kind`, or must be whole ("").

    Sums may be of pieces of any size, all else of even ones.
    """

    def rule(self: Any, dim: object = None, keepdim: bool = False, *rest: object) -> str:
        gone = _dims(dim, self.dim())
        names = letters(self.dim())
        into = "".join(
            (n if kind == "sum" or kind.startswith("norm") else n.upper() if kind else ".")
            if i in gone
            else n
            for i, n in enumerate(names)
        )
        out = "".join(n if i not in gone else "." if keepdim else "" for i, n in enumerate(names))
        return f"{into}->" + ",".join([f"{out}:{kind}"] * results)

    return rule


def norm(self: object, ord: float = 2.0, dim: object = None, keepdim: bool = False) -> str:
    """A norm: pieces have norms of their own, whose norm it is."""
    kind = {math.inf: "max", -math.inf: "min", 0: "sum", 1: "sum"}.get(ord, f"norm{ord:g}")
    return reduction(kind)(self, dim, keepdim)


#: rules of calls that arrange elements: whatever reduction is left to be made, can be made behind them
ARRANGING = ("joined", "stacked")


def along(results: int = 1, tensors: int = 1, position: int = 1) -> Callable[..., str]:
    """A rule for calls that look along one dimension, argument number `position`, which must be whole."""

    def rule(*args: Any) -> str:
        first = args[0]
        rank = first.dim()
        whole = _dims(args[position], rank)
        text = "".join("." if i in whole else n for i, n in enumerate(letters(rank)))
        return ",".join([text] * tensors) + "->" + ",".join([text] * results)

    return rule


def like(*args: Any) -> str:
    """A rule for new tensors of an argument's shape."""
    text = letters(args[0].dim())
    return f"?{text}->{text}"


def new(*args: Any) -> str:
    """A rule for new tensors of a given shape: each rank makes the whole one."""
    text = letters(args[0].dim())
    return f"?{text}->{_WHOLE}"


#: a result of any number of dimensions, all whole
_WHOLE = "*"


def resized(before: Sequence[int], after: Sequence[int], name: str) -> Equation | None:
    """The equation of a view in another shape: of dimensions that become others, the first may be cut evenly."""
    total = math.prod(before)
    known = math.prod(s for s in after if s != -1)
    after = tuple((total // known if known else 0) if s == -1 else s for s in after)
    if not total or math.prod(after) != total:
        return None
    into, out = ["."] * len(before), ["."] * len(after)
    letter = iter(_LETTERS)
    i = j = 0
    while i < len(before) and j < len(after):
        start_i, start_j, one, other = i, j, before[i], after[j]
        i, j = i + 1, j + 1
        while one != other:
            if one < other:
                one, i = one * before[i], i + 1
            else:
                other, j = other * after[j], j + 1
        plain = i - start_i == 1 and j - start_j == 1
        # of several dimensions that become one, or others, the first that is not 1 may be cut
        first_i = next((k for k in range(start_i, i) if before[k] != 1), start_i)
        first_j = next((k for k in range(start_j, j) if after[k] != 1), start_j)
        named = next(letter)
        into[first_i] = out[first_j] = named if plain else named.upper()
    sizes = after

    def local(piece: Callable[[str, int], int]) -> dict[str, Any]:
        return {
            name: tuple(
                s if n == "." else piece(n, s) for n, s in zip(out, sizes, strict=True)
            )
        }  # fmt: skip

    return Equation("".join(into) + "->" + "".join(out), (tuple(after),), local)


# ------------------------------------------------------------------ rules of families


def product_with_sum(self: Any, mat1: Any, mat2: object, *rest: object) -> str:
    """`self + mat1 @ mat2`, of matrices or batches of them."""
    batch = "x" if mat1.dim() == 3 else ""
    out = batch + "mn"
    start = len(out) - self.dim()
    return f"+{_repeated(self, out[start:])},{batch}mk,{batch}kn->{out}"


def _repeated(added: Any, names: str) -> str:
    """The text of what is repeated along dimensions of size 1."""
    return "".join("." if s == 1 else n for n, s in zip(names, added.shape, strict=True))


def affine(input: Any, weight: Any, bias: Any = None) -> str:
    """`input @ weight.T + bias`."""
    batch = letters(input.dim() - 1)
    out = "o" if weight.dim() == 2 else ""
    added = "" if bias is None else ",+" + ("o" if bias.dim() else "")
    return f"{batch}z,{out}z{added}->{batch}{out}"


def normalized(
    input: Any, normalized_shape: Any, weight: object, bias: object, *rest: object
) -> str:
    """A norm of the last dimensions, and the statistics of each row."""
    inner = len(normalized_shape)
    outer = letters(input.dim() - inner)
    parameters = "".join("," + "." * inner for t in (weight, bias) if t is not None)
    return f"{outer}{'.' * inner}{parameters}->{outer}{'.' * inner},{outer}{'.' * inner},{outer}{'.' * inner}"


def normalized_backward(
    grad: object, input: object, mean: object, rstd: object, weight: Any, *rest: object
) -> str:
    """The gradients of `normalized`: those of parameters are sums over rows."""
    row, over = _row(input, mean)
    parameters = "" if weight is None else "," + "." * weight.dim()
    return f"{row},{row},{over},{over}{parameters}->{row},.,."


def root_mean_square(input: Any, normalized_shape: Any, weight: object, *rest: object) -> str:
    """A norm of the last dimensions without a mean, and the statistic of each row."""
    inner = "." * len(normalized_shape)
    outer = letters(input.dim() - len(inner))
    return f"{outer}{inner}{'' if weight is None else ',' + inner}->{outer}{inner},{outer}{inner}"


def root_mean_square_backward(grad: object, input: object, rstd: object, weight: Any) -> str:
    """The gradients of `root_mean_square`."""
    row, over = _row(input, rstd)
    return f"{row},{row},{over}{'' if weight is None else ',' + '.' * weight.dim()}->{row},."


def _row(input: Any, statistic: Any) -> tuple[str, str]:
    """The texts of a tensor whose rows were normalized, and of what there is one of in each row."""
    inner = next(
        (i for i, s in enumerate(reversed(statistic.shape)) if s != 1), statistic.dim()
    )  # fmt: skip
    text = letters(input.dim() - inner) + "." * inner
    return text, text[: statistic.dim()]


def attention(query: Any, key: Any, value: object, mask: object, *rest: object) -> str | None:
    """Attention of batches and heads; positions must be whole."""
    heads = "h" if query.shape[1] == key.shape[1] else "."
    over = "" if mask is None else f",b{heads}.."
    if len(rest) > 3 and rest[3] is not None:
        return None
    each = f"b{heads}.."
    return f"{each},{each},{each}{over}->{each},b{heads}."


def attention_backward(
    grad_out: object,
    query: Any,
    key: Any,
    value: object,
    out: object,
    logsumexp: object,
    mask: object,
    *rest: object,
) -> str | None:
    """The gradients of attention."""
    if query.shape[1] != key.shape[1] or mask is not None or rest[3] is not None:
        return None
    return ",".join(["bh.."] * 5) + ",bh.->bh..,bh..,bh..,*"


def convolution(input: Any, weight: object, bias: object, stride: int | Sequence[int],
    padding: str | int | Sequence[int], dilation: int | Sequence[int],
                groups: int, *rest: object) -> str:  # fmt: skip
    """Entries of the batch, and channels where there is one group."""
    inner = "." * (input.dim() - 2)
    c, o = ("c", "o") if groups == 1 else (".", ".")
    added = "" if bias is None else f",+{o}"
    return f"n{c}{inner},{o}{c}{inner}{added}->n{o}{inner}"


def convolution_input(grad_output: Any, weight: object, bias: object, stride: int | Sequence[int],
    padding: str | int | Sequence[int],
                      dilation: int | Sequence[int], groups: int, *rest: object) -> str:  # fmt: skip
    """The gradient of a convolution's input."""
    inner = "." * (grad_output.dim() - 2)
    c, o = ("c", "o") if groups == 1 else (".", ".")
    added = "" if bias is None else f",+{c}"
    return f"n{o}{inner},{o}{c}{inner}{added}->n{c}{inner}"


def convolution_weight(results: int) -> Callable[..., str]:
    """The gradient of a convolution's weight, and that of its bias."""

    def rule(grad_output: object, input: Any, stride: int | Sequence[int], padding: int | Sequence[int],
        dilation: int | Sequence[int], groups: int,
             *rest: object) -> str:  # fmt: skip
        inner = "." * (input.dim() - 2)
        c, o = ("c", "o") if groups == 1 and results == 1 else (".", "o" if groups == 1 else ".")
        bias = f",{o}" if results == 2 else ""
        return f"n{o}{inner},n{c}{inner}->{o}{c}{inner}{bias}"

    return rule


def joined(tensors: Sequence[Any], dim: int = 0) -> str | None:
    """Tensors one after the other along a dimension, which must be whole."""
    rank = max(t.dim() for t in tensors)
    if any(t.dim() != rank for t in tensors):
        return None
    text = "".join("." if i == dim % rank else n for i, n in enumerate(letters(rank)))
    return ",".join([text] * len(tensors)) + "->" + text


def stacked(tensors: Sequence[Any], dim: int = 0) -> str:
    """Tensors along a new dimension."""
    names = letters(tensors[0].dim())
    at = dim % (len(names) + 1)
    return ",".join([names] * len(tensors)) + f"->{names[:at]}.{names[at:]}"


def looked_up(weight: object, indices: Any, *rest: object) -> str:
    """Rows of a table by index: the table may be cut along its columns."""
    names = letters(indices.dim())
    return f".z,{names}->{names}z"


def looked_up_backward(grad_output: object, indices: Any, *rest: object) -> str:
    """The gradient of a table: parts of a sum where indices are cut."""
    names = letters(indices.dim())
    return f"{names}z,{names}->.z"


def total(input: Any, target: object, mean: bool) -> str:
    """A sum over all elements, or a mean."""
    names = letters(input.dim())
    names = names.upper() if mean else names
    return f"{names},{names}->:{'avg' if mean else 'sum'}"


def losses(input: Any, target: object, weight: object, *rest: object) -> str:
    """The loss of each entry of the batch, classes whole."""
    inner, batch = letters(input.dim() - 2, 1), "a" if input.dim() > 1 else ""
    weights = "" if weight is None else ",."
    return f"{batch}.{inner},{batch}{inner}{weights}->{batch}{inner},{batch}{inner}"


def losses_backward(
    grad_output: object, input: Any, target: object, lse: object, weight: object, *rest: object
) -> str:
    """The gradient of `losses`."""
    inner, batch = letters(input.dim() - 2, 1), "a" if input.dim() > 1 else ""
    row = f"{batch}{inner}"
    weights = "" if weight is None else ",."
    return f"{row},{batch}.{inner},{row},{row}{weights}->{batch}.{inner}"


# ------------------------------------------------------------------ rules of views


def exchanged(self: Any, one: int, other: int) -> str:
    """Two dimensions in each other's place."""
    names = list(letters(self.dim()))
    text = "".join(names)
    if names:
        one, other = one % len(names), other % len(names)
        names[one], names[other] = names[other], names[one]
    return f"{text}->{''.join(names)}"


def transposed(self: Any) -> str:
    """The transpose of a matrix."""
    names = letters(self.dim())
    return f"{names}->{names[::-1]}"


def permuted(self: Any, dims: Sequence[int]) -> str:
    """The dimensions in another order."""
    names = letters(self.dim())
    return f"{names}->{''.join(names[d] for d in dims)}"


def expanded(self: Any, size: Sequence[int], implicit: bool = False) -> Equation:
    """Dimensions of size 1, and new ones, are repeated; those must be whole."""
    names, start = letters(self.dim()), len(size) - self.dim()
    kept = [
        n if self.shape[i] != 1 or size[start + i] in (1, -1) else "." for i, n in enumerate(names)
    ]
    out = "." * start + "".join(kept)
    whole = [s if s != -1 else self.shape[i - start] for i, s in enumerate(size)]

    def local(piece: Callable[[str, int], int]) -> dict[str, Any]:
        return {
            "size": tuple(s if n == "." else piece(n, s) for n, s in zip(out, whole, strict=True))
        }

    return Equation("".join(kept) + "->" + out, None, local)


def reshaped(self: Any, size: object) -> Equation | None:
    """The same elements in another shape."""
    return resized(self.shape, tuple(size), "size") if isinstance(size, (tuple, list)) else None


def with_new(self: Any, dim: int) -> str:
    """A new dimension of size 1."""
    names = letters(self.dim())
    at = dim % (len(names) + 1)
    return f"{names}->{names[:at]}.{names[at:]}"


def without_ones(self: Any, dim: object = None) -> Equation:
    """Without dimensions of size 1; pieces of size 1 are no such dimensions."""
    gone = {d for d in _dims(dim, self.dim()) if self.shape[d] == 1} if dim != () else set()
    names = letters(self.dim())
    into = "".join("." if i in gone else n for i, n in enumerate(names))
    out = "".join(n for i, n in enumerate(names) if i not in gone)
    return Equation(f"{into}->{out}", None, lambda piece: {"dim": tuple(sorted(gone))})


def selected(self: Any, dim: int, index: int) -> str:
    """One slice along a dimension, which must be whole."""
    names, at = letters(self.dim()), dim % self.dim()
    return f"{names[:at]}.{names[at + 1 :]}->{names[:at]}{names[at + 1 :]}"


def ranged(self: Any, dim: int = 0, *rest: object) -> str:
    """A range along a dimension, which must be whole."""
    names, at = letters(self.dim()), dim % max(self.dim(), 1)
    text = f"{names[:at]}.{names[at + 1 :]}"
    return f"{text}->{text}"


def indexed(self: Any, index: object) -> str | None:
    """An index of ints, slices, None and Ellipsis: dimensions that are not looked at may be cut."""
    items = list(index) if isinstance(index, tuple) else [index]
    if any(not isinstance(i, (int, slice)) and i is not None and i is not Ellipsis for i in items):
        return None
    used = sum(i is not None and i is not Ellipsis for i in items)
    rest = [slice(None)] * (self.dim() - used)
    at = next((k for k, i in enumerate(items) if i is Ellipsis), len(items))
    items[at : at + 1] = rest
    names, into, out = iter(letters(self.dim())), "", ""
    for item in items:
        if item is None:
            out += "."
            continue
        name = next(names)
        if item == slice(None) and isinstance(item, slice):
            into, out = into + name, out + name
        else:
            into += "."
            out += "." if isinstance(item, slice) else ""
    return f"{into}->{out}"


def pieces_along(self: Any, *rest: Any) -> str:
    """Several pieces along a dimension (the last argument), which must be whole."""
    dim = rest[-1] if rest else 0
    return ranged(self, dim)


def unbound(self: object, dim: int = 0) -> str:
    """All slices along a dimension, which must be whole."""
    return selected(self, dim, 0)


def spread(results: int = 1) -> Callable[..., str]:
    """Variances and deviations `(self, dim, correction, keepdim)`: dimensions that go must be whole."""
    rule = reduction("", results)

    def ruled(
        self: object, dim: object = None, correction: object = None, keepdim: bool = False
    ) -> str:
        return rule(self, dim, keepdim)

    return ruled
