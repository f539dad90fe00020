"""What the arguments of a convolution must be, transposed or not.

Takes: inputs [N, C, *spatial] (or without N), weights, a bias and the numbers of a call. Gives: the
numbers, one for each spatial dimension. Keeps true: what a convolution is not defined for raises
here, before anything is allocated.
"""

from __future__ import annotations

from typing import Any

from facula import core
from facula.core.errors import fail

#: of a tensor
Size = tuple[int, ...]


def per_dimension(op: str, name: str, values: tuple[int, ...], space: int) -> tuple[int, ...]:
    """One value a spatial dimension."""
    if len(values) == 1:
        values = tuple(values) * space
    if len(values) != space:
        fail(
            RuntimeError,
            op,
            f"expected {name} to be a single integer value or a list of {space} values",
            list(values),
            hint=f"for example {name}={(1,) * space}",
        )
    return tuple(values)


def _check_dimensions(op: str, input: Size, weight: Size, space: int) -> None:
    if len(weight) < 3:
        fail(
            RuntimeError,
            op,
            f"a {space + 2}D weight was required: weight should have at least three dimensions",
            list(weight),
            hint="unsqueeze() adds what is missing",
        )
    if len(weight) != space + 2 and len(input) == space + 2:
        fail(
            RuntimeError,
            op,
            f"Expected {len(weight)}-dimensional input for {len(weight)}-dimensional weight"
            f"{list(weight)}",
            f"{len(input)}-dimensional input of size {list(input)}",
            hint=f"the weight of {op}() has {space + 2} dimensions",
        )
    if len(weight) != space + 2 or len(input) not in (space + 1, space + 2):
        fail(
            RuntimeError,
            op,
            f"Expected {space + 1}D (unbatched) or {space + 2}D (batched) input to {op} and a "
            f"{space + 2}D weight",
            f"input of size {list(input)} and weight of size {list(weight)}",
            hint=f"both end in {space} spatial size(s), after the channels; unsqueeze() adds what "
            "is missing",
        )


def _check_groups(op: str, weight: Size, groups: int) -> None:
    if groups < 1:
        fail(
            RuntimeError,
            op,
            "non-positive groups is not supported",
            groups,
            hint="groups=1 is the usual convolution",
        )
    if weight[0] < groups:
        fail(
            RuntimeError,
            op,
            f"Given groups={groups}, expected weight to be at least {groups} at dimension 0",
            f"weight of size {list(weight)}",
            hint="each group has at least one channel",
        )


def check_sizes(
    op: str, input: Size, weight: Size, bias: Size | None, space: int, groups: int, transposed: bool
) -> None:
    """Dimensions, channels and bias."""
    _check_dimensions(op, input, weight, space)
    _check_groups(op, weight, groups)
    channels = input[-space - 1]
    wanted = weight[0] if transposed else weight[1] * groups
    if channels != wanted or weight[0] % groups:
        fail(
            RuntimeError,
            op,
            f"Given groups={groups}, weight of size {list(weight)}, expected "
            f"input{list(input)} to have "
            f"{wanted} channels, and the first size of the weight to be divisible by groups",
            f"{channels} channels",
            hint=_channel_hint(input, wanted, space, transposed),
        )
    if bias is not None:
        _check_bias(op, bias, weight, weight[1] * groups if transposed else weight[0])


def check_input_type(
    op: str, input: core.Tensor, weight: core.Tensor, bias: core.Tensor | None
) -> None:
    """Weight and bias have the input's dtype."""
    for name, x in (("weight", weight), ("bias", bias)):
        if x is not None and x.dtype is not input.dtype:
            fail(
                RuntimeError,
                op,
                f"Input type ({input.dtype}) and {name} type ({x.dtype}) should be the same",
                f"{x.dtype} (expected scalar type {input.dtype.type_word} but found "
                f"{x.dtype.type_word})",
                "convert one with .to()",
            )


