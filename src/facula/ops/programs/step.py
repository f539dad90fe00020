"""Optimizer steps as scalar programs over one element of (parameter, gradient, state ...).

Takes: the scalar language; nothing else.
Gives: `STEP_PROGRAMS`, filled by `@step_program`, and `trace_step`.
Keeps true: a step is a function of one element and of values that are the same for the whole
tensor; arithmetic is in the compute dtype (f32 for half precision), step counts and bias
corrections in f64.

A body takes its operands by name and returns the new value of each operand that changes, by name.
`scalars` are zero-dimensional f32 states of a tensor (its step count, say); the body sees the new
value that `update` gives them as `name`, and the old as `name_old`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from facula.ops.expr import scalar
from facula.ops.expr.rows import COMPUTE, FLOAT_STORAGE, TEMPORARY
from facula.ops.expr.scalar import Scalar, cast, constant, where

Values = dict[str, Any]


@dataclass(frozen=True, slots=True)
class StepProgram:
    """An entry of the table: pointers of one tensor are `operands`, then `scalars`; `s` holds
    `parameters`."""

    name: str
    body: Callable[..., Values]
    operands: tuple[str, ...]
    scalars: tuple[str, ...]
    parameters: tuple[str, ...]
    update: Callable[[Values], Values]


@dataclass(frozen=True, slots=True)
class TracedStep:
    """A step as expressions: operand k is `input(k)`, scalar k is `input(TEMPORARY + k)` (its old
    value)."""

    results: tuple[tuple[int, Scalar], ...]
    scalars: tuple[tuple[int, Scalar], ...]
    compute: str


STEP_PROGRAMS: dict[str, StepProgram] = {}
DTYPES = FLOAT_STORAGE


def count_step(values: Values) -> Values:
    """The usual update of scalars: the step count goes up by one."""
    return {"step": values["step"] + 1.0}


def step_program(
    name: str,
    operands: str,
    parameters: str,
    scalars: str = "",
    update: Callable[[Values], Values] = count_step,
    **attributes: Any,
) -> Callable[[Callable[..., Values]], Callable[..., Values]]:
    """Enter a step into the table; `attributes` are bound, so that one body serves several
    variants."""

    def enter(body: Callable[..., Values]) -> Callable[..., Values]:
        def bound(**values: object) -> Values:
            return body(**values, **attributes)

        STEP_PROGRAMS[name] = StepProgram(
            name,
            bound,
            tuple(operands.split()),
            tuple(scalars.split()),
            tuple(parameters.split()),
            update,
        )
        return body

    return enter


def trace_step(program: StepProgram, storage: str) -> TracedStep:
    """Run a step's body for one storage dtype."""
    compute = COMPUTE[storage]
    values: Values = {name: scalar.parameter(name, "f64") for name in program.parameters}
    old = {
        name: cast(scalar.input(TEMPORARY + k, "f32"), "f64")
        for k, name in enumerate(program.scalars)
    }
    new = old | (program.update(values | old) if program.scalars else {})
    for name in program.scalars:
        values |= {name: new[name], f"{name}_old": old[name]}
    tensors = {name: scalar.input(k, compute) for k, name in enumerate(program.operands)}
    changed = program.body(**tensors, **values)
    results = tuple(
        (program.operands.index(name), cast(value, compute)) for name, value in changed.items()
    )
    updates = tuple(
        (k, cast(new[name], "f32"))
        for k, name in enumerate(program.scalars)
        if new[name] is not old[name]
    )
    return TracedStep(results, updates, compute)


def narrow(value: Scalar, like: Scalar) -> Scalar:
    """A per-tensor value in the compute dtype of an operand."""
    return cast(value, like.dtype)


def decayed(gradient: Scalar, parameter: Scalar, weight_decay: Scalar) -> Scalar:
    """The gradient with L2 decay; without decay the parameter has no part, infinite or not."""
    off = cast(weight_decay, "f64") == 0.0
    return where(off, gradient, gradient + weight_decay * parameter)


def toward(old: Scalar, new: Scalar, weight: Any) -> Scalar:
    """`old + weight * (new - old)`."""
    return old + weight * (new - old)


def _with_decay(
    param: Scalar, grad: Scalar, weight_decay: Scalar, decoupled: Scalar | None
) -> tuple[Scalar, Scalar]:
    """Parameter and gradient after L2 decay, or after `decoupled`, the part that a parameter loses."""
    if decoupled is None:
        return param, decayed(grad, param, weight_decay)
    return param * (1.0 - decoupled), grad


def _moments(
    grad: Scalar, exp_avg: Scalar, exp_avg_sq: Scalar, beta1: Scalar, beta2: Scalar
) -> tuple[Scalar, Scalar]:
    """The running means of g and of g^2 after a step."""
    return toward(exp_avg, grad, 1.0 - beta1), exp_avg_sq * beta2 + grad * grad * (1.0 - beta2)


