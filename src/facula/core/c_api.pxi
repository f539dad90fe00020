# What the Cython core takes from C: the runtime headers of `include/` and a few CPython entry points.

from libc.stdint cimport int32_t, int64_t, uint8_t, uint32_t, uint64_t, uintptr_t
from libc.stdlib cimport calloc, free, malloc, realloc
from libc.string cimport memcmp, memcpy, memset
from _thread import _local as thread_local
from cpython.object cimport PyObject, PyTypeObject, Py_TYPE
from cpython.ref cimport Py_DECREF, Py_INCREF, Py_XDECREF, Py_XINCREF
from cpython.float cimport PyFloat_AS_DOUBLE, PyFloat_CheckExact
from cpython.long cimport PyLong_AsDouble, PyLong_CheckExact
from cpython.tuple cimport PyTuple_New, PyTuple_SET_ITEM
from cpython.buffer cimport PyBUF_FULL, PyBUF_WRITABLE, PyBuffer_FillInfo, PyBuffer_Release, PyObject_GetBuffer
cimport cython

cdef extern from *:
    """
    static inline void fk_set_type(PyObject *o, PyObject *kind) { Py_SET_TYPE(o, (PyTypeObject *)kind); }

    static PyObject *fk_sizes_class; /* `Size`, once there is one */

    /* a tuple (of a class of tuples, where one is named) of whole numbers */
    static PyObject *fk_int_tuple(PyObject *kind, Py_ssize_t n, const int64_t *values) {
        PyObject *made = kind ? PyType_GenericAlloc((PyTypeObject *)kind, n) : PyTuple_New(n);
        for (Py_ssize_t i = 0; made && i < n; i++) {
            PyObject *value = PyLong_FromLongLong(values[i]);
            if (!value) Py_CLEAR(made);
            else PyTuple_SET_ITEM(made, i, value);
        }
        return made;
    }
    /* the same of objects */
    static PyObject *fk_object_tuple(PyObject *kind, Py_ssize_t n, PyObject *const *items) {
        PyObject *made = kind ? PyType_GenericAlloc((PyTypeObject *)kind, n) : PyTuple_New(n);
        for (Py_ssize_t i = 0; made && i < n; i++) {
            Py_INCREF(items[i]);
            PyTuple_SET_ITEM(made, i, items[i]);
        }
        return made;
    }
    /* the whole numbers of a tuple; -1 where it holds anything else, or more of them */
    static inline int fk_ints_of_tuple(PyObject *tuple, int most, int64_t *out) {
        const Py_ssize_t n = PyTuple_GET_SIZE(tuple);
        int overflow = 0;
        if (n > most) return -1;
        for (Py_ssize_t i = 0; i < n; i++) {
            PyObject *value = PyTuple_GET_ITEM(tuple, i);
            if (!PyLong_CheckExact(value)) return -1;
            out[i] = PyLong_AsLongLongAndOverflow(value, &overflow);
            if (overflow) return -1;
        }
        return (int)n;
    }
    """
    void fk_set_type(PyObject *o, PyObject *kind)
    PyObject *fk_sizes_class
    object fk_int_tuple(PyObject *kind, Py_ssize_t n, const int64_t *values)
    object fk_object_tuple(PyObject *kind, Py_ssize_t n, PyObject *const *items)
    int fk_ints_of_tuple(object tuple, int most, int64_t *out) noexcept

cdef extern from "facula_abi.h" nogil:
    ctypedef union fk_scalar:
        double f
        int64_t i
    ctypedef void (*fk_map)(char **p, const fk_scalar *s, int64_t n) noexcept nogil
    ctypedef void (*fk_body)(char **p, const int64_t *n, const fk_scalar *s, int64_t begin, int64_t end) noexcept nogil
    ctypedef struct fk_runtime:
        pass
    ctypedef int (*fk_driver)(char **p, const int64_t *n, const fk_scalar *s, const fk_runtime *rt) noexcept nogil
    ctypedef struct fk_entry:
        const char *name
        char kind
        void *fn
        const char *operands
    enum: FACULA_ABI

cdef extern from "fk_storage.h" nogil:
    ctypedef struct fk_storage:
        int64_t refs
        char *data
        int64_t nbytes
        uint32_t version
        uint32_t uncounted
        int32_t size_class
        int32_t flags
        int32_t device
        void *owner
        void (*release)(void *owner) noexcept nogil
        void *extra
        fk_storage *next
        void *object
    ctypedef struct fk_memory_stats:
        int64_t allocated
        int64_t peak
        int64_t cached
        int64_t requested
        int64_t allocations
        int64_t live
    enum:
        FK_READONLY
        FK_FOREIGN
        FK_META
        FK_SHARED
        FK_NO_RESIZE
        FK_POINTED
        FK_LAZY
    fk_storage *fk_storage_new(int64_t nbytes)
    fk_storage *fk_storage_from(void *data, int64_t nbytes, void *owner, void (*release)(void *) noexcept nogil)
    fk_storage *fk_storage_meta(int64_t nbytes)
    void fk_storage_incref(fk_storage *s)
    void fk_storage_decref(fk_storage *s)

