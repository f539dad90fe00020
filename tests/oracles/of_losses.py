"""Oracles of losses: their formulas in NumPy, one element or one row at a time; and of attention."""

import itertools
import math

import numpy
import scipy.special
from oracle_table import call, oracle


def reduced(values, reduction="mean", size_average=None, reduce=None):
    values = numpy.asarray(values)
    if size_average is not None or reduce is not None:
        reduction = "none" if reduce is False else "sum" if size_average is False else "mean"
    return (
        values
        if reduction == "none"
        else numpy.asarray(values.sum() if reduction == "sum" else values.mean())
    )


REDUCTIONS = ("mean", "sum", "none")


def _pairs(shape=(3, 4), **more):
    def samples(S):
        return [call(S(*shape), S(*shape), reduction=r, **more) for r in REDUCTIONS]

    return samples


def _elementwise(loss):
    """A loss of an element and its target, with PyTorch's older and newer ways to say the reduction."""

    def value(
        a, target, *, weight=None, size_average=None, reduce=None, reduction="mean", **options
    ):
        values = loss(a, target, **options)
        if weight is not None:
            values = values * weight
            if reduction == "mean" and size_average is None and reduce is None:
                return numpy.asarray(values.sum() / numpy.broadcast_to(weight, values.shape).sum())
        return reduced(values, reduction, size_average, reduce)

    return value


_SQUARES = _elementwise(lambda a, b: (a - b) ** 2)
_LENGTHS = _elementwise(lambda a, b: numpy.abs(a - b))


def _weighted(S):
    return [
        *_pairs()(S),
        call(S(3, 4), S(3, 4), size_average=False),
        call(S(3, 4), S(3, 4), reduce=False),
        call(S(3, 4), S(3, 4), weight=S(3, 4, low=0.1)),
    ]


oracle("mse_loss", kind="numpy", samples=_weighted)(_SQUARES)
oracle("l1_loss", kind="numpy", samples=_weighted)(_LENGTHS)


def _smooth(a, b, beta=1.0):
    gap = numpy.abs(a - b)
    return numpy.where(gap < beta, 0.5 * gap**2 / (beta or 1), gap - 0.5 * beta)


def _huber(a, b, delta=1.0):
    gap = numpy.abs(a - b)
    return numpy.where(gap <= delta, 0.5 * gap**2, delta * (gap - 0.5 * delta))


oracle(
    "smooth_l1_loss",
    kind="numpy",
    samples=lambda S: [
        *_pairs()(S),
        call(S(3, 4), S(3, 4), beta=0.3),
        call(S(3, 4), S(3, 4), beta=0.0),
    ],
)(_elementwise(_smooth))
oracle(
    "huber_loss", kind="numpy", samples=lambda S: [*_pairs()(S), call(S(3, 4), S(3, 4), delta=0.3)]
)(_elementwise(_huber))


def _logits(a, target, pos_weight=None):
    p = scipy.special.expit(a)
    return -(
        (1 if pos_weight is None else pos_weight) * target * numpy.log(p)
        + (1 - target) * numpy.log(1 - p)
    )


def _probabilities(S, *shape):
    return S(*shape, low=0.05, high=0.95)


def _by_weight(loss):
    """A loss whose mean divides by the number of elements, whatever their weights are."""

    def value(a, target, weight=None, size_average=None, reduce=None, reduction="mean", **options):
        values = loss(a, target, **options)
        return reduced(
            values if weight is None else values * weight, reduction, size_average, reduce
        )

    return value


oracle(
    "binary_cross_entropy_with_logits",
    kind="scipy",
    factor=64,
    samples=lambda S: [
        *[call(S(3, 4), _probabilities(S, 3, 4), reduction=r) for r in REDUCTIONS],
        call(S(3, 4), _probabilities(S, 3, 4), S(4, low=0.1)),
        call(S(3, 4), _probabilities(S, 3, 4), pos_weight=S(4, low=0.1)),
    ],
)(_by_weight(_logits))
oracle(
    "binary_cross_entropy",
    kind="numpy",
    factor=64,
    samples=lambda S: [
        *[call(_probabilities(S, 3, 4), _probabilities(S, 3, 4), reduction=r) for r in REDUCTIONS],
        call(_probabilities(S, 3, 4), _probabilities(S, 3, 4), S(3, 1, low=0.1)),
    ],
)(_by_weight(lambda p, t: -(t * numpy.log(p) + (1 - t) * numpy.log(1 - p))))


