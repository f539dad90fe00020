"""What draws random numbers is known as such: no pass makes two draws one, or computes one ahead of time."""

import warnings

import pytest
from operator_cases import DEFINITIONS, EVERY, TABLE, Samples, admits, calls

import facula
from facula.fx.passes.dialect.common.cse_pass import CSEPass
from facula.ops.random.drawing import draws

F = facula.nn.functional


def moves_the_generator(name):
    dtype = facula.float32 if admits(name, "float") else facula.int64
    for args, kwargs in calls(name, Samples(dtype)):
        before = facula.random.get_rng_state()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            TABLE[name](*args, **kwargs)
        if not facula.equal(before, facula.random.get_rng_state()):
            return True
    return False


@pytest.mark.parametrize("name", [n for n in EVERY if not draws(DEFINITIONS[n])])
def test_what_is_not_known_to_draw_leaves_the_generator(name):
    assert not moves_the_generator(name)


@pytest.mark.parametrize("name", ["dropout2d", "feature_alpha_dropout", "gumbel_softmax"])
def test_what_draws_without_a_generator_is_known_too(name):
    assert draws(getattr(F, name).definition)


def test_equal_dropouts_of_a_graph_stay_two():
    graph = facula.fx.symbolic_trace(lambda x: F.dropout2d(x, 0.5) - F.dropout2d(x, 0.5))
    assert not CSEPass()(graph).modified
    tag = facula.Tag.nondeterministic_seeded
    assert tag in facula.ops.aten.dropout.default.tags


def test_a_dropout_of_a_constant_is_computed_by_each_call():
    def program():
        return F.dropout2d(facula.ones(1, 64, 2, 2), 0.5, True)

    scripted = facula.jit.script(program)
    graph = scripted.graph
    facula._C._jit_pass_constant_propagation(graph)
    facula._C._jit_pass_cse(graph)
    assert "aten::dropout2d" in str(graph)
