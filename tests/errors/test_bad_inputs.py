"""Bad inputs: the type and message of the error, that the process lives, that inputs are
unchanged.
"""

import warnings

import numpy as np
import pytest

import facula

F = facula.nn.functional


def f32(*shape):
    return facula.ones(*shape)


# call, exception type, part of the message
CASES = {
    "shapes that do not broadcast": (lambda: f32(2, 3) + f32(4), RuntimeError, "must match"),
    "in place beyond self": (lambda: f32(3).add_(f32(2, 3)), RuntimeError, "doesn't match the broadcast shape"),
    "matmul sizes": (lambda: f32(2, 3) @ f32(2, 3), RuntimeError, "cannot be multiplied"),
    "matmul of a 0-d tensor": (lambda: f32(2, 3) @ facula.tensor(1.0), RuntimeError, "0D|at least 1"),
    "bmm batches": (lambda: facula.bmm(f32(2, 3, 4), f32(3, 4, 5)), RuntimeError, "batch"),
    "matmul dtypes": (lambda: f32(2, 2) @ f32(2, 2).double(), RuntimeError, "same dtype"),
    "linear sizes": (lambda: F.linear(f32(2, 3), f32(4, 5)), RuntimeError, "cannot be multiplied"),
    "view": (lambda: f32(2, 3).view(4, 2), RuntimeError, "invalid for input of size 6"),
    "reshape": (lambda: f32(2, 3).reshape(-1, 4), RuntimeError, "invalid for input of size 6"),
    "two unknown sizes": (lambda: f32(2, 3).reshape(-1, -1), RuntimeError, "only one dimension can be inferred"),
    "negative size": (lambda: facula.zeros(2, -3), RuntimeError, "negative"),
    "expand": (lambda: f32(2, 3).expand(4, 3), RuntimeError, "must match the existing size"),
    "permute twice": (lambda: f32(2, 3).permute(0, 0), RuntimeError, "repeated|duplicate|twice"),
    "permute too few": (lambda: f32(2, 3).permute(0), RuntimeError, "number of dim"),
    "dimension": (lambda: f32(2, 3).sum(2), IndexError, "out of range"),
    "dimension of transpose": (lambda: f32(2, 3).transpose(0, -3), IndexError, "out of range"),
    "repeated dimension": (lambda: f32(2, 3).sum((0, 0)), RuntimeError, "multiple times"),
    "softmax dimension": (lambda: f32(2).softmax(1), IndexError, "out of range"),
    "cat sizes": (lambda: facula.cat([f32(2, 3), f32(2, 4)]), RuntimeError, "[Ss]izes of tensors must match"),
    "cat of nothing": (lambda: facula.cat([]), (RuntimeError, ValueError), "non-empty"),
    "cat of a tensor": (lambda: facula.cat(f32(2)), TypeError, "tuple of Tensors"),
    "stack": (lambda: facula.stack([f32(2), f32(3)]), RuntimeError, "equal size"),
    "split": (lambda: f32(4).split([1, 1]), RuntimeError, "sum exactly"),
    "squeeze": (lambda: f32(2).squeeze(3), IndexError, "out of range"),
    "max of nothing": (lambda: facula.zeros(0).max(), RuntimeError, "numel|non-zero|empty"),
    "argmax of nothing": (lambda: facula.zeros(0, 3).argmax(0), IndexError, "non-zero size"),
    "median of bools": (lambda: facula.tensor([True]).median(), RuntimeError, "number dtype"),
    "mean of integers": (lambda: facula.arange(3).mean(), RuntimeError, "dtype"),
    "gather index": (lambda: f32(3).gather(0, facula.tensor([3])), RuntimeError, "out of bounds"),
    "gather index dtype": (lambda: f32(3).gather(0, f32(1)), RuntimeError, "int64"),
    "index_select": (
        lambda: f32(3).index_select(0, facula.tensor([-1])), (IndexError,
        RuntimeError),
        "out of range|out of bounds",
    ),
    "scatter index": (lambda: f32(3).scatter(0, facula.tensor([5]), 1.0), RuntimeError, "out of bounds"),
    "embedding index": (lambda: F.embedding(facula.tensor([4]), f32(3, 2)), IndexError, "out of (range|bounds)"),
    "mask dtype": (lambda: f32(3).masked_fill(f32(3), 0), RuntimeError, "mask"),
    "where condition": (lambda: facula.where(f32(2), f32(2), f32(2)), RuntimeError, "bool"),
    "convolution channels": (lambda: F.conv2d(f32(1, 3, 8, 8), f32(4, 2, 3, 3)), RuntimeError, "channels"),
    "convolution kernel": (lambda: F.conv2d(f32(1, 3, 2, 2), f32(4, 3, 3, 3)), RuntimeError, "[Kk]ernel size"),
    "convolution dimensions": (lambda: F.conv2d(f32(8), f32(4, 3, 3, 3)), RuntimeError, "3D|4D"),
    "convolution stride": (lambda: F.conv2d(f32(1, 1, 4, 4), f32(1, 1, 2, 2), stride=0), RuntimeError, "stride"),
    "pool padding": (lambda: F.max_pool2d(f32(1, 1, 4, 4), 2, padding=2), RuntimeError, "pad"),
    "layer norm shape": (lambda: F.layer_norm(f32(2, 3), (4,)), RuntimeError, "normalized_shape"),
    "batch norm of one value": (
        lambda: F.batch_norm(f32(1, 3), None, None, training=True),
        ValueError,
        "more than 1 value",
    ),
    "cross entropy target": (lambda: F.cross_entropy(f32(2, 3), facula.tensor([0, 3])), IndexError, "out of bounds"),
    "cross entropy batch": (lambda: F.cross_entropy(f32(2, 3), facula.tensor([0])), ValueError, "batch_size"),
    "mse shapes": (lambda: F.mse_loss(f32(2, 3), f32(2, 4)), RuntimeError, "must match"),
    "dropout probability": (lambda: F.dropout(f32(2), 1.5), ValueError, "probability"),
    "reduction": (lambda: F.mse_loss(f32(2), f32(2), reduction="all"), ValueError, "not a valid value"),
    "bitwise of floats": (lambda: f32(2) & f32(2), RuntimeError, "not implemented"),
    "shift of floats": (lambda: f32(2) << 1, RuntimeError, "not implemented|required"),
    "bool minus bool": (lambda: facula.tensor([True]) - facula.tensor([True]), RuntimeError, "bool"),
    "negation of bools": (lambda: -facula.tensor([True]), RuntimeError, "bool"),
    "integer division by zero": (lambda: facula.tensor([1]) // 0, RuntimeError, "ZeroDivisionError"),
    "remainder by zero": (lambda: facula.tensor([1]) % facula.tensor([0]), RuntimeError, "ZeroDivisionError"),
    "integer to a negative power": (lambda: facula.tensor([2]) ** -1, RuntimeError, "negative integer powers"),
    "text as an operand": (lambda: f32(2) + "a", TypeError, "operand"),
    "none as an operand": (lambda: facula.add(f32(2), None), TypeError, "must be Tensor, not NoneType"),
    "list as a tensor": (lambda: facula.sin([1.0]), TypeError, "Tensor"),
    "missing argument": (lambda: facula.gather(f32(2), 0), TypeError, "index"),
    "too many arguments": (lambda: facula.sin(f32(2), 3), TypeError, "at most 1 positional"),
    "wrong keyword": (lambda: facula.sum(f32(2), along=0), TypeError, "along"),
    "float as a dimension": (lambda: f32(2).sum(0.5), TypeError, "must be tuple of ints, not float"),
    "unknown device": (lambda: facula.zeros(2, device="moon"), RuntimeError, "moon"),
    "device without a backend": (lambda: facula.zeros(2, device="cuda"), RuntimeError, "a device with a backend"),
    "two devices": (lambda: f32(2) + facula.ones(2, device="meta"), RuntimeError, "same device"),
    "data of a meta tensor": (
        lambda: facula.ones(2, device="meta").tolist(), (NotImplementedError,
        RuntimeError),
        "meta",
    ),
    "unknown dtype": (lambda: f32(2).to("float33"), RuntimeError, "float33"),
    "arange step": (lambda: facula.arange(0, 3, -1), RuntimeError, "bound"),
    "arange zero step": (lambda: facula.arange(0, 3, 0), RuntimeError, "nonzero"),
    "linspace steps": (lambda: facula.linspace(0, 1, -1), RuntimeError, "non-negative"),
    "eye": (lambda: facula.eye(-1), RuntimeError, "greater|negative"),
    "full without a value": (lambda: facula.full((2,)), TypeError, "fill_value"),
    "tril of a vector": (lambda: f32(3).tril(), RuntimeError, "at least 2 dimensions"),
    "diagonal": (lambda: f32(2, 2).diagonal(0, 1, 1), RuntimeError, "identical"),
    "unfold": (lambda: f32(3).unfold(0, 4, 1), RuntimeError, "maximum size"),
    "repeat": (lambda: f32(2, 2).repeat(2), RuntimeError, "[Nn]umber of dimensions"),
    "topk": (lambda: f32(3).topk(4), RuntimeError, "out of range"),
    "kthvalue": (lambda: f32(3).kthvalue(0), (RuntimeError, IndexError), "out of range"),
    "clamp": (lambda: f32(2).clamp(), RuntimeError, "[Aa]t least one"),
    "einsum": (lambda: facula.einsum("ij,jk->ik", f32(2, 3), f32(4, 5)), RuntimeError, "does not broadcast|size"),
    "einsum operands": (lambda: facula.einsum("ij,jk->ik", f32(2, 3)), (RuntimeError, ValueError), "operand"),
    "item": (lambda: f32(2).item(), RuntimeError, "cannot be converted to Scalar|one element"),
    "as_strided beyond memory": (lambda: f32(4).as_strided((3,), (2,), 0), RuntimeError, "out of bounds"),
    "as_strided with negative strides": (lambda: f32(4).as_strided((2,), (-1,), 3), RuntimeError, "negative"),
    "view as complex": (lambda: facula.view_as_complex(f32(3)), RuntimeError, "size 2"),
    "storage overflow": (lambda: facula.empty(2**62, 2), RuntimeError, "overflow|fit|required"),
    "huge allocation": (lambda: facula.empty(2**44), RuntimeError, "memory|fit"),
    "huge result": (lambda: f32(1).expand(2**45) + 1, RuntimeError, "memory|fit"),
    "number beyond 64 bits": (lambda: facula.tensor([1]) + 2**70, OverflowError, "64 bits"),
    "scaled attention heads": (
        lambda: F.scaled_dot_product_attention(f32(1, 2, 3, 4), f32(1, 2, 3, 5), f32(1, 2, 3, 5)),
        RuntimeError,
        "same size in the last dimension",
    ),
    "interpolate": (
        lambda: F.interpolate(f32(1, 1, 4, 4), size=(2, 2), mode="cubic"),
        NotImplementedError,
        "a mode for 4D input",
    ),
    "pad": (lambda: F.pad(f32(1, 1, 3), (1, 2, 3)), (RuntimeError, ValueError), "even|divisible|[Pp]ad"),
    "one hot": (lambda: F.one_hot(facula.tensor([5]), 3), RuntimeError, "smaller than num_classes"),
}  # fmt: skip


@pytest.mark.parametrize("name", CASES)
def test_error(name):
    action, kind, message = CASES[name]
    with warnings.catch_warnings(), pytest.raises(kind, match=message) as caught:
        warnings.simplefilter("ignore")  # a size that can not be broadcast is warned of first
        action()
    if name != "text as an operand":  # Python's own words: the other operand may know what to do
        assert str(caught.value).startswith("["), caught.value
    assert (facula.ones(2) + 1).tolist() == [2, 2]


def test_inputs_are_unchanged_by_a_failed_write():
    x = facula.arange(6.0).view(2, 3)
    for action in (
        lambda: x.add_(facula.ones(4)),
        lambda: x.copy_(facula.ones(4)),
        lambda: x.masked_fill_(facula.ones(4, dtype=facula.bool), 0),
        lambda: x.index_put_((facula.tensor([5]),), facula.ones(3)),
        lambda: x.scatter_(1, facula.tensor([[0, 9]]), 5.0),
        lambda: x.index_add_(0, facula.tensor([7]), facula.ones(1, 3)),
        lambda: x.clamp_(),
        lambda: x.bitwise_and_(1),
        lambda: x.addmm_(facula.ones(3, 3), facula.ones(3, 3)),
        lambda: x.expand(2, 2, 3).mul_(2),
        lambda: x.view(-1)[1:].add_(x.view(-1)[:-1]),
    ):
        with pytest.raises((RuntimeError, IndexError)):
            action()
        assert x.tolist() == [[0, 1, 2], [3, 4, 5]]


def test_expanded_memory_is_not_written():
    x = facula.zeros(3)
    for wide in (x.expand(2, 3), x[None].expand(2, 3), facula.zeros(1).expand(4)):
        for action in (
            lambda w=wide: w.add_(1),
            lambda w=wide: w.copy_(facula.ones(w.shape)),
            lambda w=wide: w.normal_(),
            lambda w=wide: facula.add(w, 1, out=w),
        ):
            with pytest.raises(RuntimeError, match="single memory location"):
                action()
    assert not x.any()


def test_nan_and_infinity_pass_through():
    bad = facula.tensor([float("nan"), float("inf"), -float("inf"), 1.0])
    np.testing.assert_array_equal((bad + 1).numpy(), [np.nan, np.inf, -np.inf, 2])
    assert facula.isnan(bad).tolist() == [True, False, False, False]
    assert facula.isnan(bad.max()) and facula.isnan(bad.min()) and facula.isnan(bad.sum())
    assert bad.argmax().item() == 0 and facula.isnan(bad.sort().values[-1])
    assert facula.isnan(bad.softmax(0)).all()
    assert facula.nan_to_num(bad, 0.0, 1.0, -1.0).tolist() == [0, 1, -1, 1]
    assert facula.isnan(F.relu(bad))[0] and facula.isnan(bad.clamp(0, 1))[0]
    x = facula.tensor([0.0], requires_grad=True)
    (x.log()).backward()
    assert facula.isinf(x.grad).all()
    assert facula.isnan(facula.maximum(bad, facula.zeros(4)))[0]
    assert facula.tensor([float("nan")]).unique().shape == (1,)


def test_zero_sizes():
    z = facula.zeros(0, 3)
    assert z.sum().item() == 0 and z.prod().item() == 1 and z.sum(0).tolist() == [0, 0, 0]
    assert (z @ facula.ones(3, 4)).shape == (0, 4) and (
        facula.ones(2, 0) @ facula.ones(0, 2)
    ).tolist() == [[0, 0], [0, 0]]
    assert facula.cat([z, z]).shape == (0, 3) and z.all().item() and not z.any().item()
    assert (
        z.softmax(1).shape == (0, 3)
        and z.cumsum(0).shape == (0, 3)
        and z.sort(1).values.shape == (0, 3)
    )
    assert facula.isnan(z.mean()) and z.t().contiguous().shape == (3, 0)
    assert z[facula.zeros(0, dtype=facula.int64)].shape == (0, 3) and z.nonzero().shape == (0, 2)
    assert F.linear(z, facula.ones(2, 3)).shape == (0, 2)
    assert F.conv2d(facula.zeros(0, 3, 8, 8), facula.ones(4, 3, 3, 3)).shape == (0, 4, 6, 6)
    x = facula.zeros(0, requires_grad=True)
    (x * 2).sum().backward()
    assert x.grad.shape == (0,)


def test_messages_of_the_tape():
    x = facula.ones(2, requires_grad=True)
    y = (x * x).sum()
    y.backward()
    with pytest.raises(RuntimeError, match=r"(?s)^\[backward\].*second time.*hint: .*retain_graph"):
        y.backward()
    with pytest.raises(RuntimeError, match=r"(?s)^\[mul_\].*leaf Variable.*hint: "):
        x.mul_(2)
    z = x.exp()
    w = z * z
    z.add_(1)
    with pytest.raises(
        RuntimeError, match=r"(?s)^\[backward\].*version 1; expected version 0.*hint: "
    ):
        w.sum().backward()
    assert x.tolist() == [1, 1]


def test_recursion_of_python_objects_is_an_error():
    nested = []
    nested.append(nested)
    with pytest.raises((ValueError, RuntimeError, RecursionError, TypeError)):
        facula.tensor(nested)


def test_many_dimensions():
    x = facula.ones([1] * 64)
    assert (x + x).shape == (1,) * 64 and x.squeeze().item() == 1
    with pytest.raises(RuntimeError, match="dimensions"):
        facula.ones([1] * 65)
