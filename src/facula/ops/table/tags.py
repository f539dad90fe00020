"""What is known of an operator beside its schema, under PyTorch's names.

Takes the definition of an operator. Gives its `Tag`s. Keeps true: tags follow from what the
definition says; an operator of a program has those that it was defined with.
"""

from __future__ import annotations

import enum
from collections.abc import Sequence
from typing import Any


class Tag(enum.Enum):
    """A property of an operator."""

    core = 0
    cudagraph_unsafe = 1
    data_dependent_output = 2
    dynamic_output_shape = 3
    flexible_layout = 4
    generated = 5
    inplace = 6
    inplace_view = 7
    maybe_aliasing_or_mutating = 8
    needs_contiguous_strides = 9
    needs_exact_strides = 10
    needs_fixed_stride_order = 11
    nondeterministic_bitwise = 12
    nondeterministic_seeded = 13
    out = 14
    out_variant = 15
    pointwise = 16
    pt2_compliant_tag = 17
    reduction = 18
    view_copy = 19


Tag.__module__ = "facula"


def as_tags(tags: Tag | Sequence[Tag] | None) -> tuple[Tag, ...]:
    """Tags given as one, as several, or not at all."""
    return (tags,) if isinstance(tags, Tag) else tuple(tags or ())


def tags_of(definition: Any, below: Any, inplace: bool) -> list[Tag]:
    """The tags of an operator, or of its in-place form; `below` is the definition that a composite
    of a similar name calls, or None.
    """
    if definition is None:
        return [Tag.pt2_compliant_tag]
    if definition.kind == "custom":
        return list(definition.tags)
    # lazily: it reads the code of operators, which few ask for
    from facula.ops.random.drawing import draws

    found = [Tag.pt2_compliant_tag]
    if definition.kind == "pointwise":
        found.append(Tag.pointwise)
    if inplace:
        found.append(Tag.inplace)
    if definition.dynamic or (below is not None and below.dynamic):
        found.append(Tag.dynamic_output_shape)
    if draws(definition):
        found.append(Tag.nondeterministic_seeded)
    if definition.name.endswith("_copy"):
        found.append(Tag.view_copy)
    return sorted(found, key=lambda tag: tag.value)
