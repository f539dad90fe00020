"""Nested tensors in files: PyTorch's are read, and what is written has the parts that PyTorch asks for."""

import io
import pathlib
import pickletools
import zipfile

import pytest

import facula

DATA = pathlib.Path(__file__).parent / "data"
ROWS = [facula.arange(6.0).reshape(2, 3), facula.ones(4, 3)]


def saved(x):
    stream = io.BytesIO()
    facula.save(x, stream)
    return stream


def again(x, weights_only=True):
    stream = saved(x)
    stream.seek(0)
    return facula.load(stream, weights_only=weights_only)


def names_in(stream):
    """Words of the pickle, and the globals that it names."""
    archive = zipfile.ZipFile(stream)
    (name,) = (n for n in archive.namelist() if n.endswith("data.pkl"))
    ops = list(pickletools.genops(archive.read(name)))
    return {arg for op, arg, _ in ops if op.name == "GLOBAL"}, [
        arg for op, arg, _ in ops if op.name == "BINUNICODE"
    ]


def same(x, rows):
    found = x.unbind()
    return len(found) == len(rows) and all(
        facula.equal(a, b) for a, b in zip(found, rows, strict=True)
    )


@pytest.mark.parametrize("weights_only", [True, False])
@pytest.mark.parametrize("layout", ["strided", "jagged"])
def test_files_of_pytorch(layout, weights_only):
    x = facula.load(DATA / f"nested_{layout}.pt", weights_only=weights_only)
    assert x.is_nested and x.layout is getattr(facula, layout)
    assert same(x, [facula.ones(2, 3), facula.ones(4, 3)])


@pytest.mark.parametrize("weights_only", [True, False])
@pytest.mark.parametrize("layout", [facula.strided, facula.jagged])
def test_what_is_saved_comes_back(layout, weights_only):
    x = again(facula.nested.nested_tensor(ROWS, layout=layout), weights_only)
    assert x.layout is layout and same(x, ROWS)


def test_entries_of_any_shape():
    rows = [facula.ones(2, 3), facula.zeros(4, 5), facula.ones(1, 1)]
    assert same(again(facula.nested.nested_tensor(rows)), rows)


def test_a_ragged_dimension_further_back():
    x = facula.nested.nested_tensor(ROWS, layout=facula.jagged).transpose(1, 2)
    back = again(x)
    assert same(back, [r.T for r in ROWS]) and back._ragged_idx == 2


def test_gradients_are_asked_for_as_before():
    assert again(
        facula.nested.nested_tensor(ROWS, layout=facula.jagged, requires_grad=True)
    ).requires_grad
    assert not again(facula.nested.nested_tensor(ROWS, layout=facula.jagged)).requires_grad


def test_inside_of_other_values():
    x = facula.nested.nested_tensor(ROWS, layout=facula.jagged)
    back = again({"a": [x], "b": x})
    assert same(back["a"][0], ROWS) and same(back["b"], ROWS)


def test_names_are_those_of_pytorch():
    found, _ = names_in(saved(facula.nested.nested_tensor(ROWS)))
    assert "torch._utils _rebuild_nested_tensor" in found
    found, words = names_in(saved(facula.nested.nested_tensor(ROWS, layout=facula.jagged)))
    module = "torch.nested._internal.nested_tensor"
    assert {f"{module} NestedTensor", f"{module} _rebuild_njt"} <= found
    assert {
        "values",
        "offsets",
        "lengths",
        "_ragged_idx",
        "_metadata_cache",
        "requires_grad",
    } <= set(words)


def test_damaged_parts_are_refused():
    from facula.nested import files

    sizes, strides = facula.tensor([[2, 3]]), facula.tensor([[3, 1]])
    with pytest.raises(RuntimeError):
        files.strided(facula.ones(5), sizes, strides, facula.tensor([0]))
    with pytest.raises(TypeError):
        files.strided(facula.ones(6), sizes, 3, facula.tensor([0]))
    for state in (
        3,
        {},
        {"values": facula.ones(3, 2), "offsets": 1},
        {"values": facula.ones(3, 2), "offsets": facula.tensor([0, 3]), "_ragged_idx": 5},
    ):
        with pytest.raises(TypeError):
            files.jagged(state)
    with pytest.raises((RuntimeError, IndexError)):
        files.jagged({"values": facula.ones(3, 2), "offsets": facula.tensor([0, 4])})
