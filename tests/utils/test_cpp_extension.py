"""C++ extensions: one library with everything in it, compiled once for all tests here.

Oracles are NumPy, finite differences, and plain loops of C++ over memory.
"""

import re

import numpy
import pytest

import facula
from facula.utils import cpp_extension
from facula.utils.cpp_extension import bridge

SOURCE = r"""
using namespace torch::indexing;
using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

std::vector<torch::Tensor> cell(torch::Tensor input, torch::Tensor weights, torch::Tensor bias, torch::Tensor old_h,
                                torch::Tensor old_cell) {
  auto X = torch::cat({old_h, input}, /*dim=*/1);
  auto gates = torch::addmm(bias, X, weights.transpose(0, 1)).chunk(3, /*dim=*/1);
  auto new_cell = old_cell + torch::elu(gates[2], 1.0) * torch::sigmoid(gates[0]);
  return {torch::tanh(new_cell) * torch::sigmoid(gates[1]), new_cell};
}

at::Tensor running_sum(const at::Tensor &x) {
  auto out = at::empty_like(x);
  AT_DISPATCH_FLOATING_TYPES_AND_HALF(x.scalar_type(), "running_sum", [&] {
    auto from = x.accessor<scalar_t, 2>();
    auto to = out.accessor<scalar_t, 2>();
    for (int64_t i = 0; i < from.size(0); i++) {
      scalar_t sum = 0;
      for (int64_t j = 0; j < from.size(1); j++) to[i][j] = sum += from[i][j];
    }
  });
  return out;
}

struct Scaled : public torch::autograd::Function<Scaled> {
  static at::Tensor forward(AutogradContext *ctx, at::Tensor x, at::Tensor y, double c) {
    ctx->save_for_backward({x, y});
    ctx->saved_data["c"] = c;
    return x * y * c;
  }
  static variable_list backward(AutogradContext *ctx, variable_list grads) {
    auto saved = ctx->get_saved_variables();
    double c = ctx->saved_data["c"].toDouble();
    return {grads[0] * saved[1] * c, grads[0] * saved[0] * c, torch::Tensor()};
  }
};
at::Tensor scaled(at::Tensor x, at::Tensor y, double c) { return Scaled::apply(x, y, c); }

at::Tensor indexed(at::Tensor x) {
  auto y = x.clone();
  y.index_put_({Slice(1, None), 0}, 7.0);
  return y.index({"...", Slice(None, None, 2)});
}
at::Tensor added(at::Tensor x, at::Tensor i, at::Tensor v) {
  auto y = x.clone();
  y.index_put_({i}, v, /*accumulate=*/true);
  y.index_put_({Slice(1, None), i}, 0.5, /*accumulate=*/true);
  return y;
}
std::tuple<at::Tensor, at::Tensor> largest(at::Tensor x) {
  auto [values, indices] = x.max(1);
  return {values + at::max(x), indices};
}
at::Tensor made(c10::optional<at::Tensor> y, std::vector<int64_t> shape, at::ScalarType dtype) {
  auto x = torch::arange(0, 4, torch::dtype(dtype)).view(shape) + torch::ones({2, 2}, dtype) * 0.5;
  return y.has_value() ? x + *y : x;
}
at::Tensor owned() {
  double *memory = new double[4]{1, 2, 3, 4};
  return torch::from_blob(memory, {2, 2}, [](void *p) { delete[] static_cast<double *>(p); }, torch::kFloat64);
}
std::string described(at::Tensor x) {
  torch::NoGradGuard guard;
  bool recorded = (x * 2).requires_grad();
  return c10::str(x.sizes(), x.strides(), x.dtype() == at::kFloat, x.device(), x.t().is_contiguous(), recorded);
}
at::Tensor derived(at::Tensor x) {
  auto y = torch::zeros({2, 2}, x.options());
  y[0][1] = 5;
  y[1] = std::get<0>(at::_unique(x));
  return torch::autograd::grad({(x * x).sum()}, {x})[0].sum() + y;
}
at::Tensor checked(at::Tensor x, int kind) {
  TORCH_CHECK(kind != 0, "two dimensions were required: got ", x.dim());
  TORCH_CHECK_INDEX(kind != 1, "an index");
  if (kind == 2) throw std::runtime_error("a plain error");
  if (kind == 3) x.data_ptr<double>();
  return x.mm(x);
}

at::Tensor muladd(const at::Tensor &a, const at::Tensor &b, double c) {
  at::Tensor x = a.contiguous(), y = b.contiguous(), out = torch::empty(x.sizes(), x.options());
  const float *from = x.data_ptr<float>(), *other = y.const_data_ptr<float>();
  float *to = out.mutable_data_ptr<float>();
  at::parallel_for(0, out.numel(), 4, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; i++) to[i] = from[i] * other[i] + static_cast<float>(c);
  });
  return out;
}
void add_out(const at::Tensor &a, const at::Tensor &b, at::Tensor &out) { at::add_out(out, a, b); }
TORCH_LIBRARY(cpptests, m) {
  m.def("muladd(Tensor a, Tensor b, float c) -> Tensor");
  m.def("add_out(Tensor a, Tensor b, Tensor(a!) out) -> ()");
  m.def("repeated", [](at::Tensor x, int64_t n, std::optional<std::string> word) {
    return std::make_tuple(x.repeat({n}), word.value_or("none"));
  });
}
TORCH_LIBRARY_IMPL(cpptests, CPU, m) {
  m.impl("muladd", &muladd);
  m.impl("add_out", &add_out);
}
TORCH_LIBRARY_IMPL(cpptests, Autograd, m) { m.fallback(torch::CppFunction::makeFallthrough()); }
TORCH_LIBRARY_FRAGMENT(cpptests, m) { m.def("what is this", &muladd); }
"""
FUNCTIONS = (
    "cell running_sum scaled indexed added largest made owned described derived checked".split()
)


