"""Examples of what can be exported, and what can not: `case` has their form, `examples` has them."""
