"""Every pointwise operator of the table without data: the shapes and dtypes that it has with data."""

import pytest

import facula
from facula.ops import TABLE
from facula.ops.table.registry import own_operators

POINTWISE = sorted(
    name for name, op in own_operators().items() if op.definition.kind == "pointwise"
)
DTYPES = {
    "float": facula.float32,
    "int": facula.int64,
    "bool": facula.bool,
    "complex": facula.complex64,
}


def arguments(definition, device):
    """Arguments by the schema: ones of an admitted dtype, and small numbers."""
    kinds = definition.dtypes.split()
    dtype = next(DTYPES[kind] for kind in DTYPES if kind in kinds)
    fixed = definition.compute or {}
    positional, keywords = [], {}
    # clamp and its like mean nothing without any of their optional tensors
    optional = [p.optional for p in definition.schema.tensor_parameters]
    every = len(optional) > 1 and all(optional[1:])
    for p in definition.schema.parameters:
        if p.has_default and not (p.is_tensor and every):
            continue
        if p.is_tensor:
            wanted = facula.bool if fixed.get(p.name) == "b8" else dtype
            value = facula.ones(2, 3, dtype=wanted, device=device).t()
        else:
            value = 0.5 if p.type == "float" else 1
        if p.keyword_only:
            keywords[p.name] = value
        else:
            positional.append(value)
    return positional, keywords


@pytest.mark.parametrize("name", POINTWISE)
def test_without_data(name):
    operator = TABLE[name]
    real, without = (
        operator(*args, **keywords)
        for args, keywords in (arguments(operator.definition, d) for d in ("cpu", "meta"))
    )
    assert without.is_meta and without.dtype is real.dtype
    assert without.shape == real.shape and without.stride() == real.stride()
