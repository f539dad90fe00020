"""Jacobians, Hessians and their products with vectors.

Takes a function of tensors and its inputs.  Gives derivatives, nested like the outputs and inputs.
Keeps true: with ``create_graph`` the result can be differentiated again; ``strict`` raises where an
output does not depend on an input.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from facula import core
from facula.autograd import grad as _grad
from facula.autograd import transforms
from facula.autograd.grad_mode import enable_grad, set_grad_enabled
from facula.core.errors import fail
from facula.ops.table.registry import F

__all__ = ["hessian", "hvp", "jacobian", "jvp", "vhp", "vjp"]


def _as_tuple(value: Any, name: str, op: str) -> tuple[bool, tuple]:
    """(was a tuple, the tuple); raises unless it holds tensors only."""
    many = isinstance(value, tuple)
    values = value if many else (value,)
    for i, element in enumerate(values):
        if not isinstance(element, core.Tensor):
            at = f"Value {i} of " if many else ""
            fail(
                TypeError,
                op,
                f"The {name} given to {op} must be either a Tensor or a tuple of Tensors",
                got=f"{at}type {type(element)}",
                hint="facula.as_tensor(value) makes one",
            )
    return many, values


def _restore(values: tuple, many: bool) -> Any:
    return values if many else values[0]


def _prepare(inputs: tuple, create_graph: bool, need_graph: bool) -> tuple:
    """Inputs that can be differentiated with respect to, joined to the caller's graph where asked."""
    prepared = []
    for tensor in inputs:
        if create_graph and tensor.requires_grad:
            prepared.append(tensor.view_as(tensor))
        else:
            prepared.append(tensor.detach().requires_grad_(need_graph))
    return tuple(prepared)


def _finish(values: Any, create_graph: bool) -> Any:
    """Results without history, unless the caller wants one."""
    if isinstance(values, tuple):
        return tuple(_finish(v, create_graph) for v in values)
    return values if create_graph or values is None else values.detach()


def _check_vector(v: object, likes: tuple, many_likes: bool, name: str, op: str) -> tuple:
    """The vector as a tuple shaped like ``likes``; ones for a single-element one."""
    if v is None:
        if len(likes) != 1 or likes[0].numel() != 1:
            fail(
                RuntimeError,
                op,
                f"the vector v where the {name} is not a single Tensor of one element",
                got="The vector v can only be None if the user-provided function returns a single "
                "Tensor with a single "
                "element."
                if name == "output"
                else "The vector v can only be None if the input to the user-provided function is "
                "a single Tensor with a "
                "single element.",
                hint="pass facula.ones_like of it, or reduce it to one element",
            )
        return tuple(F.ones_like(t) for t in likes)
    _, values = _as_tuple(v, "v", op)
    if len(values) != len(likes):
        fail(
            RuntimeError,
            op,
            f"v of {len(likes)} tensors",
            got=f"v of invalid length {len(values)}"
            + ("" if many_likes else ": The given v should contain a single Tensor."),
            hint="give one tensor for each, as a tuple",
        )
    for i, (value, like) in enumerate(zip(values, likes, strict=True)):
        if value.size() != like.size():
            fail(
                RuntimeError,
                op,
                f"entry {i} of v of size {like.size()}",
                got=f"v has invalid size: should be {like.size()} but got {value.size()}.",
                hint="facula.ones_like(...) has the size",
            )
    return tuple(value.detach() if not value.requires_grad else value for value in values)


def _strict_outputs(outputs: tuple, op: str) -> None:
    for i, output in enumerate(outputs):
        if not output.requires_grad:
            fail(
                RuntimeError,
                op,
                "outputs that depend on the inputs in strict mode",
                got=f"Output {i} of the user-provided function does not require gradients. The "
                "outputs must be computed "
                "in a differentiable manner from the input when running in strict mode.",
                hint="compute with operations of tensors only, without detach() or item()",
            )


