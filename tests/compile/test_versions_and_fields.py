"""Versions, the interpreter's tuples with names, and the old constructor in one graph; the oracle is Python itself."""

import os
import sys
import time

import pytest

import facula
from facula.torch_version import TorchVersion

VERSION = TorchVersion("2.13.0")
MOMENT = time.localtime(86400.0)
SIZE = os.terminal_size((3, 4))

PROGRAMS = {
    "first": lambda x: x + sys.version_info[0],
    "order": lambda x: x + (sys.version_info >= (3, 8)),
    "names": lambda x: x + sys.version_info.major + 100 * sys.version_info.minor,
    "part": lambda x: x + len(sys.version_info[:2]),
    "fields behind the items": lambda x: x + MOMENT.tm_gmtoff + len(MOMENT.tm_zone),
    "fields": lambda x: x + 10 * SIZE.columns + SIZE.lines,
    "version": lambda x: x + (VERSION >= "2.9") + (VERSION < (2, 14)),
    "text": lambda x: x + int(VERSION.split(".")[1]),
    "constructor": lambda x: x + facula.Tensor([1.0, 2.5]),
    "device": lambda x: x + facula.cuda.is_available(),
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_one_graph(name):
    program = PROGRAMS[name]
    compiled = facula.compile(program, fullgraph=True, backend="eager")
    assert compiled(facula.ones(1)).tolist() == program(facula.ones(1)).tolist()


def test_they_leave_the_graph_as_they_are():
    compiled = facula.compile(lambda x: (x + 1, sys.version_info, VERSION, SIZE), backend="eager")
    _, info, version, size = compiled(facula.ones(1))
    assert (info, version, size) == (sys.version_info, VERSION, SIZE)
    assert type(version) is TorchVersion
    assert info is sys.version_info
