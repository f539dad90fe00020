"""How operators are made of others.

Takes: the operator table.  Gives: `TABLE`, from operator to the function that computes it by others;
`core_operators()`, the operators that everything else comes down to; `decompositions_of(..)`.
Keeps true: what the table knows is derived from it: elementwise operators are their scalar
expression, row operators their row program, composites their body; the rest stands in `structured`.

The core operators are: the scalar primitives, `where` and `clamp`; views; factories, copies and casts;
reductions and scans; matrix products and convolutions; reading and writing by index; sorting; pooling
and resampling; row operators (softmax and norms), whose programs the code generator knows; draws.
"""

from __future__ import annotations

from facula.lower.decompositions.registered import register
from facula.lower.decompositions.rules import (
    TABLE,
    core_decompositions,
    core_operators,
    decompositions_of,
)

__all__ = ["TABLE", "core_decompositions", "core_operators", "decompositions_of", "register"]
