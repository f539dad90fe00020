"""Random programs behave compiled as they do run as they stand: outputs, inputs afterwards, gradients."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path

import pytest

import facula

TOOL = Path(__file__).resolve().parents[2] / "tools" / "fuzz_compile.py"


@pytest.fixture(scope="module")
def fuzz():
    spec = importlib.util.spec_from_file_location("fuzz_compile", TOOL)
    module = importlib.util.module_from_spec(spec)
    sys.modules["fuzz_compile"] = module
    spec.loader.exec_module(module)
    yield module
    del sys.modules["fuzz_compile"]


@pytest.mark.breaks(
    "data-dependent-branch", "data-dependent-shape", "fake-error", "unsupported-mutation"
)
@pytest.mark.parametrize(
    "backend, seeds", [("aot_eager", range(60)), ("inductor", range(600, 606))]
)
def test_compiled_equals_eager(fuzz, backend, seeds):
    faults = {seed: fuzz.try_seed(seed, backend, 8)[1] for seed in seeds}
    assert not {seed: fault for seed, fault in faults.items() if fault}


def test_a_fault_is_found_and_shrunk(fuzz, monkeypatch, tmp_path):
    program = fuzz.Maker(3, 6).make()
    program.statements.append(fuzz.Statement("broken = x0.numel()"))

    def wrong(candidate, backend):
        return "wrong: planted" if "broken" in candidate.source() else None

    monkeypatch.setattr(fuzz, "fault_of", wrong)
    small = fuzz.shrink(program, "eager")
    assert [s.text for s in small.statements] == ["broken = x0.numel()"] and not small.outputs
    script = tmp_path / "fault.py"
    script.write_text(fuzz.script(small, "eager", "planted"))
    compile(script.read_text(), str(script), "exec")


def _same(program, *inputs):
    results = []
    for run in (program, facula.compile(program, backend="aot_eager")):
        args = [x.detach().clone().requires_grad_(x.requires_grad) for x in inputs]
        out = run(*args)
        out.sum().backward()
        results.append((out, [x.grad for x in args]))
    (a, first), (b, second) = results
    assert a.requires_grad == b.requires_grad and a.allclose(b)
    assert all(g.allclose(h) for g, h in zip(first, second, strict=True))


def test_what_a_comparison_overwrites_has_no_gradient():
    x = facula.tensor([1.0, 3.0], requires_grad=True)
    _same(lambda x: (x * 2).ge_(3.0) * x, x)
    y = x * 2
    y.ge_(3.0)
    y.sum().backward()
    assert x.grad.tolist() == [0.0, 0.0]


def test_a_copied_parameter_can_be_written():
    def program(p):
        y = facula.zeros(2, 2)
        y.copy_(p)
        y[0] = 1
        return y * 2

    _same(program, facula.rand(2, 2, requires_grad=True))


def test_an_expanded_tensor_can_be_filled_and_returned():
    _same(lambda x: (x * 2).expand(3, 2), facula.rand(2, requires_grad=True))

    def filled(x):
        y = x.sin()
        y.expand(3, 2).fill_(0.5)
        return y * x

    _same(filled, facula.rand(2, requires_grad=True))


def test_many_outputs_beside_a_reduction():
    def program(x):
        return x.cos(), x + 1, x.sum()

    x = facula.rand(2, 3, 4)
    for a, b in zip(program(x), facula.compile(program)(x), strict=True):
        assert a.allclose(b)


@pytest.mark.breaks("unsupported-mutation")
def test_out_of_another_shape_is_resized():
    @facula.compile(backend="aot_eager")
    def program(x, out):
        facula.add(x, 1, out=out)
        return out * 2

    out = facula.empty(0)
    assert program(facula.ones(3), out).tolist() == [4.0] * 3 and out.shape == (3,)


def test_two_tensors_that_become_one_are_captured_again():
    def program(tensors):
        tensors[0].add_(1)
        return tensors[-1] * 2

    compiled = facula.compile(program, backend="aot_eager")
    many = [facula.ones(2) for _ in range(80)]
    assert compiled(many).tolist() == [2.0, 2.0]
    many[-1] = many[0]
    assert compiled(many).tolist() == [6.0, 6.0]


NETWORKS = TOOL.parent / "fuzz_networks.py"


def test_networks_train_compiled_as_they_do_eagerly():
    spec = importlib.util.spec_from_file_location("fuzz_networks", NETWORKS)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    faults = {seed: module.fault_of(seed, "aot_eager") for seed in range(12)}
    assert not {seed: fault for seed, fault in faults.items() if fault}


@pytest.mark.parametrize(
    "program, good, bad, error",
    [
        (lambda i: facula.nn.functional.one_hot(i, 3), [0, 2], [0, 3], "smaller than num_classes"),
        (
            lambda i: facula.nn.functional.embedding_bag(
                facula.arange(4), facula.eye(4), offsets=i, mode="sum"
            ),
            [0, 2],
            [0, 9],
            "do not exceed 4",
        ),
    ],
    ids=["one_hot", "embedding_bag"],
)
def test_checks_of_elements_are_part_of_the_graph(program, good, bad, error):
    call = facula.compile(program, backend="aot_eager", fullgraph=True)
    assert call(facula.tensor(good)).equal(program(facula.tensor(good)))
    with pytest.raises(RuntimeError, match=error):
        call(facula.tensor(bad))


@pytest.mark.breaks("unsupported-mutation")
@pytest.mark.filterwarnings("ignore:.*on expanded tensors is deprecated")
def test_writes_to_an_expanded_tensor_are_those_of_eager():
    def program(x):
        y = (x * 2).expand(2, 3)
        y[y > 0] = 0.25
        return y + 1

    x = facula.tensor([1.0, -1.0, 3.0])
    assert facula.compile(program)(x).tolist() == program(x).tolist() == [[1.25, -1.0, 1.25]] * 2
