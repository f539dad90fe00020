# Names that a captured program has looked up: attributes of classes, globals of modules, the code of functions.
#
# Takes: (owner, name, value, whether there is one) for dictionaries and classes, and functions with their code. Gives:
# `NameWatch.hold()`: whether every look-up would give the same object still.
# Keeps true: an owner whose version did not change is not looked into; one that changed elsewhere is looked into once, name
# by name, and then has a new version that holds.

cdef extern from *:
    """
    #if defined(__GNUC__)
    #pragma GCC diagnostic push
    #pragma GCC diagnostic ignored "-Wdeprecated-declarations"
    #endif
    /* A number that is another one after each change of a dictionary; 0 where there is none. */
    static inline uint64_t fk_dictionary_version(PyObject *d) {
    #if PY_VERSION_HEX < 0x030E0000
        return ((PyDictObject *)d)->ma_version_tag;
    #else
        (void)d; return 0;
    #endif
    }
    #if defined(__GNUC__)
    #pragma GCC diagnostic pop
    #endif
    /* The same for a class and its bases. */
    static inline uint64_t fk_class_version(PyObject *o) {
        PyTypeObject *t = (PyTypeObject *)o;
    #if PY_VERSION_HEX < 0x030E0000
        if (!PyType_HasFeature(t, Py_TPFLAGS_VALID_VERSION_TAG)) return 0;
    #endif
        return t->tp_version_tag;
    }
    """
    uint64_t fk_dictionary_version(PyObject *)
    uint64_t fk_class_version(PyObject *)
    PyObject *_PyType_Lookup(PyTypeObject *, object)
    PyObject *PyFunction_GetCode(object)


cdef struct WatchedOwner:
    PyObject *owner
    uint64_t version
    bint is_class


cdef class NameWatch:
    """`hold()`: whether look-ups give what they gave."""
    cdef WatchedOwner *owners
    cdef list names              # for each owner: (name, value, whether there is one)
    cdef tuple functions, codes
    cdef list kept
    cdef int count

    def __cinit__(self, list looked_up, list functions):
        """looked_up: (dictionary or class, name, value, whether there is one); functions: (function, code)."""
        cdef dict places = {}
        cdef int i
        self.names = []
        self.kept = []
        for owner, name, value, there in looked_up:
            place = places.setdefault(id(owner), len(places))
            if place == len(self.kept):
                self.kept.append(owner)
                self.names.append([])
            self.names[place].append((name, value, bool(there)))
        self.functions = tuple([function for function, _ in functions])
        self.codes = tuple([code for _, code in functions])
        self.count = <int>len(self.kept)
        self.owners = <WatchedOwner *>malloc((self.count + 1) * sizeof(WatchedOwner))
        for i in range(self.count):
            self.owners[i].owner = <PyObject *>self.kept[i]
            self.owners[i].is_class = isinstance(self.kept[i], type)
            self.owners[i].version = 0

    def __dealloc__(self):
        free(self.owners)

    def hold(self):
        """Whether all of it is as it was."""
        return self.holds()

    cdef bint holds(self) except -1:
        cdef int i
        cdef uint64_t version
        cdef PyObject *owner
        for i in range(<int>PyTuple_GET_SIZE(self.functions)):
            if PyFunction_GetCode(<object>PyTuple_GET_ITEM(self.functions, i)) != PyTuple_GET_ITEM(self.codes, i):
                return False
        for i in range(self.count):
            owner = self.owners[i].owner
            version = fk_class_version(owner) if self.owners[i].is_class else fk_dictionary_version(owner)
            if (version == 0 or version != self.owners[i].version) and not self.looked_into(i):
                return False
        return True

    cdef bint looked_into(self, int i) except -1:
        """Whether each name of an owner gives what it gave; then that version holds."""
        cdef object owner = self.kept[i], value
        cdef bint there, is_class = self.owners[i].is_class
        cdef PyObject *found
        for name, value, there in <list>self.names[i]:
            found = _PyType_Lookup(<PyTypeObject *>owner, name) if is_class else PyDict_GetItemWithError(owner, name)
            if found == NULL:
                if there: return False
            elif not there: return False
            elif found != <PyObject *>value and not is_equal_literal(<object>found, value): return False
        self.owners[i].version = fk_class_version(<PyObject *>owner) if is_class else fk_dictionary_version(<PyObject *>owner)
        return True


cdef bint is_equal_literal(object found, object value) except -1:
    """Numbers and text are what they are worth; of other things it has to be the same one."""
    if type(found) is not type(value) or type(value) not in (int, bool, float, str, bytes):
        return False
    return found == value
