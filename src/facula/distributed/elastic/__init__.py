"""Launchers whose jobs survive failures: agents start workers, watch them, and start them again.

Takes: a program, and how many machines and processes it may have. Gives: `agent` (who starts and watches the
workers of a machine), `rendezvous` (how agents agree who takes part), `multiprocessing` (processes with
files for their output and errors), `events`, `utils`. `facula.distributed.run` is the program above them.
Keeps true: importing this starts nothing.
"""
