"""The functions of the top level beside those of `nn.functional`, and the older methods of Tensor."""

import warnings

import numpy
import pytest

import facula
from facula.nn import functional as F


def test_losses_by_number():
    x, y = facula.randn(4, 3), facula.randn(4, 3).softmax(-1)
    for number, word in enumerate(("none", "mean", "sum")):
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", "reduction: 'mean'")
            ours = facula.kl_div(x, y, number, log_target=True)
            assert facula.equal(ours, F.kl_div(x, y, reduction=word, log_target=True))
        sign = y.sign()
        assert facula.equal(
            facula.hinge_embedding_loss(x, sign, 0.5, number),
            F.hinge_embedding_loss(x, sign, 0.5, reduction=word),
        )
        assert facula.equal(
            facula.binary_cross_entropy_with_logits(x, y, reduction=number),
            F.binary_cross_entropy_with_logits(x, y, reduction=word),
        )
        assert facula.equal(
            facula.poisson_nll_loss(x, y, True, False, 1e-8, number),
            F.poisson_nll_loss(x, y, reduction=word),
        )
    with pytest.raises(ValueError, match="0, 1 or 2"):
        facula.kl_div(x, y, 3)


@pytest.mark.parametrize("mode", [0, 1, 2])
def test_embedding_bag(mode):
    weight = facula.tensor([[1.0, 5.0], [2.0, 4.0], [3.0, 3.0], [-1.0, 9.0]])
    indices, offsets = facula.tensor([0, 1, 2, 2, 3]), facula.tensor([0, 2, 2])
    result, bags, sizes, best = facula.embedding_bag(
        weight, indices, offsets, False, mode, False, None, False, 2
    )
    expected = F.embedding_bag(
        indices, weight, offsets, mode=("sum", "mean", "max")[mode], padding_idx=2
    )
    assert facula.equal(result, expected)
    assert bags.tolist() == [0, 0, 2, 2, 2] and sizes.tolist() == [2, 0, 1]
    if mode == 2:
        assert best.tolist() == [[1, 0], [0, 0], [3, 3]]


def test_convolution_with_time_first():
    x, weight, bias = facula.randn(6, 2, 3), facula.randn(3, 3, 4), facula.randn(4)
    result = facula.conv_tbc(x, weight, bias, 1)
    padded = numpy.pad(x.numpy(), ((1, 1), (0, 0), (0, 0)))
    expected = sum(padded[k : k + 6] @ weight.numpy()[k] for k in range(3)) + bias.numpy()
    assert numpy.allclose(result.numpy(), expected, atol=1e-5)


def test_norms_and_other_orders_of_arguments():
    v = facula.randn(2, 3, 4)
    assert facula.allclose(facula.norm_except_dim(v, 2, 1).flatten(), v.norm(dim=(0, 2)))
    assert facula.norm_except_dim(v, 2, -1).shape == ()
    assert facula.allclose(facula.frobenius_norm(v, [0, 1]), v.norm(dim=(0, 1)))
    x = facula.randn(2, 3, 5)
    native = facula.instance_norm(x, None, None, None, None, True, 0.1, 1e-5, False)
    assert facula.equal(native, F.instance_norm(x))
    x = facula.randn(2, 4, 3, 3)
    assert facula.equal(facula.native_channel_shuffle(x, 2), facula.channel_shuffle(x, 2))


def test_dropout_in_place():
    facula.manual_seed(0)
    x = facula.ones(4, 8, 3)
    assert facula.feature_dropout_(x, 0.5, True) is x
    assert set(x.flatten().tolist()) == {0.0, 2.0}
    y = facula.randn(1000)
    kept = y.clone()
    assert facula.alpha_dropout_(y, 0.5, True) is y and not facula.equal(y, kept)
    assert facula.feature_dropout_(kept, 0.5, False) is kept


def test_gradients_of_convolutions():
    x, w = (
        facula.randn(2, 4, 7, 7, requires_grad=True),
        facula.randn(6, 2, 3, 3, requires_grad=True),
    )
    out = F.conv2d(x, w, stride=2, padding=1, groups=2)
    grad = facula.randn_like(out)
    out.backward(grad)
    from facula.nn import grad as written

    got = written.conv2d_input(x.shape, w, grad, stride=2, padding=1, groups=2)
    assert facula.allclose(got, x.grad, atol=1e-5)
    got = written.conv2d_weight(x, w.shape, grad, stride=2, padding=1, groups=2)
    assert facula.allclose(got, w.grad, atol=1e-5)


def test_sizes_of_nested_tensors_and_plain_ones_are_of_no_one_kind():
    nested, plain = facula.nested.nested_tensor([facula.ones(2), facula.ones(3)]), facula.ones(2, 3)
    assert facula.is_same_size(nested, nested)
    for a, b, said in ((nested, plain, "Self is nested"), (plain, nested, "Self is not nested")):
        with pytest.raises(RuntimeError, match=f"both self and other to be nested tensors.*{said}"):
            facula.is_same_size(a, b)


def test_indices_that_index_select_refuses():
    scalar, index = facula.tensor(1.0), facula.tensor([0, 0])
    with pytest.raises(RuntimeError, match="scalar can have only 1 value, got 2 value"):
        scalar.index_select(0, index)
    assert scalar.index_select(0, index[:1]).item() == 1.0
    with pytest.raises(RuntimeError, match="Expected dtype int32 or int64 for index"):
        facula.ones(3).index_select(0, facula.ones(2))
    with pytest.raises(
        RuntimeError, match="index 5 is out of bounds.*INDICES element is out of DATA bounds"
    ):
        facula.ones(2, 3).index_select(1, facula.tensor([5]))


