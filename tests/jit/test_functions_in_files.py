"""Functions that PyTorch has as several operators: files hold those operators, and give the numbers."""

import io
import re
import zipfile

import numpy as np
import pytest

import facula
from facula import Tensor
from facula.nn import functional as F


def saved(function):
    """The file of a scripted function."""
    file = io.BytesIO()
    facula.jit.save(facula.jit.script(function), file)
    file.seek(0)
    return file


def code(function):
    """All code in the file of a function."""
    with zipfile.ZipFile(saved(function)) as archive:
        return "\n".join(archive.read(n).decode() for n in archive.namelist() if n.endswith(".py"))


def values(*sizes):
    count = int(np.prod(sizes))
    return facula.tensor(np.sin(0.37 * np.arange(1.0, count + 1)).reshape(sizes).astype(np.float32))


def softmin(x: Tensor):
    return F.softmin(x, 1)


def tanhshrink(x: Tensor):
    return F.tanhshrink(x)


def softsign(x: Tensor):
    return F.softsign(x)


def logsigmoid(x: Tensor):
    return F.logsigmoid(x)


def normalize(x: Tensor):
    return F.normalize(x, dim=1)


def poisson(x: Tensor):
    return F.poisson_nll_loss(x, x.abs(), reduction="sum")


def margin(x: Tensor):
    return F.hinge_embedding_loss(x, x.sign(), reduction="sum")


def divergence(x: Tensor):
    return F.kl_div(x, x, reduction="batchmean", log_target=True)


def gaussian(x: Tensor):
    return F.gaussian_nll_loss(x, x * 2, x.abs() + 1)


def _sigmoid(x):
    return 1 / (1 + np.exp(-x))


def _softmin(x):
    e = np.exp(-x)
    return e / e.sum(1, keepdims=True)


ORACLES = [
    (softmin, _softmin),
    (tanhshrink, lambda x: x - np.tanh(x)),
    (softsign, lambda x: x / (1 + np.abs(x))),
    (logsigmoid, lambda x: np.log(_sigmoid(x))),
    (normalize, lambda x: x / np.sqrt((x * x).sum(1, keepdims=True))),
    (poisson, lambda x: (np.exp(x) - np.abs(x) * x).sum()),
    (margin, lambda x: np.where(x > 0, x, np.maximum(0, 1 - x)).sum()),
    (divergence, lambda x: 0.0 * x.sum()),
    (gaussian, lambda x: (0.5 * (np.log(np.abs(x) + 1) + x * x / (np.abs(x) + 1))).mean()),
]


@pytest.mark.parametrize(("function", "oracle"), ORACLES, ids=lambda f: f.__name__)
def test_a_function_of_a_file_gives_its_numbers(function, oracle):
    x = values(3, 4)
    made = facula.jit.load(saved(function))(x)
    np.testing.assert_allclose(made.numpy(), oracle(x.numpy().astype(float)), rtol=2e-6, atol=2e-6)


@pytest.mark.parametrize("function", [f for f, _ in ORACLES], ids=lambda f: f.__name__)
def test_the_code_names_operators_of_pytorch(function):
    own = "softmin tanhshrink softsign logsigmoid normalize gaussian_nll_loss".split()
    assert not set(re.findall(r"\btorch\.(\w+)\(", code(function))) & set(own)


def grown(x: Tensor, mode: str, size: int):
    return F.interpolate(x, size, mode=mode)


def test_interpolation_is_written_for_each_number_of_dimensions():
    loaded = facula.jit.load(saved(grown))
    line, image = facula.tensor([[[0.0, 1.0]]]), facula.tensor([[[[0.0, 1.0], [2.0, 3.0]]]])
    assert loaded(line, "nearest", 4).tolist() == [[[0.0, 0.0, 1.0, 1.0]]]
    assert loaded(line, "linear", 4).tolist() == [[[0.0, 0.25, 0.75, 1.0]]]
    assert loaded(image, "nearest", 2).tolist() == image.tolist()
    assert loaded(image, "area", 1).tolist() == [[[[1.5]]]]


def unpooled(x: Tensor, at: Tensor):
    return F.max_unpool2d(x, at, 2)


def test_pooling_undone_has_the_size_that_kernels_say():
    x, at = facula.tensor([[[[1.0, 2.0]]]]), facula.tensor([[[[0, 7]]]])
    made = facula.jit.load(saved(unpooled))(x, at)
    assert made.tolist() == [[[[1.0, 0.0, 0.0, 0.0], [0.0, 0.0, 0.0, 2.0]]]]
    assert "unpooled_sizes" in code(unpooled)


def counted(x: Tensor):
    return facula.unique(x, return_counts=True)