@pytest.fixture(scope="module")
def module(tmp_path_factory):
    folder = tmp_path_factory.mktemp("extension")
    arguments = {"functions": FUNCTIONS, "extra_cflags": ["-O0"], "build_directory": str(folder)}
    # the last registration has no schema: who loads the library hears of it
    with pytest.raises((RuntimeError, ValueError), match="what is this"):
        cpp_extension.load_inline("cpptests", SOURCE, **arguments)
    return cpp_extension.load_inline("cpptests", SOURCE, **arguments)


def wave(*shape, dtype=numpy.float32):
    return numpy.sin(numpy.arange(1, 1 + numpy.prod(shape))).reshape(shape).astype(dtype)


def tensors(*arrays):
    return [facula.from_numpy(array) for array in arrays]


def test_operators_and_methods(module):
    x, w, b, h, c = wave(3, 4), wave(15, 9), wave(1, 15), wave(3, 5), wave(3, 5)
    new_h, new_cell = module.cell(*tensors(x, w, b, h, c))
    gates = numpy.concatenate([h, x], 1).astype(float) @ w.T + b
    i, o, z = numpy.split(gates, 3, 1)
    expected = c + numpy.where(z > 0, z, numpy.expm1(z)) / (1 + numpy.exp(-i))
    numpy.testing.assert_allclose(new_cell, expected, rtol=1e-5, atol=1e-6)
    numpy.testing.assert_allclose(
        new_h, numpy.tanh(expected) / (1 + numpy.exp(-o)), rtol=1e-5, atol=1e-6
    )
    y = wave(3, 4)
    y[1:, 0] = 7
    numpy.testing.assert_array_equal(module.indexed(facula.from_numpy(x)), y[..., ::2])
    i, v = numpy.array([1, 1, 2]), wave(3, 4)
    y = x.copy()
    numpy.add.at(y, i, v)
    numpy.add.at(y, (slice(1, None), i), 0.5)
    numpy.testing.assert_allclose(module.added(*tensors(x, i, v)), y, rtol=1e-6)
    values, indices = module.largest(facula.from_numpy(x))
    numpy.testing.assert_array_equal(indices, x.argmax(1))
    numpy.testing.assert_allclose(values, x.max(1) + x.max())


