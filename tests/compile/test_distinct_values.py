"""`unique` and `unique_consecutive` in one graph: sizes that depend on elements. The oracle is NumPy, and a loop."""

import numpy as np
import pytest

import facula

VALUES = [[3, 1, 3], [1, 1, 1], [7, 2, 2, 7, 5], [4]]


def _everything(x):
    values, inverse, counts = facula.unique(x, return_inverse=True, return_counts=True)
    runs, lengths = facula.unique_consecutive(x, return_counts=True)
    return values * 2, inverse, counts, runs + 1, lengths


def _runs(values):
    found = []
    for value in values:
        if found and found[-1][0] == value:
            found[-1][1] += 1
        else:
            found.append([value, 1])
    return found


@pytest.mark.parametrize("backend", ["eager", "aot_eager", "inductor"])
def test_distinct_values_are_part_of_one_graph(backend):
    compiled = facula.compile(_everything, fullgraph=True, backend=backend)
    for values in VALUES:
        found = [x.tolist() for x in compiled(facula.tensor(values))]
        distinct, inverse, counts = np.unique(values, return_inverse=True, return_counts=True)
        runs = _runs(values)
        assert found == [
            (distinct * 2).tolist(), inverse.tolist(), counts.tolist(),
            [value + 1 for value, _ in runs], [length for _, length in runs],
        ]  # fmt: skip


def test_distinct_rows_in_an_exported_program():
    class Rows(facula.nn.Module):
        def forward(self, x):
            return facula.unique(x, dim=0, return_counts=True)

    program = facula.export.export(Rows(), (facula.tensor([[1, 2], [0, 1], [1, 2]]),)).module()
    for rows in ([[1, 2], [0, 1], [1, 2]], [[5, 5], [5, 5], [5, 5]], [[3, 0], [2, 9], [2, 8]]):
        values, counts = program(facula.tensor(rows))
        wanted, wanted_counts = np.unique(rows, axis=0, return_counts=True)
        assert values.tolist() == wanted.tolist()
        assert counts.tolist() == wanted_counts.tolist()
