"""The loss of connectionist temporal classification against all alignments, one by one."""

import itertools
import math

import numpy as np
import pytest

import facula
from facula.nn.functional import ctc_loss


def by_enumeration(log_probs, target, steps, blank):
    """-log of the sum over all paths that collapse to the target."""
    total = 0.0
    for path in itertools.product(range(log_probs.shape[1]), repeat=steps):
        collapsed = [c for k, c in enumerate(path) if k == 0 or c != path[k - 1]]
        if [c for c in collapsed if c != blank] == list(target):
            total += math.exp(sum(log_probs[t, c] for t, c in enumerate(path)))
    return -math.log(total) if total else math.inf


def log_probabilities(steps, batch, classes, dtype=facula.float64):
    facula.manual_seed(steps + classes)
    return facula.randn(steps, batch, classes, dtype=dtype).log_softmax(-1)


@pytest.mark.parametrize("blank", [0, 2])
@pytest.mark.parametrize("dtype", [facula.float32, facula.float64])
def test_loss_is_the_sum_over_all_alignments(blank, dtype):
    log_probs = log_probabilities(5, 4, 3, dtype)
    labels = [c for c in range(3) if c != blank]
    targets = [[labels[0], labels[0]], [labels[1]], [], [labels[0], labels[1], labels[0]]]
    inputs, lengths = [5, 4, 3, 5], [len(t) for t in targets]
    padded = facula.tensor([t + [labels[0]] * (3 - len(t)) for t in targets])
    loss = ctc_loss(log_probs, padded, inputs, lengths, blank=blank, reduction="none")
    values = log_probs.numpy()
    expected = [by_enumeration(values[:, k], t, inputs[k], blank) for k, t in enumerate(targets)]
    np.testing.assert_allclose(loss.numpy(), expected, rtol=1e-5)
    joined = facula.tensor([c for t in targets for c in t])
    again = ctc_loss(log_probs, joined, inputs, lengths, blank=blank, reduction="none")
    assert again.tolist() == loss.tolist()
    mean = ctc_loss(log_probs, padded, inputs, lengths, blank=blank)
    weights = np.maximum(lengths, 1)
    assert mean.item() == pytest.approx(np.mean(loss.numpy() / weights), rel=1e-6)


def test_gradient_in_the_logits():
    facula.manual_seed(0)
    logits = facula.randn(6, 2, 4, dtype=facula.float64, requires_grad=True)
    targets = facula.tensor([[1, 1, 2], [3, 2, 0]])

    def loss(x):
        return ctc_loss(x.log_softmax(-1), targets, (6, 5), (3, 2), reduction="sum")

    assert facula.autograd.gradcheck(loss, (logits,))


def test_steps_behind_the_input_get_no_gradient():
    log_probs = log_probabilities(5, 1, 3).requires_grad_()
    ctc_loss(log_probs, facula.tensor([[1]]), (3,), (1,)).backward()
    assert log_probs.grad[3:].abs().max() == 0 and log_probs.grad[:3].abs().min() > 0


def test_targets_that_do_not_fit():
    log_probs = log_probabilities(2, 2, 3).requires_grad_()
    arguments = (facula.tensor([[1, 1], [1, 2]]), (2, 2), (2, 2))
    loss = ctc_loss(log_probs, *arguments, reduction="none")
    assert loss[0] == math.inf and loss[1] < math.inf
    loss.sum().backward()
    assert log_probs.grad[:, 0].isnan().all() and log_probs.grad[:, 1].isfinite().all()
    log_probs.grad = None
    ignored = ctc_loss(log_probs, *arguments, reduction="none", zero_infinity=True)
    assert ignored[0] == 0 and ignored[1] == loss[1]
    ignored.sum().backward()
    assert log_probs.grad[:, 0].abs().max() == 0 and log_probs.grad[:, 1].isfinite().all()