def _check_bias(op: str, bias: Size, weight: Size, out_channels: int) -> None:
    if tuple(bias) != (out_channels,):
        fail(
            RuntimeError,
            op,
            f"Given weight of size {list(weight)}, expected bias to be 1-dimensional with "
            f"{out_channels} elements",
            f"bias of size {list(bias)}",
            hint=f"facula.zeros({out_channels}) is such a bias, bias=None leaves it out",
        )


def _channel_hint(input: Size, wanted: int, space: int, transposed: bool) -> str:
    if input[-1] == wanted and input[-space - 1] != wanted:
        return f"input.movedim(-1, {-space - 1}) puts the last dimension in place of the channels"
    second = "out_channels" if transposed else "in_channels"
    first = "in_channels" if transposed else "out_channels"
    return f"the weight is [{first}, {second} / groups, ...]"


def check_numbers(op: str, stride: Any, padding: Any, dilation: Any) -> None:
    """Raise for numbers that no convolution has."""
    if min(padding, default=0) < 0:
        fail(
            RuntimeError,
            op,
            "negative padding is not supported",
            list(padding),
            hint="cut the input by slicing instead",
        )
    if min(stride, default=1) < 1:
        fail(
            RuntimeError,
            op,
            "non-positive stride is not supported",
            list(stride),
            hint="stride=1 goes to every position",
        )
    if min(dilation, default=1) < 1:
        fail(
            RuntimeError,
            op,
            "dilation should be greater than zero",
            list(dilation),
            hint="dilation=1 takes neighbouring elements",
        )


def check_output_padding(op: str, extra: Any, stride: Any, dilation: Any) -> None:
    """Raise for sizes that a transposed convolution does not choose between."""
    if min(extra) < 0:
        fail(
            RuntimeError,
            op,
            "negative output_padding is not supported",
            list(extra),
            hint="output_padding=0 gives the smallest result",
        )
    if any(e >= s and e >= d for e, s, d in zip(extra, stride, dilation, strict=True)):
        fail(
            RuntimeError,
            op,
            "output padding must be smaller than either stride or dilation",
            f"output_padding {list(extra)}, stride {list(stride)}, dilation {list(dilation)}",
            hint="enlarge the result with pad() instead",
        )


def check_parts(
    op: str, image: Any, result: Any, weight: Any, settings: tuple[Any, ...], kernel: Any
) -> None:
    """Raise unless the parts of one convolution fit each other.

    Args:
        image, result: sizes [N, C, *spatial] of the convolution's input and output.
        weight: [out, in / groups, *kernel], None where it is what is made.
        settings: stride, padding, dilation, groups.
    """
    *numbers, groups = settings
    space = len(kernel)
    lengths = (len(image), len(result), *(len(n) + 2 for n in numbers))
    if set(lengths) != {space + 2} or not 1 <= space <= 3:
        fail(
            RuntimeError,
            op,
            f"{space + 2}D image and result, and {space} numbers each of stride, padding and dilation",
            f"{list(image)}, {list(result)}, {[list(n) for n in numbers]}",
            hint="conv1d(), conv2d() and conv3d() bring their arguments to this form",
        )
    check_numbers(op, *numbers)
    if groups < 1 or image[1] % groups or result[1] % groups or image[0] != result[0]:
        fail(
            RuntimeError,
            op,
            f"one batch, and channels in {groups} whole groups",
            f"sizes {list(image)} and {list(result)}",
            hint="groups divides the channels of the image and of the result",
        )
    wanted = [result[1], image[1] // groups, *kernel]
    if (weight is not None and list(weight) != wanted) or min(kernel) < 1:
        fail(
            RuntimeError,
            op,
            f"a weight of size {wanted} with taps",
            None if weight is None else list(weight),
            hint="the weight is [out, in / groups, *kernel]",
        )


def check_dtypes(op: str, *tensors: Any) -> None:
    """Raise unless all tensors that are given have the dtype of the first."""
    for x in tensors[1:]:
        if x is not None and x.dtype is not tensors[0].dtype:
            fail(
                RuntimeError,
                op,
                f"operands of one dtype ({tensors[0].dtype})",
                x.dtype,
                "convert one with .to()",
            )