def _poisson(a, target, log_input=True, full=False, eps=1e-8):
    made = numpy.exp(a) - target * a if log_input else a - target * numpy.log(a + eps)
    if full:
        big = numpy.where(target > 1, target, 2.0)
        made = made + numpy.where(
            target > 1, big * numpy.log(big) - big + 0.5 * numpy.log(2 * numpy.pi * big), 0
        )
    return made


@oracle(
    "poisson_nll_loss",
    kind="numpy",
    factor=64,
    samples=lambda S: [
        *[call(S(3, 4), S(3, 4, low=0, high=5), reduction=r) for r in REDUCTIONS],
        call(S(3, 4, low=0.1), S(3, 4, low=0, high=5), False),
        call(S(3, 4), S(3, 4, low=0, high=5), full=True),
    ],
)
def poisson(
    a,
    target,
    log_input=True,
    full=False,
    size_average=None,
    eps=1e-8,
    reduce=None,
    reduction="mean",
):
    return reduced(_poisson(a, target, log_input, full, eps), reduction, size_average, reduce)


@oracle(
    "gaussian_nll_loss",
    kind="numpy",
    factor=64,
    empty=False,
    samples=lambda S: [
        *[call(S(3, 4), S(3, 4), S(3, 4, low=0.1), reduction=r) for r in REDUCTIONS],
        call(S(3, 4), S(3, 4), S(3, 1, low=0.1), True),
        call(S(3, 4), S(3, 4), S(3, low=0.1)),
        call(S(3, 4), S(3, 4), S(3, 4, low=0), eps=0.5),
    ],
)
def gaussian(a, target, var, full=False, eps=1e-6, reduction="mean"):
    var = numpy.maximum(var if var.ndim == a.ndim else var[..., None], eps)
    made = 0.5 * (numpy.log(var) + (a - target) ** 2 / var)
    return reduced(made + (0.5 * numpy.log(2 * numpy.pi) if full else 0), reduction)


@oracle(
    "kl_div",
    kind="numpy",
    samples=lambda S: [
        *[call(S(3, 4), _probabilities(S, 3, 4), reduction=r) for r in (*REDUCTIONS, "batchmean")],
        call(S(3, 4), S(3, 4), log_target=True),
    ],
    empty=False,
)
def divergence(a, target, size_average=None, reduce=None, reduction="mean", log_target=False):
    made = (
        numpy.exp(target) * (target - a)
        if log_target
        else scipy.special.xlogy(target, target) - target * a
    )
    if reduction == "batchmean":
        return numpy.asarray(made.sum() / len(a))
    return reduced(made, reduction, size_average, reduce)


def _signs(S, *shape):
    return S.of(numpy.sign(S(*shape).numpy()))


oracle(
    "soft_margin_loss",
    kind="numpy",
    samples=lambda S: [call(S(3, 4), _signs(S, 3, 4), reduction=r) for r in REDUCTIONS],
)(_elementwise(lambda a, t: numpy.log(1 + numpy.exp(-t * a))))
oracle(
    "hinge_embedding_loss",
    kind="numpy",
    expanded=False,
    samples=lambda S: [
        *[call(S(3, 4), _signs(S, 3, 4), reduction=r) for r in REDUCTIONS],
        call(S(3, 4), _signs(S, 3, 4), margin=0.3),
    ],
)(_elementwise(lambda a, t, margin=1.0: numpy.where(t == 1, a, numpy.maximum(margin - a, 0))))


def _cosines(a, b):
    return (a * b).sum(-1) / numpy.sqrt(((a * a).sum(-1) + 1e-12) * ((b * b).sum(-1) + 1e-12))


@oracle(
    "cosine_embedding_loss",
    kind="numpy",
    factor=64,
    empty=False,
    samples=lambda S: [
        *[call(S(3, 4), S(3, 4), _signs(S, 3), reduction=r) for r in REDUCTIONS],
        call(S(3, 4), S(3, 4), _signs(S, 3), 0.2),
        call(S(4), S(4), S.of(-1.0)),
    ],
)
def cosine_embedding(a, b, target, margin=0.0, size_average=None, reduce=None, reduction="mean"):
    c = _cosines(a, b)
    return reduced(
        numpy.where(target == 1, 1 - c, numpy.maximum(c - margin, 0)),
        reduction,
        size_average,
        reduce,
    )


