"""From captured graphs to loops.

`aot` makes functional flat graphs, forward and backward; `passes` improve them; `decompositions` say
how operators are made of others; `loops` turns them into programs of loops.
"""
