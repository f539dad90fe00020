"""Autocast that a compiled program uses inside is off behind it, at whatever sizes it is called."""

import facula


def program(x, y):
    with facula.autocast("cpu", dtype=facula.bfloat16):
        z = facula.where(x > 0, x, 1.5)
        x = z.flatten().view(z.shape)
    y = y.clone() + y[:1]
    x = x.clone()
    x.view(-1)[0] = 5
    return z, x, y @ y.T


def test_autocast_is_off_behind_calls_of_several_sizes():
    compiled = facula.compile(program)
    for rows, columns in ((3, 4), (1, 5), (2, 6), (7, 6)):
        x = facula.ones(rows, columns)
        z, first, product = compiled(x, x)
        assert not facula.is_autocast_enabled("cpu")
        assert product.dtype is facula.float32
        assert product.tolist() == [[4.0 * columns] * rows] * rows
        assert z.tolist() == [[1.0] * columns] * rows
        assert first.flatten().tolist() == [5.0] + [1.0] * (rows * columns - 1)


def test_autocast_that_was_on_before_stays_on():
    compiled = facula.compile(program)
    with facula.autocast("cpu", dtype=facula.float16):
        for rows in (3, 1, 2):
            x = facula.ones(rows, 4)
            assert compiled(x, x)[2].dtype is facula.float16
            assert facula.get_autocast_dtype("cpu") is facula.float16
    assert not facula.is_autocast_enabled("cpu")