@oracle(
    "margin_ranking_loss",
    kind="numpy",
    samples=lambda S: [
        *[call(S(5), S(5), _signs(S, 5), reduction=r) for r in REDUCTIONS],
        call(S(5), S(5), _signs(S, 5), 0.4),
    ],
)
def ranking(a, b, target, margin=0, size_average=None, reduce=None, reduction="mean"):
    return reduced(numpy.maximum(-target * (a - b) + margin, 0), reduction, size_average, reduce)


@oracle(
    "multi_margin_loss",
    kind="loop",
    empty=False,
    samples=lambda S: [
        *[call(S(3, 4), S.integers(0, 4, (3,)), reduction=r) for r in REDUCTIONS],
        call(S(3, 4), S.integers(0, 4, (3,)), 2, 0.5, S(4, low=0.1)),
        call(S(4), S.of(2)),
    ],
)
def multi_margin(
    a, target, p=1, margin=1.0, weight=None, size_average=None, reduce=None, reduction="mean"
):
    if a.ndim == 1:
        return reduced(
            multi_margin(a[None], target.reshape(1), p, margin, weight, reduction="sum"), reduction
        )
    made = []
    for row, t in zip(a, target, strict=True):
        terms = [max(0.0, margin - row[t] + x) ** p for i, x in enumerate(row) if i != t]
        made.append(sum(terms) / len(row) * (1 if weight is None else weight[t]))
    return reduced(made, reduction, size_average, reduce)


@oracle(
    "multilabel_margin_loss",
    kind="loop",
    empty=False,
    samples=lambda S: [
        call(S(2, 4), S.of([[3, 0, -1, 1], [1, -1, 2, 0]]), reduction=r) for r in REDUCTIONS
    ],
)
def multilabel_margin(a, target, size_average=None, reduce=None, reduction="mean"):
    made = []
    for row, targets in zip(a, target, strict=True):
        right = list(itertools.takewhile(lambda t: t >= 0, targets))
        made.append(
            sum(
                max(0.0, 1 - (row[t] - x))
                for t in right
                for i, x in enumerate(row)
                if i not in right
            )
            / len(row)
        )
    return reduced(made, reduction, size_average, reduce)


@oracle(
    "multilabel_soft_margin_loss",
    kind="scipy",
    factor=64,
    samples=lambda S: [
        *[call(S(3, 4), S.mask(3, 4).to(S.dtype), reduction=r) for r in REDUCTIONS],
        call(S(3, 4), S.mask(3, 4).to(S.dtype), S(4, low=0.1)),
    ],
)
def multilabel_soft(a, target, weight=None, size_average=None, reduce=None, reduction="mean"):
    made = _logits(a, target) * (1 if weight is None else weight)
    return reduced(made.mean(-1), reduction, size_average, reduce)


def _apart(a, b, p=2.0, eps=1e-6):
    return (numpy.abs(a - b + eps) ** p).sum(-1) ** (1 / p)


@oracle(
    "triplet_margin_loss",
    kind="numpy",
    factor=64,
    samples=lambda S: [
        *[call(S(3, 4), S(3, 4), S(3, 4), reduction=r) for r in REDUCTIONS],
        call(S(3, 4), S(3, 4), S(3, 4), 0.3, 1.0, 0.01, True),
    ],
)
def triplet(
    anchor,
    positive,
    negative,
    margin=1.0,
    p=2,
    eps=1e-6,
    swap=False,
    size_average=None,
    reduce=None,
    reduction="mean",
):
    far = _apart(anchor, negative, p, eps)
    if swap:
        far = numpy.minimum(far, _apart(positive, negative, p, eps))
    return reduced(
        numpy.maximum(_apart(anchor, positive, p, eps) - far + margin, 0),
        reduction,
        size_average,
        reduce,
    )


@oracle(
    "triplet_margin_with_distance_loss",
    kind="numpy",
    factor=64,
    samples=lambda S: [
        call(S(3, 4), S(3, 4), S(3, 4), margin=0.5, swap=swap, reduction=r)
        for r in REDUCTIONS
        for swap in (False, True)
    ],
)
def triplet_of_distance(
    anchor, positive, negative, distance_function=None, margin=1.0, swap=False, reduction="mean"
):
    return triplet(anchor, positive, negative, margin, swap=swap, reduction=reduction)


# classes


