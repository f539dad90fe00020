"""Sequences of different lengths: padding, packing and back.

Takes lists of tensors ``[length, ...]`` or padded batches.  Gives `PackedSequence`, which holds the
elements of all sequences by time step, or padded tensors.
Keeps true: in a packed sequence the sequences are sorted by decreasing length; ``sorted_indices``
and ``unsorted_indices`` lead from the caller's order to that one and back.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, NamedTuple

import facula
from facula import core
from facula.core import Tensor
from facula.core.errors import fail

__all__ = """PackedSequence invert_permutation pack_padded_sequence pad_packed_sequence pad_sequence
unpad_sequence pack_sequence unpack_sequence""".split()


class _Fields(NamedTuple):
    data: Tensor
    batch_sizes: Tensor
    sorted_indices: Tensor | None
    unsorted_indices: Tensor | None


def _with_inverse(
    sorted_indices: core.Tensor | None, unsorted_indices: core.Tensor | None
) -> tuple[Any, Any]:
    if unsorted_indices is None:
        unsorted_indices = invert_permutation(sorted_indices)
    return sorted_indices, unsorted_indices


class PackedSequence(_Fields):
    """Sequences of different lengths without padding, as recurrent layers take them.

    ``data`` has the elements of all sequences by time step, ``batch_sizes`` how many sequences
    reach each step; made by `pack_padded_sequence` and `pack_sequence`.

    Args:
        data: ``[elements, *]``
        batch_sizes: integers on the CPU, not increasing
        sorted_indices: the order by length; None where it is the given one
        unsorted_indices: its inverse

    Example:
        >>> packed = facula.nn.utils.rnn.pack_sequence([facula.tensor([1, 2, 3]), facula.tensor([4])])
        >>> packed.data, packed.batch_sizes
        (tensor([1, 4, 2, 3]), tensor([2, 1, 1]))
    """

    def __new__(
        cls,
        data: object,
        batch_sizes: core.Tensor | None = None,
        sorted_indices: core.Tensor | None = None,
        unsorted_indices: core.Tensor | None = None,
    ) -> Any:
        if batch_sizes is None:  # the older form: one pair
            if not isinstance(data, (list, tuple)) or len(data) != 2:
                fail(
                    AssertionError,
                    "PackedSequence",
                    "data and batch_sizes",
                    got="one value",
                    hint="pack_padded_sequence() and pack_sequence() make one",
                )
            data, batch_sizes = data
        if batch_sizes.device.type != "cpu":
            fail(
                ValueError,
                "PackedSequence",
                (
                    "batch_sizes should always be on CPU. Instances of PackedSequence should "
                    "never be created manually. They should be instantiated by functions like "
                    "pack_sequence and pack_padded_sequence."
                ),
                hint="pack_padded_sequence(x, lengths) makes one",
            )
        indices = _with_inverse(sorted_indices, unsorted_indices)
        elements: Any = data
        return super().__new__(cls, elements, batch_sizes, *indices)

    def _map(self, convert: Any, indices: Any = None) -> PackedSequence:
        data = convert(self.data)
        if data is self.data:
            return self
        move = indices if indices is not None else (lambda t: t)
        moved = [None if t is None else move(t) for t in self[2:]]
        return type(self)(data, self.batch_sizes, *moved)

    def pin_memory(self) -> PackedSequence:
        """With pinned data."""
        return type(self)(
            self.data.pin_memory(),
            self.batch_sizes,
            *[None if t is None else t.pin_memory() for t in self[2:]],
        )

    def to(self, *args: object, **kwargs: object) -> PackedSequence:
        """With the data (and, for a device, the indices) converted as by ``Tensor.to``."""
        data = self.data.to(*args, **kwargs)
        if data is self.data:
            return self
        place = {k: v for k, v in kwargs.items() if k in ("non_blocking", "copy")}
        return self._map(lambda _: data, lambda t: t.to(data.device, **place))

    def cuda(self, *args: object, **kwargs: object) -> PackedSequence:
        """On a CUDA device."""
        return self._map(lambda t: t.cuda(*args, **kwargs), lambda t: t.cuda(*args, **kwargs))

    def cpu(self, *args: object, **kwargs: object) -> PackedSequence:
        """On the CPU."""
        return self._map(lambda t: t.cpu(), lambda t: t.cpu())

    def _cast(self, dtype: core.dtype) -> PackedSequence:
        return self._map(lambda t: t.to(dtype))

    def double(self) -> PackedSequence:
        """As float64."""
        return self._cast(core.float64)

    def float(self) -> PackedSequence:
        """As float32."""
        return self._cast(core.float32)

    def half(self) -> PackedSequence:
        """As float16."""
        return self._cast(core.float16)

    def long(self) -> PackedSequence:
        """As int64."""
        return self._cast(core.int64)

    def int(self) -> PackedSequence:
        """As int32."""
        return self._cast(core.int32)

    def short(self) -> PackedSequence:
        """As int16."""
        return self._cast(core.int16)

    def char(self) -> PackedSequence:
        """As int8."""
        return self._cast(core.int8)

    def byte(self) -> PackedSequence:
        """As uint8."""
        return self._cast(core.uint8)

    @property
    def is_cuda(self) -> bool:
        """Whether the data is on a CUDA device."""
        return self.data.is_cuda

    def is_pinned(self) -> bool:
        """Whether the data is pinned."""
        return self.data.is_pinned()


def invert_permutation(permutation: core.Tensor | None) -> Any:
    """The permutation that undoes another; None for None.

    Args:
        permutation: a vector of integers

    Example:
        >>> facula.nn.utils.rnn.invert_permutation(facula.tensor([2, 0, 1]))
        tensor([1, 2, 0])
    """
    if permutation is None:
        return None
    inverse = facula.empty_like(permutation)
    return inverse.scatter_(
        0, permutation, facula.arange(permutation.numel(), device=permutation.device)
    )


def pack_padded_sequence(
    input: core.Tensor, lengths: Any, batch_first: bool = False, enforce_sorted: bool = True
) -> PackedSequence:
    """Packs a padded batch whose sequences have the given lengths.

    Args:
        input: ``[T, N, *]``, or ``[N, T, *]`` with ``batch_first``
        lengths: of each sequence, a list or a tensor on the CPU
        batch_first: whether dimension 0 is the batch and not time
        enforce_sorted: whether lengths must decrease; False sorts them, and results come back in
            the given order

    Raises:
        RuntimeError: lengths do not decrease, with ``enforce_sorted``, or one is not positive.

    Example:
        >>> x = facula.tensor([[1, 2, 3], [4, 0, 0]])
        >>> facula.nn.utils.rnn.pack_padded_sequence(x, [3, 1], batch_first=True).data
        tensor([1, 4, 2, 3])
    """
    if not isinstance(lengths, core.Tensor):
        lengths = facula.as_tensor(lengths, dtype=core.int64, device="cpu")
    else:
        lengths = lengths.to(core.int64)
    sorted_indices = None
    if not enforce_sorted:
        lengths, sorted_indices = facula.sort(lengths, descending=True)
        sorted_indices = sorted_indices.to(input.device)
        input = input.index_select(0 if batch_first else 1, sorted_indices)
    if batch_first:
        input = input.transpose(0, 1)
    sizes = lengths.tolist()
    _check_lengths(sizes, input)
    steps, batch_sizes = [], []
    active, start = len(sizes), 0
    # a run of steps in which the same sequences are active is one slice
    for length in sorted(set(sizes)):
        steps.append(input[start:length, :active].reshape(-1, *input.shape[2:]))
        batch_sizes += [active] * (length - start)
        start = length
        active = sum(1 for s in sizes if s > length)
    packed = steps[0] if len(steps) == 1 else facula.cat(steps)
    return PackedSequence(
        packed, facula.tensor(batch_sizes, dtype=core.int64), sorted_indices, None
    )


def _check_lengths(sizes: list[int], input: core.Tensor) -> None:
    op = "pack_padded_sequence"
    if input.numel() == 0 and 0 in input.shape[:2]:
        fail(
            RuntimeError,
            op,
            "at least one sequence of at least one element",
            got="none (Cannot pack empty tensors)",
            hint="leave such a batch out",
        )
    if len(sizes) != input.size(1):
        fail(
            RuntimeError,
            op,
            f"a length for each of {input.size(1)} sequences",
            got=len(sizes),
            hint="batch_first=True is for inputs [batch, length, ...]",
        )
    if min(sizes) <= 0:
        fail(
            RuntimeError,
            op,
            "lengths greater than 0 (Length of all samples has to be greater than 0)",
            got=min(sizes),
            hint="leave empty sequences out of the batch",
        )
    _check_order(op, sizes)
    if sizes[0] > input.size(0):
        fail(
            RuntimeError,
            op,
            f"lengths of at most {input.size(0)}",
            got=sizes[0],
            hint="batch_first=True is for inputs [batch, length, ...]",
        )


def _check_order(op: str, sizes: list[int]) -> None:
    if any(a < b for a, b in zip(sizes, sizes[1:], strict=False)):
        fail(
            RuntimeError,
            op,
            "lengths sorted in decreasing order (`lengths` array must be sorted in decreasing order "
            "when `enforce_sorted` is True. You can pass `enforce_sorted=False`)",
            got=sizes,
            hint="pass enforce_sorted=False to have them sorted",
        )


def pad_packed_sequence(
    sequence: PackedSequence,
    batch_first: bool = False,
    padding_value: float = 0.0,
    total_length: int | None = None,
) -> tuple[core.Tensor, core.Tensor]:
    """The padded batch of a packed one, and the lengths: the inverse of `pack_padded_sequence`.

    Args:
        sequence: what was packed
        batch_first: whether dimension 0 is the batch and not time
        padding_value: what fills up
        total_length: length of the result; None for the longest sequence

    Raises:
        ValueError: ``total_length`` is less than the longest sequence.

    Example:
        >>> packed = facula.nn.utils.rnn.pack_sequence([facula.tensor([1, 2, 3]), facula.tensor([4])])
        >>> facula.nn.utils.rnn.pad_packed_sequence(packed, batch_first=True)
        (tensor([[1, 2, 3],
                [4, 0, 0]]), tensor([3, 1]))
    """
    data, batch_sizes, _, unsorted_indices = sequence
    sizes = batch_sizes.tolist()
    steps = len(sizes)
    if total_length is not None:
        if total_length < steps:
            fail(
                ValueError,
                "pad_packed_sequence",
                (
                    "Expected total_length to be at least the length of the longest sequence in "
                    f"input, but got total_length={total_length} and max sequence length being "
                    f"{steps}"
                ),
                hint="leave total_length out to pad to the longest sequence",
            )
    batch = sizes[0]
    rows = []
    for size, step in zip(sizes, facula.split(data, sizes), strict=True):
        if size < batch:
            fill = step.new_full((batch - size, *step.shape[1:]), padding_value)
            step = facula.cat([step, fill])
        rows.append(step)
    if total_length is not None:
        fill = data.new_full((batch, *data.shape[1:]), padding_value)
        rows += [fill] * (total_length - steps)
    padded = facula.stack(rows)
    lengths = facula.tensor(
        [sum(1 for s in sizes if s > i) for i in range(batch)], dtype=core.int64
    )
    if batch_first:
        padded = padded.transpose(0, 1)
    if unsorted_indices is not None:
        padded = padded.index_select(0 if batch_first else 1, unsorted_indices)
        lengths = lengths[unsorted_indices.cpu()]
    return padded, lengths


def pad_sequence(
    sequences: object,
    batch_first: bool = False,
    padding_value: float = 0.0,
    padding_side: str = "right",
) -> Any:
    """Tensors of different lengths as one, filled up.

    Args:
        sequences: tensors ``[length, *]``
        batch_first: whether dimension 0 is the batch and not time
        padding_value: what fills up
        padding_side: 'right' or 'left'

    Returns:
        ``[T, N, *]``, or ``[N, T, *]`` with ``batch_first``.

    Example:
        >>> facula.nn.utils.rnn.pad_sequence([facula.tensor([1, 2]), facula.tensor([3])], batch_first=True)
        tensor([[1, 2],
                [3, 0]])
    """
    if not isinstance(sequences, Iterable):
        fail(
            RuntimeError,
            "pad_sequence",
            (
                "pad_sequence: Expected iterable for input sequences, but got arg of type: "
                f"{type(sequences)}"
            ),
            hint="pass a list of tensors",
        )
    if padding_side not in ("left", "right"):
        fail(
            RuntimeError,
            "pad_sequence",
            "padding_side 'left' or 'right'",
            got=padding_side,
            hint="'right' puts the padding behind the elements",
        )
    sequences = sequences.unbind(0) if isinstance(sequences, core.Tensor) else tuple(sequences)
    if not sequences:
        fail(
            RuntimeError,
            "pad_sequence",
            "at least one sequence",
            got="none",
            hint="an empty batch has no shape to pad to",
        )
    longest = max(s.size(0) for s in sequences)
    rows = []
    for s in sequences:
        if s.size(0) < longest:
            fill = s.new_full((longest - s.size(0), *s.shape[1:]), padding_value)
            s = facula.cat([s, fill] if padding_side == "right" else [fill, s])
        rows.append(s)
    return facula.stack(rows, 0 if batch_first else 1)


def unpad_sequence(
    padded_sequences: core.Tensor, lengths: core.Tensor, batch_first: bool = False
) -> list[Any]:
    """The sequences of a padded batch, the inverse of `pad_sequence`.

    Args:
        padded_sequences: ``[T, N, *]``, or ``[N, T, *]`` with ``batch_first``
        lengths: of each sequence, a tensor
        batch_first: whether dimension 0 is the batch and not time

    Example:
        >>> x = facula.tensor([[1, 2], [3, 0]])
        >>> facula.nn.utils.rnn.unpad_sequence(x, facula.tensor([2, 1]), batch_first=True)
        [tensor([1, 2]), tensor([3])]
    """
    if not batch_first:
        padded_sequences = padded_sequences.transpose(0, 1)
    return [
        sequence[: int(length)] for sequence, length in zip(padded_sequences, lengths, strict=True)
    ]


def pack_sequence(sequences: list[Any], enforce_sorted: bool = True) -> PackedSequence:
    """Packs tensors of different lengths.

    Args:
        sequences: a list of tensors ``[length, *]``
        enforce_sorted: whether lengths must decrease; False sorts them

    Example:
        >>> facula.nn.utils.rnn.pack_sequence([facula.tensor([1, 2]), facula.tensor([3])]).batch_sizes
        tensor([2, 1])
    """
    lengths = facula.as_tensor([s.size(0) for s in sequences])
    return pack_padded_sequence(pad_sequence(sequences), lengths, enforce_sorted=enforce_sorted)


def unpack_sequence(packed_sequences: PackedSequence) -> list[Any]:
    """The tensors of a packed sequence, the inverse of `pack_sequence`.

    Args:
        packed_sequences: what was packed

    Example:
        >>> packed = facula.nn.utils.rnn.pack_sequence([facula.tensor([1, 2]), facula.tensor([3])])
        >>> facula.nn.utils.rnn.unpack_sequence(packed)
        [tensor([1, 2]), tensor([3])]
    """
    padded, lengths = pad_packed_sequence(packed_sequences, batch_first=True)
    return unpad_sequence(padded, lengths, batch_first=True)
