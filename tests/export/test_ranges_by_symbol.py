"""`range_constraints` is read by the name of a symbol, or by the symbol of a size."""

import pytest

import facula
from facula.export import Dim, export


class _Twice(facula.nn.Module):
    def forward(self, x):
        return facula.cat([x, x])


def test_ranges_are_found_by_symbols_and_shown_without_quotes():
    program = export(
        _Twice(), (facula.ones(3, 4),), dynamic_shapes=({0: Dim("rows", min=2, max=50)},)
    )
    size = next(n for n in program.graph.nodes if n.op == "placeholder").meta["val"].shape[0]
    ranges = program.range_constraints
    assert len(ranges) == 1
    found = ranges[size.node.expr]
    assert (found.lower, found.upper) == (2, 50)
    assert found == ranges[str(size)]
    assert repr(ranges) == f"{{{size}: VR[2, 50]}}"
    assert f"Range constraints: {{{size}: VR[2, 50]}}" in str(program)
    with pytest.raises(KeyError):
        ranges["nothing"]