def _nll(logs, target, weight, ignore_index, reduction):
    """Minus the logarithm at each target, over classes in dimension 1."""
    weight = numpy.ones(logs.shape[min(1, logs.ndim - 1)]) if weight is None else weight
    if logs.ndim == 1:
        made = _nll(logs[None], target.reshape(1), weight, ignore_index, reduction)
        return made.reshape(()) if reduction == "none" else made
    made, total = numpy.zeros(target.shape), 0.0
    for place in numpy.ndindex(target.shape):
        t = target[place]
        if t != ignore_index:
            made[place] = -weight[t] * logs[(place[0], t, *place[1:])]
            total += weight[t]
    if reduction == "mean":
        return numpy.asarray(made.sum() / total)
    return reduced(made, reduction)


@oracle(
    "nll_loss",
    kind="loop",
    empty=False,
    samples=lambda S: [
        *[call(S(3, 4), S.integers(0, 4, (3,)), reduction=r) for r in REDUCTIONS],
        *[
            call(S(2, 4, 3), S.integers(0, 4, (2, 3)), S(4, low=0.1), reduction=r)
            for r in REDUCTIONS
        ],
        call(S(3, 4), S.of([1, 0, 3]), S(4, low=0.1), ignore_index=0),
        call(S(4), S.of(2)),
        call(S(2, 4, 3, 2), S.integers(0, 4, (2, 3, 2))),
    ],
)
def nll(
    a, target, weight=None, size_average=None, ignore_index=-100, reduce=None, reduction="mean"
):
    return _nll(a, target, weight, ignore_index, reduction)


@oracle(
    "functional_cross_entropy",
    kind="loop",
    factor=64,
    empty=False,
    samples=lambda S: [
        *[call(S(3, 4), S.integers(0, 4, (3,)), reduction=r) for r in REDUCTIONS],
        *[
            call(S(3, 4), S.integers(0, 4, (3,)), S(4, low=0.1), label_smoothing=0.3, reduction=r)
            for r in REDUCTIONS
        ],
        *[call(S(3, 4), S.rows_of_one(3, 4), S(4, low=0.1), reduction=r) for r in REDUCTIONS],
        call(S(2, 4, 3), S.integers(0, 4, (2, 3)), S(4, low=0.1)),
        call(S(3, 4), S.of([1, 0, 3]), ignore_index=0, label_smoothing=0.2),
        call(S(4), S.of(2)),
        call(S(3, 4), S.rows_of_one(3, 4), label_smoothing=0.1),
        call(S(2, 4, 3), S.integers(0, 4, (2, 3)), reduction="none"),
    ],
)
def cross_entropy(
    a,
    target,
    weight=None,
    size_average=None,
    ignore_index=-100,
    reduce=None,
    reduction="mean",
    label_smoothing=0.0,
):
    axis = min(1, a.ndim - 1)
    logs = scipy.special.log_softmax(a, axis)
    shape = [-1 if d == axis else 1 for d in range(a.ndim)]
    scale = numpy.ones(a.shape[axis]) if weight is None else weight
    if target.dtype.kind == "f":
        target = target * (1 - label_smoothing) + label_smoothing / a.shape[axis]
        made = -(target * logs * scale.reshape(shape)).sum(axis)
        return (
            numpy.asarray(made.sum() / (made.size if reduction == "mean" else 1))
            if reduction != "none"
            else made
        )
    plain = _nll(logs, target, weight, ignore_index, reduction)
    if not label_smoothing:
        return plain
    kept = target != ignore_index
    even = -(logs * scale.reshape(shape)).sum(axis) * kept
    if reduction == "mean":
        even = even.sum() / sum(scale[t] for t in target[kept])
    elif reduction == "sum":
        even = even.sum()
    return numpy.asarray((1 - label_smoothing) * plain + label_smoothing / a.shape[axis] * even)


# the same losses with the reduction as a number

NUMBERS = ("none", "mean", "sum")


def _numbered(loss, count, samples, **settings):
    """`loss` with its reduction, a number, behind `count` arguments."""

    def value(*given, reduction=1, **options):
        given, rest = given[:count], given[count:]
        return loss(*given, *rest, reduction=NUMBERS[reduction], **options)

    oracle(f"{loss.__name__}_by_number", kind="numpy", factor=64, samples=samples, **settings)(
        value
    )


def binary_cross_entropy_with_logits(a, target, weight=None, pos_weight=None, reduction="mean"):
    return reduced(_logits(a, target, pos_weight) * (1 if weight is None else weight), reduction)


def cosine_embedding_loss(a, b, target, margin=0.0, reduction="mean"):
    return cosine_embedding(a, b, target, margin, reduction=reduction)


