"""Oracles of what rearranges, joins, splits or shows elements: NumPy's functions of the same meaning."""

import itertools

import numpy
from numpy.lib.stride_tricks import as_strided, sliding_window_view
from oracle_table import call, oracle


def both(name):
    """The names of a view and of its copy."""
    return name, f"{name}_copy"


oracle("fliplr", kind="numpy", samples=lambda S: [call(S(3, 4)), call(S(2, 3, 4))])(numpy.fliplr)
oracle("flipud", kind="numpy", samples=lambda S: [call(S(3, 4)), call(S(5))])(numpy.flipud)


@oracle("flip", kind="numpy")
def flip(a, *dims):
    return numpy.flip(a, dims[0] if isinstance(dims[0], (tuple, list)) else dims)


@oracle(
    "rot90",
    kind="numpy",
    samples=lambda S: [
        call(S(3, 4)),
        call(S(2, 3, 4), -1, [1, 2]),
        call(S(3, 4), 6),
        call(S(3, 4, 2), 3, (2, 0)),
    ],
)
def rotated(a, k=1, dims=(0, 1)):
    return numpy.rot90(a, k, dims)


@oracle("roll", kind="numpy")
def roll(a, shifts, dims=()):
    return numpy.roll(a, shifts, tuple(dims) or None)


@oracle("tril", kind="numpy")
def lower(a, diagonal=0):
    return numpy.tril(a, diagonal)


@oracle("triu", kind="numpy")
def upper(a, diagonal=0):
    return numpy.triu(a, diagonal)


@oracle(
    "repeat",
    "tile",
    kind="numpy",
    samples=lambda S: [
        call(S(3, 4), 2, 3),
        call(S(3), (2, 1, 3)),
        call(S(3, 4), 1, 1),
        call(S(2, 2), [2, 0]),
    ],
)
def tiled(a, *repeats):
    return numpy.tile(a, repeats[0] if isinstance(repeats[0], (tuple, list)) else repeats)


@oracle(
    "repeat_interleave",
    kind="numpy",
    samples=lambda S: [
        call(S(3, 4), 2),
        call(S(3, 4), 3, 1),
        call(S(3, 4), S.of([2, 0, 1]), dim=0, output_size=3),
        call(S.of([1, 0, 3, 2])),
    ],
    empty=False,
    expanded=False,
)
def interleaved(a, repeats=None, dim=None, output_size=None):
    if repeats is None:
        return numpy.repeat(numpy.arange(len(a)), a)
    return numpy.repeat(a, repeats, dim)


@oracle(
    "diag",
    kind="numpy",
    samples=lambda S: [call(S(4)), call(S(3, 4), 1), call(S(3), -2), call(S(3, 4), -1)],
)
def diag(a, diagonal=0):
    return numpy.diag(a, diagonal)


@oracle(
    "diag_embed",
    kind="loop",
    samples=lambda S: [
        call(S(2, 3)),
        call(S(2, 3), 1, 0, 2),
        call(S(3), -2),
        call(S(2, 3), offset=-1, dim1=1, dim2=0),
    ],
)
def embedded(a, offset=0, dim1=-2, dim2=-1):
    n = a.shape[-1] + abs(offset)
    made = numpy.zeros((*a.shape[:-1], n, n), a.dtype)
    for at in range(a.shape[-1]):
        made[..., at + max(-offset, 0), at + max(offset, 0)] = a[..., at]
    return numpy.moveaxis(made, (-2, -1), (dim1, dim2))


@oracle("diagflat", kind="numpy", samples=lambda S: [call(S(2, 3)), call(S(3), 1)])
def flat_diagonal(a, offset=0):
    return numpy.diagflat(a, offset)


@oracle("select_scatter", kind="numpy")
def with_selected(a, src, dim, index):
    made = numpy.moveaxis(a.copy(), dim, 0)
    made[index] = src
    return numpy.moveaxis(made, 0, dim)


@oracle("slice_scatter", kind="numpy")
def with_slice(a, src, dim=0, start=None, end=None, step=1):
    made = numpy.moveaxis(a.copy(), dim, 0)
    made[start:end:step] = numpy.moveaxis(src, dim, 0)
    return numpy.moveaxis(made, 0, dim)


