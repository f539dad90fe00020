# Aliases: the further public names of operators, each an object of its own, as in PyTorch.
#
# Takes: an operator or its in-place form, and a place: `Tensor.abs` and `absolute` beside `abs`.
# Gives: a callable that reads its arguments and runs as the operator does, by the same code.
# Keeps true: overrides of functions are told the name that was called; everything below them gets the operator.

#: modules of functions that PyTorch's texts call by the names that its extension module has for them: `_C._fft.fft_fft`
cdef tuple EXTENSIONS = ("fft", "linalg", "special")


def called(str place, str name, str home=""):
    """The module and the name under which texts call a public function; under PyTorch's name those of its own texts."""
    package = DTYPE_PREFIX[0]
    if package != OWN_PREFIX:
        if home:
            place, _, name = home.rpartition(".")
        elif place in EXTENSIONS:
            place, name = "_C._" + place, place + "_" + name
    return (package if place in ("", "Tensor") else package + "." + place), name


cdef str shown_function(object function, str own):
    """What `repr` says of a function: `<operator add>`, and under PyTorch's name what Python says of such a function."""
    package = DTYPE_PREFIX[0]
    if package == OWN_PREFIX:
        return ("<in-place operator %s>" if isinstance(function, InplaceOp) else "<operator %s>") % own
    module, name = function.__module__, function.__name__
    if module == package:
        return "<built-in method %s of type object at 0x%x>" % (name, id(type(function)))
    if module.startswith(package + "._C."):
        return "<built-in function %s>" % name
    return "<function %s at 0x%x>" % (name, id(function))


cdef class Alias:
    """Another public name of an operator, or of its in-place form."""
    cdef vectorcallfunc vectorcall
    cdef Op op
    cdef int form
    cdef readonly object _op     # the operator, or the in-place form
    cdef str place, last
    cdef dict __dict__

    def __cinit__(self, target=None, str place="", str last=""):
        self.vectorcall = <vectorcallfunc>alias_vectorcall

    def __init__(self, target, str place, str last):
        self._op = target
        self.op = <Op?>(target.op if isinstance(target, InplaceOp) else target)
        self.form = FORM_INPLACE if isinstance(target, InplaceOp) else FORM_FUNCTIONAL
        self.place = place
        self.last = last
        if place == "Tensor":
            if self.form == FORM_INPLACE:
                if (<InplaceOp>target).method is None: (<InplaceOp>target).method = self
            elif self.op.method is None:
                self.op.method = self

    def __get__(self, instance, owner):
        return self if instance is None else PyMethod_New(self, instance)

    def __getattr__(self, name):
        return getattr(self._op, name)

    def __repr__(self):
        if self.place == "Tensor":
            return "<method '%s' of '%s.Tensor' objects>" % (self.last, DTYPE_PREFIX[0])
        return shown_function(self, self.place + "." + self.last if self.place else self.last)

    def __reduce__(self):
        return self.__qualname__

    def __deepcopy__(self, memo):
        return self

    def __copy__(self):
        return self

    @property
    def __name__(self):
        return called(self.place, self.last)[1]

    @property
    def __qualname__(self):
        return "Tensor." + self.last if self.place == "Tensor" else self.__name__

    @property
    def __module__(self):
        return called(self.place, self.last)[0]

    @property
    def __objclass__(self):
        if self.place != "Tensor":
            raise AttributeError("operator '%s' is no method" % self.last)
        return Tensor

    @property
    def __doc__(self):
        return self._op.__doc__

    @property
    def __signature__(self):
        return self._op.__signature__


cdef PyObject *alias_vectorcall(PyObject *self, PyObject *const *args, size_t nargsf, PyObject *kwnames) except NULL:
    r = op_call((<Alias>self).op, args, fk_nargs(nargsf), kwnames, (<Alias>self).form, self)
    Py_INCREF(r)
    return <PyObject *>r


def operator_of(function):
    """The operator or in-place form that a function is another name of; any other function as it is."""
    if type(function) is Alias: return (<Alias>function)._op
    if type(function) is SLOT or type(function) is METHOD: return SIGNS.get(function, function)
    return function


#: what the methods of Python's own operators are
cdef object SLOT = type(object.__eq__), METHOD = type(str.join)


#: methods of Python's own operators that overrides are told of: `Tensor.__eq__` -> the operator or in-place form
cdef dict SIGNS = {}


cdef int bind_sign(Op op, object sign, object inplace_sign) except -1:
    """Let overrides hear of Python's own operators by these names, as in PyTorch."""
    op.sign = sign
    op.inplace_sign = inplace_sign
    SIGNS[sign] = op
    if inplace_sign is not None: SIGNS[inplace_sign] = op.inplace
    return 0


cdef object offer_binary(Op op, object a, object b, uint32_t k):
    """Offer `a + b` to the overrides as the method of the tensor in it, which stands first."""
    if isinstance(a, Tensor) or not isinstance(b, Tensor):
        return torch_function(method_of(op) if op.sign is None else op.sign, (a, b), {}, k)
    if op.reflected is None:
        return torch_function(method_of(op), (b, a), {}, k)
    return torch_function(op.reflected, (b, a), {}, k)
