"""Modules of exported programs that take and give what the originals did."""

import pytest

import facula
from facula import export, nn
from facula.export._swap import _swap_modules
from facula.export.unflatten import unflatten


class Inner(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(3, 3)

    def forward(self, pair, *, options, by=2):
        first, second = pair
        return {"sum": self.layer(first) + options["offset"], "rest": (second * by, 5)}


class Outer(nn.Module):
    def __init__(self):
        super().__init__()
        self.inner = Inner()
        self.last = nn.ReLU()

    def forward(self, x):
        found = self.inner((x + 1, x * 2), options={"offset": x})
        second, five = found["rest"]
        again = self.inner((second, x), options={"offset": x})
        return self.last(found["sum"]) + second * five + again["sum"]


class Recorded(nn.Module):
    """Stands for `Inner`, and notes what it is called with."""

    def __init__(self, inner):
        super().__init__()
        self.inner, self.calls = inner, []

    def forward(self, pair, *, options, by=2):
        self.calls.append((type(pair), sorted(options), by))
        return self.inner(pair, options=options, by=by)


def exported(**more):
    facula.manual_seed(0)
    net = Outer()
    return net, export.export(net, (facula.randn(2, 3),), **more)


def test_the_calls_of_a_program_are_listed():
    _, program = exported(preserve_module_call_signature=("inner",))
    entries = {e.fqn: e.signature for e in program.module_call_graph}
    assert list(entries) == ["", "inner", "inner@1", "inner.layer", "last"]
    assert entries["last"] is None and entries[""].forward_arg_names == ["x"]
    kept = entries["inner"]
    assert kept.forward_arg_names == ["pair", "options"]
    assert [a.name for a in kept.inputs] == ["add", "mul", "x"]
    assert kept.outputs[2].value == 5 and kept.in_spec.num_leaves == 3


def test_unflattened_modules_take_and_give_what_they_did():
    net, program = exported(preserve_module_call_signature=("inner",))
    tree, x = unflatten(program), facula.randn(2, 3)
    assert facula.allclose(tree(x), net(x))
    found = tree.inner((x, x), options={"offset": x})
    wanted = net.inner((x, x), options={"offset": x})
    assert facula.allclose(found["sum"], wanted["sum"]) and found["rest"][1] == 5


def test_modules_are_swapped_where_their_signature_was_kept():
    net, program = exported(preserve_module_call_signature=("inner",))
    x, other = facula.randn(2, 3), Recorded(net.inner)
    swapped = _swap_modules(program, {"inner": other})
    assert facula.allclose(swapped(x), net(x))
    assert other.calls == [(tuple, ["offset"], 2)] * 2
    with pytest.raises(RuntimeError, match="last"):
        _swap_modules(program, {"last": nn.ReLU()})
    with pytest.raises(AttributeError):
        exported(preserve_module_call_signature=("nothing",))


def test_signatures_stay_in_files():
    net, program = exported(preserve_module_call_signature=("inner",))
    from facula._export.serde.serialize import deserialize, serialize

    back = deserialize(serialize(program))
    x, other = facula.randn(2, 3), Recorded(net.inner)
    assert facula.allclose(_swap_modules(back, {"inner": other})(x), net(x))
    assert len(other.calls) == 2
