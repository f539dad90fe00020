"""Programs of files whose format is older: operators mean what they meant when the file was written."""

import io
import zipfile

import pytest

import facula
from facula import jit


@jit.script
def divided(x, y):
    return facula.div(x, y)


@jit.script
def divided_by_number(x: facula.Tensor, y: int, z: float):
    return facula.div(x, y), facula.div(x, z)


@jit.script
def divided_in_place(x, y):
    return x.div_(y)


@jit.script
def divided_into(x, y, into):
    return facula.div(x, y, out=into)


@jit.script
def divided_numbers(x: int, y: int):
    return x / y


@jit.script
def filled(value: int):
    size = facula.Size([2])
    return facula.full(size, value), facula.full(size, value, dtype=facula.int64)


@jit.script
def spaced(start: float, end: float):
    return facula.linspace(start, end, 5), facula.logspace(start, end, 5)


def as_of(function, version, old=b"", new=b""):
    """The function from a file of a version, with other code."""
    file, made = io.BytesIO(), io.BytesIO()
    jit.save(function, file)
    with zipfile.ZipFile(file) as source, zipfile.ZipFile(made, "w") as target:
        for name in source.namelist():
            is_version = name.endswith("/version")
            content = source.read(name)
            if name.endswith(".py"):
                content = content.replace(old, new)
            target.writestr(name, str(version) if is_version else content)
    made.seek(0)
    return jit.load(made)


def again(function):
    """The function through a file of today."""
    file = io.BytesIO()
    jit.save(function, file)
    file.seek(0)
    return jit.load(file)


whole, halves = facula.tensor([7, -7]), facula.tensor([7.0, -7.0])
two = facula.tensor([2, 2])


@pytest.mark.parametrize("keep", [lambda f: f, again])
def test_integers_were_divided_towards_zero(keep):
    old = keep(as_of(divided, 3))
    assert facula.equal(old(whole, two), facula.tensor([3, -3]))
    assert facula.equal(old(halves, two), facula.tensor([3.5, -3.5]))
    by_number = keep(as_of(divided_by_number, 3))
    assert [x.tolist() for x in by_number(whole, 2, 2.0)] == [[3, -3], [3.5, -3.5]]
    assert by_number(halves, 2, 2.0)[0].tolist() == [3.5, -3.5]
    assert keep(as_of(divided_in_place, 3))(whole.clone(), two).tolist() == [3, -3]
    into = facula.zeros(2, dtype=facula.int64)
    assert keep(as_of(divided_into, 3))(whole, two, into) is into and into.tolist() == [3, -3]
    assert keep(as_of(divided_numbers, 3))(7, 2) == 3.5


@pytest.mark.parametrize("keep", [lambda f: f, again])
def test_a_filled_tensor_did_not_take_the_dtype_of_its_value(keep):
    plain, said = keep(as_of(filled, 4))(3)
    assert plain.dtype == facula.float32 and plain.tolist() == [3.0, 3.0]
    assert said.dtype == facula.int64 and said.tolist() == [3, 3]


def test_files_of_later_versions_mean_what_is_meant_today():
    assert as_of(divided, 4)(whole, two).tolist() == [3.5, -3.5]
    assert as_of(filled, 5)(3)[0].dtype == facula.int64
    for version in ("", "x", "9" * 30):
        assert as_of(divided, version)(whole, two).tolist() == [3.5, -3.5]


@pytest.mark.parametrize("keep", [lambda f: f, again])
def test_a_hundred_numbers_where_nobody_said_how_many(keep):
    even, powers = keep(as_of(spaced, 7, b", 5", b", None"))(0.0, 2.0)
    assert even.shape == powers.shape == (100,)
    assert [even[0].item(), even[-1].item()] == [0.0, 2.0]
    assert powers[-1].item() == pytest.approx(100.0)
    said = keep(as_of(spaced, 7))(0.0, 2.0)
    assert [x.shape for x in said] == [(5,), (5,)] and said[0].tolist() == [0.0, 0.5, 1.0, 1.5, 2.0]
    with pytest.raises(RuntimeError, match="linspace"):
        as_of(spaced, 9, b", 5", b", None")(0.0, 2.0)
