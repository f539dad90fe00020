"""The table of rules, filled: importing this module enters every rule.

Takes nothing. Gives `RULES`, as `rules` has it, with everything in it.
Keeps true: each rule is entered once, so that what a program enters afterwards (`substitute_in_graph`)
stays.
"""

from __future__ import annotations

# these enter rules where they stand
from facula.capture import (
    framework_rules,
    rules_build,  # noqa: F401
    rules_copy,  # noqa: F401
    rules_iteration,  # noqa: F401
    rules_library,  # noqa: F401
    rules_sizes,  # noqa: F401
    rules_values,  # noqa: F401
    subclasses,
    transform_rules,
)
from facula.capture.rules import RULES

for _part in (framework_rules, transform_rules, subclasses):
    _part.put(RULES)

__all__ = ["RULES"]
