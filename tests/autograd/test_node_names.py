"""The backward graph as programs see it: names, classes and edges of nodes, which are PyTorch's.

The names are those that PyTorch documents and prints; nothing here is computed by facula to compare with.
"""

import gc
import weakref

import pytest

import facula
from facula import nn
from facula.nn import functional as F


def shown(tensor):
    """The name of a node, and those behind it."""
    node = tensor.grad_fn
    return type(node).__name__, [
        None if n is None else type(n).__name__ for n, _ in node.next_functions
    ]


LEAF = "AccumulateGrad"
OF_ONE = {
    "x * 2": ("Mul", [LEAF, None]),
    "2 * x": ("Mul", [LEAF, None]),
    "2 + x": ("Add", [LEAF, None]),
    "x - 2": ("Sub", [LEAF, None]),
    "2 - x": ("RsubBackward1", [LEAF]),
    "x / 2": ("Div", [LEAF, None]),
    "x ** 2": ("Pow", [LEAF]),
    "x ** 2.5": ("Pow", [LEAF]),
    "x ** x": ("PowBackward1", [LEAF, LEAF]),
    "2 ** x": ("PowBackward2", [LEAF]),
    "x % 2": ("Remainder", [LEAF]),
    "x.square()": ("Pow", [LEAF]),
    "x.clamp(0, 1)": ("ClampBackward1", [LEAF]),
    "x.lerp(x, 0.5)": ("Lerp", [LEAF, LEAF]),
    "x.deg2rad()": ("Deg2Rad", [LEAF]),
    "x.log1p()": ("Log1P", [LEAF]),
    "x.clone()": ("Clone", [LEAF]),
    "x.double()": ("ToCopy", [LEAF]),
    "x[0]": ("Select", [LEAF]),
    "x[1:]": ("Slice", [LEAF]),
    "x[None]": ("Unsqueeze", [LEAF]),
    "x[..., None]": ("Unsqueeze", [LEAF]),
    "x[:, 0]": ("Select", [LEAF]),
    "x[:]": ("Alias", [LEAF]),
    "x.squeeze()": ("Squeeze", [LEAF]),
    "x.squeeze(0)": ("SqueezeBackward1", [LEAF]),
    "x.squeeze((0, 1))": ("SqueezeBackward2", [LEAF]),
    "x.split(2)[0]": ("Split", [LEAF]),
    "x.sum()": ("Sum", [LEAF]),
    "x.sum(0)": ("SumBackward1", [LEAF]),
    "x.mean()": ("Mean", [LEAF]),
    "x.mean(1)": ("MeanBackward1", [LEAF]),
    "x.max()": ("MaxBackward1", [LEAF]),
    "x.max(0)[0]": ("Max", [LEAF]),
    "x.std()": ("Std", [LEAF]),
    "x.var(0)": ("Var", [LEAF]),
    "x.norm()": ("LinalgVectorNorm", [LEAF]),
    "x.median()": ("Median", [LEAF]),
    "x.repeat(2, 1)": ("Repeat", None),
    "x.masked_fill(x > 0, 1.0)": ("MaskedFill", None),
    "x.index_select(0, facula.tensor([1]))": ("IndexSelect", [LEAF]),
    "x.gather(0, facula.zeros(1, 3, dtype=int))": ("Gather", [LEAF]),
    "facula.where(x > 0, x, x)": ("Where", [LEAF, LEAF]),
    "F.relu6(x)": ("Hardtanh", [LEAF]),
    "F.glu(x, 0)": ("Glu", None),
    "F.avg_pool2d(x[None, None], 2)": ("AvgPool2D", None),
    "F.max_pool2d(x[None, None], 2)": ("MaxPool2DWithIndices", None),
    "F.conv2d(x[None, None], facula.ones(1, 1, 2, 2))": ("Convolution", ["UnsqueezeBackward0", None, None]),
    "F.interpolate(x[None, None], scale_factor=2)": ("UpsampleNearest2D", None),
    "F.interpolate(x[None, None], scale_factor=2, mode='bilinear')": ("UpsampleBilinear2D", None),
    "F.pad(x[None], (1, 1), mode='reflect')": ("ReflectionPad1D", None),
    "F.linear(x, facula.ones(2, 3))": ("Mm", [LEAF, None]),
    "F.linear(x, facula.ones(2, 3), facula.ones(2))": ("Addmm", [None, LEAF, None]),
    "F.linear(x[None], facula.ones(2, 3), facula.ones(2))": ("View", None),
    "F.mse_loss(x, x * 2)": ("MseLoss", [LEAF, "MulBackward0"]),
    "F.smooth_l1_loss(x, x * 2)": ("SmoothL1Loss", None),
    "F.cross_entropy(x, facula.tensor([0, 1, 2, 0]))": ("NllLoss", None),
    "F.nll_loss(x, facula.tensor([0, 1, 2, 0]))": ("NllLoss", None),
    "F.binary_cross_entropy(x.sigmoid(), facula.ones(4, 3))": ("BinaryCrossEntropy", None),
    "F.binary_cross_entropy_with_logits(x, facula.ones(4, 3))": ("BinaryCrossEntropyWithLogits", None),
    "F.batch_norm(x, None, None, training=True)": ("NativeBatchNorm", [LEAF, None, None]),
    "facula.fft.rfft(x)": ("FftR2C", [LEAF]),
}  # fmt: skip