def test_values_in_and_out(module):
    found = module.made(None, [2, 2], facula.float64)
    assert found.dtype == facula.float64 and found.tolist() == [[0.5, 1.5], [2.5, 3.5]]
    assert module.made(found, [2, 2], facula.float64).tolist() == [[1, 3], [5, 7]]
    assert module.owned().sum().item() == 10
    x = facula.tensor([3.0, 1.0, 3.0], requires_grad=True)
    assert module.derived(x).tolist() == [[14, 19], [15, 17]]
    assert module.described(facula.ones(2, 3, requires_grad=True)) == "[2, 3][3, 1]1cpu00"


def test_elements_by_dtype(module):
    for dtype in (numpy.float32, numpy.float64, numpy.float16):
        x = numpy.arange(6).reshape(2, 3).astype(dtype)
        for view in (x, x.T):
            found = module.running_sum(
                facula.from_numpy(x).t() if view is not x else facula.from_numpy(x)
            )
            numpy.testing.assert_array_equal(found, view.cumsum(1))
    with pytest.raises(NotImplementedError, match="\"running_sum\" not implemented for 'Long'"):
        module.running_sum(facula.ones(2, 2, dtype=facula.int64))


def test_gradients(module):
    x, y = (t.requires_grad_() for t in tensors(wave(3, dtype=float), wave(3, dtype=float) + 2))
    assert facula.autograd.gradcheck(lambda x, y: module.scaled(x, y, 2.5), (x, y))


@pytest.mark.parametrize(
    ("kind", "error", "words"),
    [
        (0, RuntimeError, "two dimensions were required: got 1"),
        (1, IndexError, "an index"),
        (2, RuntimeError, "a plain error"),
        (3, RuntimeError, "expected scalar type Double but found Float"),
        (4, RuntimeError, r"\[mm\]"),
    ],
)
def test_errors_arrive_as_they_were(module, kind, error, words):
    with pytest.raises(error, match=words):
        module.checked(facula.ones(3), kind)


def test_registered_operators(module):
    operators = facula.ops.cpptests
    a, b = wave(5, 7), wave(7, 5).T
    numpy.testing.assert_allclose(operators.muladd(*tensors(a, b), 2.0), a * b + 2, rtol=1e-6)
    out = facula.empty(5, 7)
    version = out._version
    operators.add_out(*tensors(a, b), out)
    numpy.testing.assert_array_equal(out, a + b)
    assert out._version > version
    repeated, word = operators.repeated(facula.ones(2), 3, None)
    assert repeated.tolist() == [1] * 6 and word == "none"


def test_registered_operators_compile_with_gradients(module):
    operator = facula.ops.cpptests.muladd
    facula.library.register_fake("cpptests::muladd", lambda a, b, c: facula.empty_like(a))
    facula.library.register_autograd(
        "cpptests::muladd",
        lambda ctx, grad: (grad * ctx.saved_tensors[1], grad * ctx.saved_tensors[0], None),
        setup_context=lambda ctx, inputs, output: ctx.save_for_backward(*inputs[:2]),
    )
    x, y = (t.requires_grad_() for t in tensors(wave(4), wave(4) + 1))
    facula.compile(lambda x, y: operator(x.sin(), y, 1.5) * 2, fullgraph=True)(
        x, y
    ).sum().backward()
    numpy.testing.assert_allclose(x.grad, 2 * (wave(4) + 1) * numpy.cos(wave(4)), rtol=1e-5)
    numpy.testing.assert_allclose(y.grad, 2 * numpy.sin(wave(4)), rtol=1e-5)


def test_tensors_without_memory_are_refused(module):
    for x in (
        facula.ones(2, 2, device="meta"),
        facula.masked.masked_tensor(facula.ones(2, 2), facula.eye(2) > 0),
    ):
        with pytest.raises(RuntimeError, match="a tensor with memory was required"):
            module.running_sum(x)
    with pytest.raises(RuntimeError, match="a tensor with memory was required"):
        facula.vmap(module.running_sum)(facula.ones(2, 2, 2))


def test_folders_of_others_are_refused(tmp_path):
    (tmp_path / "own").mkdir(mode=0o700)
    (tmp_path / "link").symlink_to(tmp_path / "own")
    (tmp_path / "open").mkdir()
    (tmp_path / "open").chmod(0o777)
    (tmp_path / "file").write_text("")
    refused = {
        "link": "which is a link",
        "open": "nobody else writes to",
        "file": "a folder to build in",
    }
    for name, words in refused.items():
        with pytest.raises(RuntimeError, match=words):
            cpp_extension.load_inline(
                "refused", "", functions=[], build_directory=str(tmp_path / name)
            )
    assert not list((tmp_path / "own").iterdir()) and not list((tmp_path / "open").iterdir())