@oracle("diagonal_scatter", kind="loop")
def with_diagonal(a, src, offset=0, dim1=0, dim2=1):
    made = numpy.moveaxis(a.copy(), (dim1, dim2), (-2, -1))
    for at in range(src.shape[-1]):
        made[..., at + max(-offset, 0), at + max(offset, 0)] = src[..., at]
    return numpy.moveaxis(made, (-2, -1), (dim1, dim2))


@oracle(
    "fill_diagonal_",
    kind="numpy",
    empty=False,
    samples=lambda S: [
        call(S(3, 4), 2.0),
        call(S(7, 3), 2.0, True),
        call(S(7, 3), 1.5),
        call(S(3, 3, 3), 4),
    ],
)
def filled_diagonal(a, fill_value, wrap=False):
    numpy.fill_diagonal(a, fill_value, wrap=wrap)
    return a


# joining

oracle("hstack", kind="numpy", samples=lambda S: [call([S(3, 2), S(3, 4)]), call([S(3), S(2)])])(
    numpy.hstack
)
oracle("vstack", kind="numpy", samples=lambda S: [call([S(2, 3), S(4, 3)]), call([S(3), S(3)])])(
    numpy.vstack
)
oracle("dstack", kind="numpy", samples=lambda S: [call([S(2, 3), S(2, 3)]), call([S(3), S(3)])])(
    numpy.dstack
)
oracle("column_stack", kind="numpy", samples=lambda S: [call([S(3), S(3, 2)])])(numpy.column_stack)


@oracle("cat", kind="numpy")
def joined(tensors, dim=0):
    shown = [a for a in tensors if a.shape != (0,)] or tensors
    return numpy.concatenate(shown, dim)


@oracle("stack", kind="numpy")
def stacked(tensors, dim=0):
    return numpy.stack(tensors, dim)


def _list(tensors):
    """Tensors that were given one by one or as a list."""
    return tensors[0] if isinstance(tensors[0], (tuple, list)) else tensors


@oracle(
    "block_diag", kind="loop", samples=lambda S: [call(S(2, 3), S(1, 2)), call(S(3), S(2, 2), S())]
)
def blocks(*tensors):
    pieces = [numpy.atleast_2d(a) for a in _list(tensors)]
    made = numpy.zeros(numpy.sum([p.shape for p in pieces], axis=0), pieces[0].dtype)
    row = column = 0
    for p in pieces:
        made[row : row + p.shape[0], column : column + p.shape[1]] = p
        row, column = row + p.shape[0], column + p.shape[1]
    return made


@oracle(
    "meshgrid",
    kind="numpy",
    samples=lambda S: [call(S(3), S(2), indexing="ij"), call(S(3), S(2), S(4), indexing="xy")],
)
def grids(*tensors, indexing="ij"):
    return list(numpy.meshgrid(*_list(tensors), indexing=indexing))


@oracle("cartesian_prod", kind="loop", samples=lambda S: [call(S(3), S(2)), call(S(3))])
def products(*tensors):
    if len(tensors) == 1:
        return tensors[0]
    return numpy.array(list(itertools.product(*tensors)), tensors[0].dtype).reshape(
        -1, len(tensors)
    )


@oracle(
    "combinations",
    kind="loop",
    samples=lambda S: [call(S(4)), call(S(4), 3), call(S(3), 2, True)],
    empty=False,
)
def combined(a, r=2, with_replacement=False):
    choose = itertools.combinations_with_replacement if with_replacement else itertools.combinations
    return numpy.array(list(choose(a, r)), a.dtype).reshape(-1, r)


MODES = {"constant": "constant", "reflect": "reflect", "replicate": "edge", "circular": "wrap"}


def _widths(a, pad):
    pairs = [(pad[i], pad[i + 1]) for i in range(0, len(pad), 2)]
    return [(0, 0)] * (a.ndim - len(pairs)) + pairs[::-1]


