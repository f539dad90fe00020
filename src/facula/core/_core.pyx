# cython: language_level=3, boundscheck=False, cdivision=True, initializedcheck=False
# cython: always_allow_keywords=True, binding=False, infer_types=False, auto_pickle=False, embedsignature=False
"""The core: tensors, dispatch, the tape and its engine, memory and threads.

Takes: kernel libraries (`load_library`), operator definitions (`Op`), and a few slots that upper layers fill.
Gives: `Tensor` and everything that must cost nanoseconds. Why Cython here: a call from Python to a kernel must not pass
through interpreted code.
Keeps true: the core names no operator except those of Python's own syntax, and calls upwards only through slots.
"""
include "c_api.pxi"
include "dtype.pxi"
include "tensor.pxi"
include "bound.pxi"
include "node.pxi"
include "op.pxi"
include "op_slow.pxi"
include "op_python.pxi"
include "record.pxi"
include "numbers.pxi"
include "pointwise.pxi"
include "pointwise_record.pxi"
include "formula.pxi"
include "views.pxi"
include "data.pxi"
include "keep.pxi"
include "replay.pxi"
include "hot.pxi"
include "foreign.pxi"
include "fake.pxi"
include "interop.pxi"
include "storages.pxi"
include "generators.pxi"
include "draws.pxi"
include "graph_launch.pxi"
include "graph_call.pxi"
include "engine.pxi"
include "tape.pxi"
include "switches.pxi"
include "watched_names.pxi"
include "guard_program.pxi"
include "methods.pxi"
include "overriding.pxi"
include "sparse.pxi"
include "setup.pxi"