def test_no_steps_at_all():
    """The empty path collapses to the empty target, and to no other."""
    log_probs = log_probabilities(3, 3, 3).requires_grad_()
    loss = ctc_loss(
        log_probs, facula.tensor([[1], [1], [1]]), [0, 0, 3], [0, 1, 1], reduction="none"
    )
    assert loss.tolist()[:2] == [0, math.inf]
    assert loss[2].item() == pytest.approx(
        by_enumeration(log_probs.detach().numpy()[:, 2], [1], 3, 0)
    )
    loss[::2].sum().backward()
    assert not log_probs.grad[:, 0].any()


def test_one_sample_without_a_batch():
    log_probs = log_probabilities(4, 1, 3)
    one = ctc_loss(log_probs[:, 0], facula.tensor([1, 2]), 4, 2)
    assert one.item() == ctc_loss(log_probs, facula.tensor([[1, 2]]), (4,), (2,)).item()


def test_errors():
    log_probs = log_probabilities(4, 2, 3)
    targets = facula.tensor([[1, 2], [2, 1]])
    with pytest.raises(RuntimeError, match="input_lengths"):
        ctc_loss(log_probs, targets, (5, 4), (2, 2))
    with pytest.raises(RuntimeError, match="labels a row"):
        ctc_loss(log_probs, targets, (4, 4), (3, 2))
    with pytest.raises(RuntimeError, match="blank"):
        ctc_loss(log_probs, targets, (4, 4), (2, 2), blank=3)
    with pytest.raises(RuntimeError, match="target labels"):
        ctc_loss(log_probs, targets + 1, (4, 4), (2, 2))
    with pytest.raises(NotImplementedError, match="float32 or float64"):
        ctc_loss(log_probs.half(), targets, (4, 4), (2, 2))
    with pytest.raises(RuntimeError, match="first derivatives"):
        x = log_probs.clone().requires_grad_()
        loss = ctc_loss(x, targets, (4, 4), (2, 2))
        (grad,) = facula.autograd.grad(loss, x, create_graph=True)
        grad.sum().backward()


def test_shapes_without_elements():
    log_probs = log_probabilities(4, 2, 3).to("meta")
    padded = facula.empty(2, 2, dtype=facula.int64, device="meta")
    for targets in (padded, padded.reshape(-1)):
        assert ctc_loss(log_probs, targets, (4, 4), (2, 2), reduction="none").shape == (2,)


def test_padded_targets_compile_into_one_graph():
    log_probs = log_probabilities(4, 2, 3)
    arguments = (facula.tensor([[1, 2], [2, 1]]), facula.tensor([4, 3]), facula.tensor([2, 1]))
    compiled = facula.compile(lambda x, *rest: ctc_loss(x * 1, *rest), fullgraph=True)
    x, y = (log_probs.clone().requires_grad_() for _ in range(2))
    compiled(x, *arguments).backward()
    ctc_loss(y, *arguments).backward()
    assert facula.allclose(x.grad, y.grad)
    with pytest.raises(RuntimeError, match="target labels"):
        compiled(x, arguments[0] + 1, *arguments[1:])


def test_gradient_with_lengths_of_any_strides():
    """Lengths that are every second element of a tensor, against differences of the loss."""
    random = np.random.default_rng(6)
    values = random.standard_normal((5, 2, 4))
    targets = facula.tensor([[1, 2], [3, 3]])
    inputs, labels = facula.tensor([5, 9, 4])[::2], facula.tensor([2, 9, 1])[::2]

    def loss(x):
        return ctc_loss(x.log_softmax(-1), targets, inputs, labels, reduction="sum")

    x = facula.tensor(values).requires_grad_()
    loss(x).backward()
    wanted, step = np.empty_like(values), 1e-6
    for place in np.ndindex(values.shape):
        moved = [values.copy(), values.copy()]
        moved[0][place] += step
        moved[1][place] -= step
        high, low = (loss(facula.tensor(m)).item() for m in moved)
        wanted[place] = (high - low) / (2 * step)
    np.testing.assert_allclose(x.grad.numpy(), wanted, atol=1e-8)
