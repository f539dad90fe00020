"""Composites that record gradients: later calls run a noted list of operators, with the results of the first.

Takes: public composites, called several times with other tensors of the same shapes. Keeps true: results and gradients
are NumPy's, or follow from finite differences, whichever call it is; a call differs from another by what it is given.
"""

import threading
import warnings

import numpy as np
import pytest

import facula
import facula.nn.functional as F
from facula import core

CALLS = 5


def often(call):
    """What a call gives each time: the second is noted, the next are done from the list."""
    return [call(k) for k in range(CALLS)]


def numbers(seed, *shape):
    return np.random.default_rng(seed).standard_normal(shape)


def leaf(array):
    return facula.tensor(array, requires_grad=True)


def test_each_call_is_of_its_own_tensors():
    def call(k):
        x = leaf(numbers(k, 3, 8))
        y = F.glu(x)
        y.sum().backward()
        a, b = numbers(k, 3, 8)[:, :4], numbers(k, 3, 8)[:, 4:]
        s = 1 / (1 + np.exp(-b))
        np.testing.assert_allclose(y.detach().numpy(), a * s, rtol=1e-12)
        np.testing.assert_allclose(
            x.grad.numpy(), np.concatenate([s, a * s * (1 - s)], 1), rtol=1e-10
        )
        assert type(y.grad_fn).__name__ == "GluBackward0" or y.grad_fn.name() == "GluBackward0"

    often(call)


def test_numbers_among_the_arguments_are_those_of_the_call():
    for power in (1.0, 2.0, 3.0, 2.0, 1.0):
        x = leaf(numbers(1, 4, 5))
        y = F.normalize(x, p=power)
        raw = numbers(1, 4, 5)
        wanted = raw / (np.abs(raw) ** power).sum(1, keepdims=True) ** (1 / power)
        np.testing.assert_allclose(y.detach().numpy(), wanted, rtol=1e-10)


def test_one_tensor_for_two_arguments_is_no_two_tensors():
    """Gradients go to the tensor that was given, where another call gave one tensor twice."""

    def separate(k):
        a = leaf(numbers(k, 3, 4))
        b = a.view(3, 4)  # the same memory, another tensor
        F.cosine_similarity(a, b.detach()).sum().backward()
        return a.grad.numpy().copy()

    def same(k):
        a = leaf(numbers(k, 3, 4))
        F.cosine_similarity(a, a).sum().backward()
        return a.grad.numpy().copy()

    for k in range(CALLS):
        np.testing.assert_allclose(separate(k), np.zeros((3, 4)), atol=1e-12)
        np.testing.assert_allclose(same(k), np.zeros((3, 4)), atol=1e-12)
    for k in range(CALLS):
        a, b = leaf(numbers(k, 3, 4)), leaf(numbers(k + 9, 3, 4))
        F.cosine_similarity(a, b).sum().backward()
        x, y = numbers(k, 3, 4), numbers(k + 9, 3, 4)
        nx, ny = np.linalg.norm(x, axis=1)[:, None], np.linalg.norm(y, axis=1)[:, None]
        cosine = (x * y).sum(1)[:, None] / nx / ny
        np.testing.assert_allclose(a.grad.numpy(), y / nx / ny - cosine * x / nx**2, rtol=1e-9)


def test_running_statistics_are_written_each_time():
    mean, var = facula.zeros(4, dtype=facula.float64), facula.ones(4, dtype=facula.float64)
    weight = leaf(np.ones(4))
    m, v = np.zeros(4), np.ones(4)
    for k in range(6):
        x = numbers(k, 6, 4)
        F.batch_norm(facula.tensor(x), mean, var, weight, None, training=True, momentum=0.2)
        m = 0.8 * m + 0.2 * x.mean(0)
        v = 0.8 * v + 0.2 * x.var(0, ddof=1)
        np.testing.assert_allclose(mean.numpy(), m, rtol=1e-10)
        np.testing.assert_allclose(var.numpy(), v, rtol=1e-10)
    assert mean._version == var._version == 6


def test_sizes_that_elements_tell_are_those_of_the_call():
    for count in (3, 3, 3, 1, 0, 5):
        mask = np.zeros(6, bool)
        mask[:count] = True
        x = leaf(numbers(2, 6))
        y = facula.masked_select(x, facula.tensor(mask))
        y.sum().backward()
        np.testing.assert_array_equal(y.detach().numpy(), numbers(2, 6)[mask])
        np.testing.assert_array_equal(x.grad.numpy(), mask.astype(float))