# --- stochastic gradient descent


@step_program("sgd", "param grad", "lr momentum dampening weight_decay sign", kind="plain")
@step_program(
    "sgd.first", "param grad buffer", "lr momentum dampening weight_decay sign", kind="first"
)
@step_program(
    "sgd.momentum", "param grad buffer", "lr momentum dampening weight_decay sign", kind="momentum"
)
@step_program(
    "sgd.first.nesterov",
    "param grad buffer",
    "lr momentum dampening weight_decay sign",
    kind="first",
    nesterov=True,
)
@step_program(
    "sgd.momentum.nesterov",
    "param grad buffer",
    "lr momentum dampening weight_decay sign",
    kind="momentum",
    nesterov=True,
)
def sgd(
    param: Scalar,
    grad: Scalar,
    lr: Scalar,
    momentum: Scalar,
    dampening: Scalar,
    weight_decay: Scalar,
    sign: Scalar,
    kind: str,
    nesterov: bool = False,
    buffer: Scalar | None = None,
) -> Values:
    """[Sutskever et al. 2013]; the first step starts the buffer with the gradient."""
    grad = decayed(grad * sign, param, weight_decay)
    if kind == "plain":
        return {"param": param - lr * grad}
    buffer = grad if kind == "first" else momentum * buffer + (1.0 - dampening) * grad
    direction = grad + momentum * buffer if nesterov else buffer
    return {"param": param - lr * direction, "buffer": buffer}


# --- Adam and its relatives


def _bias(beta: Scalar, step: Scalar) -> Scalar:
    return 1.0 - scalar.pow(cast(beta, "f64"), step)


_ADAM = "lr beta1 beta2 eps weight_decay sign"
_MOMENTS = "param grad exp_avg exp_avg_sq"


@step_program("adam", _MOMENTS, _ADAM, "step", decoupled=False)
@step_program("adam.amsgrad", _MOMENTS + " max_exp_avg_sq", _ADAM, "step", decoupled=False)
@step_program("adamw", _MOMENTS, _ADAM, "step", decoupled=True)
@step_program("adamw.amsgrad", _MOMENTS + " max_exp_avg_sq", _ADAM, "step", decoupled=True)
def adam(
    param: Scalar,
    grad: Scalar,
    exp_avg: Scalar,
    exp_avg_sq: Scalar,
    lr: Scalar,
    beta1: Scalar,
    beta2: Scalar,
    eps: Scalar,
    weight_decay: Scalar,
    sign: Scalar,
    step: Scalar,
    step_old: Scalar,
    decoupled: bool,
    max_exp_avg_sq: Scalar | None = None,
) -> Values:
    """[Kingma, Ba 2015], [Loshchilov, Hutter 2019], AMSGrad [Reddi et al. 2018]."""
    decay = lr * weight_decay if decoupled else None
    param, grad = _with_decay(param, grad * sign, weight_decay, decay)
    exp_avg, exp_avg_sq = _moments(grad, exp_avg, exp_avg_sq, beta1, beta2)
    changed = {"exp_avg": exp_avg, "exp_avg_sq": exp_avg_sq}
    second = exp_avg_sq
    if max_exp_avg_sq is not None:
        second = scalar.maximum(max_exp_avg_sq, exp_avg_sq)
        changed["max_exp_avg_sq"] = second
    scale = narrow(scalar.reciprocal(scalar.sqrt(_bias(beta2, step))), param)
    size = narrow(cast(lr, "f64") / _bias(beta1, step), param)
    return changed | {"param": param - size * (exp_avg / (scalar.sqrt(second) * scale + eps))}


@step_program("adamax", "param grad exp_avg exp_inf", _ADAM, "step")
def adamax(
    param: Scalar,
    grad: Scalar,
    exp_avg: Scalar,
    exp_inf: Scalar,
    lr: Scalar,
    beta1: Scalar,
    beta2: Scalar,
    eps: Scalar,
    weight_decay: Scalar,
    sign: Scalar,
    step: Scalar,
    step_old: Scalar,
) -> Values:
    """Adam with the infinity norm [Kingma, Ba 2015]."""
    grad = decayed(grad * sign, param, weight_decay)
    exp_avg = toward(exp_avg, grad, 1.0 - beta1)
    exp_inf = scalar.maximum(exp_inf * beta2, scalar.abs(grad) + eps)
    size = narrow(cast(lr, "f64") / _bias(beta1, step), param)
    return {"param": param - size * (exp_avg / exp_inf), "exp_avg": exp_avg, "exp_inf": exp_inf}


def _nesterov_weight(values: Values, step: Scalar) -> Scalar:
    decay = scalar.pow(constant(0.96, "f64"), step * values["momentum_decay"])
    return values["beta1"] * (1.0 - 0.5 * decay)