def _fill_zeros(
    grads: tuple, likes: tuple, strict: bool, create_graph: bool, op: str, what: str
) -> tuple:
    """Zeros in place of None; in strict mode an error."""
    filled = []
    for i, (grad, like) in enumerate(zip(grads, likes, strict=True)):
        if grad is None:
            if strict:
                fail(
                    RuntimeError,
                    op,
                    "dependence on every input in strict mode",
                    got=f"The {what} user-provided function is independent of input {i}. This is "
                    "not allowed in strict mode.",
                    hint="use the input in the function, or pass strict=False for zeros",
                )
            grad = F.zeros_like(like)
        elif strict and create_graph and not grad.requires_grad:
            fail(
                RuntimeError,
                op,
                "a derivative that depends on every input in strict mode with create_graph",
                got=f"The jacobian of the user-provided function with respect to input {i} is "
                "independent of the inputs."
                if op in ("vhp", "hvp", "hessian")
                else f"The jacobian of the user-provided function is independent of input {i}.",
                hint="pass strict=False for zeros",
            )
        filled.append(grad)
    return tuple(filled)


def _gradients(outputs: tuple, inputs: tuple, vectors: tuple | None, create_graph: bool) -> tuple:
    """As `autograd.grad`, with None for everything where nothing requires a gradient."""
    used = [
        (o, None if vectors is None else vectors[i])
        for i, o in enumerate(outputs)
        if o is not None and o.requires_grad
    ]
    if not used:
        return (None,) * len(inputs)
    return _grad(
        [o for o, _ in used],
        inputs,
        None if vectors is None else [v for _, v in used],
        allow_unused=True,
        create_graph=create_graph,
        retain_graph=create_graph or None,
    )


def vjp(
    func: Callable, inputs: Any, v: object = None, create_graph: bool = False, strict: bool = False
) -> tuple:
    """A vector times the Jacobian of a function, and the function's value.

    Args:
        func: a function of tensors
        inputs: a tensor or a tuple of them
        v: of the shapes of the outputs; None for 1 where there is one element
        create_graph: whether results can be differentiated themselves
        strict: whether an output that does not depend on an input is an error, and not zero

    Returns:
        (value, product).

    Example:
        >>> facula.autograd.functional.vjp(lambda x: x * x, facula.tensor([1.0, 2.0]), facula.ones(2))
        (tensor([1., 4.]), tensor([2., 4.]))
    """
    with enable_grad():
        many, inputs = _as_tuple(inputs, "inputs", "vjp")
        inputs = _prepare(inputs, create_graph, True)
        many_out, outputs = _as_tuple(func(*inputs), "outputs of the user-provided function", "vjp")
        if strict:
            _strict_outputs(outputs, "vjp")
        vector = _check_vector(v, outputs, many_out, "output", "vjp")
    with set_grad_enabled(create_graph or core.is_grad_enabled()):
        grads = _gradients(outputs, inputs, vector, create_graph)
        product = _fill_zeros(grads, inputs, strict, create_graph, "vjp", "output of the")
    return (
        _restore(_finish(outputs, create_graph), many_out),
        _restore(_finish(product, create_graph), many),
    )


