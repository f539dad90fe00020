# The checks that stand before a compiled graph: one call for all of its tensors.
#
# Takes: what was found when the graph was captured. Gives: whether the tensors of this call are alike.
# Keeps true: nothing is allocated and no Python code runs; a size or stride of -1 may be anything (a size at least 2).

cdef extern from "Python.h":
    PyObject *PyTuple_GET_ITEM(object, Py_ssize_t)
    PyObject *PyList_GET_ITEM(object, Py_ssize_t)


cdef class TensorGuard:
    """`check(tensors)` says whether the thread's state and the tensors are those that were captured."""
    cdef uint32_t mode
    cdef object default_dtype
    cdef int count
    cdef list classes
    cdef list facts
    cdef int64_t *numbers

    def __cinit__(self, tuple state, list facts):
        cdef int64_t *p
        cdef Py_ssize_t total = 0
        self.mode = state[0]
        self.default_dtype = state[1]
        self.count = len(facts)
        self.facts = facts
        self.classes = [f[0] for f in facts]
        for f in facts:
            total += 4 + 2 * len(f[4])
        self.numbers = <int64_t *>malloc(max(total, 1) * sizeof(int64_t))
        p = self.numbers
        for f in facts:
            p[0] = (<dtype?>f[1]).index
            p[1] = device_number(f[2])
            p[2] = K_GRAD if f[3] else 0
            p[3] = len(f[4])
            p += 4
            for n in f[4]:
                p[0] = n
                p += 1
            for n in f[5]:
                p[0] = n
                p += 1

    def __dealloc__(self):
        free(self.numbers)

    def check(self, tuple tensors):
        """Whether all hold; two captured tensors must also be two tensors."""
        cdef int64_t *p = self.numbers
        cdef Tensor t
        cdef int i, j, nd
        cdef PyObject *item
        if fk_tls_keys() != self.mode or <dtype>DTYPES[DEFAULT_DTYPE] is not self.default_dtype:
            return False
        for i in range(self.count):
            item = PyTuple_GET_ITEM(tensors, i)
            if <PyObject *>Py_TYPE(<object>item) != <PyObject *>PyList_GET_ITEM(self.classes, i):
                return False
            t = <Tensor>item
            nd = <int>p[3]
            if t.dt != p[0] or t.dev != p[1] or (t.keys & K_GRAD) != p[2] or t.nd != nd:
                return False
            p += 4
            for j in range(nd):
                if p[j] != t.sh[j] and (p[j] >= 0 or t.sh[j] < 2):
                    return False
                if p[nd + j] != t.sd[j] and p[nd + j] >= 0 and t.sh[j] != 1:
                    return False
            p += 2 * nd
            if self.count <= 64:
                for j in range(i):
                    if PyTuple_GET_ITEM(tensors, j) == item:
                        return False
        return True


def module_is_plain(module, tuple global_hooks):
    """Whether a call of a module is a call of its class's `forward`: no hooks, no forward of its own."""
    cdef dict names = module.__dict__
    cdef object hooks
    if (names["_forward_hooks"] or names["_forward_pre_hooks"] or names["_backward_hooks"]
            or names["_backward_pre_hooks"] or "forward" in names or "_compiled_call_impl" in names):
        return False
    for hooks in global_hooks:
        if hooks:
            return False
    return True
