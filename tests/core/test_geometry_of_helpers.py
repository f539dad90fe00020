"""The core's own helpers refuse geometries that leave a storage, and sequences that lie or change meanwhile."""

import pytest

import facula
from facula import core


class Short(tuple):
    """Says that it has one entry."""

    def __len__(self):
        return 1


class ShortList(list):
    def __len__(self):
        return 1


class Growing:
    """A size whose reading adds to the list that it stands in."""

    def __init__(self, entries):
        self.entries = entries

    def __index__(self):
        self.entries.extend([1] * 100)
        return 1


class Emptying(Growing):
    def __index__(self):
        self.entries.clear()
        return 1


def list_of(kind):
    entries = []
    entries.extend([kind(entries), 1])
    return entries


@pytest.mark.parametrize(
    "shape, strides, at",
    [
        ((2, 3), (3,), 0), ((3,), (), 0), ((), (1,), 0), ((7,), (1,), 0), ((2,), (6,), 0), ((6,), (1,), 1),
        ((1,), (1,), -1), ((-3,), (1,), 0), ((3,), (-1,), 2), ((2**62,), (2**62,), 0), ((1,), (1,), 2**60),
        ((1,) * 65, (1,) * 65, 0), ((1,) * 400, (0,) * 400, 0),
    ],
)  # fmt: skip
def test_views_stay_inside_of_their_storage(shape, strides, at):
    x = facula.arange(6.0)
    with pytest.raises((ValueError, RuntimeError), match=r"\[view\]"):
        core.make_view(x, shape, strides, at)
    with pytest.raises((ValueError, RuntimeError), match=r"\[view\]"):
        core.view_dtype(x, facula.int32, shape, strides, 4 * at if at < 2**40 else at)


def test_views_inside_are_given():
    x = facula.arange(6.0)
    assert core.make_view(x[1:], (2, 2), (3, 1), 0).tolist() == [[1, 2], [4, 5]]
    assert core.view_dtype(x, facula.uint8, (4,), (1,), 4).tolist() == [0, 0, 128, 63]
    assert core.make_view(x, [3, 0], [1, 1], 6).tolist() == [[], [], []]
    assert core.make_view(x[:0], [3, 0], [1, 1], 600).tolist() == [[], [], []]
    with pytest.raises(TypeError, match="dtype"):
        core.view_dtype(x, facula.qint8, (1,), (1,))


def test_geometry_is_taken_of_views_only():
    x = facula.zeros(2)
    for other in (facula.ones(1000), x.view(facula.int32)):
        with pytest.raises(ValueError, match="a view of the same memory"):
            core.take_geometry(x, other)


def test_shells_alone_are_reshaped():
    x = facula.zeros(2)
    with pytest.raises(TypeError, match="without elements"):
        core.reshape_shell(x, (1000,), facula.float64)
    assert x.shape == (2,)


def test_wrappers_have_a_batch_dimension():
    for dim in (-1, 1, 7):
        with pytest.raises(IndexError, match="a dimension in"):
            core.make_wrapper(facula.Tensor, facula.zeros(2), dim)
    with pytest.raises(IndexError):
        core.make_wrapper(facula.Tensor, facula.zeros(()), 0)


def test_what_is_no_class_of_modules_is_refused():
    for cls in (None, (), facula.zeros(1)):
        with pytest.raises(TypeError):
            core.fast_module_attributes(cls)
        with pytest.raises(TypeError):
            core.fast_module_calls(cls, {}, {}, {}, {})
    with pytest.raises(TypeError, match="dictionaries"):
        core.fast_module_calls(type("Plain", (), {}), None, {}, {}, {})


@pytest.mark.parametrize("kind", [Short, ShortList])
def test_sequences_that_lie_about_their_length(kind):
    x = facula.arange(24.0).reshape(2, 3, 4)
    lies = kind([1] * 100)
    for call in (
        lambda: facula.empty(lies), lambda: x.view(lies), lambda: x.reshape(lies), lambda: x.expand(lies),
        lambda: x.permute(lies), lambda: x.as_strided((1,), lies), lambda: x.clone().resize_(lies),
        lambda: core.make_view(x, lies, (1,)), lambda: core.set_storage(x, x.untyped_storage(), 0, lies, (1,)),
    ):  # fmt: skip
        with pytest.raises((RuntimeError, ValueError)):
            call()
    with pytest.raises(ValueError, match="another length"):
        facula.tensor(lies)


def test_lists_that_change_while_they_are_read():
    with pytest.raises(RuntimeError, match="at most 64 dimensions"):
        facula.zeros(list_of(Growing))
    for kind in (Growing, Emptying):
        with pytest.raises(ValueError, match="another length"):
            facula.tensor(list_of(kind))
        entries = list_of(kind)
        assert core.make_view(facula.zeros(3), entries, (1, 1)).shape == (1, 1)