@oracle("constant_pad_nd", kind="numpy", empty=False)
def padded(a, pad, value=0):
    widths = _widths(a, pad)
    made = numpy.pad(a, [(max(x, 0), max(y, 0)) for x, y in widths], constant_values=value)
    return made[
        tuple(
            slice(max(-x, 0), n - max(-y, 0)) for (x, y), n in zip(widths, made.shape, strict=True)
        )
    ]


@oracle(
    "pad",
    kind="numpy",
    empty=False,
    samples=lambda S: [
        call(S(2, 3, 4), [1, 2]),
        call(S(2, 3, 4), [1, 2, 0, 1], "constant", 0.5),
        call(S(2, 3, 4), [-1, 2], "constant", 0.5),
        *[call(S(2, 3, 4), [1, 2], mode) for mode in ("reflect", "replicate", "circular")],
        *[call(S(2, 3, 4, 5), [2, 1, 1, 2], mode) for mode in ("reflect", "replicate", "circular")],
        *[
            call(S(1, 2, 3, 4, 5), [2, 1, 1, 2, 1, 1], mode)
            for mode in ("reflect", "replicate", "circular")
        ],
    ],
)
def padded_by(a, pad, mode="constant", value=None):
    if mode == "constant":
        return padded(a, pad, value or 0)
    return numpy.pad(a, _widths(a, pad), MODES[mode])


# views and their copies


@oracle(
    *both("view"),
    "reshape",
    kind="numpy",
    orders=False,
    empty=False,
    samples=lambda S: [call(S(3, 4), 2, 6), call(S(3, 4), (-1,)), call(S(3, 4), [4, 1, 3])],
)
def reshaped(a, *size):
    if isinstance(size[0], numpy.dtype):
        return a.view(size[0])
    return a.reshape(size[0] if isinstance(size[0], (tuple, list)) else size)


@oracle(
    "view_as",
    "reshape_as",
    kind="numpy",
    orders=False,
    samples=lambda S: [call(S(3, 4), S(2, 6))],
    empty=False,
)
def reshaped_as(a, other):
    return a.reshape(other.shape)


oracle(
    *both("transpose"), *both("swapaxes"), kind="numpy", samples=lambda S: [call(S(2, 3, 4), 0, -1)]
)(numpy.swapaxes)
oracle(*both("t"), kind="numpy", samples=lambda S: [call(S(3, 4)), call(S(3)), call(S())])(
    numpy.transpose
)


@oracle(
    *both("permute"),
    kind="numpy",
    samples=lambda S: [call(S(2, 3, 4), 2, 0, -2), call(S(2, 3, 4), (1, 0, 2))],
)
def permuted(a, *dims):
    return numpy.transpose(a, dims[0] if isinstance(dims[0], (tuple, list)) else dims)


@oracle(
    *both("expand"),
    kind="numpy",
    empty=False,
    samples=lambda S: [call(S(3, 1), 2, 3, 4), call(S(3, 1), (-1, 4)), call(S(), (2,))],
)
def expanded(a, *size, implicit=False):
    size = size[0] if isinstance(size[0], (tuple, list)) else size
    known = [1] * (len(size) - a.ndim) + list(a.shape)
    return numpy.broadcast_to(a, [k if s == -1 else s for s, k in zip(size, known, strict=True)])


oracle("broadcast_to", kind="numpy", samples=lambda S: [call(S(3, 1), (2, 3, 4))], empty=False)(
    numpy.broadcast_to
)
oracle("expand_as", kind="numpy", samples=lambda S: [call(S(3, 1), S(2, 3, 4))], empty=False)(
    lambda a, other: numpy.broadcast_to(a, other.shape)
)
oracle(
    "broadcast_tensors",
    kind="numpy",
    samples=lambda S: [call(S(3, 1), S(4), S(2, 1, 1))],
    empty=False,
)(lambda *tensors: list(numpy.broadcast_arrays(*_list(tensors))))


@oracle(
    *both("select"), kind="numpy", samples=lambda S: [call(S(3, 4), 1, -2), call(S(2, 3, 4), -2, 0)]
)
def selected(a, dim, index):
    return numpy.moveaxis(a, dim, 0)[index]