cdef extern from "fk_pool.h" nogil:
    void fk_parallel(fk_body body, char **p, const int64_t *n, const fk_scalar *s, int64_t total, int64_t grain)
    void fk_set_num_threads(int n)
    int fk_get_num_threads()
    const fk_runtime fk_runtime_table

cdef extern from "fk_cast.h" nogil:
    ctypedef void (*fk_cast_fn)(const char *src, char *dst, int64_t n) noexcept nogil
    fk_cast_fn fk_cast_get(int source, int target)

cdef extern from "fk_iterate.h" nogil:
    enum:
        FK_MAX_DIMS
        FK_MAX_OPERANDS
    ctypedef struct fk_iter:
        int ndim
        int nout
        int nin
        int64_t shape[64]
        int64_t stride[10][64]
        char *data[10]
        uint8_t dtype[10]
        uint8_t compute[10]
    void fk_iter_copy(fk_iter *to, const fk_iter *it)
    size_t fk_iter_bytes(const fk_iter *it)
    void fk_map_run(fk_map fn, const fk_scalar *s, fk_iter *it)

cdef extern from "fk_copy.h" nogil:
    void fk_copy_run(fk_iter *it)
    void fk_fill_run(fk_iter *it, const char *value)

cdef extern from "dlfcn.h" nogil:
    void *dlopen(const char *, int)
    void *dlsym(void *, const char *)
    char *dlerror()

cdef extern from "Python.h":
    ctypedef PyObject *(*vectorcallfunc)(PyObject *, PyObject *const *, size_t, PyObject *) except NULL
    PyObject *PyDict_GetItem(dict, object)
    PyObject *PyDict_GetItemWithError(object, object) except? NULL
    object PyObject_GenericGetAttr(object, object)
    object PyObject_GenericGetDict(object, void *)
    object PyMethod_New(object, object)
    object PyLong_FromLongLong(long long)
    long long PyLong_AsLongLong(object) except? -1
    long long PyLong_AsLongLongAndOverflow(object, int *) except? -1
    object PyObject_Vectorcall(object, PyObject *const *, size_t, PyObject *)
    ctypedef struct PySliceObject:
        PyObject *start
        PyObject *stop
        PyObject *step
    Py_ssize_t PyNumber_AsSsize_t(object, PyObject *) except? -1
    int PyNumber_Check(object)
    int PyIndex_Check(object)
    int PySequence_Check(object)
    int PyObject_TypeCheck(object, PyTypeObject *)
    int PyObject_IsTrue(object) except -1
    void PyType_Modified(object)
    int PyUnicode_Compare(object, object) except? -1

