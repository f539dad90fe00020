# Damaged memory: the setting FACULA_GUARD and the search for damage (`fk_guard.h`).
#
# Keeps true: the mode is settled when the core is imported, before anything is allocated.

cdef extern from "fk_storage.h" nogil:
    enum:
        FK_GUARD_UNKNOWN
    int fk_guard_wanted()
    bint fk_guard_on()
    int64_t fk_memory_check(char *text, size_t size)
    int64_t fk_memory_unguarded()


def check_heap():
    """Look for bytes written outside of blocks; the number of guarded blocks that were looked at.

    With ``FACULA_GUARD`` every block is: RuntimeError names a damaged one. Without it only the
    headers between large blocks can tell, and the number is 0.
    """
    cdef char text[512]
    cdef int64_t seen = fk_memory_check(text, sizeof(text))
    if seen < 0:
        raise RuntimeError("[check_heap] memory within its bounds was required: got that " + text.decode() + "\nhint: " + (
            "call check_heap() after smaller parts of the program" if fk_guard_on()
            else "run the program with FACULA_GUARD=1"))
    return seen


def unguarded_blocks():
    """How many storages found no room among the guarded ones (FACULA_GUARD), whose number the system bounds."""
    return fk_memory_unguarded()


cdef int start_guard() except -1:
    if fk_guard_wanted() == FK_GUARD_UNKNOWN:
        import os
        raise ValueError("[FACULA_GUARD] 0, 1, end or begin was required: got %r" % os.environ.get("FACULA_GUARD") + "\nhint: unset FACULA_GUARD to run without guard pages")
    fk_guard_on()
    return 0


start_guard()
