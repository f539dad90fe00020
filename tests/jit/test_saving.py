"""What is written is read back with equal numbers; what has no text is refused before anything is written."""

import io
import zipfile

import pytest
import scripted_code as code

import facula
import facula.nn.functional as F
from facula import jit, nn


def close(a, b):
    if isinstance(a, facula.Tensor):
        return a.shape == b.shape and facula.allclose(a, b, rtol=1e-5, atol=1e-6)
    if isinstance(a, (list, tuple)):
        return len(a) == len(b) and all(map(close, a, b))
    return a == b


def fresh(arguments):
    return [a.clone() if isinstance(a, facula.Tensor) else a for a in arguments]


def again(scripted, **extra):
    made = io.BytesIO()
    jit.save(scripted, made, **extra)
    made.seek(0)
    return made


X = facula.arange(6.0).reshape(2, 3) / 5
FUNCTIONS = [
    (code.optional, (X, X)),
    (code.loops, (9,)),
    (code.early, (5, 3)),
    (code.endless, (3,)),
    (code.lists, ([X, X + 1],)),
    (code.indexing, (X,)),
    (code.numbers, (1.5, 4)),
    (code.texts, ("ab,cd",)),
    (code.object_of_a_class, (5,)),
    (code.functional, (X,)),
    (code.forked, (X,)),
    (code.asserted, (X,)),
    (code.swapped, ((3, X),)),
    (code.union, ([1, 2],)),
]
LAYERS = [
    (nn.Linear(3, 4), (2, 3)),
    (nn.Conv2d(3, 4, 3, padding=1), (1, 3, 5, 5)),
    (nn.Conv1d(3, 4, 3, padding=1, padding_mode="circular"), (1, 3, 5)),
    (nn.BatchNorm2d(3), (2, 3, 4, 4)),
    (nn.LSTM(3, 4, 2, bidirectional=True), (5, 2, 3)),
    (nn.GRU(3, 4, batch_first=True), (2, 5, 3)),
    (nn.RNN(3, 4), (5, 3)),
    (nn.MaxPool2d(2), (1, 2, 4, 4)),
    (nn.AvgPool2d(2), (1, 1, 4, 4)),
    (nn.LayerNorm(4), (2, 4)),
    (nn.Softmax(-1), (2, 3)),
    (nn.Sequential(nn.Conv2d(3, 4, 3), nn.ReLU(), nn.Flatten(), nn.Linear(16, 2)), (1, 3, 4, 4)),
]


@pytest.mark.parametrize(
    ("function", "arguments"), FUNCTIONS, ids=[f.__name__ for f, _ in FUNCTIONS]
)
def test_a_saved_function_gives_the_same(function, arguments):
    scripted = jit.script(function)
    expected = scripted(*fresh(arguments))
    assert close(jit.load(again(scripted))(*fresh(arguments)), expected)


@pytest.mark.parametrize(("layer", "shape"), LAYERS, ids=[type(m).__name__ for m, _ in LAYERS])
def test_a_saved_layer_gives_the_same(layer, shape):
    facula.manual_seed(0)
    scripted = jit.script(layer.eval())
    x = facula.randn(*shape)
    loaded = jit.load(again(scripted))
    assert close(loaded(x), layer(x))
    assert list(loaded.state_dict()) == list(layer.state_dict())


def test_extra_files_travel():
    made = again(jit.script(code.endless), _extra_files={"notes.txt": "hello"})
    found = {"notes.txt": ""}
    jit.load(made, _extra_files=found)
    assert found["notes.txt"] == b"hello"


def test_shared_tensors_stay_shared():
    model = nn.Sequential(nn.Linear(2, 2), nn.Linear(2, 2))
    model[1].weight = model[0].weight
    with zipfile.ZipFile(again(jit.script(model))) as archive:
        assert sum("/data/" in name for name in archive.namelist()) == 3