@oracle(
    "slice_copy",
    kind="numpy",
    samples=lambda S: [
        call(S(8, 4), 0, 1, 7, 2),
        call(S(3, 8), -1, -5, None),
        call(S(3, 4), 1, 2, 100),
    ],
)
def sliced(a, dim=0, start=None, end=None, step=1):
    return numpy.moveaxis(numpy.moveaxis(a, dim, 0)[start:end:step], 0, dim)


oracle(*both("unsqueeze"), kind="numpy", samples=lambda S: [call(S(3, 4), -1), call(S(3, 4), 0)])(
    numpy.expand_dims
)


@oracle(
    *both("squeeze"),
    kind="numpy",
    samples=lambda S: [
        call(S(1, 3, 1)),
        call(S(1, 3, 1), -1),
        call(S(1, 3, 1), 1),
        call(S(1, 3, 1), (0, 1)),
    ],
)
def squeezed(a, dim=None):
    dims = range(a.ndim) if dim is None else dim if isinstance(dim, (tuple, list)) else [dim]
    dims = tuple(d for d in dims if a.ndim and a.shape[d] == 1)
    return numpy.squeeze(a, dims)


def _strided(a, size, stride, offset):
    return as_strided(a.reshape(-1)[offset or 0 :], size, [s * a.itemsize for s in stride])


@oracle(
    *both("as_strided"),
    kind="numpy",
    orders=False,
    empty=False,
    expanded=False,
    samples=lambda S: [call(S(4, 5), (2, 3), (5, 2), 1), call(S(6), [3, 2], [1, 2])],
)
def shown_by_strides(a, size, stride, storage_offset=None):
    return _strided(a, size, stride, storage_offset)


@oracle(
    "as_strided_scatter",
    kind="numpy",
    orders=False,
    empty=False,
    expanded=False,
    samples=lambda S: [call(S(4, 5), S(2, 3), (2, 3), (5, 2), 1)],
)
def with_strided(a, src, size, stride, storage_offset=None):
    made = a.copy()
    _strided(made, size, stride, storage_offset)[...] = src
    return made


@oracle(
    "flatten",
    kind="numpy",
    samples=lambda S: [
        call(S(2, 3, 4)),
        call(S(2, 3, 4), 1),
        call(S(2, 3, 4, 2), -3, 2),
        call(S()),
    ],
    empty=False,
)
def flattened(a, start_dim=0, end_dim=-1):
    if not a.ndim:
        return a.reshape(1)
    first, last = start_dim % a.ndim, end_dim % a.ndim
    return a.reshape(*a.shape[:first], -1, *a.shape[last + 1 :])


oracle("ravel", kind="numpy", samples=lambda S: [call(S(2, 3, 4)), call(S())])(numpy.ravel)


@oracle(
    "unflatten",
    kind="numpy",
    empty=False,
    samples=lambda S: [call(S(3, 8), 1, (2, -1)), call(S(6, 2), 0, [3, 2])],
)
def unflattened(a, dim, sizes):
    dim %= a.ndim
    return a.reshape(*a.shape[:dim], *sizes, *a.shape[dim + 1 :])


oracle(
    "movedim",
    kind="numpy",
    samples=lambda S: [call(S(2, 3, 4), 0, -1), call(S(2, 3, 4), (0, 2), (1, 0))],
)(numpy.moveaxis)


@oracle(
    *both("narrow"),
    kind="numpy",
    empty=False,
    samples=lambda S: [call(S(3, 6), 1, 2, 3), call(S(5, 2), 0, -3, 2)],
)
def narrowed(a, dim, start, length):
    return numpy.take(a, range(start % a.shape[dim], start % a.shape[dim] + length), dim)


@oracle(
    *both("unfold"),
    kind="numpy",
    empty=False,
    samples=lambda S: [call(S(3, 7), 1, 3, 2), call(S(7, 2), 0, 2, 2)],
)
def windows(a, dimension, size, step):
    shown = sliding_window_view(a, size, dimension)
    return numpy.moveaxis(numpy.moveaxis(shown, dimension, 0)[::step], 0, dimension)