def hinge_embedding_loss(a, target, margin=1.0, reduction="mean"):
    return reduced(numpy.where(target == 1, a, numpy.maximum(margin - a, 0)), reduction)


def kl_div(a, target, reduction="mean", log_target=False):
    return divergence(a, target, reduction=reduction, log_target=log_target)


def margin_ranking_loss(a, b, target, margin=0.0, reduction="mean"):
    return ranking(a, b, target, margin, reduction=reduction)


def triplet_margin_loss(
    anchor, positive, negative, margin=1.0, p=2.0, eps=1e-6, swap=False, reduction="mean"
):
    return triplet(anchor, positive, negative, margin, p, eps, swap, reduction=reduction)


_numbered(
    binary_cross_entropy_with_logits,
    2,
    lambda S: [
        call(S(3, 4), _probabilities(S, 3, 4), S(3, 4, low=0.1), S(4, low=0.1), reduction=r)
        for r in (0, 1, 2)
    ],
)
_numbered(
    cosine_embedding_loss,
    3,
    lambda S: [call(S(3, 4), S(3, 4), _signs(S, 3), 0.2, reduction=r) for r in (0, 1, 2)],
    empty=False,
)
_numbered(
    hinge_embedding_loss,
    2,
    lambda S: [call(S(3, 4), _signs(S, 3, 4), 0.5, reduction=r) for r in (0, 1, 2)],
    expanded=False,
)
_numbered(
    kl_div,
    2,
    lambda S: [
        *[call(S(3, 4), _probabilities(S, 3, 4), reduction=r) for r in (0, 1, 2)],
        call(S(3, 4), S(3, 4), log_target=True),
    ],
)
_numbered(
    margin_ranking_loss,
    3,
    lambda S: [call(S(5), S(5), _signs(S, 5), 0.2, reduction=r) for r in (0, 1, 2)],
)
_numbered(
    triplet_margin_loss,
    3,
    lambda S: [call(S(3, 4), S(3, 4), S(3, 4), 0.7, swap=True, reduction=r) for r in (0, 1, 2)],
)


@oracle(
    "poisson_nll_loss_by_number",
    kind="numpy",
    factor=64,
    samples=lambda S: [
        call(S(3, 4), S(3, 4, low=0, high=5), r > 0, r > 1, 1e-8, r) for r in (1, 2)
    ],
)
def poisson_by_number(a, target, log_input, full, eps, reduction):
    return reduced(_poisson(a, target, log_input, full, eps), NUMBERS[reduction])


# sequences


def _alignments(target, blank, time):
    """Every sequence of labels of a length that reads as the target."""
    labels = sorted({*target, blank})
    for path in itertools.product(labels, repeat=time):
        if [k for k, _ in itertools.groupby(path) if k != blank] == list(target):
            yield path


@oracle(
    "ctc_loss",
    kind="loop",
    factor=256,
    empty=False,
    expanded=False,
    samples=lambda S: [
        *[
            call(S.logarithms(5, 2, 4), S.of([[1, 2], [3, 3]]), [5, 4], [2, 2], reduction=r)
            for r in REDUCTIONS
        ],
        call(S.logarithms(4, 2, 3), S.of([1, 2, 1]), S.of([4, 3]), S.of([2, 1])),
        call(S.logarithms(4, 2, 3), S.of([[0, 1], [1, 1]]), [4, 4], [2, 1], 2),
        call(S.logarithms(4, 3), S.of([1, 2]), [4], [2]),
        call(S.logarithms(3, 1, 3), S.of([[1, 1, 2]]), [3], [3], zero_infinity=True),
        call(S.logarithms(4, 2, 3), S.of([[1, 2], [1, 1]]), [4, 4], [2, 0]),
    ],
)
def ctc(
    logs, targets, input_lengths, target_lengths, blank=0, reduction="mean", zero_infinity=False
):
    if logs.ndim == 2:
        return reduced(
            ctc(logs[:, None], targets[None], input_lengths, target_lengths, blank, "none")[0]
            / (max(target_lengths[0], 1) if reduction == "mean" else 1),
            reduction,
        )
    made, start = [], 0
    for n, (time, length) in enumerate(zip(input_lengths, target_lengths, strict=True)):
        target = targets[n, :length] if targets.ndim == 2 else targets[start : start + length]
        start += length
        total = sum(
            math.exp(sum(logs[t, n, k] for t, k in enumerate(path)))
            for path in _alignments(target.tolist(), blank, int(time))
        )
        loss = -math.log(total) if total else (0.0 if zero_infinity else math.inf)
        made.append(loss)
    if reduction == "mean":
        return numpy.asarray(
            numpy.mean([m / max(int(n), 1) for m, n in zip(made, target_lengths, strict=True)])
        )
    return reduced(made, reduction)