def test_parts_in_python_are_refused_by_name(tmp_path):
    path = tmp_path / "model.pt"
    with pytest.raises(RuntimeError, match="in_python"):
        jit.save(jit.script(code.Net()), path)
    assert not path.exists()


def test_code_is_text_of_the_graph():
    text = jit.script(code.endless).code
    assert text.startswith("def endless(r: int) -> int:\n")
    assert "torch.remainder(" in text and "while " in text


def test_only_scripted_things_are_saved():
    with pytest.raises(RuntimeError, match=r"jit.script\(\) makes one"):
        jit.save(nn.Linear(1, 1), io.BytesIO())


def loops_without_statements(x: facula.Tensor, flag: bool) -> facula.Tensor:
    for _ in range(3):
        unused = flag  # noqa: F841
    for k in [1, 2]:
        for _ in range(k):
            unused = 1  # noqa: F841
    if flag:
        unused = 2  # noqa: F841
    return x + 1


def test_bodies_of_which_nothing_is_left_are_written():
    """The text of a loop whose names nobody reads had no line below its head."""
    scripted = jit.script(loops_without_statements)
    loaded = jit.load(again(scripted))
    assert loaded(facula.ones(2), True).tolist() == [2.0, 2.0]
    assert jit.load(again(loaded))(facula.ones(2), False).tolist() == [2.0, 2.0]


def one_dimension(x: facula.Tensor) -> facula.Tensor:
    return x.roll(1, 1) + facula.roll(x, 1, 0) + facula.frobenius_norm(x, 1, True)


def test_one_integer_stands_for_a_list_of_one():
    x = facula.arange(6.0).reshape(2, 3)
    scripted = jit.script(one_dimension)
    assert facula.equal(scripted(x), one_dimension(x))
    assert facula.equal(jit.load(again(scripted))(x), one_dimension(x))


def single(x: facula.Tensor, numbers: list[int], pair: tuple[int]) -> facula.Tensor:
    (row,) = x.unbind(0)
    (number,) = numbers
    [other] = numbers
    (third,) = pair
    return row * number + other - third


def test_lists_of_one_item_are_unpacked():
    """The name got the list itself; so did traces of `x.unbind(0)[0]` that were read from files."""
    scripted, x = jit.script(single), facula.ones(1, 2)
    for program in (scripted, jit.load(again(scripted))):
        assert program(x, [3], (4,)).tolist() == [2.0, 2.0]
        with pytest.raises(RuntimeError, match="1 items to unpack were required"):
            program(facula.ones(2, 2), [3], (4,))
        with pytest.raises(RuntimeError, match="1 items to unpack were required"):
            program(x, [3, 4], (4,))
    traced = jit.trace(lambda x: x.unbind(0)[0].neg() + x.chunk(3, 0)[0], (x,))
    assert jit.load(again(traced))(x).tolist() == [[0.0, 0.0]]


class Positions(nn.Module):
    """Pools with and without the positions of what they take."""

    def forward(self, x):
        a, b = F.adaptive_max_pool2d(x, 2, return_indices=True)
        c, d = F.max_pool2d(x, 2, return_indices=True)
        return a, b, c, d, F.adaptive_max_pool2d(x, [2, 3]), F.max_pool2d(x, 2)


@pytest.mark.parametrize("make", [jit.script, lambda m: jit.trace(m, facula.ones(1, 4, 4, 4))])
def test_pools_that_give_positions_go_through_files(make):
    x = facula.arange(64.0).view(1, 4, 4, 4).sin()
    made = make(Positions())
    # the name that PyTorch has, which always gives both
    assert "torch.adaptive_max_pool2d(" in made.code and "adaptive_max_pool2d_with" not in made.code
    file = io.BytesIO()
    jit.save(made, file)
    file.seek(0)
    for found, expected in zip(jit.load(file)(x), Positions()(x), strict=True):
        assert facula.equal(found, expected)