@oracle(
    *both("diagonal"), kind="numpy", samples=lambda S: [call(S(3, 4)), call(S(2, 3, 4), -1, 1, 2)]
)
def diagonal(a, offset=0, dim1=0, dim2=1):
    return numpy.diagonal(a, offset, dim1, dim2)


@oracle(
    "linalg_diagonal",
    kind="numpy",
    samples=lambda S: [call(S(2, 3, 4)), call(S(2, 3, 4), offset=1, dim1=0, dim2=2)],
)
def last_diagonal(a, offset=0, dim1=-2, dim2=-1):
    return numpy.diagonal(a, offset, dim1, dim2)


@oracle("adjoint", kind="numpy", samples=lambda S: [call(S(2, 3, 4)), call(S.complex(3, 4))])
def adjoint(a):
    return numpy.conj(numpy.swapaxes(a, -1, -2))


@oracle(
    "sum_to_size",
    kind="loop",
    empty=False,
    samples=lambda S: [call(S(2, 3, 4), 3, 1), call(S(2, 3), (2, 3)), call(S(2, 3, 4), 1, 1, 4)],
)
def summed_to(a, *size):
    size = size[0] if isinstance(size[0], (tuple, list)) else size
    made = numpy.zeros(size, a.dtype)
    for place in numpy.ndindex(a.shape):
        last = place[a.ndim - len(size) :]
        made[tuple(0 if n == 1 else p for p, n in zip(last, size, strict=True))] += a[place]
    return made


@oracle(*both("view_as_real"), kind="numpy", samples=lambda S: [call(S.complex(3, 4))])
def parts(a):
    return numpy.stack([a.real, a.imag], -1)


@oracle(
    *both("view_as_complex"),
    kind="numpy",
    orders=False,
    expanded=False,
    samples=lambda S: [call(S(3, 4, 2))],
)
def complex_of_parts(a):
    return a[..., 0] + 1j * a[..., 1]


oracle("real", kind="numpy", samples=lambda S: [call(S.complex(3, 4)), call(S(3))])(numpy.real)
oracle("imag", kind="numpy", samples=lambda S: [call(S.complex(3, 4))])(numpy.imag)


@oracle(
    *both("unbind"), kind="numpy", samples=lambda S: [call(S(3, 4)), call(S(3, 4), -1)], empty=False
)
def unbound(a, dim=0):
    return list(numpy.moveaxis(a, dim, 0))


@oracle(
    *both("split_with_sizes"),
    "unsafe_split_with_sizes",
    kind="numpy",
    empty=False,
    samples=lambda S: [call(S(6, 4), [1, 3, 2]), call(S(2, 5), (0, 4, 1), dim=1)],
)
def split_by_sizes(a, split_sizes, dim=0):
    return numpy.split(a, numpy.cumsum(split_sizes)[:-1], dim)


def _pieces(a, size, dim):
    return numpy.split(a, range(size, a.shape[dim], size), dim)


@oracle(
    "unsafe_split",
    "split_copy",
    kind="numpy",
    empty=False,
    samples=lambda S: [call(S(7, 4), 3), call(S(2, 6), 2, dim=-1)],
)
def split_evenly(a, split_size, dim=0):
    return _pieces(a, split_size, dim)


@oracle(
    "split",
    kind="numpy",
    empty=False,
    samples=lambda S: [call(S(7, 4), 3), call(S(2, 6), 2, dim=-1), call(S(7, 4), [2, 5])],
)
def split(a, split_size, dim=0):
    return (
        _pieces(a, split_size, dim)
        if isinstance(split_size, int)
        else split_by_sizes(a, split_size, dim)
    )