def jvp(
    func: Callable, inputs: Any, v: object = None, create_graph: bool = False, strict: bool = False
) -> tuple:
    """The Jacobian of a function times a vector, and the function's value.

    Args:
        func: a function of tensors
        inputs: a tensor or a tuple of them
        v: of the shapes of the inputs; None for 1 where there is one element
        create_graph: whether results can be differentiated themselves
        strict: whether an output that does not depend on an input is an error, and not zero

    Returns:
        (value, product).

    Example:
        >>> facula.autograd.functional.jvp(lambda x: x * x, facula.tensor([1.0, 2.0]), facula.ones(2))
        (tensor([1., 4.]), tensor([2., 4.]))
    """
    with enable_grad():
        many, inputs = _as_tuple(inputs, "inputs", "jvp")
        inputs = _prepare(inputs, create_graph, True)
        vector = _check_vector(v, inputs, many, "input", "jvp")
        many_out, outputs = _as_tuple(func(*inputs), "outputs of the user-provided function", "jvp")
        if strict:
            _strict_outputs(outputs, "jvp")
        dummies = tuple(F.zeros_like(o).requires_grad_() for o in outputs)
        grads = _gradients(outputs, inputs, dummies, True)
        grads = (
            _fill_zeros(grads, inputs, strict, True, "jvp", "output of the") if strict else grads
        )
    with set_grad_enabled(create_graph or core.is_grad_enabled()):
        pairs = [(g, t) for g, t in zip(grads, vector, strict=True) if g is not None]
        if pairs and any(g.requires_grad for g, _ in pairs):
            product = _gradients(
                tuple(g for g, _ in pairs), dummies, tuple(t for _, t in pairs), create_graph
            )
        else:
            product = (None,) * len(dummies)
        product = _fill_zeros(product, outputs, strict, create_graph, "jvp", "jvp of the")
    return (
        _restore(_finish(outputs, create_graph), many_out),
        _restore(_finish(product, create_graph), many_out),
    )


def _jacobian_rows(
    output: core.Tensor,
    inputs: tuple,
    create_graph: bool,
    strict: bool,
    index: int,
    what: str,
) -> list[list[Any]]:
    """Per input, the gradients of every element of one output."""
    columns: list[list[Any]] = [[] for _ in inputs]
    flat = output.reshape(-1)
    for j in range(flat.numel()):
        grads = (
            _gradients((flat[j],), inputs, None, True)
            if output.requires_grad
            else (None,) * len(inputs)
        )
        for column, grad, tensor, number in zip(
            columns, grads, inputs, range(len(inputs)), strict=True
        ):
            if grad is None:
                if strict:
                    fail(
                        RuntimeError,
                        "jacobian",
                        "outputs that depend on every input in strict mode",
                        got=f"{what.format(index)} is independent of input "
                        f"{number}. This is not "
                        "allowed in strict mode.",
                        hint="use the input in the function, or pass strict=False for zeros",
                    )
                grad = F.zeros_like(tensor)
            elif strict and create_graph and not grad.requires_grad:
                fail(
                    RuntimeError,
                    "jacobian",
                    "a jacobian that depends on every input in strict mode with create_graph",
                    got="The jacobian of the user-provided function is independent of input "
                    f"{number}.",
                    hint="pass strict=False for zeros",
                )
            column.append(grad)
    return columns


def _jacobian_by_rows(
    outputs: tuple, inputs: tuple, create_graph: bool, strict: bool, what: str
) -> tuple:
    result = []
    for i, output in enumerate(outputs):
        columns = _jacobian_rows(output, inputs, create_graph, strict, i, what)
        blocks = []
        for column, tensor in zip(columns, inputs, strict=True):
            shape = (*output.size(), *tensor.size())
            empty = tensor.new_zeros(shape)
            blocks.append(F.stack(column).view(shape) if column else empty)
        result.append(tuple(blocks))
    return tuple(result)


def _unit_rows(output: core.Tensor) -> Any:
    """A unit vector for each element of an output, as rows: of its class, which may handle operators itself."""
    count = output.numel()
    if type(output) is core.Tensor:
        return F.eye(count, dtype=output.dtype, device=output.device)
    rows = output.new_zeros((count, count))
    rows.diagonal().fill_(1)
    return rows


def _jacobian_batched(outputs: tuple, inputs: tuple, create_graph: bool) -> tuple:
    """All rows of an output in one backward run over a batch of unit vectors."""
    result = []
    for output in outputs:
        if output.requires_grad:
            basis = _unit_rows(output)
            grads = _grad(
                [output.reshape(-1)],
                inputs,
                [basis],
                create_graph=create_graph,
                retain_graph=True,
                allow_unused=True,
                is_grads_batched=True,
            )
        else:
            grads = (None,) * len(inputs)
        blocks = []
        for grad, tensor in zip(grads, inputs, strict=True):
            shape = (*output.size(), *tensor.size())
            blocks.append(tensor.new_zeros(shape) if grad is None else grad.reshape(shape))
        result.append(tuple(blocks))
    return tuple(result)