def _nadam_update(values: Values) -> Values:
    step = values["step"] + 1.0
    return {"step": step, "mu_product": values["mu_product"] * _nesterov_weight(values, step)}


@step_program(
    "nadam", _MOMENTS, _ADAM + " momentum_decay", "step mu_product", _nadam_update, decoupled=False
)
@step_program(
    "nadam.decoupled",
    _MOMENTS,
    _ADAM + " momentum_decay",
    "step mu_product",
    _nadam_update,
    decoupled=True,
)
def nadam(
    param: Scalar,
    grad: Scalar,
    exp_avg: Scalar,
    exp_avg_sq: Scalar,
    lr: Scalar,
    beta1: Scalar,
    beta2: Scalar,
    eps: Scalar,
    weight_decay: Scalar,
    sign: Scalar,
    momentum_decay: Scalar,
    step: Scalar,
    step_old: Scalar,
    mu_product: Scalar,
    mu_product_old: Scalar,
    decoupled: bool,
) -> Values:
    """Adam with Nesterov momentum [Dozat 2016]."""
    decay = lr * weight_decay if decoupled else None
    param, grad = _with_decay(param, grad * sign, weight_decay, decay)
    exp_avg, exp_avg_sq = _moments(grad, exp_avg, exp_avg_sq, beta1, beta2)
    settings = {"momentum_decay": momentum_decay, "beta1": beta1}
    mu, mu_next = _nesterov_weight(settings, step), _nesterov_weight(settings, step + 1.0)
    denominator = scalar.sqrt(exp_avg_sq / narrow(_bias(beta2, step), param)) + eps
    now = narrow(lr * (1.0 - mu) / (1.0 - mu_product), param)
    ahead = narrow(lr * mu_next / (1.0 - mu_product * mu_next), param)
    param = param - now * (grad / denominator) - ahead * (exp_avg / denominator)
    return {"param": param, "exp_avg": exp_avg, "exp_avg_sq": exp_avg_sq}


@step_program("radam", _MOMENTS, _ADAM, "step", decoupled=False)
@step_program("radam.decoupled", _MOMENTS, _ADAM, "step", decoupled=True)
def radam(
    param: Scalar,
    grad: Scalar,
    exp_avg: Scalar,
    exp_avg_sq: Scalar,
    lr: Scalar,
    beta1: Scalar,
    beta2: Scalar,
    eps: Scalar,
    weight_decay: Scalar,
    sign: Scalar,
    step: Scalar,
    step_old: Scalar,
    decoupled: bool,
) -> Values:
    """Rectified Adam [Liu et al. 2020]: plain momentum until the variance of the second moment is
    tractable."""
    decay = lr * weight_decay if decoupled else None
    param, grad = _with_decay(param, grad * sign, weight_decay, decay)
    exp_avg, exp_avg_sq = _moments(grad, exp_avg, exp_avg_sq, beta1, beta2)
    power = scalar.pow(cast(beta2, "f64"), step)
    limit = 2.0 / (1.0 - cast(beta2, "f64")) - 1.0
    length = limit - 2.0 * step * power / (1.0 - power)
    ratio = (length - 4.0) * (length - 2.0) * limit / ((limit - 4.0) * (limit - 2.0) * length)
    rectified = length > 5.0
    rectify = narrow(scalar.sqrt(where(rectified, ratio * (1.0 - power), 1.0)), param)
    adaptive = where(
        rectified, rectify / (scalar.sqrt(exp_avg_sq) + eps), constant(1.0, param.dtype)
    )
    size = narrow(cast(lr, "f64") / _bias(beta1, step), param)
    return {
        "param": param - size * exp_avg * adaptive,
        "exp_avg": exp_avg,
        "exp_avg_sq": exp_avg_sq,
    }


# --- scaled by running squares

_RMS = "lr alpha eps weight_decay momentum sign"


@step_program("rmsprop", "param grad square_avg", _RMS, "step")
@step_program("rmsprop.momentum", "param grad square_avg buffer", _RMS, "step")
@step_program("rmsprop.centered", "param grad square_avg grad_avg", _RMS, "step")
@step_program("rmsprop.centered.momentum", "param grad square_avg grad_avg buffer", _RMS, "step")
def rmsprop(
    param: Scalar,
    grad: Scalar,
    square_avg: Scalar,
    lr: Scalar,
    alpha: Scalar,
    eps: Scalar,
    weight_decay: Scalar,
    momentum: Scalar,
    sign: Scalar,
    step: Scalar,
    step_old: Scalar,
    grad_avg: Scalar | None = None,
    buffer: Scalar | None = None,
) -> Values:
    """[Hinton 2012], centred [Graves 2013]."""
    grad = decayed(grad * sign, param, weight_decay)
    square_avg = square_avg * alpha + grad * grad * (1.0 - alpha)
    changed = {"square_avg": square_avg}
    spread = square_avg
    if grad_avg is not None:
        grad_avg = toward(grad_avg, grad, 1.0 - alpha)
        changed["grad_avg"] = grad_avg
        spread = square_avg - grad_avg * grad_avg
    update = grad / (scalar.sqrt(spread) + eps)
    if buffer is not None:
        update = buffer * momentum + update
        changed["buffer"] = update
    return changed | {"param": param - lr * update}