@oracle(
    "chunk",
    "unsafe_chunk",
    kind="numpy",
    empty=False,
    samples=lambda S: [call(S(7, 4), 3), call(S(2, 6), 4, dim=1), call(S(2, 3), 5)],
)
def chunks(a, chunks, dim=0):
    return _pieces(a, -(-a.shape[dim] // chunks), dim)


SECTIONS = (3, [2, 5], (1, 1, 4))


@oracle(
    "tensor_split",
    kind="numpy",
    empty=False,
    samples=lambda S: [
        *[call(S(7, 4), sections) for sections in SECTIONS],
        call(S(2, 7), 3, dim=1),
    ],
)
def sections(a, indices_or_sections, dim=0):
    return numpy.array_split(a, indices_or_sections, dim)


oracle(
    "hsplit",
    kind="numpy",
    empty=False,
    samples=lambda S: [call(S(2, 6), 3), call(S(2, 6), [1, 4]), call(S(4), 2)],
)(numpy.hsplit)
oracle(
    "vsplit", kind="numpy", empty=False, samples=lambda S: [call(S(6, 2), 3), call(S(6, 2), [1, 4])]
)(numpy.vsplit)
oracle(
    "dsplit",
    kind="numpy",
    empty=False,
    samples=lambda S: [call(S(2, 2, 6), 3), call(S(2, 2, 6), [1, 4])],
)(numpy.dsplit)


@oracle("detach_", kind="identity", orders=False, samples=lambda S: [call(S(3, 4))])
@oracle(
    "alias_copy",
    "detach_copy",
    "detach",
    "clone",
    kind="identity",
    samples=lambda S: [call(S(3, 4)), call(S())],
)
def same(a, memory_format=None):
    return a


@oracle(
    "_chunk_cat",
    kind="loop",
    empty=False,
    samples=lambda S: [call([S(4, 3), S(3, 2)], 0, 2), call([S(2, 3), S(2, 2)], 1, 2)],
)
def chunked(tensors, dim, num_chunks):
    rows = []
    for a in tensors:
        size = -(-a.shape[dim] // num_chunks) * num_chunks
        widths = [(0, size - n if d == dim else 0) for d, n in enumerate(a.shape)]
        whole = numpy.pad(a, widths)
        pieces = numpy.split(whole, num_chunks, dim)
        lead = a.shape[:dim]
        rows.append(numpy.stack([p.reshape(*lead, -1) for p in pieces], dim))
    return numpy.concatenate(rows, dim + 1)


# shapes, differences and areas

for _rank, _function in ((1, numpy.atleast_1d), (2, numpy.atleast_2d), (3, numpy.atleast_3d)):
    oracle(
        f"atleast_{_rank}d",
        kind="numpy",
        samples=lambda S: [call(S()), call(S(3)), call(S(3, 4)), call(S(3), S(2, 4))],
    )(_function)


@oracle(
    "diff",
    kind="numpy",
    empty=False,
    samples=lambda S: [
        call(S(3, 5)),
        call(S(3, 5), 2, 0),
        call(S(3, 5), 1, -1, S(3, 1), S(3, 2)),
        call(S(3, 5), prepend=S(3, 2), dim=1),
    ],
)
def difference(a, n=1, dim=-1, prepend=None, append=None):
    more = {k: v for k, v in {"prepend": prepend, "append": append}.items() if v is not None}
    return numpy.diff(a, n, dim, **more)


@oracle(
    "trapezoid",
    kind="loop",
    empty=False,
    samples=lambda S: [call(S(3, 5)), call(S(3, 5), dx=0.5, dim=0), call(S(3, 5), S(5))],
)
def area(y, x=None, dx=1, dim=-1):
    return cumulative_area(y, x, dx, dim).take(-1, dim)


@oracle(
    "cumulative_trapezoid",
    kind="loop",
    empty=False,
    samples=lambda S: [call(S(3, 5)), call(S(3, 5), dx=0.5, dim=0), call(S(3, 5), S(5))],
)
def cumulative_area(y, x=None, dx=1, dim=-1):
    rows = numpy.moveaxis(y, dim, -1)
    steps = numpy.full(rows.shape[-1] - 1, dx * 1.0) if x is None else x[1:] - x[:-1]
    made = numpy.zeros((*rows.shape[:-1], rows.shape[-1] - 1), y.dtype)
    total = numpy.zeros(rows.shape[:-1], y.dtype)
    for at in range(made.shape[-1]):
        total = total + steps[at] * (rows[..., at] + rows[..., at + 1]) / 2
        made[..., at] = total
    return numpy.moveaxis(made, -1, dim)