def _jacobian_forward(func: Callable, inputs: tuple) -> tuple[bool, tuple]:
    """Columns by forward mode: (the function gives a tuple, blocks)."""
    argnums = tuple(range(len(inputs)))
    shape_of: dict[str, bool] = {}

    def as_tuple(*args: object) -> tuple:
        out = func(*args)
        shape_of["many"] = isinstance(out, tuple)
        return out if isinstance(out, tuple) else (out,)

    blocks = transforms.jacfwd(as_tuple, argnums)(*inputs)
    return shape_of["many"], blocks


def _check_jacobian_arguments(
    create_graph: bool, strict: bool, vectorize: bool, strategy: str
) -> None:
    if strategy not in ("forward-mode", "reverse-mode"):
        fail(
            AssertionError,
            "jacobian",
            (
                'Expected strategy to be either "forward-mode" or "reverse-mode". Hint: If '
                'your function has more outputs than inputs, "forward-mode" tends to be more '
                'performant. Otherwise, prefer to use "reverse-mode".'
            ),
            hint="leave strategy out for reverse mode",
        )
    if strategy == "forward-mode":
        _check_forward_mode(create_graph, vectorize)
    elif strict and vectorize:
        fail(
            RuntimeError,
            "jacobian",
            (
                "torch.autograd.functional.jacobian: `strict=True` and `vectorized=True` are "
                "not supported together. Please either set `strict=False` or "
                "`vectorize=False`."
            ),
            hint="strict=True tells which inputs do not count, one row at a time",
        )


def _check_forward_mode(create_graph: bool, vectorize: bool) -> None:
    if create_graph:
        fail(
            NotImplementedError,
            "jacobian",
            (
                "torch.autograd.functional.jacobian: `create_graph=True` and "
                '`strategy="forward-mode"` are not supported together (yet). Please either '
                'set `create_graph=False` or `strategy="reverse-mode"`.'
            ),
            hint="facula.func.jacfwd() is forward mode that can be differentiated again",
        )
    if not vectorize:
        fail(
            NotImplementedError,
            "jacobian",
            (
                "Computing Jacobian using forward-AD or forward-over-reverse Hessian is only "
                "implemented for `vectorize=True`."
            ),
            hint="pass vectorize=True",
        )


def jacobian(
    func: Callable,
    inputs: object,
    create_graph: bool = False,
    strict: bool = False,
    vectorize: bool = False,
    strategy: str = "reverse-mode",
) -> Any:
    """All derivatives of a function's outputs with respect to its inputs.

    Args:
        func: a function of tensors, to a tensor or a tuple of them
        inputs: a tensor or a tuple of them
        create_graph: whether results can be differentiated themselves
        strict: whether an output that does not depend on an input is an error, and not zero
        vectorize: whether all rows are computed in one batched run
        strategy: 'reverse-mode' for rows, 'forward-mode' for columns (needs ``vectorize``)

    Returns:
        ``[*output, *input]``, or tuples of these for several.

    Example:
        >>> facula.autograd.functional.jacobian(lambda x: x * x, facula.tensor([1.0, 2.0]))
        tensor([[2., 0.],
                [0., 4.]])
    """
    what = "Output {} of the user-provided function"
    return _jacobian(func, inputs, create_graph, strict, vectorize, strategy, what)


