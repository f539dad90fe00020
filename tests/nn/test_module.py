"""Modules: registration, iteration, state dictionaries, hooks, copies."""

import copy
import pickle
from collections import OrderedDict

import pytest

import facula
from facula import nn


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.first = nn.Linear(3, 4)
        self.second = nn.Linear(4, 2)
        self.register_buffer("scale", facula.ones(1))
        self.register_buffer("hidden", facula.zeros(1), persistent=False)

    def forward(self, x, factor=1.0):
        return self.second(self.first(x).relu()) * self.scale * factor


def test_registration_and_names():
    net = Net()
    assert [n for n, _ in net.named_parameters()] == [
        "first.weight",
        "first.bias",
        "second.weight",
        "second.bias",
    ]
    assert [n for n, _ in net.named_buffers()] == ["scale", "hidden"]
    assert [n for n, _ in net.named_modules()] == ["", "first", "second"]
    assert list(net.state_dict()) == [
        "scale",
        "first.weight",
        "first.bias",
        "second.weight",
        "second.bias",
    ]


def test_shared_parameters_are_given_once():
    net = Net()
    net.tied = net.first
    assert len(list(net.parameters())) == 4
    assert len(list(net.named_parameters(remove_duplicate=False))) == 6


def test_assignment_moves_between_dictionaries():
    net = Net()
    net.scale = nn.Parameter(facula.ones(1))
    assert "scale" in net._parameters and "scale" not in net._buffers
    with pytest.raises(TypeError, match="cannot assign"):
        net.scale = 3.0
    with pytest.raises(TypeError, match="cannot assign"):
        net.first = facula.ones(1)
    net.plain = 3
    assert net.plain == 3
    del net.first
    assert "first" not in net._modules
    with pytest.raises(AttributeError, match="no attribute 'first'"):
        _ = net.first


def test_buffer_class():
    net = nn.Module()
    net.a = nn.Buffer(facula.ones(2))
    net.b = nn.Buffer(facula.ones(2), persistent=False)
    assert list(net.state_dict()) == ["a"]
    assert isinstance(net.b, nn.Buffer) and not isinstance(facula.ones(1), nn.Buffer)


def test_assignment_before_init():
    class Bad(nn.Module):
        def __init__(self):
            self.p = nn.Parameter(facula.ones(1))

    with pytest.raises(AttributeError, match="before Module.__init__"):
        Bad()


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda m: m.register_buffer("a.b", None), KeyError, "name without"),
        (lambda m: m.register_buffer("", None), KeyError, "not empty"),
        (lambda m: m.register_buffer("forward", None), KeyError, "already exists"),
        (lambda m: m.register_parameter("p", 3), TypeError, "Parameter or None"),
        (lambda m: m.add_module("m", 3), TypeError, "Module subclass"),
        (lambda m: m.get_submodule("nope"), AttributeError, "no attribute"),
        (lambda m: m.get_parameter("scale"), AttributeError, "not an nn.Parameter"),
        (lambda m: m.train("yes"), ValueError, "bool"),
        (lambda m: m.to(facula.int64), TypeError, "floating point or complex"),
        (lambda m: m.load_state_dict(3), TypeError, "dict-like"),
    ],
)
def test_errors(call, error, message):
    with pytest.raises(error, match=message):
        call(Net())


def test_load_state_dict_reports_everything():
    net = Net()
    state = net.state_dict()
    del state["first.bias"]
    state["extra"] = facula.ones(1)
    state["second.weight"] = facula.ones(3, 3)
    with pytest.raises(RuntimeError) as info:
        net.load_state_dict(state)
    text = str(info.value)
    assert 'Missing key(s) in state_dict: "first.bias"' in text
    assert 'Unexpected key(s) in state_dict: "extra"' in text
    assert "size mismatch for second.weight" in text


def test_load_state_dict_not_strict_and_assign():
    net, other = Net(), Net()
    state = other.state_dict()
    state.pop("scale")
    result = net.load_state_dict(state, strict=False)
    assert result.missing_keys == ["scale"] and result.unexpected_keys == []
    assert bool((net.first.weight == other.first.weight).all())
    fresh = OrderedDict((k, v.double()) for k, v in other.state_dict().items())
    net.load_state_dict(fresh, assign=True)
    assert net.first.weight.dtype == facula.float64
    assert isinstance(net.first.weight, nn.Parameter) and net.first.weight.requires_grad
    assert str(net.load_state_dict(net.state_dict())) == "<All keys matched successfully>"


