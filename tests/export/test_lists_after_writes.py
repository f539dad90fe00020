"""Lists of tensors that were written to: programs without writes read what is there after the write."""

import pytest

import facula
from facula import export, func, fx, nn

WRITES = {
    "index_copy": lambda a, v: a.index_copy_(0, facula.tensor([1, 3]), v),
    "add": lambda a, v: a.add_(1),
    "item": lambda a, v: a.__setitem__(0, 5.0),
    "zero": lambda a, v: a.zero_(),
}
READS = {
    "stack": lambda a: facula.stack([a, a]),
    "cat": lambda a: facula.cat([a, a]),
    "hstack": lambda a: facula.hstack([a, a]),
    "dstack": lambda a: facula.dstack([a]),
    "block_diag": lambda a: facula.block_diag(a, a),
    "broadcast": lambda a: facula.broadcast_tensors(a, a)[0] + 0,
    "indexed": lambda a: a[facula.tensor([1]), facula.tensor([2])],
}


class Written(nn.Module):
    def __init__(self, write, read):
        super().__init__()
        self.write, self.read = write, read

    def forward(self, x, v):
        a = x[0].clone()
        self.write(a, v)
        return a * 2, self.read(a)


@pytest.mark.parametrize("write", WRITES)
@pytest.mark.parametrize("read", READS)
def test_decomposed_programs(write, read):
    x, v = facula.randn(2, 4, 3), facula.randn(2, 3)
    module = Written(WRITES[write], READS[read])
    expected = module(x, v)
    program = export.export(module, (x, v))
    for decomposed in (program.run_decompositions(), program.run_decompositions({})):
        for found, wanted in zip(decomposed.module()(x, v), expected, strict=True):
            assert facula.equal(found, wanted)


class Sequence(list):
    """A list of a class of its own."""


def test_functions_without_writes_take_any_list():
    def added(x):
        y = x.clone()
        y.add_(1)
        return facula.cat(Sequence([y, x]))

    x = facula.ones(2)
    assert func.functionalize(added)(x).tolist() == [2.0, 2.0, 1.0, 1.0]


def test_lists_of_nodes_are_trees():
    from facula.fx.immutable_collections import immutable_dict, immutable_list

    tree = immutable_dict(a=immutable_list([1, 2]), b=3)
    leaves, spec = fx._pytree.tree_flatten(tree)
    again = fx._pytree.tree_unflatten(leaves, spec)
    assert leaves == [1, 2, 3] and again == tree
    assert type(again) is immutable_dict and type(again["a"]) is immutable_list
    assert fx._pytree.tree_map(lambda x: x + 1, tree) == {"a": [2, 3], "b": 4}