def _jacobian(
    func: Callable,
    inputs: object,
    create_graph: bool,
    strict: bool,
    vectorize: bool,
    strategy: str,
    what: str,
) -> Any:
    """`jacobian`, whose errors call the outputs `what`."""
    _check_jacobian_arguments(create_graph, strict, vectorize, strategy)
    many, tensors = _as_tuple(inputs, "inputs", "jacobian")
    if strategy == "forward-mode":
        many_out, blocks = _jacobian_forward(func, tensors)
        return _nest(tuple(tuple(_finish(b, False) for b in row) for row in blocks), many_out, many)
    with enable_grad():
        prepared = _prepare(tensors, create_graph, True)
        many_out, outputs = _as_tuple(
            func(*prepared), "outputs of the user-provided function", "jacobian"
        )
        if strict:
            _strict_outputs(outputs, "jacobian")
        if vectorize:
            blocks = _jacobian_batched(outputs, prepared, create_graph)
        else:
            blocks = _jacobian_by_rows(outputs, prepared, create_graph, strict, what)
    return _nest(_finish(blocks, create_graph), many_out, many)


def _nest(blocks: tuple, many_out: bool, many_in: bool) -> Any:
    rows = tuple(row if many_in else row[0] for row in blocks)
    return rows if many_out else rows[0]


def _single_output(func: Callable, op: str) -> Callable:
    def checked(*args: object) -> Any:
        many, outputs = _as_tuple(func(*args), "outputs of the user-provided function", op)
        if many or not isinstance(outputs[0], core.Tensor):
            fail(
                RuntimeError,
                op,
                "a function that returns a single Tensor",
                got=f"a tuple: The function given to {op} should return a single Tensor",
                hint="return one of the results, or stack them and reduce to one element",
            )
        if outputs[0].numel() != 1:
            fail(
                RuntimeError,
                op,
                "a single element",
                got=f"The Tensor returned by the function given to {op} should contain a single element",
                hint="reduce it, for example with sum()",
            )
        return outputs[0].reshape(())

    return checked


def hessian(
    func: Callable,
    inputs: object,
    create_graph: bool = False,
    strict: bool = False,
    vectorize: bool = False,
    outer_jacobian_strategy: str = "reverse-mode",
) -> Any:
    """All second derivatives of a function of one element.

    Args:
        func: a function of tensors, to a tensor of one element
        inputs: a tensor or a tuple of them
        create_graph: whether results can be differentiated themselves
        strict: whether an output that does not depend on an input is an error, and not zero
        vectorize: whether all rows are computed in one batched run
        outer_jacobian_strategy: 'reverse-mode' or 'forward-mode' (needs ``vectorize``)

    Returns:
        ``[*input_i, *input_j]``, or tuples of tuples of these.

    Example:
        >>> facula.autograd.functional.hessian(lambda x: (x**3).sum(), facula.tensor([1.0, 2.0]))
        tensor([[ 6.,  0.],
                [ 0., 12.]])
    """
    if outer_jacobian_strategy not in ("forward-mode", "reverse-mode"):
        fail(
            AssertionError,
            "hessian",
            'Expected strategy to be either "forward-mode" or "reverse-mode".',
            hint="leave outer_jacobian_strategy out for reverse mode",
        )
    many, tensors = _as_tuple(inputs, "inputs", "hessian")
    scalar = _single_output(func, "hessian")

    def gradient(*args: Any) -> Any:
        if outer_jacobian_strategy == "forward-mode":
            # the outer transform tracks derivatives itself: recorded gradients must not be cut off
            args = tuple(a.requires_grad_() if not a.requires_grad else a for a in args)
        rows = tuple(jacobian(_strict(scalar) if strict else scalar, args, create_graph=True))
        if strict:
            _strict_slopes(rows)
        return rows

    what = "The jacobian of the user-provided function with respect to input {}"
    strategy = outer_jacobian_strategy
    blocks = _jacobian(gradient, tensors, create_graph, strict, vectorize, strategy, what)
    return blocks if many else blocks[0][0]