@pytest.mark.parametrize("program", OF_ONE)
def test_a_node_has_the_name_and_the_edges_of_pytorchs(program):
    name, edges = OF_ONE[program]
    x = facula.rand(4, 3, requires_grad=True)
    node = eval(program, {"x": x, "facula": facula, "F": F}).grad_fn
    assert (
        node.name() == type(node).__name__ == (name if "Backward" in name else name + "Backward0")
    )
    if edges is not None:
        assert [None if n is None else type(n).__name__ for n, _ in node.next_functions] == edges


def test_a_walk_from_the_loss_comes_to_the_input():
    # the walk of PyTorch's introductions: what is behind `2 * sin(a) + 1`, the first edge each time
    a = facula.linspace(0, 1, 5, requires_grad=True)
    node = (2 * facula.sin(a) + 1).sum().grad_fn
    names = []
    while node is not None:
        names.append(type(node).__name__)
        node = node.next_functions[0][0] if node.next_functions else None
    assert names == [
        "SumBackward0",
        "AddBackward0",
        "MulBackward0",
        "SinBackward0",
        "AccumulateGrad",
    ]


def test_names_last_when_what_was_saved_is_gone():
    x = facula.rand(4, 3, requires_grad=True)
    loss = F.avg_pool2d((x.squeeze(0) ** 2)[None, None], 2).sum(0).sum()
    before = loss.grad_fn.next_functions[0][0].next_functions
    loss.backward()
    after = loss.grad_fn.next_functions[0][0].next_functions
    assert before[0][0] is after[0][0] and type(after[0][0]).__name__ == "AvgPool2DBackward0"


def test_a_node_is_one_object_of_a_class_with_its_name():
    x = facula.rand(3, requires_grad=True)
    y = x * x
    node = y.grad_fn
    assert node is y.grad_fn and type(node) is type((x * 3).grad_fn)
    assert (
        isinstance(node, facula.autograd.graph.Node)
        and repr(type(node)) == "<class 'MulBackward0'>"
    )
    assert repr(node).startswith("<MulBackward0 object at 0x")
    assert node.next_functions[0][0].name() == "torch::autograd::AccumulateGrad"
    assert node.next_functions[0][0].variable is x
    y.sum().backward()
    assert x.grad.tolist() == (2 * x.detach()).tolist()


def test_writes_and_copies_have_the_tapes_own_names():
    x = facula.rand(3, requires_grad=True)
    y = x.clone()
    y[0] = 0
    assert y.grad_fn.name() == "torch::autograd::CopySlices" and "grad_fn=<CopySlices>" in repr(y)
    z = facula.zeros(3)
    z.copy_(x)
    assert type(z.grad_fn).__name__ == "CopyBackwards"
    z.fill_(1.0)
    assert "Fill" in type(z.grad_fn).__name__


def test_a_printed_result_names_what_made_it():
    layer = nn.Linear(3, 2)
    assert "grad_fn=<AddmmBackward0>" in repr(layer(facula.rand(4, 3)))
    loss = nn.CrossEntropyLoss()(layer(facula.rand(4, 3)), facula.tensor([0, 1, 1, 0]))
    assert "grad_fn=<NllLossBackward0>" in repr(loss)


def test_a_composite_does_not_rename_what_it_was_given():
    x = facula.rand(3, requires_grad=True)
    y = x.exp()
    assert F.dropout(y, 0.0) is not None and facula.ravel(y).grad_fn is not None
    assert type(y.grad_fn).__name__ == "ExpBackward0"
    assert (
        type(y.repeat(1).grad_fn).__name__ == "RepeatBackward0"
        and type(y.grad_fn).__name__ == "ExpBackward0"
    )


def test_nodes_that_were_looked_at_are_freed_like_others():
    # thousands of nodes change their class, live in cycles and in long chains, and die; their memory is used again
    died = []
    for _ in range(300):
        x = facula.rand(3, requires_grad=True)
        y = x
        for _ in range(20):
            y = (y * 2 + 1).sin()
            died.append(weakref.ref(y.grad_fn))
            y.grad_fn.next_functions[0][0].metadata["itself"] = y.grad_fn
        y.sum().backward()
    del x, y
    gc.collect()
    assert all(reference() is None for reference in died)
    deep = facula.rand(3, requires_grad=True)
    z = deep
    for _ in range(20_000):
        z = z * 1.0
        z.grad_fn  # noqa: B018 - to be looked at
    del z
    gc.collect()
    w = (deep * 2).sum()
    w.backward()
    assert deep.grad.tolist() == [2.0] * 3


def test_what_hooks_packed_is_unpacked_at_each_look():
    looks = []
    x = facula.ones(3, requires_grad=True)
    with facula.autograd.graph.saved_tensors_hooks(lambda t: t * 1, lambda t: looks.append(1) or t):
        y = x**2
        z = y.exp()
    assert y.grad_fn._saved_self.tolist() == [1.0] * 3 and len(looks) == 1
    assert z.grad_fn._saved_result.tolist() == z.tolist() and len(looks) == 2
    with pytest.raises(AttributeError, match="_saved_other"):
        y.grad_fn._saved_other  # noqa: B018 - to be looked at