def test_state_dict_hooks_and_extra_state():
    class Extra(nn.Module):
        def get_extra_state(self):
            return {"n": 3}

        def set_extra_state(self, state):
            self.n = state["n"]

    module = Extra()
    module.register_state_dict_post_hook(lambda m, sd, prefix, meta: sd.update(seen=facula.ones(1)))
    state = module.state_dict()
    assert state["_extra_state"] == {"n": 3} and "seen" in state
    module.register_load_state_dict_pre_hook(
        lambda m, sd, prefix, meta, strict, missing, unexpected, errors: sd.pop("seen")
    )
    module.register_load_state_dict_post_hook(lambda m, keys: keys.missing_keys.append("noted"))
    result = module.load_state_dict(state, strict=False)
    assert module.n == 3 and result.missing_keys == ["noted"]


def test_batch_norm_of_version_one_has_no_count():
    module = nn.BatchNorm1d(3)
    state = OrderedDict((k, v) for k, v in module.state_dict().items() if "tracked" not in k)
    module.load_state_dict(state)  # no _metadata: taken as version 1
    assert int(module.num_batches_tracked) == 0


def test_forward_hooks():
    net = Net()
    seen = []
    pre = net.register_forward_pre_hook(
        lambda m, args, kwargs: (args, {"factor": 2.0}), with_kwargs=True
    )
    post = net.register_forward_hook(
        lambda m, args, kwargs, out: seen.append(kwargs["factor"]), with_kwargs=True
    )
    x = facula.randn(2, 3)
    doubled = net(x)
    pre.remove()
    post.remove()
    assert seen == [2.0]
    assert float((doubled - 2 * net(x)).abs().max()) < 1e-5
    with net.register_forward_hook(lambda m, args, out: out + 1):
        assert float((net(x) - net.forward(x) - 1).abs().max()) < 1e-6
    assert not net._forward_hooks


def test_always_called_hook_runs_after_an_error():
    net = Net()
    seen = []
    net.register_forward_hook(lambda m, args, out: seen.append(out), always_call=True)
    with pytest.raises(RuntimeError):
        net(facula.randn(2, 7))
    assert seen == [None]


def test_hook_order_with_prepend():
    module, order = nn.Identity(), []
    module.register_forward_hook(lambda *a: order.append(1))
    module.register_forward_hook(lambda *a: order.append(0), prepend=True)
    module(1)
    assert order == [0, 1]


def test_full_backward_hooks():
    module = nn.Linear(3, 2)
    seen = {}
    module.register_full_backward_pre_hook(lambda m, go: (go[0] * 2,))
    module.register_full_backward_hook(lambda m, gi, go: seen.update(gi=gi[0], go=go[0]))
    x = facula.randn(4, 3, requires_grad=True)
    module(x).sum().backward()
    assert tuple(seen["gi"].shape) == (4, 3)
    assert float((seen["go"] - 2).abs().max()) == 0
    assert float((x.grad - seen["gi"]).abs().max()) == 0


def test_full_backward_hook_replaces_input_gradient():
    module = nn.Linear(3, 2)
    module.register_full_backward_hook(lambda m, gi, go: (gi[0] * 0,))
    x = facula.randn(4, 3, requires_grad=True)
    module(x).sum().backward()
    assert float(x.grad.abs().max()) == 0


def test_full_backward_hook_without_input_gradient():
    module, seen = nn.Linear(3, 2), []
    module.register_full_backward_hook(lambda m, gi, go: seen.append(gi))
    with pytest.warns(UserWarning, match="since no inputs require gradients"):
        module(facula.randn(4, 3)).sum().backward()
    assert seen == [(None,)]


def test_global_hooks():
    from facula.nn.modules import module as names

    seen = []
    handles = [
        names.register_module_forward_pre_hook(lambda m, a: seen.append("pre")),
        names.register_module_forward_hook(lambda m, a, o: seen.append("post")),
        names.register_module_parameter_registration_hook(lambda m, n, p: seen.append(n)),
    ]
    try:
        nn.Linear(2, 2)(facula.ones(1, 2))
    finally:
        for handle in handles:
            handle.remove()
    assert seen == ["weight", "bias", "pre", "post"]
    seen.clear()
    nn.Linear(2, 2)(facula.ones(1, 2))
    assert seen == []


