# What a profiler hears: each call of an operator or method, and each node of a backward run.
#
# Takes: a recorder in `PROFILER` with `enter_call(function, args, kwargs)`, `enter_node(node)` and `leave(event)`.
# Keeps true: a thread without K_PROFILE pays nothing; an operator is reported once a call, below the overrides; the
# recorder's own work is not recorded; what runs is what would run without a profiler.

PROFILER = [None]


def set_profiling(bint mode):
    """Report the operators and backward nodes of this thread to `PROFILER[0]`; gives whether it was so before."""
    cdef uint32_t k = fk_tls_keys()
    fk_tls_set(k | K_PROFILE if mode else k & ~<uint32_t>(K_PROFILE | K_PROFILED))
    return (k & K_PROFILE) != 0


def is_profiling():
    """Whether the operators of this thread are reported to a profiler."""
    return (fk_tls_keys() & K_PROFILE) != 0


def next_sequence_number():
    """The number that the next recorded node gets."""
    return SEQUENCE + 1


cdef inline object active_recorder():
    """The recorder of this thread, or None; a thread that outlived its profiler stops reporting."""
    if not (fk_tls_keys() & K_PROFILE):
        return None
    recorder = PROFILER[0]
    if recorder is None:
        set_profiling(False)
    return recorder


cdef inline uint32_t take_recorded(uint32_t k):
    """The routing bits of a call that `recorded_call` made: it goes on below the overrides and the profiler."""
    fk_tls_set(fk_tls_keys() & ~<uint32_t>K_PROFILED)
    return k & ~<uint32_t>(K_PROFILE | K_PROFILED | K_OVERRIDE | K_FUNCTION_MODE)


cdef object recorded_call(object function, tuple args, dict kwargs):
    """Call an operator or method between two reports."""
    if fk_inner != NULL: return inner_call(function, args, kwargs)
    recorder = active_recorder()
    if recorder is None:
        return function(*args, **kwargs)
    set_profiling(False)
    try:
        event = recorder.enter_call(function, args, kwargs)
    finally:
        set_profiling(True)
    try:
        return call_reported(function, args, kwargs)
    finally:
        recorder.leave(event)


cdef object call_reported(object function, tuple args, dict kwargs):
    """A call that was heard of: what it calls is heard of in turn."""
    fk_tls_set(fk_tls_keys() | K_PROFILED)
    try:
        return function(*args, **kwargs)
    finally:
        fk_tls_set(fk_tls_keys() & ~<uint32_t>K_PROFILED)
