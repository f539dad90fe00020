"""Passes take nothing for known that is not: dtypes and sizes of tensors without facts, hooks of one name."""

import pytest

import facula


def peephole(graph):
    facula._C._jit_pass_peephole(graph)
    return str(graph)


def test_a_cast_to_the_dtype_of_another_tensor_stays():
    @facula.jit.script
    def cast(x, y):
        return x.type_as(y)

    assert "aten::type_as" in peephole(cast.graph)
    assert cast(facula.ones(2), facula.ones(2, dtype=facula.int64)).dtype is facula.int64


def test_numbers_of_floats_are_added_to_tensors_of_no_known_dtype():
    @facula.jit.script
    def moved():
        x = facula.zeros([2, 2])
        return x + 0.0

    assert "aten::add" in peephole(moved.graph)


def test_sizes_with_names_are_no_numbers():
    @facula.jit.script
    def sizes(x):
        return x.size(), len(x.size()), x.size(1)

    (x,) = sizes.graph.inputs()
    names = [facula._C._new_symbolic_shape_symbol(), 4]
    x.setType(x.type().with_sizes(names))
    text = peephole(sizes.graph)
    assert "aten::len" not in text
    assert list(sizes(facula.ones(3, 4))) == [[3, 4], 2, 4]


def test_two_hooks_of_one_name():
    def made(number):
        def hook(self, given: tuple[facula.Tensor]):
            return (given[0] + number,)

        return hook

    module = facula.nn.ReLU()
    module.register_forward_pre_hook(made(1))
    module.register_forward_pre_hook(made(2))
    with pytest.raises(RuntimeError, match="Pre-hook 'hook' on .* has at least two different"):
        facula.jit.script(module)


def test_a_hook_of_a_methods_name():
    def forward(self, given: tuple[facula.Tensor]):
        return given

    module = facula.nn.ReLU()
    module.register_forward_pre_hook(forward)
    with pytest.raises(RuntimeError, match="Can't define hook: forward on class"):
        facula.jit.script(module)


@pytest.mark.parametrize(("dtype", "stays"), [(facula.float32, False), (facula.int64, True)])
def test_zero_is_added_where_it_changes_the_dtype(dtype, stays):
    @facula.jit.script
    def moved(x):
        return (x + 0.0) * 2

    (x,) = moved.graph.inputs()
    x.setType(facula._C.TensorType.create_from_tensor(facula.ones(2, dtype=dtype)))
    assert ("aten::add" in peephole(moved.graph)) is stays
    assert moved(facula.ones(2, dtype=dtype)).dtype is facula.float32