def test_what_is_no_extension_is_refused(tmp_path):
    with pytest.raises(RuntimeError, match="CUDA"):
        cpp_extension.load_inline("refused", "", cuda_sources="", with_cuda=True)
    with pytest.raises(RuntimeError, match="CUDA"):
        cpp_extension.CUDAExtension("refused", ["a.cu"])
    with pytest.raises(FileNotFoundError, match="nowhere.cpp"):
        cpp_extension.load("refused", [str(tmp_path / "nowhere.cpp")])
    with pytest.raises(ValueError, match="a name of C"):
        cpp_extension.load_inline("no name", "", build_directory=str(tmp_path))
    with pytest.raises(RuntimeError, match="Error building extension 'wrong'"):
        cpp_extension.load_inline(
            "wrong",
            "int f(",
            build_directory=str(tmp_path),
            is_python_module=False,
            no_implicit_headers=True,
        )


#: registrations of one library that cannot be: each raises while it is loaded
MISTAKES = {
    r"cannot be nullptr": 'at::Tensor (*none)(at::Tensor) = nullptr; m.def("f(Tensor x) -> Tensor");'
    ' m.impl("f", none);',
    r"number of arguments is different. 1 vs 2": 'm.def("g(Tensor x) -> Tensor",'
    " [](at::Tensor x, at::Tensor y) { return x; });",
    r"match namespace of enclosing TORCH_LIBRARY": 'm.def("elsewhere::h(Tensor x) -> Tensor");',
}


def test_registrations_that_cannot_be_are_refused_when_loaded(tmp_path, monkeypatch):
    blocks = [f"TORCH_LIBRARY_FRAGMENT(cppmistakes, m) {{ {body} }}" for body in MISTAKES.values()]
    seen: list[BaseException] = []
    monkeypatch.setattr(bridge, "keep_failure", seen.append)
    arguments = {"extra_cflags": ["-O0"], "build_directory": str(tmp_path), "functions": []}
    cpp_extension.load_inline("cppmistakes", "\n".join(blocks), **arguments)
    assert len(seen) == len(MISTAKES)
    for words, error in zip(MISTAKES, seen, strict=True):
        assert isinstance(error, RuntimeError) and re.search(words, str(error)), error


@pytest.mark.parametrize(
    ("schema", "signature", "fits"),
    [
        ("(Tensor x, int[2] k, Scalar? s, ScalarType? d) -> (Tensor(a!), Tensor b)",
         "(Tensor _0, int[] _1, Scalar? _2, ScalarType? _3) -> (Tensor, Tensor)", True),
        ("(Tensor?[] i, *, SymInt n=1, bool[3] m) -> ()", "(Tensor?[] _0, int _1, bool[3] _2) -> ()", True),
        ("(Tensor x) -> Tensor", "(Tensor _0) -> ()", False),
        ("(Tensor x, int n) -> Tensor", "(Tensor _0, float _1) -> Tensor", False),
        ("(Tensor? x) -> Tensor", "(Tensor _0) -> Tensor", False),
        ("(Tensor x) -> Tensor[]", "(Tensor _0) -> Tensor", False),
        ("(Tensor x, str w='a,b') -> Tensor", "(Tensor _0) -> Tensor", False),
    ],
)  # fmt: skip
@pytest.mark.parametrize("defined_first", [True, False])
def test_functions_of_other_types_are_refused(schema, signature, fits, defined_first, request):
    name = f"f{abs(hash(request.node.name))}"
    steps = [
        lambda: bridge.define("cppmatching", name + schema, ""),
        lambda: bridge.implement("cppmatching", name, "CPU", lambda *args: None, signature),
    ]
    first, second = steps if defined_first else steps[::-1]
    first()
    if fits:
        second()
        return
    with pytest.raises(RuntimeError, match="doesn't match the expected function schema"):
        second()