def _strict(scalar: Callable) -> Callable:
    """The function, with an error where its output does not require grad."""

    def checked(*args: object) -> Any:
        output = scalar(*args)
        _strict_outputs((output,), "hessian")
        return output

    return checked


def _strict_slopes(slopes: tuple) -> None:
    """Raise where a first derivative does not depend on the inputs."""
    for i, slope in enumerate(slopes):
        if not slope.requires_grad:
            fail(
                RuntimeError,
                "hessian",
                "first derivatives that depend on the inputs were required in strict mode",
                got=f"The jacobian of the user-provided function with respect to input {i} is "
                "independent of the inputs.",
                hint="pass strict=False for zeros",
            )


def _slopes(
    func: Callable, inputs: core.Tensor, v: object, create_graph: bool, strict: bool, name: str
) -> tuple[bool, Any, Any, core.Tensor, Any]:
    """What products with a Hessian begin with: inputs, the vector, the value and its gradient."""
    many, tensors = _as_tuple(inputs, "inputs", name)
    prepared = _prepare(tensors, create_graph, True)
    vector = _check_vector(v, prepared, many, "input", name)
    output = _single_output(func, name)(*prepared)
    if strict:
        _strict_outputs((output,), name)
    slopes = _gradients((output,), prepared, None, True)
    slopes = _fill_zeros(slopes, prepared, strict, True, name, "output of the")
    return many, prepared, vector, output, slopes


def vhp(
    func: Callable,
    inputs: core.Tensor,
    v: object = None,
    create_graph: bool = False,
    strict: bool = False,
) -> tuple:
    """A vector times the Hessian of a function of one element, and the function's value.

    Args:
        func: a function of tensors
        inputs: a tensor or a tuple of them
        v: of the shapes of the inputs; None for 1 where there is one element
        create_graph: whether results can be differentiated themselves
        strict: whether an output that does not depend on an input is an error, and not zero

    Returns:
        (value, product).

    Example:
        >>> facula.autograd.functional.vhp(lambda x: (x**3).sum(), facula.tensor([1.0, 2.0]), facula.ones(2))
        (tensor(9.), tensor([ 6., 12.]))
    """
    with enable_grad():
        many, prepared, vector, output, first = _slopes(
            func, inputs, v, create_graph, strict, "vhp"
        )
    with set_grad_enabled(create_graph or core.is_grad_enabled()):
        second = _gradients(first, prepared, vector, create_graph)
        product = _fill_zeros(
            second, prepared, strict, create_graph, "vhp", "double backward of the"
        )
    return _finish(output, create_graph), _restore(_finish(product, create_graph), many)


def hvp(
    func: Callable,
    inputs: core.Tensor,
    v: object = None,
    create_graph: bool = False,
    strict: bool = False,
) -> tuple:
    """The Hessian of a function of one element times a vector, and the function's value.

    Args:
        func: a function of tensors
        inputs: a tensor or a tuple of them
        v: of the shapes of the inputs; None for 1 where there is one element
        create_graph: whether results can be differentiated themselves
        strict: whether an output that does not depend on an input is an error, and not zero

    Returns:
        (value, product).

    Example:
        >>> facula.autograd.functional.hvp(lambda x: (x**3).sum(), facula.tensor([1.0, 2.0]), facula.ones(2))
        (tensor(9.), tensor([ 6., 12.]))
    """
    with enable_grad():
        many, prepared, vector, output, first = _slopes(
            func, inputs, v, create_graph, strict, "hvp"
        )
        dummies = tuple(F.zeros_like(t).requires_grad_() for t in prepared)
        double = _gradients(first, prepared, dummies, True)
        double = _fill_zeros(double, prepared, strict, True, "hvp", "double backward of the")
    with set_grad_enabled(create_graph or core.is_grad_enabled()):
        product = _gradients(double, dummies, vector, create_graph)
        product = _fill_zeros(product, prepared, strict, create_graph, "hvp", "hvp of the")
    return _finish(output, create_graph), _restore(_finish(product, create_graph), many)