@oracle(
    "scaled_dot_product_attention",
    kind="loop",
    factor=128,
    empty=False,
    samples=lambda S: [
        call(S(2, 3, 5, 4), S(2, 3, 7, 4), S(2, 3, 7, 6)),
        call(S(2, 5, 4), S(2, 5, 4), S(2, 5, 4), is_causal=True),
        call(S(2, 3, 5, 4), S(2, 3, 7, 4), S(2, 3, 7, 4), S(5, 7)),
        call(S(2, 3, 5, 4), S(2, 3, 7, 4), S(2, 3, 7, 4), S.of(numpy.tri(5, 7) > 0)),
        call(S(5, 4), S(7, 4), S(7, 4), scale=0.3),
        call(S(1, 4, 5, 8), S(1, 2, 7, 8), S(1, 2, 7, 8), enable_gqa=True),
    ],
)
def attention(
    query, key, value, attn_mask=None, dropout_p=0.0, is_causal=False, scale=None, enable_gqa=False
):
    if enable_gqa:
        key, value = (numpy.repeat(v, query.shape[-3] // v.shape[-3], -3) for v in (key, value))
    made = numpy.empty((*query.shape[:-1], value.shape[-1]))
    for place in numpy.ndindex(query.shape[:-1]):
        *batch, row = place
        batch = tuple(batch)
        scores = key[batch] @ query[place] * (query.shape[-1] ** -0.5 if scale is None else scale)
        if is_causal:
            scores[row + 1 :] = -numpy.inf
        if attn_mask is not None:
            mask = numpy.broadcast_to(attn_mask, (*query.shape[:-1], key.shape[-2]))[place]
            scores = numpy.where(mask, scores, -numpy.inf) if mask.dtype == bool else scores + mask
        powers = numpy.exp(scores - scores.max())
        made[place] = powers @ value[batch] / powers.sum()
    return made


@oracle(
    "_native_multi_head_attention",
    kind="loop",
    factor=256,
    empty=False,
    samples=lambda S: [
        call(*(S(2, n, 4) for n in (3, 5, 5)), 4, 2, *_projections(S)),
        call(*(S(2, 3, 4) for _ in range(3)), 4, 2, *_projections(S), average_attn_weights=False),
        call(*(S(2, n, 4) for n in (3, 5, 5)), 4, 2, *_projections(S), S.of(numpy.tri(3, 5) == 0),
             mask_type=0),
        call(*(S(2, n, 4) for n in (3, 5, 5)), 4, 1, *_projections(S),
             S.of(numpy.array([[0, 1, 0, 0, 1], [0, 0, 0, 1, 1]]) > 0), mask_type=1),
    ],
)  # fmt: skip
def native_attention(
    query, key, value, embed_dim, num_head, qkv_weight, qkv_bias, proj_weight, proj_bias, mask=None,
    need_weights=True, average_attn_weights=True, mask_type=None,
):  # fmt: skip
    wide, size = embed_dim // num_head, embed_dim
    q, k, v = (
        x @ qkv_weight[i * size : (i + 1) * size].T + qkv_bias[i * size : (i + 1) * size]
        for i, x in enumerate((query, key, value))
    )
    made = numpy.empty(query.shape)
    weights = numpy.empty((len(query), num_head, query.shape[1], key.shape[1]))
    for b, h, row in numpy.ndindex(weights.shape[:3]):
        part = slice(h * wide, (h + 1) * wide)
        scores = k[b, :, part] @ q[b, row, part] / wide**0.5
        if mask is not None:
            scores = numpy.where(mask[b] if mask_type == 1 else mask[row], -numpy.inf, scores)
        powers = numpy.exp(scores - scores.max())
        weights[b, h, row] = powers / powers.sum()
        made[b, row, part] = weights[b, h, row] @ v[b, :, part]
    return made @ proj_weight.T + proj_bias, weights.mean(1) if average_attn_weights else weights


def _projections(S):  # noqa: N803 - as in all samples
    return S(12, 4), S(12), S(4, 4), S(4)