def test_conversions():
    net = Net()
    parameter = net.first.weight
    net.double()
    assert net.first.weight is parameter and parameter.dtype == facula.float64
    net.to(facula.float32)
    assert net.scale.dtype == facula.float32
    net.to_empty(device="meta")
    assert net.first.weight.is_meta


def test_to_converts_gradients():
    module = nn.Linear(2, 2)
    module(facula.ones(1, 2)).sum().backward()
    module.double()
    assert module.weight.grad.dtype == facula.float64


def test_zero_grad_and_requires_grad():
    net = Net()
    net(facula.ones(1, 3)).sum().backward()
    net.zero_grad(set_to_none=False)
    assert float(net.second.bias.grad.abs().sum()) == 0
    net.zero_grad()
    assert net.second.bias.grad is None
    assert not any(p.requires_grad for p in net.requires_grad_(False).parameters())


def test_deepcopy_is_independent():
    net = Net()
    twin = copy.deepcopy(net)
    with facula.no_grad():
        twin.first.weight.add_(1)
    assert float((twin.first.weight - net.first.weight).min()) > 0.5
    assert twin.first.weight.requires_grad


def test_pickle_keeps_values():
    net = Net()
    twin = pickle.loads(pickle.dumps(net))
    assert bool((twin.first.weight == net.first.weight).all())
    assert twin.first.weight.requires_grad and isinstance(twin.first.weight, nn.Parameter)


def test_repr():
    assert repr(nn.Sequential(nn.Linear(1, 2), nn.ReLU(inplace=True))) == (
        "Sequential(\n"
        "  (0): Linear(in_features=1, out_features=2, bias=True)\n"
        "  (1): ReLU(inplace=True)\n"
        ")"
    )
    assert repr(nn.ModuleList([nn.ReLU(), nn.ReLU()])) == "ModuleList(\n  (0-1): 2 x ReLU()\n)"


def test_set_submodule_and_apply():
    net = Net()
    net.set_submodule("first", nn.Identity())
    assert isinstance(net.first, nn.Identity)
    names = []
    net.apply(lambda m: names.append(type(m).__name__))
    assert names == ["Identity", "Linear", "Net"]


def test_buffers_take_what_stands_for_a_tensor_and_no_name_that_is_taken():
    class Like:
        @classmethod
        def __torch_function__(cls, func, types, args=(), kwargs=None):
            raise NotImplementedError

    module = nn.Module()
    first, second = Like(), Like()
    module.register_buffer("like", first)
    module.like = second
    assert module.like is second and "like" in dict(module.named_buffers())
    module.taken = 5
    with pytest.raises(KeyError, match="already exists"):
        module.taken = nn.Buffer(facula.ones(1))
    with pytest.raises(TypeError, match="buffer name should be a string. Got int"):
        module.register_buffer(3, facula.ones(1))
    with pytest.raises(RuntimeError, match="does not accept copy"):
        module.to("cpu", copy=True)


def test_modules_and_parameters_come_in_the_order_of_their_names():
    shared, hidden = nn.Linear(2, 2), nn.ReLU()

    class Own(nn.Module):
        def __init__(self):
            super().__init__()
            self.seen, self.unseen = shared, nn.Linear(3, 3)

        def named_modules(self, memo=None, prefix="", remove_duplicate=True):
            yield prefix, self
            yield prefix + ".seen", self.seen

    first = nn.Sequential(hidden, nn.Sequential(shared, nn.Linear(4, 4)))
    net = nn.Sequential(first, hidden, Own(), shared)
    net.register_module("none", None)
    assert list(net.modules())[:5] == [net, first, hidden, first[1], shared]
    assert list(net.modules()) == [module for _, module in net.named_modules()]
    assert list(net.parameters()) == [p for _, p in net.named_parameters()]
    assert [p.shape[0] for p in net.parameters()] == [2, 2, 4, 4]
    assert list(net.parameters(recurse=False)) == []
    assert list(net.modules(remove_duplicate=False)).count(shared) == 3
    net[3].weight = first[1][1].weight
    assert [p.shape[0] for p in net.parameters()] == [4, 2, 4]


def test_classes_that_name_their_own_parameters_are_asked():
    class Renamed(nn.Linear):
        def named_parameters(self, prefix="", recurse=True, remove_duplicate=True):
            yield "only", self.bias

    layer = Renamed(2, 3)
    assert [p.shape for p in layer.parameters()] == [(3,)]
