"""The operator `einsum`: sums of products named by subscripts.

Takes an equation such as "bij,bjk->bik" (or operands each followed by a list of numbers) and
tensors; gives the sum over
the subscripts that the result leaves out. Keeps true: every pair of operands is contracted as one
batched matrix product;
with three or more operands the pair that leaves the smallest cost comes first.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import Any, NamedTuple

from facula import core
from facula.core.errors import fail
from facula.ops.index import launch
from facula.ops.table.registry import F, composite

LETTERS = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
ELLIPSIS = "..."


def _sublist_equation(operands: list[Any]) -> tuple[str, list[Any]]:
    """Turn (tensor, numbers, tensor, numbers, ..., [numbers]) into an equation."""

    def text(numbers: Any) -> str:
        result = ""
        for n in numbers:
            if n is Ellipsis:
                result += ELLIPSIS
            elif 0 <= n < 52:
                result += LETTERS[n]
            else:
                fail(
                    ValueError,
                    "einsum",
                    "subscripts in [0, 52) were required",
                    f"{n} (einsum(): subscript in subscript list is not within the valid range [0, 52))",
                    hint="0 to 25 stand for A to Z, 26 to 51 for a to z",
                )
        return result

    tensors, parts = list(operands[::2]), [text(numbers) for numbers in operands[1::2]]
    equation = ",".join(parts[: len(operands) // 2])
    if len(operands) % 2:
        equation += "->" + text(tensors.pop())
    return equation, tensors


def _subscripts(text: str, what: str) -> list[str]:
    """Split into letters and at most one ellipsis."""
    result, position = [], 0
    text = text.replace(" ", "")
    while position < len(text):
        if text.startswith(ELLIPSIS, position):
            if ELLIPSIS in result:
                fail(
                    RuntimeError,
                    "einsum",
                    f"{what}: found '.' for {what} for which an ellipsis was already found",
                    text,
                    hint="an ellipsis is three dots, once: '...ij,...jk->...ik'",
                )
            result.append(ELLIPSIS)
            position += 3
            continue
        if text[position] == ".":
            fail(
                RuntimeError,
                "einsum",
                f"{what}: found '.' that is not part of any ellipsis",
                text,
                hint="an ellipsis is three dots: '...ij,...jk->...ik'",
            )
        if text[position] not in LETTERS:
            fail(
                RuntimeError,
                "einsum",
                f"{what}: subscripts must be in [a-zA-Z]",
                text[position],
                hint="for example 'ij,jk->ik'",
            )
        result.append(text[position])
        position += 1
    return result


def _result_labels(text: str, widest: int, counts: dict[str, int]) -> list[Any]:
    """The labels of the result, each of which is once there and in some operand."""
    result: list[Any] = []
    for label in _subscripts(text, "the result"):
        result += range(-widest, 0) if label == ELLIPSIS else [label]
    for label in result:
        if isinstance(label, str) and result.count(label) > 1:
            fail(
                RuntimeError,
                "einsum",
                f"output subscript {label} appears more than once in the output",
                hint="diag_embed() makes diagonals",
            )
        if isinstance(label, str) and label not in counts:
            fail(
                RuntimeError,
                "einsum",
                f"output subscript {label} does not appear in the equation for any input operand",
                hint="unsqueeze() adds dimensions of size 1",
            )
    return result


@lru_cache(maxsize=512)
def _parse(equation: str, ranks: tuple[int, ...]) -> tuple[list[list[Any]], list[Any]]:
    """Labels of each operand and of the result, which the caller leaves as they are; the dimensions of
    an ellipsis become the numbers -n .. -1.
    """
    left, arrow, right = equation.partition("->")
    parts = left.split(",")
    if len(parts) != len(ranks):
        more = "more" if len(parts) < len(ranks) else "fewer"
        fail(
            RuntimeError,
            "einsum",
            f"{more} operands were provided than specified in the equation",
            len(ranks),
            hint=f"give one for each of the {len(parts)} part(s) between commas",
        )
    counts: dict[str, int] = {}
    inputs, widest = [], 0
    for number, (part, rank) in enumerate(zip(parts, ranks, strict=True)):
        labels = _subscripts(part, f"operand {number}")
        hidden = rank - (len(labels) - (ELLIPSIS in labels))
        if hidden < 0 or (hidden > 0 and ELLIPSIS not in labels):
            fail(
                RuntimeError,
                "einsum",
                f"the number of subscripts in the equation ({len(labels) - (ELLIPSIS in labels)}) "
                "does not match the number "
                f"of dimensions ({rank}) for operand {number} and no ellipsis was given",
                hint="every dimension has a subscript; '...' stands for several",
            )
        widest = max(widest, hidden)
        expanded: list[Any] = []
        for label in labels:
            expanded += range(-hidden, 0) if label == ELLIPSIS else [label]
            counts[label] = counts.get(label, 0) + 1
        inputs.append(expanded)
    if not arrow:
        leading: list[Any] = list(range(-widest, 0))
        return inputs, leading + sorted(k for k, n in counts.items() if n == 1 and k != ELLIPSIS)
    return inputs, _result_labels(right, widest, counts)


def _diagonals(operand: core.Tensor, labels: list[Any], number: int) -> tuple[Any, list[Any]]:
    """Repeated subscripts of one operand take its diagonal."""
    labels = list(labels)
    for label in dict.fromkeys(labels):
        while labels.count(label) > 1:
            first = labels.index(label)
            second = labels.index(label, first + 1)
            if operand.shape[first] != operand.shape[second]:
                fail(
                    RuntimeError,
                    "einsum",
                    f"subscript {label} is repeated for operand {number} but the sizes don't match",
                    f"{operand.shape[first]} and {operand.shape[second]}",
                    hint="a repeated subscript takes the diagonal",
                )
            operand = operand.diagonal(0, first, second)
            del labels[second], labels[first]
            labels.append(label)
    return operand, labels


def _sizes(inputs: list[list[Any]], operands: list[Any]) -> dict[Any, int]:
    sizes: dict[Any, int] = {}
    for number, (labels, operand) in enumerate(zip(inputs, operands, strict=True)):
        for label, size in zip(labels, operand.shape, strict=True):
            known = sizes.get(label, 1)
            if size != 1 and known not in (1, size):
                fail(
                    RuntimeError,
                    "einsum",
                    f"subscript {label} has size {size} for operand {number} which does not "
                    "broadcast with previously seen "
                    f"size {known}",
                    hint="sizes of a subscript are equal or 1",
                )
            sizes[label] = size if size != 1 else known
    return sizes


def _sum_out(operand: core.Tensor, labels: list[Any], needed: set[Any]) -> tuple[Any, list[Any]]:
    """Sum over the labels that nobody else needs."""
    dims = [d for d, label in enumerate(labels) if label not in needed]
    if dims:
        operand = operand.sum(dims)
        labels = [label for label in labels if label in needed]
    return operand, labels


def _arranged(operand: core.Tensor, labels: list[Any], wanted: list[Any]) -> Any:
    """Permute to the wanted labels; missing ones become dimensions of size 1."""
    operand = operand.permute([labels.index(label) for label in wanted if label in labels])
    for d, label in enumerate(wanted):
        if label not in labels:
            operand = operand.unsqueeze(d)
    return operand


def _contract(
    a: core.Tensor, left: list[Any], b: core.Tensor, right: list[Any], needed: set[Any]
) -> tuple[Any, list[Any]]:
    """Contract two operands over the labels that both have and nobody needs, as one batched matrix
    product.
    """
    a, left = _sum_out(a, left, needed | set(right))
    b, right = _sum_out(b, right, needed | set(left))
    summed = [label for label in left if label in right and label not in needed]
    if not summed:
        wanted = list(dict.fromkeys(left + right))
        return _arranged(a, left, wanted) * _arranged(b, right, wanted), wanted
    for label in summed:
        # a size-1 side is broadcast, which only scales: the other side can be summed first
        size_a, size_b = a.shape[left.index(label)], b.shape[right.index(label)]
        if size_a != size_b:
            if size_a == 1:
                b = b.sum(right.index(label), keepdim=True)
            else:
                a = a.sum(left.index(label), keepdim=True)
    product = _matrix_product(a.shape, left, b.shape, right, summed)
    return product.of(a, b), product.labels


class _Side(NamedTuple):
    """How an operand becomes a matrix, or a batch of them; None for what stays."""

    order: list[int] | None
    expanded: tuple[int, ...] | None
    matrix: tuple[int, ...] | None

    def of(self, operand: Any) -> Any:
        """The operand as that."""
        if self.order is not None:
            operand = operand.permute(self.order)
        if self.expanded is not None:
            operand = operand.expand(self.expanded)
        return operand if self.matrix is None else operand.reshape(self.matrix)


class _Product(NamedTuple):
    """One matrix product of two operands: its sides, its shape where that is another, and its labels."""

    first: _Side
    second: _Side
    batched: bool
    shape: tuple[int, ...] | None
    labels: list[Any]

    def of(self, a: core.Tensor, b: core.Tensor) -> Any:
        """The product."""
        multiply = F.bmm if self.batched else F.mm
        product = multiply(self.first.of(a), self.second.of(b))
        return product if self.shape is None else product.reshape(self.shape)


def _side(
    shape: tuple[int, ...], order: list[int], expanded: tuple[int, ...], matrix: tuple[int, ...]
) -> _Side:
    permuted = tuple([shape[d] for d in order])
    return _Side(_order(order), _change(permuted, expanded), _change(expanded, matrix))


def _order(order: list[int]) -> list[int] | None:
    """The order, unless it is the one that there is."""
    return None if order == list(range(len(order))) else order


def _change(old: tuple[int, ...], new: tuple[int, ...]) -> tuple[int, ...] | None:
    """The new shape, unless it is known to be the old one without asking a graph about its sizes."""
    same = len(old) == len(new) and all(type(n) is int for n in (*old, *new)) and old == new
    return None if same else new


def _matrix_product(
    shape_a: tuple[int, ...],
    left: list[Any],
    shape_b: tuple[int, ...],
    right: list[Any],
    summed: list[Any],
) -> _Product:
    """The product over the labels `summed`; the others that both have are a batch."""
    size_a, size_b = dict(zip(left, shape_a, strict=True)), dict(zip(right, shape_b, strict=True))
    batch = [label for label in left if label in size_b and label not in summed]
    rows = [label for label in left if label not in size_b]
    columns = [label for label in right if label not in size_a]
    batch_sizes = [max(size_a[label], size_b[label]) for label in batch]
    batch_sizes = [
        0 if 0 in (size_a[k], size_b[k]) else n for k, n in zip(batch, batch_sizes, strict=True)
    ]
    inner = [size_a[label] for label in summed]
    m, n = [size_a[x] for x in rows], [size_b[x] for x in columns]
    outer = (launch.product(batch_sizes),) if batch else ()
    high, k, wide = launch.product(m), launch.product(inner), launch.product(n)
    return _Product(
        _side(
            shape_a,
            [left.index(x) for x in batch + rows + summed],
            (*batch_sizes, *m, *inner),
            (*outer, high, k),
        ),
        _side(
            shape_b,
            [right.index(x) for x in batch + summed + columns],
            (*batch_sizes, *inner, *n),
            (*outer, k, wide),
        ),
        bool(batch),
        _change((*outer, high, wide), (*batch_sizes, *m, *n)),
        batch + rows + columns,
    )


@lru_cache(maxsize=512)
def _plain_product(
    equation: str, shape_a: tuple[int, ...], shape_b: tuple[int, ...]
) -> tuple[_Product, list[int] | None] | None:
    """An equation of two operands that is a matrix product and nothing else, and the order of its result."""
    (left, right), result = _parse(equation, (len(shape_a), len(shape_b)))
    summed = [label for label in left if label in right and label not in result]
    alone = {*left} ^ {*right}
    if (
        not summed
        or not alone <= {*result}
        or len({*left}) + len({*right}) < len(left) + len(right)
    ):
        return None
    sizes = dict(zip(left, shape_a, strict=True))
    if any(sizes.get(label, size) != size for label, size in zip(right, shape_b, strict=True)):
        return None
    product = _matrix_product(shape_a, left, shape_b, right, summed)
    return product, _order([product.labels.index(label) for label in result])


def _cheapest_pair(inputs: list[list[Any]], sizes: dict[Any, int]) -> tuple[int, int]:
    """The pair whose product costs least; of equals the first."""
    best, chosen = None, (0, 1)
    for i in range(len(inputs)):
        for j in range(i + 1, len(inputs)):
            cost = launch.product([sizes[label] for label in {*inputs[i], *inputs[j]}])
            if best is None or cost < best:
                best, chosen = cost, (i, j)
    return chosen


def _written_out(equation: str, operands: Sequence[Any]) -> tuple[str, list[Any]]:
    """The equation as a string and the operands as a list, however they were given."""
    # an argument that stands alone comes without a tuple around it
    if isinstance(operands, core.Tensor):
        operands = (operands,)
    if isinstance(equation, core.Tensor):
        alone = all(isinstance(x, int) or x is Ellipsis for x in operands)
        others = [operands] if alone else operands
        equation, operands = _sublist_equation([equation, *others])
    if not isinstance(equation, str):
        required = (
            "an equation as a string was required: argument 'equation' (position 1) must be str"
        )
        hint = 'einsum("ij,jk->ik", a, b) multiplies matrices'
        fail(TypeError, "einsum", required, type(equation).__name__, hint)
    operands = list(operands)
    if len(operands) == 1 and isinstance(operands[0], (tuple, list)):
        operands = list(operands[0])
    if not operands:
        fail(
            ValueError,
            "einsum",
            "must provide at least one operand",
            "none",
            hint="einsum('ij,jk->ik', a, b) multiplies two matrices",
        )
    return equation, operands


@composite(
    "einsum(any equation, any... operands) -> Tensor",
    file_arguments={"operands": "tensors"},
    names=("einsum",),
    home="functional.einsum",
    out=False,
    spreads=True,
)
def einsum(equation, operands):
    """Sums of products by the Einstein convention, such as einsum("ij,jk->ik", a, b).

    Example:
        >>> a = facula.tensor([[1.0, 2.0], [3.0, 4.0]])
        >>> facula.einsum("ij,jk->ik", a, a)
        tensor([[ 7., 10.],
                [15., 22.]])
        >>> facula.einsum("ii->i", a)
        tensor([1., 4.])
    """
    equation, operands = _written_out(equation, operands)
    if len(operands) == 2:
        a, b = operands
        if all([type(n) is int for n in (*a.shape, *b.shape)]):
            plain = _plain_product(equation, tuple(a.shape), tuple(b.shape))
            if plain is not None:
                product, order = plain
                return product.of(a, b) if order is None else product.of(a, b).permute(order)
    inputs, result = _parse(equation, tuple([operand.dim() for operand in operands]))
    inputs = list(inputs)
    for number in range(len(operands)):
        operands[number], inputs[number] = _diagonals(operands[number], inputs[number], number)
    sizes = _sizes(inputs, operands)
    while len(operands) > 1:
        i, j = _cheapest_pair(inputs, sizes) if len(operands) > 2 else (0, 1)
        needed = set(result)
        for number, labels in enumerate(inputs):
            if number not in (i, j):
                needed |= set(labels)
        joined, labels = _contract(operands[i], inputs[i], operands[j], inputs[j], needed)
        for number in (j, i):
            del operands[number], inputs[number]
        operands.append(joined)
        inputs.append(labels)
    last, labels = _sum_out(operands[0], inputs[0], set(result))
    return _arranged(last, labels, result)
