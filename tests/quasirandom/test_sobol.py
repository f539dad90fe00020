"""Sobol sequences: known points, balance, and the ways to reach a point."""

import numpy
import pytest

import facula
from facula.quasirandom import SobolEngine
from facula.quasirandom.directions import direction_numbers

#: the first points of the plane, as every description of the sequence lists them
PLANE = [
    [0, 0],
    [0.5, 0.5],
    [0.75, 0.25],
    [0.25, 0.75],
    [0.375, 0.375],
    [0.875, 0.875],
    [0.625, 0.125],
    [0.125, 0.625],
]


def test_the_first_points_of_the_plane():
    engine = SobolEngine(2)
    assert engine.draw(8).tolist() == PLANE
    assert engine.num_generated == 8


def test_points_against_a_loop_over_gray_codes():
    columns = direction_numbers(40)
    point, wanted = [0] * 40, []
    for i in range(300):
        wanted.append([x / 2**30 for x in point])
        bit = (~i & (i + 1)).bit_length() - 1
        point = [x ^ column[bit] for x, column in zip(point, columns, strict=True)]
    found = SobolEngine(40).draw(300, dtype=facula.float64)
    assert numpy.array_equal(found.numpy(), numpy.array(wanted))


@pytest.mark.parametrize("scramble", [False, True])
def test_every_way_to_a_point_gives_the_same(scramble):
    whole = SobolEngine(5, scramble=scramble, seed=3).draw(64)
    engine = SobolEngine(5, scramble=scramble, seed=3)
    parts = facula.cat([engine.draw(1), engine.draw(10), engine.draw(21), engine.draw_base2(5)])
    assert (parts == whole).all()
    assert (engine.reset().draw(3) == whole[:3]).all()
    engine.fast_forward(7)
    out = facula.empty(0)
    assert (engine.draw(2, out=out) == whole[10:12]).all()
    assert out.shape == (2, 5)


@pytest.mark.parametrize("scramble", [False, True])
@pytest.mark.parametrize("dimension", [1, 2, 17, 1111])
def test_each_coordinate_meets_each_interval_once(scramble, dimension):
    points = SobolEngine(dimension, scramble=scramble, seed=1).draw(64, dtype=facula.float64)
    places = (points * 64).long().sort(0).values
    assert (places == facula.arange(64).unsqueeze(1)).all()


def test_scrambled_points_of_a_seed_are_pytorchs(monkeypatch):
    before = facula.core.get_stream() if hasattr(facula.core, "get_stream") else None
    facula.random.set_stream("torch")
    try:
        first = SobolEngine(2, scramble=True, seed=123456).draw(2)
    finally:
        facula.random.set_stream(before or "facula")
    wanted = facula.tensor([[0.50860737, 0.29320504], [0.07116939, 0.89594537]])
    assert facula.allclose(first, wanted, rtol=0, atol=1e-7)


def test_all_dimensions_have_numbers_and_more_are_refused():
    columns = direction_numbers(SobolEngine.MAXDIM)
    assert len(columns) == 21201
    # each number has its leading bit where its place says, so that every interval is met
    assert all(
        x >> (29 - j) & 1 and x & (1 << (29 - j)) - 1 == 0
        for x, j in zip(columns[-1], range(30), strict=True)
    )
    with pytest.raises(ValueError, match="dimension"):
        SobolEngine(SobolEngine.MAXDIM + 1)
    with pytest.raises(ValueError, match="power of"):
        engine = SobolEngine(2)
        engine.draw(1)
        engine.draw_base2(2)
