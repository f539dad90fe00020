"""Oracles of recurrent layers and of attention with heads: loops over time; weights by PyTorch's names."""

import numpy


def sigmoid(x):
    return 1 / (1 + numpy.exp(-x))


def gates(x, h, w, suffix):
    """The two affine maps of a cell, of its input and of its state."""

    def affine(v, name):
        made = v @ w[f"weight_{name}{suffix}"].T
        return made + w.get(f"bias_{name}{suffix}", 0)

    return affine(x, "ih"), affine(h, "hh")


def rnn(x, state, w, suffix="", nonlinearity="tanh"):
    a, b = gates(x, state[0], w, suffix)
    return (numpy.tanh(a + b) if nonlinearity == "tanh" else numpy.maximum(a + b, 0),)


def gru(x, state, w, suffix=""):
    a, b = (numpy.split(v, 3, -1) for v in gates(x, state[0], w, suffix))
    reset, update = sigmoid(a[0] + b[0]), sigmoid(a[1] + b[1])
    new = numpy.tanh(a[2] + reset * b[2])
    return ((1 - update) * new + update * state[0],)


def lstm(x, state, w, suffix=""):
    h, c = state
    a, b = gates(x, h, w, suffix)
    i, f, g, o = numpy.split(a + b, 4, -1)
    c = sigmoid(f) * c + sigmoid(i) * numpy.tanh(g)
    h = sigmoid(o) * numpy.tanh(c)
    if f"weight_hr{suffix}" in w:
        h = h @ w[f"weight_hr{suffix}"].T
    return h, c


def layers(cell, x, states, w, count, both_ways, **options):
    """Outputs of the last layer and the last states of all, of inputs [time, batch, features]."""
    ends = []
    for layer in range(count):
        made = []
        for way in ("", "_reverse")[: 1 + both_ways]:
            state = [s[len(ends)] for s in states]
            order = range(len(x))
            outputs = [None] * len(x)
            for t in reversed(order) if way else order:
                state = cell(x[t], state, w, f"_l{layer}{way}", **options)
                outputs[t] = state[0]
            made.append(numpy.stack(outputs))
            ends.append(state)
        x = numpy.concatenate(made, -1)
    return x, [numpy.stack([end[k] for end in ends]) for k in range(len(states))]


def heads(query, key, value, w, count, mask=None):
    """Attention with heads of [time, batch, features], and the mean of the heads' weights."""
    size = query.shape[-1]
    parts = zip(
        (query, key, value),
        numpy.split(w["in_proj_weight"], 3),
        numpy.split(w["in_proj_bias"], 3),
        strict=True,
    )
    q, k, v = (x @ m.T + b for x, m, b in parts)
    made, weights = numpy.zeros(query.shape), numpy.zeros((query.shape[1], len(query), len(key)))
    for batch in range(query.shape[1]):
        for head in range(count):
            own = slice(head * size // count, (head + 1) * size // count)
            scores = q[:, batch, own] @ k[:, batch, own].T / numpy.sqrt(size / count)
            scores = scores if mask is None else numpy.where(mask, -numpy.inf, scores)
            powers = numpy.exp(scores - scores.max(-1, keepdims=True))
            powers /= powers.sum(-1, keepdims=True)
            made[:, batch, own] = powers @ v[:, batch, own]
            weights[batch] += powers / count
    return made @ w["out_proj.weight"].T + w["out_proj.bias"], weights
