"""The operator of deformable convolution, under torchvision's name.

Takes inputs `[N, C, H, W]`, weights `[O, C / groups, KH, KW]`, displacements of each tap at each place
`[N, 2 * offset groups * taps, OH, OW]` (down, then across) and, with `use_mask`, factors `[N, offset
groups * taps, OH, OW]`.
Gives the definition: columns of sampled pixels by a kernel, products by `matmul`.
Keeps true: images go through in parts, so that the columns of a part stay below a fixed size.
"""

from __future__ import annotations

import math
from typing import Any

from facula import core
from facula.core.errors import cast_hint, fail
from facula.ops.table.registry import TABLE, F, operator

from .operators import like, plain

_OP = "deform_conv2d"
#: elements of the columns that are held at a time (any value does: speed and memory only)
_PART = 1 << 23
_SETTINGS = (
    "int stride_h, int stride_w, int pad_h, int pad_w, int dilation_h, int dilation_w, "
    "int groups, int offset_groups, bool use_mask"
)


class _Sizes:
    """What the kernels are told of a call, for a part of its images."""

    def __init__(self, input: core.Tensor, weight: core.Tensor, offset: Any, settings: Any) -> None:
        self.images, self.channels, *self.plane = input.shape
        self.out = tuple(offset.shape[2:])
        self.kernel = tuple(weight.shape[2:])
        self.taps = math.prod(self.kernel)
        self.steps, self.groups, self.offset_groups = settings[:6], settings[6], settings[7]

    def numbers(self, images: int) -> tuple[int, ...]:
        place = (images, self.channels, *self.plane, *self.out, *self.kernel)
        return (*place, *self.steps, self.offset_groups)

    def parts(self) -> list[tuple[int, int]]:
        """Ranges of images."""
        each = max(1, self.channels * self.taps * math.prod(self.out))
        step = max(1, _PART // each)
        return [(i, min(i + step, self.images)) for i in range(0, self.images, step)]

    def columns(self, images: int, dtype: core.dtype) -> Any:
        shape = (images, self.channels * self.taps, math.prod(self.out))
        return core.empty(shape, dtype=dtype)

    def sample(
        self,
        columns: core.Tensor,
        input: core.Tensor,
        offset: core.Tensor,
        mask: core.Tensor | None,
    ) -> None:
        images = input.shape[0]
        core.kernel(f"vision.deform:{input.dtype.code}")(
            (columns, input, offset, mask),
            self.numbers(images),
            (),
            total=images * self.offset_groups * self.taps,
            grain=1,
        )


def _check(
    input: core.Tensor,
    weight: core.Tensor,
    offset: core.Tensor,
    mask: core.Tensor,
    bias: core.Tensor,
    settings: tuple[Any, ...],
) -> None:
    def refuse(required: str, got: object, hint: str) -> None:
        fail(RuntimeError, _OP, required, got, hint=hint)

    if input.dim() != 4 or weight.dim() != 4 or offset.dim() != 4:
        dims = f"{input.dim()}, {weight.dim()} and {offset.dim()}"
        refuse("input, weight and offset of 4 dimensions were required", dims, "x[None] adds one")
    for name, x in (("weight", weight), ("offset", offset), ("bias", bias)):
        if x.dtype is not input.dtype:
            refuse(
                f"{name} of dtype {input.dtype} was required", x.dtype, cast_hint(name, input.dtype)
            )
    taps, groups, offset_groups = math.prod(weight.shape[2:]), settings[6], settings[7]
    if min(settings[0], settings[1], settings[4], settings[5]) < 1:
        refuse(
            "strides and dilations above 0 were required", list(settings[:6]), "1 is the default"
        )
    if min(settings[2:4]) < 0:
        refuse("padding of at least 0 was required", list(settings[2:4]), "0 is the default")
    if groups < 1 or weight.shape[1] * groups != input.shape[1] or weight.shape[0] % groups:
        got = f"input {list(input.shape)}, weight {list(weight.shape)}, groups {groups}"
        refuse(
            "channels that the groups divide were required",
            got,
            "weight is [out, in / groups, ...]",
        )
    if offset_groups < 1 or input.shape[1] % offset_groups:
        got = f"{input.shape[1]} channels, {offset_groups} groups of offsets"
        refuse("channels that the groups of offsets divide were required", got, "use one group")
    out = tuple(_extent(input, weight, settings, axis) for axis in (0, 1))
    if min(out) < 1:
        refuse("an output with places was required", list(out), "pad the input, or dilate less")
    for name, x, count in (("offset", offset, 2), ("mask", mask, 1)):
        wanted = (input.shape[0], count * offset_groups * taps, *out)
        if (name == "offset" or settings[8]) and tuple(x.shape) != wanted:
            refuse(f"{name} of shape {list(wanted)} was required", list(x.shape), "one plane a tap")


def _extent(input: core.Tensor, weight: core.Tensor, settings: tuple[Any, ...], axis: int) -> int:
    reach = settings[4 + axis] * (weight.shape[2 + axis] - 1) + 1
    return (input.shape[2 + axis] + 2 * settings[2 + axis] - reach) // settings[axis] + 1


def _grouped(weight: core.Tensor, groups: int) -> Any:
    """`[groups, out / groups, (in / groups) * taps]`."""
    return weight.reshape((groups, weight.shape[0] // groups, -1))


@operator(
    f"torchvision::deform_conv2d(Tensor input, Tensor weight, Tensor offset, Tensor mask, "
    f"Tensor bias, {_SETTINGS}) -> Tensor",
    names=(),
    out=False,
    inplace=False,
    serves=True,
)
class DeformConv2d:
    """A convolution whose taps are displaced at every place. [Dai et al. 2017, Zhu et al. 2018]"""

    def vmap(batch, input, weight, offset, mask, bias, *settings):
        call = TABLE["torchvision::deform_conv2d"]
        if batch.has(weight) or batch.has(bias):
            tensors = [batch.full(x) for x in (input, weight, offset, mask, bias)]
            return F.stack([call(*parts, *settings) for parts in zip(*tensors, strict=True)])
        images = [batch.full(x).flatten(0, 1) for x in (input, offset, mask)]
        out = call(images[0], weight, images[1], images[2], bias, *settings)
        return out.reshape((batch.size, out.shape[0] // max(batch.size, 1), *out.shape[1:]))

    def meta(input, weight, offset, mask, bias, *settings):
        _check(input, weight, offset, mask, bias, settings)
        return like((input.shape[0], weight.shape[0], *offset.shape[2:]), input)

    def cpu(out, input, weight, offset, mask, bias, *settings):
        sizes = _Sizes(input, weight, offset, settings)
        x, w, places, factors, added = plain(input, weight, offset, mask, bias)
        w = _grouped(w, sizes.groups)
        for begin, end in sizes.parts():
            columns = sizes.columns(end - begin, x.dtype)
            factor = factors[begin:end] if settings[8] else None
            sizes.sample(columns, x[begin:end], places[begin:end], factor)
            shape = (end - begin, sizes.groups, -1, columns.shape[2])
            product = F.matmul(w, columns.reshape(shape)).reshape(out[begin:end].shape)
            out[begin:end].copy_(product + added.reshape((-1, 1, 1)))

    def backward(
        grad,
        input,
        weight,
        offset,
        mask,
        bias,
        needs,
        stride_h,
        stride_w,
        pad_h,
        pad_w,
        dilation_h,
        dilation_w,
        groups,
        offset_groups,
        use_mask,
    ):
        steps = (stride_h, stride_w, pad_h, pad_w, dilation_h, dilation_w)
        found = TABLE["torchvision::_deform_conv2d_backward"](
            grad, input, weight, offset, mask, bias, *steps, groups, offset_groups, use_mask
        )
        return tuple(g if need else None for g, need in zip(found, needs, strict=True))

    def samples(S):
        yield (
            (S(2, 4, 5, 6), S(6, 2, 2, 3), S(2, 24, 4, 4) * 0.7, S(2, 12, 4, 4), S(6)),
            {
                "stride_h": 1,
                "stride_w": 1,
                "pad_h": 0,
                "pad_w": 0,
                "dilation_h": 1,
                "dilation_w": 1,
                "groups": 2,
                "offset_groups": 2,
                "use_mask": True,
            },
        )


@operator(
    f"torchvision::_deform_conv2d_backward(Tensor grad_output, Tensor input, Tensor weight, Tensor offset, "
    f"Tensor mask, Tensor bias, {_SETTINGS}) -> (Tensor to_input, Tensor to_weight, Tensor to_offset, "
    "Tensor to_mask, Tensor to_bias)",
    names=(),
    out=False,
    inplace=False,
    serves=True,
)
class DeformConv2dBackward:
    """The gradients of `deform_conv2d`."""

    def meta(grad, input, weight, offset, mask, bias, *settings):
        _check(input, weight, offset, mask, bias, settings)
        wanted = (input.shape[0], weight.shape[0], *offset.shape[2:])
        if tuple(grad.shape) != wanted:
            required, hint = (
                f"a gradient of shape {list(wanted)} was required",
                "that of the result",
            )
            fail(RuntimeError, _OP, required, list(grad.shape), hint=hint)
        return tuple(like(x.shape, x) for x in (input, weight, offset, mask, bias))

    def cpu(out, grad, input, weight, offset, mask, bias, *settings):
        sizes = _Sizes(input, weight, offset, settings)
        given, x, w, places, factors = plain(grad, input, weight, offset, mask)
        w, use_mask = _grouped(w, sizes.groups), settings[8]
        total = F.zeros(w.shape, dtype=w.dtype)
        wide = [core.empty(t.shape, dtype=x.dtype) for t in (input, offset, mask)]
        if not use_mask:
            wide[2].zero_()
        for part in sizes.parts():
            rows = slice(*part)
            grads = given[rows].reshape((part[1] - part[0], sizes.groups, w.shape[1], -1))
            factor = factors[rows] if use_mask else None
            total += _part(
                sizes, grads, w, (x[rows], places[rows], factor), [t[rows] for t in wide]
            )
        results = (wide[0], total.reshape(weight.shape), wide[1], wide[2], given.sum((0, 2, 3)))
        for target, result in zip(out, results, strict=True):
            target.copy_(result)

    def backward(grads, input):
        required = (
            "first derivatives were required: double backwards on deform_conv2d not supported"
        )
        fail(RuntimeError, _OP, required, hint="conv2d has gradients of every order")


def _part(
    sizes: _Sizes, grads: core.Tensor, weight: core.Tensor, given: tuple[Any, ...], out: list[Any]
) -> Any:
    """The gradients for some images; gives their share of the weights' gradient."""
    input, offset, mask = given
    images, code = input.shape[0], input.dtype.code
    columns = sizes.columns(images, input.dtype)
    sizes.sample(columns, input, offset, mask)
    shape = (images, sizes.groups, -1, columns.shape[2])
    total = F.matmul(grads, columns.reshape(shape).transpose(2, 3)).sum(0)
    back = F.matmul(weight.transpose(1, 2), grads).reshape(columns.shape).contiguous()
    numbers = sizes.numbers(images)
    core.kernel(f"vision.deform.grad.input:{code}")(
        (out[0], back, offset, mask), numbers, (), total=images * sizes.channels, grain=1
    )
    core.kernel(f"vision.deform.grad.taps:{code}")(
        (out[1], out[2] if mask is not None else None, back, input, offset, mask),
        numbers,
        (),
        total=images * sizes.offset_groups * sizes.taps,
        grain=1,
    )
    return total