def test_flags_of_kernels_are_told():
    assert "-O3" in facula.__config__._cxx_flags().split()


def test_older_methods():
    x = facula.tensor([[1.0, 2.0], [3.0, 4.0]])
    assert list(reversed(x))[0].tolist() == [3.0, 4.0]
    assert x.is_same_size(x.T) and facula.tensor(2).is_nonzero()
    assert x.new(2, 3).shape == (2, 3) and x.new([1, 2]).dtype is facula.float32
    assert x.to_dense() is x and x.dense_dim() == 2 and x.sparse_dim() == 0
    assert x.clone().map2_(x, x, lambda a, b, c: a + b * c).tolist() == [[2.0, 6.0], [12.0, 20.0]]
    assert x.name is None and x.const_data_ptr() == x.data_ptr()
    with pytest.warns(UserWarning, match="deprecated"):
        assert x.resize(4).tolist() == [1.0, 2.0, 3.0, 4.0]
        for wrong in (3, -4, (2, 1), (-2, -2)):
            with pytest.raises(RuntimeError, match="requested resize to"):
                x.resize(wrong)
        with pytest.raises(RuntimeError, match="requested resize to 3 "):
            x.resize_as(facula.zeros(3))
    with pytest.warns(UserWarning, match="volatile"):
        assert x.volatile is False
    with pytest.raises(RuntimeError, match="removed"):
        x.reinforce(1)
    assert isinstance(x.__array_wrap__(numpy.ones(2)), facula.Tensor)


def test_functions_of_methods(tmp_path):
    x = facula.randn(3, requires_grad=True)
    assert facula.clone(x).requires_grad and not facula.detach(x).requires_grad
    y = facula.zeros(3)
    assert facula.fill(y, 2).tolist() == [2.0] * 3 and y.tolist() == [0.0] * 3
    assert facula.fill_(y, 2) is y and facula.zero_(y).tolist() == [0.0] * 3
    assert facula.resize_as_(facula.empty(0), y).shape == (3,)
    assert facula.is_signed(y) and facula.get_device(y) == -1
    assert not facula.is_conj(y) and not facula.is_neg(y) and not facula.is_inference(y)
    with pytest.raises(TypeError, match="a tensor was required"):
        facula.clone(3)
    path = tmp_path / "numbers"
    shared = facula.from_file(str(path), shared=True, size=4, dtype=facula.int32)
    shared.copy_(facula.arange(4))
    again = facula.from_file(str(path), size=4, dtype=facula.int32)
    assert again.tolist() == [0, 1, 2, 3]
    again.zero_()
    assert facula.from_file(str(path), size=2, dtype=facula.int32).tolist() == [0, 1]
    with pytest.raises(RuntimeError, match="at least 40 bytes"):
        facula.from_file(str(path), size=10, dtype=facula.int32)


def test_unravel_index():
    places = facula.tensor([[0, 5], [11, 7]])
    got = facula.unravel_index(places, (3, 4))
    for ours, theirs in zip(got, numpy.unravel_index(places.numpy(), (3, 4)), strict=True):
        assert numpy.array_equal(ours.numpy(), theirs)
    with pytest.raises(TypeError, match="integer dtype"):
        facula.unravel_index(facula.ones(2), (3,))


def test_keyword_spellings():
    x = facula.randn(4, 3)
    assert [t.shape for t in facula.split(tensor=x, split_size_or_sections=2)] == [(2, 3)] * 2
    assert x.swapaxes(axis0=0, axis1=1).shape == (3, 4)
    assert facula.broadcast_to(x, shape=(2, 4, 3)).shape == (2, 4, 3)
    assert x.broadcast_to(2, 4, 3).shape == x.broadcast_to((2, 4, 3)).shape == (2, 4, 3)
    assert F.one_hot(tensor=facula.tensor([1])).tolist() == [[0, 1]]
    with pytest.raises(TypeError, match="unexpected keyword argument 'shapes'"):
        facula.broadcast_to(x, shapes=(2,))


def test_constants():
    assert facula.long is facula.int64 and facula.half is facula.float16
    assert facula.newaxis is None and facula.inf > 1e300 and facula.nan != facula.nan
    assert round(facula.pi, 4) == 3.1416


def test_conjugates_of_real_numbers_are_themselves():
    x, z = facula.tensor([1.0, -2.0]), facula.tensor([1 + 2j, -3j])
    assert facula.conj_physical(x) is x and x.conj_physical() is x and x.conj() is x
    y = facula.conj_physical(z)
    assert y.tolist() == [1 - 2j, 3j] and z.tolist() == [1 + 2j, -3j]
    for source in (x, z):
        out = facula.empty_like(source)
        assert facula.conj_physical(source, out=out) is out
        assert out.tolist() == source.conj().tolist() and out.data_ptr() != source.data_ptr()
    assert z.conj_physical_() is z and z.tolist() == [1 - 2j, 3j]


def test_statistics_of_a_batch_go_to_out():
    x = facula.tensor([[1.0, 10.0], [3.0, 30.0]])
    outs = tuple(facula.empty(0) for _ in range(3))
    means, variances = facula.zeros(2), facula.ones(2)
    for rest in ((True, 0.5, 0.0), (means, variances, True, 0.5, 0.0)):
        results = facula._native_batch_norm_legit(x, None, None, *rest, out=outs)
        assert all(a is b for a, b in zip(results, outs, strict=True))
        assert outs[0].tolist() == [[-1, -1], [1, 1]]
        assert outs[1].tolist() == [2, 20] and outs[2].tolist() == pytest.approx([1, 0.1])
    assert means.tolist() == [1, 10] and variances.tolist() == [1.5, 100.5]
