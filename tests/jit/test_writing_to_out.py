"""`out=` in scripts: the form of an operator that writes to a tensor which is given."""

from __future__ import annotations

import io

import numpy as np
import pytest

import facula


def steps(x, y, store, total):
    facula.mul(x, y, out=store)
    made = facula.addcmul(x, x, y, value=2.0, out=x)
    facula.sum(made, -1, keepdim=True, out=total)
    return made


def given():
    rng = np.random.default_rng(0)
    x, y = rng.normal(size=(2, 3)), rng.normal(size=(2, 3))
    return x, y, [facula.tensor(x), facula.tensor(y), facula.zeros(2, 3, dtype=facula.float64),
                  facula.zeros(2, 1, dtype=facula.float64)]  # fmt: skip


def check(run):
    """What NumPy computes stands in all tensors; the result is the tensor that was given."""
    x, y, tensors = given()
    made = run(*tensors)
    after = x + 2.0 * x * y
    np.testing.assert_allclose(tensors[2].numpy(), x * y, rtol=1e-12)
    np.testing.assert_allclose(tensors[0].numpy(), after, rtol=1e-12)
    np.testing.assert_allclose(tensors[3].numpy(), after.sum(-1, keepdims=True), rtol=1e-12)
    assert made is tensors[0]


def test_what_is_written_stands_in_the_tensors():
    """It was refused: no argument named out."""
    scripted = facula.jit.script(steps)
    check(scripted)
    assert "out=" in scripted.code


def test_files_keep_it():
    stream = io.BytesIO()
    facula.jit.save(facula.jit.script(steps), stream)
    stream.seek(0)
    check(facula.jit.load(stream))


def test_an_unused_write_stays_when_graphs_are_cleaned():
    """The result of the call is used by nobody; what it wrote is."""

    @facula.jit.script
    def run(x, store):
        facula.exp(x, out=store)
        return store + 1.0

    facula._C._jit_pass_dce(run.graph)
    store = facula.zeros(2)
    assert run(facula.zeros(2), store).tolist() == [2.0, 2.0] and store.tolist() == [1.0, 1.0]


def test_an_operator_without_such_a_form():
    def run(x, store):
        return facula.dropout(x, 0.5, False, out=store)

    with pytest.raises(RuntimeError, match="no argument named out"):
        facula.jit.script(run)
