"""Parameters and buffers without a shape: what serves them, what is refused, what they become."""

import copy

import pytest

import facula
from facula import core, nn


@pytest.mark.parametrize("kind", [nn.UninitializedParameter, nn.UninitializedBuffer])
@pytest.mark.parametrize(
    "function",
    [
        lambda x: x + x,
        facula.empty_like,
        lambda x: x.sum(),
        lambda x: facula.cat([x, x]),
        lambda x: x.mul_(2),
    ],
)
def test_functions_need_elements(kind, function):
    with pytest.raises(ValueError, match="uninitialized parameter"):
        function(kind())


@pytest.mark.parametrize("kind", [nn.UninitializedParameter, nn.UninitializedBuffer])
def test_what_it_becomes_is_an_ordinary_tensor(kind):
    x = kind(dtype=facula.float64)
    before = copy.deepcopy(x)
    x.materialize((2, 3))
    x.data.fill_(2.0)
    assert (x + x).tolist() == [[4.0] * 3] * 2 and x.sum().item() == 12.0
    assert type(x + x) is facula.Tensor and x.dtype is facula.float64
    with pytest.raises(ValueError, match="uninitialized parameter"):
        before + before


class Loud(facula.Tensor):
    """Answers every function itself."""

    @classmethod
    def __torch_function__(cls, func, types, args=(), kwargs=None):
        return "loud"


def test_a_tensor_is_routed_as_its_new_class():
    x = facula.ones(2).as_subclass(Loud)
    assert x + 1 == "loud"
    core.become(x, nn.Parameter)
    assert (x + 1).tolist() == [2.0, 2.0]
    core.become(x, Loud)
    assert x + 1 == "loud"


def test_a_class_that_is_assigned_does_not_answer_for_the_old_one():
    x = facula.ones(2).as_subclass(Loud)
    x.__class__ = nn.Parameter
    assert (x + 1).tolist() == [2.0, 2.0]


def test_states_that_are_none():
    layer = nn.Linear(2, 2)
    with pytest.raises(TypeError, match="Expected state_dict to be dict-like, got <class 'str'>"):
        layer.load_state_dict("")
    with pytest.raises(RuntimeError, match="Tensor-like object from checkpoint but received"):
        layer.load_state_dict({"weight": [[1.0, 1.0]] * 2, "bias": facula.zeros(2)})


def test_given_keys_take_no_bias():
    heads, x = nn.MultiheadAttention(4, 2, add_bias_kv=True), facula.ones(3, 1, 4)
    weights = (heads.in_proj_weight, heads.in_proj_bias, heads.bias_k, heads.bias_v, False, 0.0)
    last = (heads.out_proj.weight, heads.out_proj.bias)
    for static in ("static_k", "static_v"):
        given = {static: facula.ones(2, 3, 2)}
        with pytest.raises(AssertionError, match="bias cannot be added to static"):
            nn.functional.multi_head_attention_forward(x, x, x, 4, 2, *weights, *last, **given)
