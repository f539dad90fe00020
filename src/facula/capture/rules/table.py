"""The table of rules, filled: importing this module enters every rule.

Takes nothing. Gives `RULES`, as `rules` has it, with everything in it.
Keeps true: each rule is entered once, so that what a program enters afterwards (`substitute_in_graph`)
stays.
"""

from __future__ import annotations

from facula.capture.rules import (
    build,  # noqa: F401
    copy,  # noqa: F401
    iteration,  # noqa: F401
    library,  # noqa: F401
    sizes,  # noqa: F401
    values,  # noqa: F401
)

# these enter rules where they stand
from facula.capture.rules import framework as framework_rules
from facula.capture.rules import transforms as transform_rules
from facula.capture.rules.callables import RULES
from facula.capture.values import subclasses

for _part in (framework_rules, transform_rules, subclasses):
    _part.put(RULES)

__all__ = ["RULES"]