def distinct(x: Tensor):
    return facula.unique(x)


def test_distinct_values_and_their_counts():
    x = facula.tensor([3, 1, 3])
    made, counts = facula.jit.load(saved(counted))(x)
    assert (made.tolist(), counts.tolist()) == ([1, 3], [1, 2])
    assert facula.jit.load(saved(distinct))(x).tolist() == [1, 3]
    assert "torch._unique2(" in code(counted)


def bag(x: Tensor, w: Tensor, mode: str):
    return F.embedding_bag(x, w, mode=mode)


def test_bags_of_embeddings():
    w = values(4, 2)
    loaded = facula.jit.load(saved(bag))
    rows = w.numpy()[[1, 3]]
    x = facula.tensor([[1, 3]])
    for mode, oracle in (("sum", rows.sum(0)), ("mean", rows.mean(0)), ("max", rows.max(0))):
        np.testing.assert_allclose(loaded(x, w, mode).numpy()[0], oracle, rtol=1e-6)


def contracted(a: Tensor, b: Tensor):
    return facula.tensordot(a, b, 1)


def norms(x: Tensor):
    return facula.norm(x, dim=[1], keepdim=True), facula.linalg.vector_norm(x), facula.fft.rfft(x)


def test_linear_algebra_has_pytorchs_names():
    x = values(3, 4)
    made = facula.jit.load(saved(contracted))(x, x.t())
    np.testing.assert_allclose(made.numpy(), x.numpy() @ x.numpy().T, rtol=1e-5, atol=1e-6)
    text = code(norms)
    assert "torch.linalg_vector_norm(" in text
    assert "torch.fft_rfft(" in text
    assert '"fro"' not in text


def places(x: Tensor):
    return facula.where(x > 0)


def same_type(x: Tensor):
    return facula.result_type(x, 1) == facula.float32


def two(x: Tensor):
    return facula.atleast_2d(x)


def moved(x: Tensor):
    return facula.movedim(x, 0, 1)


def matrix(x: Tensor):
    return facula.linalg.matrix_norm(x)


def test_results_have_the_types_that_arguments_say():
    x = values(2, 3)
    assert [p.tolist() for p in facula.jit.script(places)(facula.tensor([0.0, 1.0]))] == [[1]]
    assert facula.jit.script(same_type)(x) is True
    assert facula.jit.script(two)(facula.ones(3)).shape == (1, 3)
    assert facula.jit.script(moved)(x).shape == (3, 2)
    oracle = np.sqrt((x.numpy() ** 2).sum())
    np.testing.assert_allclose(facula.jit.script(matrix)(x).item(), oracle, rtol=1e-6)


def halved(x: Tensor):
    return F.fractional_max_pool2d(x, 2, output_size=[1, 1])


def test_a_function_with_a_part_in_python_is_not_saved():
    with pytest.raises(RuntimeError, match="without parts that run in Python"):
        saved(halved)


@pytest.mark.parametrize(
    "options",
    [{}, {"bias": False}, {"num_layers": 2, "bidirectional": True, "batch_first": True}],
    ids=["one layer", "no bias", "both directions"],
)
def test_a_traced_lstm_is_written_by_pytorchs_operator_and_agrees_with_the_module_itself(options):
    """And computes, read again, what the module itself does."""
    module = facula.nn.LSTM(3, 4, **options).eval()
    x = facula.randn(5, 2, 3)
    traced = facula.jit.trace(module, (x,))
    assert "_lstm_layer" not in traced.code
    stream = io.BytesIO()
    facula.jit.save(traced, stream)
    with zipfile.ZipFile(stream) as file:
        code = "".join(file.read(n).decode() for n in file.namelist() if n.endswith(".py"))
    assert "torch.lstm(" in code and "_lstm_layer" not in code
    stream.seek(0)
    with facula.no_grad():
        found, wanted = facula.jit.load(stream)(x), module(x)
    for one, other in zip((found[0], *found[1]), (wanted[0], *wanted[1]), strict=True):
        facula.testing.assert_close(one, other)


@pytest.mark.parametrize("name", ["erfcx", "ndtri", "bessel_j0", "log_ndtr", "airy_ai"])
def test_special_functions_are_written_by_pytorchs_names(name):
    """`special_erfcx` there, in a namespace of its own here; and the file agrees with the function itself."""
    x = facula.tensor([0.25, 0.5, 0.75])
    function = getattr(facula.special, name)
    traced = facula.jit.trace(lambda x: function(x), (x,))
    assert f"torch.special_{name}(x)" in traced.code
    stream = io.BytesIO()
    facula.jit.save(traced, stream)
    stream.seek(0)
    facula.testing.assert_close(facula.jit.load(stream)(x), function(x))
