"""Graph breaks: results stay right, and each says where, why and what to write instead."""

from __future__ import annotations

import traceback
from pathlib import Path

import pytest
from capturing import Graphs

import facula
from facula._dynamo import exc, explain, graph_break
from facula.capture import breaks

PAGES = Path(__file__).parents[2] / "docs" / "breaks"


def branch(x):
    y = x.sin()
    if y.sum() > 0:
        return y + 10
    return y - 10


def loop(x):
    n = 0
    while x.norm() < 50:
        x = x * 1.7 + 0.1
        n += 1
    return x * n


def element(x):
    k = int(x.argmax().item())
    return x * k


def callee(x):
    return branch(x + 1).cos() + branch(x - 1)


def within_handler(x):
    out = []
    for k in (1, 0):
        try:
            out.append(float(x.sum()) / k)
        except ZeroDivisionError as error:
            out.append(str(error))
        finally:
            x = x + 1
    return x, out


def within_context(x):
    with facula.no_grad():
        y = x * 2
        graph_break()
        return y * 3, facula.is_grad_enabled()


def iterators(x):
    out = []
    for n, (a, b) in enumerate(zip([1, 2, 3], (4, 5, 6), strict=True)):
        graph_break()
        out.append(x * a + b + n)
    return out


def generator(x):
    values = (x * k for k in range(3))
    graph_break()
    return sum(values)


@pytest.mark.breaks(
    "data-dependent-branch",
    "data-dependent-value",
    "explicit",
    "unsupported-call",
    "unsupported-value",
)
@pytest.mark.parametrize(
    "function",
    [branch, loop, element, callee, within_handler, within_context, iterators, generator],
)
def test_results(function):
    graphs = Graphs()
    compiled = facula.compile(function, backend=graphs)
    for value in (0.5, -0.5, 0.7):
        x = facula.full((3,), value)
        want, got = function(x), compiled(x)
        assert str(want) == str(got)
    assert graphs or function is generator  # whose values are computed natively


@pytest.mark.breaks("data-dependent-branch")
def test_callees_are_compiled_too():
    graphs = Graphs()
    facula.compile(callee, backend=graphs)(facula.full((3,), 5.0))
    assert len(graphs) >= 4


@pytest.mark.breaks("explicit")
def test_effects_once_and_in_order():
    seen = []

    def f(x, d):
        seen.append(1)
        d["k"] = x * 2
        graph_break()
        seen.append(2)
        return d["k"] + 1

    d = {}
    assert facula.compile(f, backend=Graphs())(facula.ones(1), d).item() == 3.0
    assert seen == [1, 2] and d["k"].item() == 2.0


def test_fullgraph_error():
    with pytest.raises(exc.Unsupported) as caught:
        facula.compile(branch, backend=Graphs(), fullgraph=True)(facula.ones(2))
    text = str(caught.value)
    assert caught.value.code == "data-dependent-branch"
    assert "if y.sum() > 0" in text and "facula.where" in text


@pytest.mark.breaks("data-dependent-branch")
def test_explain():
    found = explain(branch)(facula.ones(3))
    assert (found.graph_count, found.graph_break_count) == (2, 1)
    assert "if y.sum() > 0" in str(found) and "hint:" in str(found)


@pytest.mark.breaks("fake-error")
def test_tracebacks_show_the_line():
    def f(x):
        return x @ x.reshape(7, 1)  # too many elements

    with pytest.raises(RuntimeError) as caught:
        facula.compile(f, backend=Graphs())(facula.ones(3))
    assert "too many elements" in "".join(traceback.format_exception(caught.value))


@pytest.mark.breaks("disabled")
def test_disabled_functions_run_as_they_are():
    calls = []

    @facula.compiler.disable
    def f(x):
        calls.append(1)
        return x * 2

    compiled = facula.compile(lambda x: f(x) + 1, backend=Graphs())
    assert compiled(facula.ones(1)).item() == 3.0 and compiled(facula.ones(1)).item() == 3.0
    assert len(calls) == 2


@pytest.mark.parametrize("code", breaks.CATALOGUE)
def test_pages_are_current(code):
    assert (PAGES / f"{code}.md").read_text() == breaks.page(code)


@pytest.mark.breaks("explicit")
def test_values_collected_across_breaks():
    stop = facula._dynamo.graph_break

    def program(xs):
        return (
            [x for x in xs if stop() is None],
            {x for x in xs if stop() is None},
            {x: stop() for x in xs},
            [*xs, stop(), *xs],
            [[x * y for y in xs if stop() is None] for x in xs],
            sorted(xs, key=lambda x: (stop(), -x)[1]),
        )

    call = facula.compile(program, backend="eager")
    assert call([1, 2]) == program([1, 2]) == call([1, 2])


@pytest.mark.breaks("explicit")
@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
def test_breaks_where_gradients_are_not_recorded(backend):
    def program(x):
        y = x * 2
        with facula.no_grad():
            facula._dynamo.graph_break()
            z = y * 3
        w = y * z
        with facula.no_grad():
            u = w + 1
            facula._dynamo.graph_break()
            with facula.enable_grad():
                v = w * 2
                facula._dynamo.graph_break()
                last = v * x
        return y, z, w, u, v, last

    call = facula.compile(program, backend=backend)
    for _ in range(2):
        found = []
        for function in (program, call):
            x = facula.ones(3, requires_grad=True)
            outputs = function(x)
            assert facula.is_grad_enabled()
            sum(t.sum() for t in outputs if t.requires_grad).backward()
            found.append(([t.requires_grad for t in outputs], x.grad.tolist()))
        assert found[0] == found[1]