def test_classes_out_of_range_are_refused_at_every_call():
    x = leaf(numbers(0, 3, 4))
    for target in ([0, 1, 2], [0, 1, 2], [3, 3, 3], [0, 4, 1], [0, 1, 2], [-1, 0, 0]):
        t = facula.tensor(target)
        if max(target) < 4 and min(target) >= 0:
            F.nll_loss(x, t)
            continue
        with pytest.raises((IndexError, RuntimeError)):
            F.nll_loss(x, t)


def test_random_numbers_are_new_at_every_call_and_follow_from_the_seed():
    x = leaf(np.ones(1000))
    facula.manual_seed(4)
    first = often(lambda k: F.alpha_dropout(x, 0.5, True).detach().numpy().copy())
    facula.manual_seed(4)
    again = often(lambda k: F.alpha_dropout(x, 0.5, True).detach().numpy().copy())
    for a, b in zip(first, again, strict=True):
        np.testing.assert_array_equal(a, b)
    assert not np.array_equal(first[1], first[2])


def test_hooks_on_saved_tensors_hear_of_every_call():
    def call(k):
        heard = []

        def pack(t):
            heard.append(tuple(t.shape))
            return t

        x = leaf(numbers(k, 2, 8))
        with facula.autograd.graph.saved_tensors_hooks(pack, lambda t: t):
            y = F.glu(x)
        y.sum().backward()
        return heard

    first, *later = often(call)
    assert first
    assert all(each == first for each in later)


def test_history_is_cut_at_every_call():
    """`detach_` changes the tensor and computes nothing: it is no list of operators."""
    for k in range(CALLS):
        x = leaf(numbers(k, 3)) * 2
        assert facula.detach_(x) is x
        assert x.grad_fn is None
        assert not x.requires_grad
        y = leaf(numbers(k, 3)) * 2
        with facula.no_grad():
            facula.detach_(y)
        assert not y.requires_grad


def test_a_tensor_changed_behind_a_saved_one_is_refused_at_every_call():
    for k in range(CALLS):
        x = leaf(numbers(k, 3, 8))
        z = x * 1.0
        y = F.glu(z)
        z.add_(1)
        with pytest.raises(RuntimeError, match="modified by an inplace operation"):
            y.sum().backward()


def test_switches_of_the_thread_are_those_of_the_call():
    x = leaf(numbers(0, 3, 8))
    for recording in (True, False, True, True, False):
        with facula.set_grad_enabled(recording):
            assert F.glu(x).requires_grad is recording
    with facula.inference_mode():
        assert F.glu(x).is_inference()
    y = F.glu(x)
    assert y.requires_grad
    assert not y.is_inference()


def test_threads_have_lists_of_their_own_under_way():
    wrong = []

    def work(seed):
        for k in range(200):
            x = leaf(numbers(seed + k, 3, 4 + seed))
            F.normalize(x, dim=1).sum().backward()
            raw = numbers(seed + k, 3, 4 + seed)
            norm = np.linalg.norm(raw, axis=1, keepdims=True)
            wanted = 1 / norm - raw * raw.sum(1, keepdims=True) / norm**3
            if not np.allclose(x.grad.numpy(), wanted, rtol=1e-8):
                wrong.append((seed, k))

    workers = [threading.Thread(target=work, args=(s,)) for s in range(4)]
    for w in workers:
        w.start()
    for w in workers:
        w.join()
    assert not wrong


def test_a_profiler_hears_the_same_operators_of_every_call():
    def call(k):
        x = leaf(numbers(k, 3, 8))
        with facula.profiler.profile() as run:
            F.glu(x)
        return sorted((e.key, e.count) for e in run.key_averages())

    first, *later = often(call)
    assert all(each == first for each in later)


def test_results_without_lists_are_the_same_compared_with_facula_itself():
    """With and without noted lists: a comparison of facula with itself, beside those with NumPy above."""

    def call(k):
        x = leaf(numbers(k, 2, 4, 6, 6))
        y = F.interpolate(F.instance_norm(x), scale_factor=2, mode="bilinear", align_corners=False)
        (y * y).sum().backward()
        return y.detach().numpy().copy(), x.grad.numpy().copy()

    listed = often(call)
    before = core.set_keeping(False)
    try:
        plain = often(call)
    finally:
        core.set_keeping(before)
    for a, b in zip(listed, plain, strict=True):
        np.testing.assert_array_equal(a[0], b[0])
        np.testing.assert_array_equal(a[1], b[1])


def test_second_derivatives_of_later_calls():
    for k in range(CALLS):
        x = leaf(numbers(k, 2, 6))
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            assert facula.autograd.gradgradcheck(F.glu, (x,))