@step_program("adagrad", "param grad sum", "lr lr_decay eps weight_decay sign", "step")
def adagrad(
    param: Scalar,
    grad: Scalar,
    sum: Scalar,
    lr: Scalar,
    lr_decay: Scalar,
    eps: Scalar,
    weight_decay: Scalar,
    sign: Scalar,
    step: Scalar,
    step_old: Scalar,
) -> Values:
    """[Duchi, Hazan, Singer 2011]."""
    grad = decayed(grad * sign, param, weight_decay)
    size = narrow(lr / (1.0 + step_old * lr_decay), param)
    sum = sum + grad * grad
    return {"param": param - size * (grad / (scalar.sqrt(sum) + eps)), "sum": sum}


@step_program("adadelta", "param grad square_avg acc_delta", "lr rho eps weight_decay sign", "step")
def adadelta(
    param: Scalar,
    grad: Scalar,
    square_avg: Scalar,
    acc_delta: Scalar,
    lr: Scalar,
    rho: Scalar,
    eps: Scalar,
    weight_decay: Scalar,
    sign: Scalar,
    step: Scalar,
    step_old: Scalar,
) -> Values:
    """[Zeiler 2012]."""
    grad = decayed(grad * sign, param, weight_decay)
    square_avg = square_avg * rho + grad * grad * (1.0 - rho)
    delta = scalar.sqrt(acc_delta + eps) / scalar.sqrt(square_avg + eps) * grad
    acc_delta = acc_delta * rho + delta * delta * (1.0 - rho)
    return {"param": param - lr * delta, "square_avg": square_avg, "acc_delta": acc_delta}


# --- averaged descent, resilient propagation


def _asgd_update(values: Values) -> Values:
    step = values["step"] + 1.0
    lr = cast(values["lr"], "f64")
    shrink = scalar.pow(1.0 + values["lambd"] * lr * step, values["alpha"])
    late = step - values["t0"]
    return {"step": step, "eta": lr / shrink, "mu": 1.0 / where(late > 1.0, late, 1.0)}


@step_program(
    "asgd", "param grad ax", "lr lambd alpha t0 weight_decay sign", "step eta mu", _asgd_update
)
def asgd(
    param: Scalar,
    grad: Scalar,
    ax: Scalar,
    weight_decay: Scalar,
    sign: Scalar,
    lambd: Scalar,
    eta_old: Scalar,
    mu_old: Scalar,
    **_: object,
) -> Values:
    """[Polyak, Juditsky 1992]; the step uses the rates that the step before has left."""
    grad = decayed(grad * sign, param, weight_decay)
    eta = narrow(eta_old, param)
    param = param * narrow(1.0 - lambd * eta_old, param) - eta * grad
    return {
        "param": param,
        "ax": where(mu_old == 1.0, param, toward(ax, param, narrow(mu_old, ax))),
    }


@step_program(
    "rprop",
    "param grad previous step_size",
    "eta_minus eta_plus step_minimum step_maximum sign",
    "step",
)
def rprop(
    param: Scalar,
    grad: Scalar,
    previous: Scalar,
    step_size: Scalar,
    eta_minus: Scalar,
    eta_plus: Scalar,
    step_minimum: Scalar,
    step_maximum: Scalar,
    sign: Scalar,
    step: Scalar,
    step_old: Scalar,
) -> Values:
    """[Riedmiller, Braun 1993]."""
    grad = grad * sign
    agreement = grad * previous
    one = constant(1.0, param.dtype)
    factor = where(agreement > 0, one * eta_plus, where(agreement < 0, one * eta_minus, one))
    step_size = scalar.minimum(scalar.maximum(step_size * factor, step_minimum), step_maximum)
    grad = where(agreement < 0, 0.0, grad)
    param = param - scalar.sign(grad) * step_size
    return {"param": param, "previous": grad, "step_size": step_size}


# --- the same thing done to every tensor of a list


def _kept(values: Values) -> Values:
    return {}


@step_program("scale", "x", "", "coefficient", _kept)
def scale(x: Scalar, coefficient: Scalar, coefficient_old: Scalar) -> Values:
    """Every tensor times a zero-dimensional tensor (clipping by norm)."""
    return {"x": x * narrow(coefficient, x)}
