"""Oracles of optimizers: the steps that their papers describe, as PyTorch documents them, one array at a time.

Takes: for each optimizer its options, a parameter and the gradients of several steps, as arrays.
Gives: `STEPS`, by name a function `(p, gradients, **options)` that gives the parameter after the last step; `lbfgs`,
which takes a function and its gradient.
Keeps true: nothing here imports facula; states begin at zero.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy

STEPS: dict[str, Callable[..., Any]] = {}


def steps(function):
    """Enter an optimizer under its name."""
    STEPS[function.__name__] = function
    return function


def _decayed(p, g, weight_decay, maximize):
    """The gradient that is descended: reversed where asked for, with the decay of weights in it."""
    return (-g if maximize else g) + weight_decay * p


@steps
def SGD(
    p, gradients, lr=1e-3, momentum=0, dampening=0, weight_decay=0, nesterov=False, maximize=False
):
    buffer = None
    for g in gradients:
        g = _decayed(p, g, weight_decay, maximize)
        if momentum:
            buffer = g if buffer is None else momentum * buffer + (1 - dampening) * g
            g = g + momentum * buffer if nesterov else buffer
        p = p - lr * g
    return p


@steps
def Adam(
    p,
    gradients,
    lr=1e-3,
    betas=(0.9, 0.999),
    eps=1e-8,
    weight_decay=0,
    amsgrad=False,
    maximize=False,
    decoupled_weight_decay=False,
):
    m = v = largest = numpy.zeros_like(p)
    for t, g in enumerate(gradients, 1):
        if decoupled_weight_decay:
            p = p * (1 - lr * weight_decay)
        g = _decayed(p, g, 0 if decoupled_weight_decay else weight_decay, maximize)
        m = betas[0] * m + (1 - betas[0]) * g
        v = betas[1] * v + (1 - betas[1]) * g * g
        largest = numpy.maximum(largest, v) if amsgrad else v
        p = p - lr * (m / (1 - betas[0] ** t)) / (numpy.sqrt(largest / (1 - betas[1] ** t)) + eps)
    return p


@steps
def AdamW(p, gradients, weight_decay=1e-2, **options):
    return Adam(p, gradients, weight_decay=weight_decay, decoupled_weight_decay=True, **options)


@steps
def Adamax(p, gradients, lr=2e-3, betas=(0.9, 0.999), eps=1e-8, weight_decay=0, maximize=False):
    m = u = numpy.zeros_like(p)
    for t, g in enumerate(gradients, 1):
        g = _decayed(p, g, weight_decay, maximize)
        m = betas[0] * m + (1 - betas[0]) * g
        u = numpy.maximum(betas[1] * u, numpy.abs(g) + eps)
        p = p - lr / (1 - betas[0] ** t) * m / u
    return p


@steps
def NAdam(
    p,
    gradients,
    lr=2e-3,
    betas=(0.9, 0.999),
    eps=1e-8,
    weight_decay=0,
    momentum_decay=4e-3,
    decoupled_weight_decay=False,
    maximize=False,
):
    m = v = numpy.zeros_like(p)
    product = 1.0
    for t, g in enumerate(gradients, 1):
        if decoupled_weight_decay:
            p = p * (1 - lr * weight_decay)
        g = _decayed(p, g, 0 if decoupled_weight_decay else weight_decay, maximize)
        now, later = (betas[0] * (1 - 0.5 * 0.96 ** (s * momentum_decay)) for s in (t, t + 1))
        product *= now
        m = betas[0] * m + (1 - betas[0]) * g
        v = betas[1] * v + (1 - betas[1]) * g * g
        ahead = later * m / (1 - product * later) + (1 - now) * g / (1 - product)
        p = p - lr * ahead / (numpy.sqrt(v / (1 - betas[1] ** t)) + eps)
    return p


@steps
def RAdam(
    p,
    gradients,
    lr=1e-3,
    betas=(0.9, 0.999),
    eps=1e-8,
    weight_decay=0,
    decoupled_weight_decay=False,
    maximize=False,
):
    m = v = numpy.zeros_like(p)
    limit = 2 / (1 - betas[1]) - 1
    for t, g in enumerate(gradients, 1):
        if decoupled_weight_decay:
            p = p * (1 - lr * weight_decay)
        g = _decayed(p, g, 0 if decoupled_weight_decay else weight_decay, maximize)
        m = betas[0] * m + (1 - betas[0]) * g
        v = betas[1] * v + (1 - betas[1]) * g * g
        length = limit - 2 * t * betas[1] ** t / (1 - betas[1] ** t)
        step = m / (1 - betas[0] ** t)
        if length > 5:
            rectified = (length - 4) * (length - 2) * limit / ((limit - 4) * (limit - 2) * length)
            step = (
                step * math.sqrt(rectified) * math.sqrt(1 - betas[1] ** t) / (numpy.sqrt(v) + eps)
            )
        p = p - lr * step
    return p


@steps
def RMSprop(
    p,
    gradients,
    lr=1e-2,
    alpha=0.99,
    eps=1e-8,
    weight_decay=0,
    momentum=0,
    centered=False,
    maximize=False,
):
    v = mean = buffer = numpy.zeros_like(p)
    for g in gradients:
        g = _decayed(p, g, weight_decay, maximize)
        v = alpha * v + (1 - alpha) * g * g
        mean = alpha * mean + (1 - alpha) * g
        spread = v - mean**2 if centered else v
        buffer = momentum * buffer + g / (numpy.sqrt(spread) + eps)
        p = p - lr * buffer
    return p


@steps
def Adagrad(
    p,
    gradients,
    lr=1e-2,
    lr_decay=0,
    weight_decay=0,
    initial_accumulator_value=0,
    eps=1e-10,
    maximize=False,
):
    total = numpy.full_like(p, initial_accumulator_value)
    for t, g in enumerate(gradients):
        g = _decayed(p, g, weight_decay, maximize)
        total = total + g * g
        p = p - lr / (1 + t * lr_decay) * g / (numpy.sqrt(total) + eps)
    return p


@steps
def Adadelta(p, gradients, lr=1.0, rho=0.9, eps=1e-6, weight_decay=0, maximize=False):
    squares = moved = numpy.zeros_like(p)
    for g in gradients:
        g = _decayed(p, g, weight_decay, maximize)
        squares = rho * squares + (1 - rho) * g * g
        step = numpy.sqrt(moved + eps) / numpy.sqrt(squares + eps) * g
        moved = rho * moved + (1 - rho) * step * step
        p = p - lr * step
    return p


@steps
def Rprop(p, gradients, lr=1e-2, etas=(0.5, 1.2), step_sizes=(1e-6, 50), maximize=False):
    before, size = numpy.zeros_like(p), numpy.full_like(p, lr)
    p = p.copy()
    for g in gradients:
        g = -g if maximize else g.copy()
        for place in numpy.ndindex(p.shape):
            turn = g[place] * before[place]
            factor = etas[1] if turn > 0 else etas[0] if turn < 0 else 1.0
            size[place] = min(max(size[place] * factor, step_sizes[0]), step_sizes[1])
            if turn < 0:
                g[place] = 0
            p[place] -= numpy.sign(g[place]) * size[place]
        before = g
    return p


@steps
def ASGD(p, gradients, lr=1e-2, lambd=1e-4, alpha=0.75, t0=1e6, weight_decay=0, maximize=False):
    eta = lr
    for t, g in enumerate(gradients, 1):
        g = _decayed(p, g, weight_decay, maximize)
        p = p * (1 - lambd * eta) - eta * g
        eta = lr / (1 + lambd * lr * t) ** alpha
    return p


@steps
def Adafactor(
    p,
    gradients,
    lr=1e-2,
    beta2_decay=-0.8,
    eps=(None, 1e-3),
    d=1.0,
    weight_decay=0.0,
    maximize=False,
):
    tiny = numpy.finfo(p.dtype).eps if eps[0] is None else eps[0]
    row = column = whole = 0.0
    for t, g in enumerate(gradients, 1):
        g = -g if maximize else g
        fresh = t**beta2_decay
        size = max(eps[1], math.sqrt((p**2).mean())) * min(lr, 1 / math.sqrt(t))
        p = p * (1 - lr * weight_decay)
        if p.ndim > 1:
            row = (1 - fresh) * row + fresh * (g * g).mean(-1)
            column = (1 - fresh) * column + fresh * (g * g).mean(-2)
            variance = (
                row[..., :, None]
                * column[..., None, :]
                / numpy.maximum(row.mean(-1), tiny)[..., None, None]
            )
        else:
            variance = whole = (1 - fresh) * whole + fresh * g * g
        update = g / numpy.sqrt(numpy.maximum(variance, tiny**2))
        p = p - size * update / max(1.0, math.sqrt((update**2).mean()) / d)
    return p


def sparse_adam(p, gradients, lr=1e-3, betas=(0.9, 0.999), eps=1e-8, maximize=False):
    """Adam whose moments move in the rows of a gradient only; gradients are pairs of rows and their values."""
    p, m, v = p.copy(), numpy.zeros_like(p), numpy.zeros_like(p)
    for t, (rows, values) in enumerate(gradients, 1):
        for row, g in zip(rows, -values if maximize else values, strict=True):
            m[row] = betas[0] * m[row] + (1 - betas[0]) * g
            v[row] = betas[1] * v[row] + (1 - betas[1]) * g * g
            rate = lr * math.sqrt(1 - betas[1] ** t) / (1 - betas[0] ** t)
            p[row] -= rate * m[row] / (numpy.sqrt(v[row]) + eps)
    return p


def muon(
    p,
    gradients,
    lr=1e-3,
    weight_decay=0.1,
    momentum=0.95,
    nesterov=True,
    ns_coefficients=(3.4445, -4.775, 2.0315),
    ns_steps=5,
    adjust_lr_fn=None,
):
    """Momentum whose steps have singular values near one, by an odd polynomial that is applied several times."""
    a, b, c = ns_coefficients
    buffer = numpy.zeros_like(p)
    rows, columns = p.shape
    scale = (
        0.2 * math.sqrt(max(rows, columns))
        if adjust_lr_fn == "match_rms_adamw"
        else math.sqrt(max(1, rows / columns))
    )
    for g in gradients:
        buffer = momentum * buffer + (1 - momentum) * g
        x = momentum * buffer + (1 - momentum) * g if nesterov else buffer
        x = x.T if rows > columns else x
        x = x / numpy.linalg.norm(x)
        for _ in range(ns_steps):
            square = x @ x.T
            x = a * x + (b * square + c * square @ square) @ x
        p = p * (1 - lr * weight_decay) - lr * scale * (x.T if rows > columns else x)
    return p


def lbfgs(
    x,
    gradient,
    calls,
    lr=1.0,
    max_iter=20,
    history_size=100,
    tolerance_grad=1e-7,
    tolerance_change=1e-9,
):
    """Points after each call of `step`, without a line search: the two loops over the pairs that are kept."""
    pairs, found = [], []
    direction = before = None
    for _ in range(calls):
        g, evaluations = gradient(x), 1
        for iteration in range(max_iter):
            if iteration and evaluations >= max_iter * 5 // 4:
                break
            if numpy.abs(g).max() <= tolerance_grad:
                break
            first = direction is None
            if first:
                direction, rate = -g, min(1.0, 1 / numpy.abs(g).sum()) * lr
            else:
                change = g - before
                if change @ (direction * rate) > 1e-10:
                    pairs = [*pairs, (direction * rate, change)][-history_size:]
                direction, rate = -_inverse_hessian(pairs, g), lr
            before = g
            if g @ direction > -tolerance_change:
                break
            x = x + rate * direction
            g, evaluations = gradient(x), evaluations + 1
            if numpy.abs(rate * direction).max() <= tolerance_change:
                break
        found.append(x)
    return found


def _inverse_hessian(pairs, g):
    """The BFGS approximation as a matrix, built one pair after the other, times a vector."""
    if not pairs:
        return g
    s, y = pairs[-1]
    h = (s @ y) / (y @ y) * numpy.eye(len(g))
    for s, y in pairs:
        rho = 1 / (s @ y)
        left = numpy.eye(len(g)) - rho * numpy.outer(s, y)
        h = left @ h @ left.T + rho * numpy.outer(s, s)
    return h @ g
