"""Errors word by word: what was required, what was got, and what to do.

The left side is a call; the right side is the exception and the whole text of its message.
"""

import pytest

import facula
from facula import ones, tensor

F = facula.nn.functional


def i(*values):
    return tensor(values)


CASES = {
    "ones(3, 4) @ ones(6, 4)": (
        lambda: ones(3, 4) @ ones(6, 4),
        RuntimeError,
        "[mm] mat1 and mat2 shapes cannot be multiplied: got 3x4 and 6x4",
        "mat2.mT has shape [4, 6], which would fit",
    ),
    "ones(3, 4).mm(ones(3, 5))": (
        lambda: ones(3, 4).mm(ones(3, 5)),
        RuntimeError,
        "[mm] mat1 and mat2 shapes cannot be multiplied: got 3x4 and 3x5",
        "mat1.mT has shape [4, 3], which would fit",
    ),
    "ones(5, 2).mm(ones(3, 4))": (
        lambda: ones(5, 2).mm(ones(3, 4)),
        RuntimeError,
        "[mm] mat1 and mat2 shapes cannot be multiplied: got 5x2 and 3x4",
        "give mat2 2 row(s), or mat1 3 column(s)",
    ),
    "ones(2, 3, 4).bmm(ones(2, 5, 4))": (
        lambda: ones(2, 3, 4).bmm(ones(2, 5, 4)),
        RuntimeError,
        "[bmm] Expected size for first two dimensions of batch2 tensor to be: [2, 4]: got [2, 5]",
        "batch2.mT has shape [2, 4, 5], which would fit",
    ),
    "ones(2, 3, 4).bmm(ones(5, 4, 3))": (
        lambda: ones(2, 3, 4).bmm(ones(5, 4, 3)),
        RuntimeError,
        "[bmm] Expected size for first two dimensions of batch2 tensor to be: [2, 4]: got [5, 4]",
        "slice or repeat one of them: 2 and 5 matrices do not pair up",
    ),
    "ones(3, 4).mv(ones(3))": (
        lambda: ones(3, 4).mv(ones(3)),
        RuntimeError,
        "[mv] size mismatch: a vector of 4 was required: got 3 (size mismatch, got input (3), mat (3x4), vec (3))",
        "self.mT takes vectors of 3",
    ),
    "ones(3).dot(ones(3).double())": (
        lambda: ones(3).dot(ones(3).double()),
        RuntimeError,
        "[dot] dot : expected both vectors to have same dtype: got facula.float32 and "
        "facula.float64",
        "tensor.to(facula.float32) converts it",
    ),
    "facula.linalg.multi_dot([ones(2, 3), ones(4, 3)])": (
        lambda: facula.linalg.multi_dot([ones(2, 3), ones(4, 3)]),
        RuntimeError,
        "[multi_dot] multi_dot(): tensors 0 and 1 with shapes [2, 3] and [4, 3] cannot be "
        "multiplied",
        "tensors[1].mT has shape [3, 4], which would fit",
    ),
    "facula.addmm(ones(4, 4), ones(2, 3), ones(3, 4))": (
        lambda: facula.addmm(ones(4, 4), ones(2, 3), ones(3, 4)),
        RuntimeError,
        "[addmm] The size of tensor a (4) must match the size of tensor b (2) at "
        "non-singleton dimension 0",
        "sizes must be equal or 1, from the last dimension on; unsqueeze() adds a size of 1",
    ),
    "ones(2, 3).sum((0, 0))": (
        lambda: ones(2, 3).sum((0, 0)),
        RuntimeError,
        "[sum] dim 0 appears multiple times in the list of dims: got (0, 0)",
        "name each dimension once; here -1 and 1 are the same",
    ),
    "ones(2, 3).index_select(2, i(0))": (
        lambda: ones(2, 3).index_select(2, i(0)),
        IndexError,
        "[index_select] Dimension out of range (expected to be in range of [-2, 1], "
        "but got 2): got 2",
        "the tensor is 2-d: dim=1 or dim=-1 is its last dimension",
    ),
    "ones(2, 3).movedim((0, 1), (1, 1))": (
        lambda: ones(2, 3).movedim((0, 1), (1, 1)),
        RuntimeError,
        "[movedim] movedim: repeated dim in `destination` ([1, 1]): got [1, 1]",
        "name each dimension once; in this tensor -1 and 1 are the same",
    ),
    "ones(5).narrow(0, 3, 4)": (
        lambda: ones(5).narrow(0, 3, 4),
        RuntimeError,
        "[narrow] start (3) + length (4) exceeds dimension size (5).",
        "from 3 on, length can be at most 2",
    ),
    "ones(2, 6).unflatten(1, (4, 2))": (
        lambda: ones(2, 6).unflatten(1, (4, 2)),
        RuntimeError,
        "[unflatten] unflatten: Provided sizes [4, 2] don't multiply up to the size of dim 1 "
        "(6) in the input tensor",
        "one of the sizes, and only one, may be -1: it is worked out from the others",
    ),
    "ones(2, 3, 4).flatten(2, 0)": (
        lambda: ones(2, 3, 4).flatten(2, 0),
        RuntimeError,
        "[flatten] flatten() has invalid args: start_dim cannot come after end_dim: got (2, 0)",
        "flatten(0, 2) merges the dimensions from one to the other",
    ),
    "facula.eye(3).diagonal(0, 1, 1)": (
        lambda: facula.eye(3).diagonal(0, 1, 1),
        RuntimeError,
        "[diagonal] diagonal dimensions cannot be identical 1, 1",
        "name two dimensions, for example dim1=-2, dim2=-1 for the last two",
    ),
    "ones(4).unfold(0, 5, 1)": (
        lambda: ones(4).unfold(0, 5, 1),
        RuntimeError,
        "[unfold] maximum size for tensor at dimension 0 is 4 but size is 5",
        "use a size from 0 to 4, or pad dimension 0 first",
    ),
    "ones(6).split([2, 3])": (
        lambda: ones(6).split([2, 3]),
        RuntimeError,
        "[split] split_with_sizes expects split_sizes to sum exactly to 6 (input tensor's "
        "size at dimension 0): got split_sizes=[2, 3]",
        "these sum to 5, and none may be negative; chunk() makes nearly equal pieces",
    ),
    "facula.vsplit(ones(3), 3)": (
        lambda: facula.vsplit(ones(3), 3),
        RuntimeError,
        "[vsplit] torch.vsplit requires a tensor with at least 2 dimension, but got a "
        "tensor with 1 dimensions!",
        "facula.atleast_2d(x) adds the missing dimensions",
    ),
    "ones(5).view(facula.complex64)": (
        lambda: ones(5).view(facula.complex64),
        RuntimeError,
        "[view] self.size(-1) must be divisible by 2 to view facula.float32 as facula.complex64 "
        "(different element sizes): got 5, of shape [5] and strides [1]",
        "slice or pad the last dimension to a multiple of 2, then clone()",
    ),
    "ones(3, 4)[ones(4) > 0]": (
        lambda: ones(3, 4)[ones(4) > 0],
        IndexError,
        "[index] The shape of the mask [4] at index 0 does not match the shape of the "
        "indexed tensor [3, 4] at index 0",
        "a mask of shape [3] would fit here",
    ),
    "ones(3, 4)[i(0, 1), i(0, 1, 2)]": (
        lambda: ones(3, 4)[i(0, 1), i(0, 1, 2)],
        IndexError,
        "[index] shape mismatch: indexing tensors could not be broadcast together with "
        "shapes [2], [3]",
        "indices are taken element by element: rows[:, None] with columns gives a grid",
    ),
    "ones(3).put_(i(0), ones(1).int())": (
        lambda: ones(3).put_(i(0), ones(1).int()),
        RuntimeError,
        "[put] put_(): self and source expected to have the same dtype: got facula.int32",
        "source.to(facula.float32) converts it",
    ),
    "ones(3, 4).index_add(1, i(0, 2), ones(3, 3))": (
        lambda: ones(3, 4).index_add(1, i(0, 2), ones(3, 3)),
        RuntimeError,
        "[index_add] index_add(): Number of indices (2) should be equal to source.size(dim): got 3",
        "a source of shape [3, 2] would fit",
    ),
    "ones(3, 4).gather(1, ones(3, 1))": (
        lambda: ones(3, 4).gather(1, ones(3, 1)),
        RuntimeError,
        "[gather] gather(): Expected dtype int32/int64 for index: got facula.float32",
        "index.to(facula.int64) converts it",
    ),
    "ones(2, 3).gather(0, facula.zeros(2, 5).long())": (
        lambda: ones(2, 3).gather(0, facula.zeros(2, 5).long()),
        RuntimeError,
        "[gather] Size does not match at dimension 1: expected index [2, 5] to be no larger "
        "than self [2, 3] apart from dimension 0",
        "index.narrow(1, 0, 3) fits there",
    ),
    "ones(3).masked_fill(ones(3), 0.0)": (
        lambda: ones(3).masked_fill(ones(3), 0.0),
        RuntimeError,
        "[masked_fill] masked_fill_ only supports boolean masks: got facula.float32",
        "mask.bool() converts it",
    ),
    "facula.bincount(ones(3))": (
        lambda: facula.bincount(ones(3)),
        NotImplementedError,
        "[bincount] an integer dtype was required: got facula.float32",
        "convert it with .long()",
    ),
    "F.one_hot(i(0, 4), 3)": (
        lambda: F.one_hot(i(0, 4), 3),
        RuntimeError,
        "[one_hot] Class values must be smaller than num_classes.: got 4",
        "num_classes=5 has a place for all of them",
    ),
    "facula.randint(5, 5, (2,))": (
        lambda: facula.randint(5, 5, (2,)),
        RuntimeError,
        "[randint] random_ expects 'from' to be less than 'to': got from=5 >= to=5",
        "'to' itself is never drawn: from=5, to=6 always gives 5",
    ),
    "facula.normal(0.0, -1.0, (2,))": (
        lambda: facula.normal(0.0, -1.0, (2,)),
        RuntimeError,
        "[normal] normal expects std >= 0.0: got std -1.0",
        "std=1.0 draws from the same distribution",
    ),
    "ones(3).multinomial(5)": (
        lambda: ones(3).multinomial(5),
        RuntimeError,
        "[multinomial] cannot sample n_sample > prob_dist.size(-1) samples without "
        "replacement: got 5 > 3",
        "pass replacement=True, or draw at most 3",
    ),
    "facula.arange(5, 0)": (
        lambda: facula.arange(5, 0),
        RuntimeError,
        "[arange] upper bound and lower bound inconsistent with step sign: got start=5, "
        "end=0, step=1",
        "step=-1 goes from start to end",
    ),
    "facula.cat([ones(2, 3), ones(2, 4)])": (
        lambda: facula.cat([ones(2, 3), ones(2, 4)]),
        RuntimeError,
        "[cat] Sizes of tensors must match except in dimension 0. Expected size 3 but got "
        "size 4 for tensor number 1 in the list",
        "cut or pad dimension 1 of tensor number 1 to 3",
    ),
    "facula.stack([ones(2), ones(3)])": (
        lambda: facula.stack([ones(2), ones(3)]),
        RuntimeError,
        "[stack] stack expects each tensor to be equal size: got [2] at entry 0 and [3] at entry 1",
        "pad() or expand() makes sizes equal; cat() takes different sizes in its dimension",
    ),
    'F.pad(ones(1, 3), (3, 0), mode="reflect")': (
        lambda: F.pad(ones(1, 3), (3, 0), mode="reflect"),
        RuntimeError,
        "[pad] Padding size should be less than the corresponding input dimension: got "
        "padding (3, 0) at dimension 1 of input [1, 3]",
        "mode='replicate' takes padding of any size",
    ),
    "ones(3).topk(4)": (
        lambda: ones(3).topk(4),
        RuntimeError,
        "[topk] selected index k out of range: got k=4 for a dimension of size 3",
        "k=3 gives all of them",
    ),
    "ones(3).int().quantile(0.5)": (
        lambda: ones(3).int().quantile(0.5),
        RuntimeError,
        "[quantile] quantile() input tensor must be either float or double dtype: got facula.int32",
        "convert it with .float()",
    ),
    "ones(3).quantile(50.0)": (
        lambda: ones(3).quantile(50.0),
        RuntimeError,
        "[quantile] quantile() q must be in the range [0, 1]: got 50.0",
        "q=0.5 is the median; divide percentages by 100",
    ),
    "F.conv2d(ones(1, 8, 8, 3), ones(4, 3, 3, 3))": (
        lambda: F.conv2d(ones(1, 8, 8, 3), ones(4, 3, 3, 3)),
        RuntimeError,
        "[conv2d] Given groups=1, weight of size [4, 3, 3, 3], expected input[1, 8, 8, 3] to "
        "have 3 channels, and the first size of the weight to be divisible by groups: got 8 "
        "channels",
        "input.movedim(-1, -3) puts the last dimension in place of the channels",
    ),
    "F.conv1d(ones(1, 4, 8), ones(4, 4, 3), ones(3))": (
        lambda: F.conv1d(ones(1, 4, 8), ones(4, 4, 3), ones(3)),
        RuntimeError,
        "[conv1d] Given weight of size [4, 4, 3], expected bias to be 1-dimensional with 4 "
        "elements: got bias of size [3]",
        "facula.zeros(4) is such a bias, bias=None leaves it out",
    ),
    "F.max_pool1d(ones(1, 1, 4), 2, padding=2)": (
        lambda: F.max_pool1d(ones(1, 1, 4), 2, padding=2),
        RuntimeError,
        "[max_pool] pad should be at most half of effective kernel size: got pad=2, "
        "kernel_size=2 and dilation=1",
        "take padding of at most 1",
    ),
    "F.layer_norm(ones(2, 3), (4,))": (
        lambda: F.layer_norm(ones(2, 3), (4,)),
        RuntimeError,
        "[layer_norm] Given normalized_shape=[4], expected input with shape [*, 4]: got "
        "input of size[2, 3]",
        "normalized_shape=[3] fits",
    ),
    "F.embedding(i(0), ones(3, 2), padding_idx=3)": (
        lambda: F.embedding(i(0), ones(3, 2), padding_idx=3),
        AssertionError,
        "[embedding] Padding_idx must be within num_embeddings: got 3",
        "the table has 3 rows; a negative padding_idx counts from the last",
    ),
    "F.cross_entropy(ones(2, 3), i(0, 3))": (
        lambda: F.cross_entropy(ones(2, 3), i(0, 3)),
        IndexError,
        "[cross_entropy] Target 3 is out of bounds: targets in [0, 3): got 3",
        "the input has 3 classes; ignore_index=3 leaves such targets out",
    ),
    "F.nll_loss(ones(2, 3), i(0, 1), weight=ones(2))": (
        lambda: F.nll_loss(ones(2, 3), i(0, 1), weight=ones(2)),
        RuntimeError,
        "[nll_loss] weight tensor should be defined either for all 3 classes or no classes: got [2]",
        "give 3 weights",
    ),
    "F.scaled_dot_product_attention(ones(1, 4, 8), ones(1, 4, 6), ones(1, 4, 8))": (
        lambda: F.scaled_dot_product_attention(ones(1, 4, 8), ones(1, 4, 6), ones(1, 4, 8)),
        RuntimeError,
        "[scaled_dot_product_attention] Expected query and key to have the same size in the "
        "last dimension: got query [1, 4, 8] and key [1, 4, 6]",
        "only value may have another last size",
    ),
    "F.grid_sample(ones(1, 1, 4, 4), ones(1, 2, 2, 3))": (
        lambda: F.grid_sample(ones(1, 1, 4, 4), ones(1, 2, 2, 3)),
        RuntimeError,
        "[grid_sampler] expected grid to have size 2 in last dimension: got [1, 2, 2, 3]",
        "it holds x, y",
    ),
    "F.interpolate(ones(1, 1, 4))": (
        lambda: F.interpolate(ones(1, 1, 4)),
        ValueError,
        "[interpolate] either size or scale_factor should be defined",
        "scale_factor=2 doubles all sizes, size gives them in elements",
    ),
    "facula.linalg.inv(ones(2, 3))": (
        lambda: facula.linalg.inv(ones(2, 3)),
        RuntimeError,
        "[linalg.inv] linalg.inv: A must be batches of square matrices: got 2 by 3 matrices",
        "linalg.svd(), linalg.lstsq() and linalg.pinv() take other shapes",
    ),
    "facula.linalg.inv(facula.zeros(2, 2))": (
        lambda: facula.linalg.inv(facula.zeros(2, 2)),
        facula.linalg.LinAlgError,
        "[linalg.inv] linalg.inv: The diagonal element 1 is zero, the inversion could not be "
        "completed because the input matrix is singular.",
        "linalg.pinv() takes singular matrices",
    ),
    "facula.linalg.cholesky(-facula.eye(2))": (
        lambda: facula.linalg.cholesky(-facula.eye(2)),
        facula.linalg.LinAlgError,
        "[linalg.cholesky] linalg.cholesky: The factorization could not be completed because "
        "the input is not positive-definite (the leading minor of order 1 is not "
        "positive-definite).",
        "A + eps * facula.eye(n) helps where only rounding is in the way",
    ),
    'facula.einsum("ij,jk->ik", ones(2, 3), ones(4, 5))': (
        lambda: facula.einsum("ij,jk->ik", ones(2, 3), ones(4, 5)),
        RuntimeError,
        "[einsum] subscript j has size 4 for operand 1 which does not broadcast with "
        "previously seen size 3",
        "sizes of a subscript are equal or 1",
    ),
    "ones(3).to_sparse() + ones(4).to_sparse()": (
        lambda: ones(3).to_sparse() + ones(4).to_sparse(),
        RuntimeError,
        "[add] expected 'self' and 'other' to have same size: got [3] and [4]",
        "sparse tensors do not broadcast; use to_dense() first",
    ),
    "facula.stft(ones(16), 8, return_complex=True, window=ones(4))": (
        lambda: facula.stft(ones(16), 8, return_complex=True, window=ones(4)),
        RuntimeError,
        "[stft] expected a 1D window tensor of size equal to win_length: got win_length=8 "
        "and window of size [4]",
        "facula.hann_window(8) is one",
    ),
    'facula.div(ones(2), 2, rounding_mode="up")': (
        lambda: facula.div(ones(2), 2, rounding_mode="up"),
        RuntimeError,
        "[div] rounding_mode None, 'trunc' or 'floor' was required: got 'up'",
        "'floor' rounds down, 'trunc' towards zero",
    ),
    "ones(2).clamp()": (
        lambda: ones(2).clamp(),
        RuntimeError,
        "[clamp] at least one of 'min' and 'max' was required: got none (torch.clamp: At "
        "least one of 'min' or 'max' must not be None)",
        "clamp(x, min=0) has no negative elements",
    ),
    "ones(3).mT": (
        lambda: ones(3).mT,
        RuntimeError,
        "[mT] tensor.mT is only supported on matrices or batches of matrices: got 1-D tensor",
        "x[:, None] is a column, x[None] a row of a vector",
    ),
    "facula.broadcast_shapes((2, 3), (4,))": (
        lambda: facula.broadcast_shapes((2, 3), (4,)),
        RuntimeError,
        "[broadcast_shapes] Shape mismatch: objects cannot be broadcast to a single shape: "
        "got [(2, 3), (4,)]",
        "sizes are equal or 1, from the last dimension on",
    ),
    "facula.sparse_coo_tensor(i(0, 5)[None], ones(2), (4,), check_invariants=True)": (
        lambda: facula.sparse_coo_tensor(i(0, 5)[None], ones(2), (4,), check_invariants=True),
        RuntimeError,
        "[sparse_coo_tensor] size is inconsistent with indices: for dim 0, size is 4 but "
        "found index 5",
        "dimension 0 needs a size of 6 or more",
    ),
    'facula.nn.Linear(2, 2).register_parameter("a", ones(2))': (
        lambda: facula.nn.Linear(2, 2).register_parameter("a", ones(2)),
        TypeError,
        "[Module.register_parameter] a Parameter or None for parameter 'a' (cannot assign 'facula.FloatTensor' object "
        "to parameter 'a' (torch.nn.Parameter or None required)): got Tensor",
        "nn.Parameter(tensor) makes one",
    ),
    "facula.randint_like(ones(2), 5, 5)": (
        lambda: facula.randint_like(ones(2), 5, 5),
        RuntimeError,
        "[randint_like] random_ expects 'from' to be less than 'to': got from=5 >= to=5",
        "'to' itself is never drawn: from=5, to=6 always gives 5",
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_message_and_hint(name):
    call, kind, message, hint = CASES[name]
    with pytest.raises(kind) as caught:
        call()
    assert str(caught.value) == f"{message}\nhint: {hint}"
