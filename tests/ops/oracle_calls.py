"""How the tests ask the oracles: arguments as NumPy arrays, results as NumPy arrays, the dtype that is right.

Takes: the oracle table (`tests/oracles`) and the operator table.
Gives: `ORACLES`, `PUBLIC`, `oracle_of`, `calls_of`, `arrays_of` and `judge`, which runs one call.
Keeps true: what an oracle is given was copied before the operator ran; an expected dtype follows from NumPy's, made
narrow where no argument is wide (64-bit), as PyTorch's promotion has it.
"""

import importlib
import sys
import warnings
from pathlib import Path

import numpy
from operator_cases import DEFINITIONS, calls, tensors_in

import facula

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "oracles"))

from oracle_table import Oracle, load, near  # noqa: E402

ORACLES = load()
PUBLIC = [name for name, definition in DEFINITIONS.items() if definition.names]
NARROW = {"float64": numpy.float32, "complex128": numpy.complex64}
WIDE = {"float32": numpy.float64, "complex64": numpy.complex128}


def _named(definition):
    """The function that a definition's `reference` names, as an oracle."""
    module, _, function = definition.reference.rpartition(".")
    found = getattr(importlib.import_module(module), function)
    inexact = definition.result in ("float", "real_float")

    def value(*arrays):
        if inexact:  # NumPy has no such functions of bools, or computes them in half precision
            arrays = [
                numpy.asarray(a) * (1.0 if numpy.asarray(a).dtype.kind in "biu" else 1)
                for a in arrays
            ]
        result = found(*arrays)
        return result[0] if function == "airy" else result  # four functions at a time

    return Oracle(value, module.partition(".")[0])


def oracle_of(name):
    """The oracle of an operator: its entry in the table, or the function that its definition names."""
    if name in ORACLES:
        return ORACLES[name]
    definition = DEFINITIONS[name]
    return _named(definition) if isinstance(getattr(definition, "reference", None), str) else None


def calls_of(name, S, **settings):
    """Every call to try: those of the definition, and those that stand beside the oracle."""
    definition, known = DEFINITIONS[name], ORACLES.get(name)
    found = []
    if definition.kind == "pointwise" or definition.samples is not None:
        found += calls(name, S, **settings)
    if known is not None and known.samples is not None and not settings:
        found += list(known.samples(S))
    return found


def _dense(tensor):
    """A sparse tensor's elements, put where its indices say."""
    layout = str(tensor.layout).rpartition(".")[2]
    whole = numpy.zeros(tuple(tensor.shape), numpy_dtype(tensor.dtype))
    if layout == "sparse_coo":
        indices, values = tensor._indices().numpy(), tensor._values().detach().numpy()
        numpy.add.at(whole, tuple(indices), values)
        return whole
    rows = layout in ("sparse_csr", "sparse_bsr")
    starts = (tensor.crow_indices() if rows else tensor.ccol_indices()).numpy()
    others = (tensor.col_indices() if rows else tensor.row_indices()).numpy()
    values = tensor.values().detach().numpy()
    for batch in numpy.ndindex(starts.shape[:-1]):
        for first in range(starts.shape[-1] - 1):
            for at in range(starts[batch][first], starts[batch][first + 1]):
                block = values[batch][at]
                row, column = (first, others[batch][at])[:: 1 if rows else -1]
                if layout in ("sparse_csr", "sparse_csc"):
                    whole[batch][row, column] += block
                    continue
                high, wide = block.shape
                whole[batch][
                    row * high : (row + 1) * high, column * wide : (column + 1) * wide
                ] += block
    return whole


def numpy_dtype(dtype):
    """NumPy's dtype of a facula one; half and bfloat16 are not asked for."""
    return facula.empty((0,), dtype=dtype).numpy().dtype


def array_of(tensor):
    """A copy of a tensor's elements."""
    if tensor.layout != facula.strided:
        return _dense(tensor)
    return numpy.array(tensor.detach().resolve_conj().resolve_neg().numpy(), copy=True)


def arrays_of(value, widen=True):
    """A nesting with arrays for tensors and NumPy's dtypes for facula's; `widen` computes in 64 bits."""
    if isinstance(value, facula.Tensor):
        array = array_of(value)
        return array.astype(WIDE.get(array.dtype.name, array.dtype)) if widen else array
    if isinstance(value, facula.dtype):
        return numpy_dtype(value)
    if isinstance(value, (facula.layout, facula.memory_format)):
        return str(value).rpartition(".")[2]
    if isinstance(value, (tuple, list)):
        return (
            type(value)([arrays_of(item, widen) for item in value])
            if type(value) in (tuple, list)
            else tuple(arrays_of(item, widen) for item in value)
        )
    if isinstance(value, dict):
        return {key: arrays_of(item, widen) for key, item in value.items()}
    return value


def leaves(value):
    """The arrays and numbers of a nesting, in order."""
    if isinstance(value, (tuple, list)):
        return [leaf for item in value for leaf in leaves(item)]
    return [value]


def _is_wide(args, kwargs):
    wide = (facula.float64, facula.complex128)
    dtypes = [t.dtype for t in tensors_in((args, kwargs))]
    dtypes += [v for v in (*args, *kwargs.values()) if isinstance(v, facula.dtype)]
    return any(dtype in wide for dtype in dtypes)


def compare(result, expected, wide, factor):
    """Values and dtypes of two nestings."""
    actual, expected = leaves(arrays_of(result, widen=False)), leaves(expected)
    assert len(actual) == len(expected), f"{len(actual)} results, {len(expected)} were expected"
    for a, e in zip(actual, expected, strict=True):
        if a is None or e is None:
            assert a is e
            continue
        a, e = numpy.asarray(a), numpy.asarray(e)
        dtype = e.dtype if wide else numpy.dtype(NARROW.get(e.dtype.name, e.dtype))
        near(a, e, factor)
        if isinstance(result, (facula.Tensor, tuple, list)):
            assert a.dtype == dtype, f"{a.dtype}, {dtype} was expected"


def judge(name, known, args, kwargs):
    """Run one call, and hold the result against the oracle."""
    given, keywords = arrays_of(args), arrays_of(kwargs)
    facula.manual_seed(0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # of older spellings, which are tried as well
        result = facula.ops.TABLE[name](*args, **kwargs)
    with numpy.errstate(all="ignore"), warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)  # NumPy's, of empty slices
        if known.check:
            known.function(arrays_of(result, widen=False), *given, **keywords)
            return
        expected = known.function(*given, **keywords)
    if known.layout is not None:
        assert str(result.layout).endswith(f"sparse_{known.layout}")
    if known.writes:
        result = (
            result,
            [args[position] if position < len(args) else None for position in known.writes],
        )
    compare(result, expected, _is_wide(args, kwargs), known.factor)