cdef extern from *:
    """
    #include <stddef.h>
    #define FK_DTYPES_N 20
    /* thread-local dispatch state: bits that are or-ed into every call, and the top of the interpreter stack */
    typedef struct { uint32_t keys; int saved_hooks; } fk_tls_t;
    static __thread fk_tls_t fk_tls = {0, 0};
    static inline uint32_t fk_tls_keys(void) { return fk_tls.keys; }
    static inline void fk_tls_set(uint32_t keys) { fk_tls.keys = keys; }
    static inline int fk_tls_hooks(void) { return fk_tls.saved_hooks; }
    static inline void fk_tls_hooks_set(int n) { fk_tls.saved_hooks = n; }
    static inline Py_ssize_t fk_refs(PyObject *o) { return Py_REFCNT(o); }
    static inline Py_ssize_t fk_nargs(size_t n) { return PyVectorcall_NARGS(n); }
    static void fk_type_vectorcall(PyTypeObject *type, Py_ssize_t offset) {
        type->tp_vectorcall_offset = offset;
        type->tp_call = PyVectorcall_Call;
        type->tp_flags |= Py_TPFLAGS_HAVE_VECTORCALL | Py_TPFLAGS_METHOD_DESCRIPTOR;
        PyType_Modified(type);
    }
    static void fk_type_mutable(PyTypeObject *type) {
        type->tp_flags &= ~Py_TPFLAGS_IMMUTABLETYPE;
        PyType_Modified(type);
    }
    /* an object of a subclass, as the static type makes it: nothing of the subclass runs */
    static PyObject *fk_type_bare(PyTypeObject *type, PyObject *subclass) {
        PyObject *none = PyTuple_New(0), *made;
        if (none == NULL) return NULL;
        made = type->tp_new((PyTypeObject *)subclass, none, NULL);
        Py_DECREF(none);
        return made;
    }
    /* the full name of a static type; the text must live as long as the type */
    static void fk_type_name(PyTypeObject *type, const char *name) {
        type->tp_name = name;
        PyType_Modified(type);
    }
    /* a lazy __dict__: the slot is a field of the object, visited and cleared beside Cython's own */
    static traverseproc fk_tensor_traverse_base;
    static inquiry fk_tensor_clear_base;
    static Py_ssize_t fk_tensor_dict_offset;
    static int fk_tensor_traverse(PyObject *o, visitproc visit, void *arg) {
        PyObject *d = *(PyObject **)((char *)o + fk_tensor_dict_offset);
        Py_VISIT(d);
        return fk_tensor_traverse_base(o, visit, arg);
    }
    static int fk_tensor_clear(PyObject *o) {
        PyObject **d = (PyObject **)((char *)o + fk_tensor_dict_offset);
        Py_CLEAR(*d);
        return fk_tensor_clear_base(o);
    }
    static PyGetSetDef fk_dict_getset = {"__dict__", PyObject_GenericGetDict, PyObject_GenericSetDict, NULL, NULL};
    static int fk_type_lazy_dict(PyTypeObject *type, Py_ssize_t offset) {
        PyObject *descriptor = PyDescr_NewGetSet(type, &fk_dict_getset);
        if (!descriptor) return -1;
        fk_tensor_dict_offset = offset;
        fk_tensor_traverse_base = type->tp_traverse;
        fk_tensor_clear_base = type->tp_clear;
        type->tp_traverse = fk_tensor_traverse;
        type->tp_clear = fk_tensor_clear;
        type->tp_dictoffset = offset;
        int r = PyDict_SetItemString(type->tp_dict, "__dict__", descriptor);
        Py_DECREF(descriptor);
        PyType_Modified(type);
        return r;
    }
    """
    enum:
        FK_DTYPES_N
    uint32_t fk_tls_keys() nogil
    void fk_tls_set(uint32_t) nogil
    int fk_tls_hooks() nogil
    void fk_tls_hooks_set(int) nogil
    Py_ssize_t fk_refs(PyObject *)
    Py_ssize_t fk_nargs(size_t)
    void fk_type_vectorcall(PyTypeObject *, Py_ssize_t)
    object fk_type_bare(PyTypeObject *, object)
    void fk_type_mutable(PyTypeObject *)
    void fk_type_name(PyTypeObject *, const char *)
    int fk_type_lazy_dict(PyTypeObject *, Py_ssize_t) except -1

# the bits that route a call: `a.keys | b.keys | tls.keys`
cdef enum:
    K_GRAD = 1            # requires grad
    K_STRIDED = 2         # not contiguous
    K_OVERRIDE = 4        # a subclass with __torch_function__
    K_FUNCTION_MODE = 8   # (tls) a TorchFunctionMode is active
    K_NOGRAD = 16         # (tls) grad mode is off
    K_FOREIGN = 32        # a device that is neither cpu nor meta
    K_META = 64           # no data
    K_WRAPPED = 128       # a Python number in the guise of a 0-d tensor
    K_INFERENCE = 256     # an inference tensor; (tls) inference mode
    K_DISPATCH = 512      # a subclass with __torch_dispatch__; (tls) a TorchDispatchMode
    K_INTERPRETER = 1024  # (tls) a function transform
    K_PLAIN = 2048        # (tls) overrides of subclasses are off
    K_UNCOUNTED = 4096    # made by `.data`: its writes are none of autograd's business
    K_AUTOCAST = 8192     # (tls) autocast is on
    K_TRANSFORM = 16384   # a wrapper that a function transform made: it has no elements of its own
    K_PROFILE = 32768     # (tls) a profiler hears of every call
    K_PROFILED = 65536    # (tls) the profiler has heard of the call that starts now
    K_FAKE = 131072       # a tensor without elements that stands for one with them
    K_SPARSE = 262144     # a tensor made of indices and values: it has no elements of its own
    K_KEEP = 524288       # (tls) the launches of an operator are being noted, see `launch_cache.pxi`
    K_PIECE = 1048576     # a view from a call of several or from a custom function: autograd lets nobody write to it
    K_STEPS = 2097152     # (tls) gradients of gradients are computed: those of 16-bit floats round after each step
    K_SLOW = 4 | 8 | 32 | 512 | 1024 | 8192 | 16384 | 32768 | 262144 | 524288
    K_DETOUR = K_SLOW - K_PROFILE        # what makes gradients go through operators instead of their kernels
    K_SLOW_METHOD = K_SLOW - K_AUTOCAST  # for what has no autocast policy: methods, subscripts
    MAX_DIMS = 64
    FEW_DIMS = 16         # so many sizes and strides stand in the tensor itself
    MAX_ARGS = 24
    TINY = 1024           # elements that one call handles without any iteration machinery
    GIL_FREE = 65536      # elements from which on the GIL is released
