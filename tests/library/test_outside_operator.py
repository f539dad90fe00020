"""The operator of `docs/adding_an_operator.md`, written to a file and imported as a user would."""

import importlib.util
import re
from pathlib import Path

import pytest

import facula
from facula import Tensor
from facula.codegen.c import units
from facula.codegen.c.isa import ISAS
from facula.library import composite, operator, pointwise, view

PAGE = Path(__file__).resolve().parents[2] / "docs" / "adding_an_operator.md"


@pytest.fixture(scope="module")
def outside(tmp_path_factory):
    """The module whose code stands on the page under "outside the package"."""
    code = re.search(r"```python\n(# my_operators\.py\n.*?)```", PAGE.read_text(), re.DOTALL)
    path = tmp_path_factory.mktemp("outside") / "my_operators.py"
    path.write_text(code[1])
    spec = importlib.util.spec_from_file_location("my_operators", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_value_in_every_form(outside):
    x = facula.tensor([0.0, 1.5])
    expected = 0.5 * (x + (x * x + 4).sqrt())
    facula.testing.assert_close(outside.squareplus(x), expected)
    facula.testing.assert_close(facula.ops.mine.squareplus(x), expected)
    facula.testing.assert_close(facula.nn.functional.squareplus(x), expected)
    facula.testing.assert_close(x.squareplus(b=4.0), expected)
    out = facula.empty(2)
    assert outside.squareplus(x, out=out) is out
    facula.testing.assert_close(out, expected)
    y = x.clone()
    assert y.squareplus_() is y
    facula.testing.assert_close(y, expected)


def test_layouts_dtypes_and_broadcasting(outside):
    x = facula.randn(3, 4).t()
    assert outside.squareplus(x).stride() == x.stride()
    assert outside.squareplus(facula.arange(3)).dtype is facula.float32
    assert outside.squareplus(x.bfloat16()).dtype is facula.bfloat16
    assert outside.squareplus(facula.zeros(0, 3)).shape == (0, 3)
    meta = outside.squareplus(facula.empty(2, 3, device="meta"))
    assert meta.is_meta and meta.shape == (2, 3)


def test_gradients(outside):
    x = facula.randn(5, dtype=facula.float64, requires_grad=True)
    function = lambda t: outside.squareplus(t, b=2.0)  # noqa: E731
    assert facula.autograd.gradcheck(function, (x,)) and facula.autograd.gradgradcheck(
        function, (x,)
    )


def test_the_other_kinds(outside):
    x = facula.tensor([[1.0, 4.0, 2.0], [0.0, 3.0, 5.0]], requires_grad=True)
    values, places = outside.top_two(x)
    assert values.tolist() == [[4, 2], [5, 3]] and places.tolist() == [[1, 2], [2, 1]]
    values.sum().backward()
    assert x.grad.tolist() == [[0, 1, 1], [0, 1, 1]]
    facula.testing.assert_close(outside.half_mean(x), x.mean() / 2)
    assert outside.top_two(x.to("meta")).values.shape == (2, 2)
    with pytest.raises(RuntimeError, match=r"\[mine::top_two\] at least two elements"):
        outside.top_two(facula.ones(3, 1))


def test_wrong_calls(outside):
    with pytest.raises(TypeError, match="unexpected keyword argument 'c'"):
        outside.squareplus(facula.ones(1), c=1)
    with pytest.raises(RuntimeError, match="kind int or float|kind .*float"):
        outside.squareplus(facula.ones(1, dtype=facula.complex64))
    assert "Barron" in outside.squareplus.__doc__ and outside.squareplus.__name__ == "squareplus"


def test_nothing_appears_without_names():
    @pointwise("quiet::twice(Tensor self) -> Tensor")
    def twice(x):
        """Twice the value."""
        return x + x

    assert twice(facula.ones(1)).item() == 2 and facula.ops.quiet.twice is not None
    assert not hasattr(Tensor, "twice") and not hasattr(facula, "twice")


def test_what_a_program_adds_is_not_in_the_prebuilt_units():
    """Those are a matter of facula alone: an operator that fits no bool must not break packages."""

    @pointwise("quiet::difference(Tensor self, Tensor other) -> Tensor")
    def difference(x, y):
        """What is subtracted is no bool."""
        return x - y

    assert difference(facula.ones(1), facula.ones(1)).item() == 0
    units._pointwise_kernels.cache_clear()
    texts = [text for _, text in units.elementwise(ISAS["v2"])]
    assert texts and not any("quiet::" in text for text in texts)


def test_taken_names_are_refused():
    for name in ("Tensor.add", "relu", "nn.functional.gelu"):
        with pytest.raises(ValueError, match="a place that is free"):
            composite("quiet::other(Tensor self) -> Tensor", names=(name,))(lambda self: self)
    assert "quiet::other" not in facula.ops.TABLE
    with pytest.raises(ValueError, match="defined once"):
        operator("add(Tensor self) -> Tensor")(type("add", (), {}))


def test_a_view_has_the_arguments_of_the_geometry_that_it_names():
    """The core takes them by place: others would be read as what they are not."""
    with pytest.raises(
        ValueError, match="geometry 'select' takes the arguments of .*got mine::first"
    ):
        view("mine::first(Tensor self) -> Tensor", geometry="select")(type("first", (), {}))
    with pytest.raises(ValueError, match="name of a view of the core was required.*'sin'"):
        view("mine::other(Tensor self) -> Tensor", geometry="sin")(type("other", (), {}))

    @view("mine::exchanged(Tensor self, int one, int other) -> Tensor", geometry="transpose")
    class exchanged:
        """Two dimensions the other way round."""

    x = facula.arange(6).reshape(2, 3)
    assert facula.ops.mine.exchanged(x, 0, 1).tolist() == [[0, 3], [1, 4], [2, 5]]
