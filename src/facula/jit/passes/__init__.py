"""Passes over graphs of scripts: what a graph says is said with less, or in another form.

Takes graphs, which the passes change where they stand. Gives nothing, or what a pass found out.
Keeps true: a graph that went through a pass gives the numbers that it gave before, and raises where it raised;
what may be written to, or has effects, is moved or dropped by no pass that cannot show that nobody sees it.
"""
