"""Programs whose sizes follow from masks: writes to masked places, fixed numbers of positions, sizes as results."""

import io

import numpy as np
import pytest

import facula
from facula.export import Dim, export


class _Masked(facula.nn.Module):
    def forward(self, x, mask, y):
        x = x.clone()
        x[mask] += 2
        x[x > 3] = 3
        chosen = x[mask]
        return x, chosen * 2, chosen + y[mask]


def test_masked_places_are_written_at_every_mask():
    x, y = facula.tensor([0.0, 1.0, 2.0, 3.0]), facula.tensor([5.0, 6.0, 7.0, 8.0])
    program = export(_Masked(), (x, facula.tensor([True, False, True, False]), y))
    for mask in ([False, True, True, True], [False] * 4, [True] * 4):
        given = np.array(mask)
        values = np.minimum(x.numpy() + 2 * given, 3)
        for made in (program, program.run_decompositions()):
            whole, twice, sums = made.module()(x, facula.tensor(mask), y)
            assert np.array_equal(whole.numpy(), values)
            assert np.array_equal(twice.numpy(), 2 * values[given])
            assert np.array_equal(sums.numpy(), values[given] + y.numpy()[given])


class _Places(facula.nn.Module):
    def forward(self, x):
        return facula.nonzero_static(x, size=3)


def test_a_fixed_number_of_positions_fits_fewer_and_more():
    program = export(_Places(), (facula.tensor([6.0, 8.0, 0.0, 1.0]),))
    for values, places in (
        ([6.0, 0.0, 0.0, 0.0], [0, -1, -1]),
        ([1.0, 1.0, 1.0, 1.0], [0, 1, 2]),
        ([0.0, 0.0, 0.0, 0.0], [-1, -1, -1]),
        ([0.0, 2.0, 0.0, 2.0], [1, 3, -1]),
    ):
        for made in (program, program.run_decompositions()):
            assert made.module()(facula.tensor(values)).flatten().tolist() == places


class _Shapes(facula.nn.Module):
    def forward(self, x):
        return x.shape, x.reshape(-1).size()


def test_shapes_are_results():
    program = export(_Shapes(), (facula.ones(3, 2),), dynamic_shapes=({0: Dim.DYNAMIC},))
    assert program.module()(facula.ones(5, 2)) == ((5, 2), (10,))


class _Frozen(facula.nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = facula.nn.Linear(2, 2)

    def forward(self, x):
        with facula.no_grad():
            known = self.layer(x)
        return known + self.layer(x)


def test_programs_with_parts_without_gradients_are_kept_in_files():
    module = _Frozen()
    program = export(module, (facula.ones(3, 2),), dynamic_shapes=({0: Dim.DYNAMIC},))
    file = io.BytesIO()
    facula.export.save(program, file)
    file.seek(0)
    made = facula.export.load(file).module()
    x = facula.arange(10.0).reshape(5, 2)
    result = made(x)
    weight, bias = module.layer.weight.detach().numpy(), module.layer.bias.detach().numpy()
    assert np.allclose(result.detach().numpy(), 2 * (x.numpy() @ weight.T + bias), atol=1e-5)
    result.sum().backward()
    gradient = made.get_parameter("layer.weight").grad.numpy()
    assert np.allclose(gradient, np.tile(x.numpy().sum(0), (2, 1)))  # once, not twice


class _TwoMasks(facula.nn.Module):
    def forward(self, x, first, second):
        return x[first] * x[second]


def test_two_masks_of_one_sum_must_choose_as_many():
    x = facula.tensor([1.0, 2.0, 3.0, 4.0])
    ends, middle = (
        facula.tensor(m) for m in ([True, False, False, True], [False, True, True, False])
    )
    program = export(_TwoMasks(), (x, ends, middle))
    for made in (program, program.run_decompositions()):
        assert made.module()(x, middle, ends).tolist() == [2.0, 12.0]
        with pytest.raises(RuntimeError, match="Runtime assertion failed for expression Eq"):
            made.module()(x, ends, facula.tensor([False, True, False, False]))


class _Largest(facula.nn.Module):
    def forward(self, rows):
        keep = rows[:, 1] > 0
        chosen, scores = rows[keep], rows[:, 1][keep]
        return scores.max(), chosen[:, 0] * scores


def test_a_check_of_a_size_is_not_taken_for_the_size():
    program = export(_Largest(), (facula.ones(4, 2),))
    rows = facula.tensor([[1.0, 2.0], [3.0, -1.0], [5.0, 4.0], [7.0, 6.0]])
    for made in (program, program.run_decompositions()):
        largest, products = made.module()(rows)
        assert largest.item() == 6 and products.tolist() == [2.0, 20.0, 42.0]
