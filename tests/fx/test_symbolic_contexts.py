"""`StatelessSymbolicContext`: which sizes of a fake tensor become symbols."""

import pytest

import facula
from facula.fx.experimental.symbolic_shapes import (
    DimDynamic,
    ShapeEnv,
    StatelessSymbolicContext,
    SymInt,
)
from facula.fx.fake_tensor import FakeTensorMode


def test_what_is_called_dynamic_is_a_symbol():
    context = StatelessSymbolicContext(
        dynamic_sizes=[DimDynamic.DYNAMIC, DimDynamic.STATIC], constraint_sizes=[None, None]
    )
    mode = FakeTensorMode(shape_env=ShapeEnv())
    x = mode.from_tensor(facula.ones(5, 3), symbolic_context=context)
    assert isinstance(x.shape[0], SymInt) and x.shape[1] == 3 and not isinstance(x.shape[1], SymInt)


def test_constraints_of_their_own_are_refused():
    with pytest.raises(NotImplementedError, match="without constraints"):
        StatelessSymbolicContext(dynamic_sizes=[DimDynamic.DYNAMIC], constraint_sizes=[(2, 5)])
