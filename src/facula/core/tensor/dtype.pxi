# dtypes, devices, layouts, memory formats, Size, and the promotion rules.

cdef enum:
    F32, F64, F16, BF16, I64, I32, I16, I8, U8, B8, C64, C128, C32, U16, U32, U64, F8E4M3, F8E5M2, F8E4M3Z, F8E5M2Z
    NO_DTYPE = 255
# kinds, in promotion order
cdef enum:
    KIND_BOOL, KIND_INT, KIND_FLOAT, KIND_COMPLEX

cdef tuple _DTYPE_ROWS = (
    # name, code, bytes, kind, NumPy name, old tensor-type word
    ("float32", "f32", 4, KIND_FLOAT, "float32", "Float"),
    ("float64", "f64", 8, KIND_FLOAT, "float64", "Double"),
    ("float16", "f16", 2, KIND_FLOAT, "float16", "Half"),
    ("bfloat16", "bf16", 2, KIND_FLOAT, None, "BFloat16"),
    ("int64", "i64", 8, KIND_INT, "int64", "Long"),
    ("int32", "i32", 4, KIND_INT, "int32", "Int"),
    ("int16", "i16", 2, KIND_INT, "int16", "Short"),
    ("int8", "i8", 1, KIND_INT, "int8", "Char"),
    ("uint8", "u8", 1, KIND_INT, "uint8", "Byte"),
    ("bool", "b8", 1, KIND_BOOL, "bool", "Bool"),
    ("complex64", "c64", 8, KIND_COMPLEX, "complex64", "ComplexFloat"),
    ("complex128", "c128", 16, KIND_COMPLEX, "complex128", "ComplexDouble"),
    ("complex32", "c32", 4, KIND_COMPLEX, None, "ComplexHalf"),
    ("uint16", "u16", 2, KIND_INT, "uint16", "UInt16"),
    ("uint32", "u32", 4, KIND_INT, "uint32", "UInt32"),
    ("uint64", "u64", 8, KIND_INT, "uint64", "UInt64"),
    ("float8_e4m3fn", "f8e4m3", 1, KIND_FLOAT, None, "Float8_e4m3fn"),
    ("float8_e5m2", "f8e5m2", 1, KIND_FLOAT, None, "Float8_e5m2"),
    ("float8_e4m3fnuz", "f8e4m3z", 1, KIND_FLOAT, None, "Float8_e4m3fnuz"),
    ("float8_e5m2fnuz", "f8e5m2z", 1, KIND_FLOAT, None, "Float8_e5m2fnuz"),
)

cdef int64_t ITEMSIZE[20]
cdef unsigned char KIND[20]
cdef unsigned char PROMOTE[20][20]
cdef unsigned char COMPUTE[20]      # the dtype in which pointwise kernels work
cdef unsigned char REAL_OF[20]
cdef unsigned char COMPLEX_OF[20]


cdef class dtype:
    """The type of a tensor's elements, such as ``facula.float32``.

    Attributes: ``itemsize`` in bytes, ``is_floating_point``, ``is_complex``, ``is_signed``;
    ``code`` is the short name in kernel names, ``index`` the number that C uses.

    Example:
        >>> facula.float32.itemsize, facula.int8.is_signed
        (4, True)
    """
    cdef readonly int index
    cdef readonly str name, code, type_word
    cdef readonly object numpy_name
    cdef readonly int itemsize, kind
    cdef readonly bint is_floating_point, is_complex, has_sign

    def __init__(self):
        raise said(TypeError, "[dtype] dtypes are constants such as facula.float32: they are not made by calling dtype()\nhint: x.to(facula.float32) converts a tensor")

    def __repr__(self):
        return DTYPE_PREFIX[0] + "." + self.name

    @property
    def is_signed(self):
        """Whether it holds numbers below zero."""
        if self.kind == KIND_INT and self.numpy_name is None and self.type_word[0] == "Q":
            raise said(RuntimeError, "[is_signed] a dtype of plain numbers was required: is_signed is not supported for quantized "
                       "dtypes: got %s\nhint: ask the dtype of x.int_repr()" % self.name)
        return self.has_sign

    def __reduce__(self):
        return self.name

    @property
    def __module__(self):
        # where pickle finds the name: without it, it would search all modules
        return "facula"

    def __hash__(self):
        return self.index + 7919

    def to_real(self):
        """The real dtype of the same precision."""
        return DTYPES[REAL_OF[self.index]]

    def to_complex(self):
        """The complex dtype of the same precision."""
        return DTYPES[COMPLEX_OF[self.index]]


cdef str OWN_PREFIX = "facula"
#: the prefix of a dtype's repr, "torch" under the alias
DTYPE_PREFIX = [OWN_PREFIX]
# names of ours in a text: `facula.ones`, "module 'facula'", but no files and no name inside of another
_OWN_NAMES = r"(?<![\w./\\-])facula(?=\.(?!pyi?\b)[A-Za-z_])|(?<=module ')facula(?=')"


def spoken(str text):
    """A message with facula's names as the program knows them: those of its alias where it has one."""
    if DTYPE_PREFIX[0] == OWN_PREFIX:
        return text
    import re  # lazily: without an alias nothing here needs it

    return re.sub(_OWN_NAMES, DTYPE_PREFIX[0], text)


cdef object said(object kind, str text):
    """An exception of ours: every message of the core is made here."""
    return kind(spoken(text))


cdef int64_t whole_slow(object v, str op, object kind) except? -1:
    """An integer that is none of Python's own of 64 bits."""
    cdef int overflow = 0
    cdef int64_t n
    if isinstance(v, float) or not hasattr(v, "__index__"):
        raise said(TypeError, "[%s] an integer was required: got %s" % (op, type(v).__name__) + "\nhint: int(value) converts a number")
    v = v.__index__()
    n = PyLong_AsLongLongAndOverflow(v, &overflow)
    if overflow:
        raise said(kind, "[%s] an integer of 64 bits was required: got %s (Overflow when unpacking long long)" % (op, v)
                   + "\nhint: sizes and places are smaller than 2**63")
    return n


cdef inline int64_t whole(object v, str op, object kind) except? -1:
    """An integer of 64 bits; `kind` is raised for a larger one."""
    cdef int overflow = 0
    cdef int64_t n
    if PyLong_CheckExact(v):
        n = PyLong_AsLongLongAndOverflow(v, &overflow)
        if not overflow:
            return n
    return whole_slow(v, op, kind)


cdef int raise_bool_for_int(str op, str name) except -1:
    """Where a truth value stands for a number, something else was meant: `x.sum(True)` for `x.sum(keepdim=True)`."""
    raise said(TypeError, "[%s] an integer was required: argument '%s' must be int, not bool" % (op, name) + "\nhint: int(value) converts a truth value; keepdim and the like are given by name")


cdef list DTYPES = []
cdef dict DTYPE_BY_NAME = {}
cdef dict DTYPE_BY_CODE = {}
QUANTIZED = {}                      # the dtypes of quantized tensors by name; no tensor of the core has one of them
NARROW = {}                         # words for what bytes hold (integers of less than 8 bits, floats of 4): no tensor has one of them


cdef void _make_dtypes() except *:
    cdef int i = 0, a, b
    cdef dtype d
    for name, code, size, kind, numpy_name, word in _DTYPE_ROWS:
        d = dtype.__new__(dtype)
        d.index = i; d.name = name; d.code = code; d.itemsize = size; d.kind = kind
        d.numpy_name = numpy_name; d.type_word = word
        d.is_floating_point = kind == KIND_FLOAT
        d.is_complex = kind == KIND_COMPLEX
        d.has_sign = not (name.startswith("uint") or name == "bool")
        ITEMSIZE[i] = size; KIND[i] = kind
        DTYPES.append(d); DTYPE_BY_NAME[name] = d; DTYPE_BY_CODE[code] = d
        globals()[name if name not in ("bool",) else "bool_"] = d
        i += 1
    # the dtypes of quantized tensors: the core stores integers, and what they stand for is the tensor's class's business
    for name, code, size, word in (("quint8", "qu8", 1, "QUInt8"), ("qint8", "qi8", 1, "QInt8"), ("qint32", "qi32", 4, "QInt32"),
                                   ("quint4x2", "qu4", 1, "QUInt4x2"), ("quint2x4", "qu2", 1, "QUInt2x4")):
        d = dtype.__new__(dtype)
        d.index = i; d.name = name; d.code = code; d.itemsize = size; d.kind = KIND_INT
        d.numpy_name = None; d.type_word = word; d.has_sign = name.startswith("qi")
        QUANTIZED[name] = d
        globals()[name] = d
        i += 1
    for name, word in (("uint%d", "UInt%d"), ("int%d", "Int%d")):
        for a in range(1, 8):
            d = dtype.__new__(dtype)
            d.index = i; d.name = name % a; d.code = "%s%d" % (name[0], a); d.itemsize = 1; d.kind = KIND_INT
            d.numpy_name = None; d.type_word = word % a; d.has_sign = name[0] == "i"
            NARROW[d.name] = d
            globals()[d.name] = d
            i += 1
    for name, code, word in (("float8_e8m0fnu", "f8e8m0", "Float8_e8m0fnu"), ("float4_e2m1fn_x2", "f4x2", "Float4_e2m1fn_x2")):
        d = dtype.__new__(dtype)
        d.index = i; d.name = name; d.code = code; d.itemsize = 1; d.kind = KIND_FLOAT; d.is_floating_point = True
        d.numpy_name = None; d.type_word = word; d.has_sign = name != "float8_e8m0fnu"
        NARROW[name] = d
        globals()[name] = d
        i += 1
    for a in range(20):
        COMPUTE[a] = a; REAL_OF[a] = a; COMPLEX_OF[a] = C64
    COMPUTE[F16] = COMPUTE[BF16] = COMPUTE[F8E4M3] = COMPUTE[F8E5M2] = COMPUTE[F8E4M3Z] = COMPUTE[F8E5M2Z] = F32
    COMPUTE[I16] = COMPUTE[I8] = COMPUTE[U8] = COMPUTE[U16] = I32
    COMPUTE[U32] = COMPUTE[U64] = I64
    COMPUTE[C32] = C64
    REAL_OF[C64] = F32; REAL_OF[C128] = F64; REAL_OF[C32] = F16
    COMPLEX_OF[F64] = C128; COMPLEX_OF[F16] = C32; COMPLEX_OF[C128] = C128; COMPLEX_OF[C32] = C32
    for a in range(20):
        for b in range(20):
            PROMOTE[a][b] = _promote_pair(a, b)


cdef int _promote_pair(int a, int b):
    """PyTorch's lattice: the smallest dtype of the higher kind that holds both."""
    cdef int x
    if a == b:
        return a
    if a >= F8E4M3 or b >= F8E4M3:
        return NO_DTYPE                  # 8 bits promote with themselves only
    if KIND[a] < KIND[b]:
        a, b = b, a
    if KIND[a] == KIND_COMPLEX:
        if KIND[b] == KIND_COMPLEX:
            return C128 if C128 in (a, b) else C64
        if b == F64:
            return C128
        if a == C32 and (b == F32 or b == BF16):
            return C64
        return a
    if KIND[a] == KIND_FLOAT:
        if KIND[b] != KIND_FLOAT:
            return a
        if F64 in (a, b): return F64
        if F32 in (a, b): return F32
        return F32                       # f16 with bf16
    if KIND[a] == KIND_INT and KIND[b] == KIND_BOOL:
        return a
    # two integers
    if a in (U16, U32, U64) or b in (U16, U32, U64):
        x = a if ITEMSIZE[a] >= ITEMSIZE[b] else b
        if (a in (U8, U16, U32, U64)) == (b in (U8, U16, U32, U64)):
            return x
        return NO_DTYPE if U64 in (a, b) else I64      # no integer dtype holds both
    if U8 in (a, b):
        x = b if a == U8 else a
        return I16 if x == I8 else x
    return a if ITEMSIZE[a] >= ITEMSIZE[b] else b

_make_dtypes()
cdef int DEFAULT_DTYPE = F32


cdef inline int promoted(int a, int b) except -1:
    """The dtype that holds both; NO_DTYPE for `a` stands for nothing yet."""
    if a == NO_DTYPE: return b
    if PROMOTE[a][b] == NO_DTYPE: raise_promotion(a, b)
    return PROMOTE[a][b]


cdef int raise_promotion(int a, int b) except -1:
    if KIND[a] >= KIND_FLOAT or KIND[b] >= KIND_FLOAT:
        raise said(RuntimeError, "[promote] dtypes that one dtype holds were required: got %s and %s (Promotion for Float8 Types is not "
                                 "supported, attempted to promote %s and %s)\nhint: convert the tensor of 8 bits with .to()"
                   % ((<dtype>DTYPES[a]).name, (<dtype>DTYPES[b]).name, (<dtype>DTYPES[a]).type_word, (<dtype>DTYPES[b]).type_word))
    raise said(RuntimeError, "[promote] dtypes that one dtype holds were required: got %s and %s (Promotion for uint16, uint32, uint64 "
                             "types is not supported, attempted to promote %s and %s)\nhint: no integer dtype holds uint64 and negative "
                             "numbers; convert one of the two with .to()"
               % ((<dtype>DTYPES[a]).name, (<dtype>DTYPES[b]).name, (<dtype>DTYPES[a]).type_word, (<dtype>DTYPES[b]).type_word))


def set_default_dtype(d):
    """The dtype that Python floats become.

    Args:
        d: a floating-point dtype

    Raises:
        TypeError: the dtype is no floating-point one.

    Example:
        >>> facula.set_default_dtype(facula.float64)
        >>> facula.tensor(0.5).dtype
        facula.float64
        >>> facula.set_default_dtype(facula.float32)
    """
    global DEFAULT_DTYPE
    cdef dtype t = as_dtype(d)
    if not t.is_floating_point:
        raise said(TypeError, "[set_default_dtype] a floating-point dtype was required: got " + repr(t)
                        + "\nhint: integer and bool defaults are fixed (int64, bool)")
    DEFAULT_DTYPE = t.index


def get_default_dtype():
    """The dtype that Python floats become.

    Example:
        >>> facula.get_default_dtype()
        facula.float32
    """
    return DTYPES[DEFAULT_DTYPE]


cdef dict _PYTHON_DTYPES = {float: None, int: DTYPES[I64], bool: DTYPES[B8], complex: None}


cdef dtype as_dtype(object x):
    """A dtype from a dtype or one of Python's number types."""
    if type(x) is dtype:
        if (<dtype>x).index > F8E5M2Z:
            if (<dtype>x).name in NARROW:
                raise said(NotImplementedError, "[dtype] a dtype of plain tensors was required: got %r (\"copy_\" not implemented for '%s')\nhint: "
                           "%s holds the numbers, two or more in a byte where a program packs them"
                           % (x, (<dtype>x).type_word, "facula.int8" if (<dtype>x).is_signed and not (<dtype>x).is_floating_point else "facula.uint8"))
            raise said(RuntimeError, "[dtype] a dtype of plain tensors was required: got " + repr(x) + " (Could not run with arguments from the 'QuantizedCPU' backend)\nhint: "
                       "facula.quantize_per_tensor(x, scale, zero_point, dtype) makes quantized tensors")
        return <dtype>x
    if x is float: return DTYPES[F64]
    if x is int: return DTYPES[I64]
    if x is bool: return DTYPES[B8]
    if x is complex: return DTYPES[C128]
    raise said(TypeError, "[dtype] a dtype was required: got " + repr(x) + "\nhint: facula.float32, facula.int64, facula.bool, ...")


def promote_types(a, b):
    """The dtype that holds the values of both, as arithmetic of tensors has it.

    Args:
        a, b: dtypes

    Example:
        >>> facula.promote_types(facula.int32, facula.float16)
        facula.float16
    """
    return DTYPES[promoted(as_dtype(a).index, as_dtype(b).index)]


def can_cast(from_, to):
    """Whether an in-place result of one dtype may be stored as another: floats not as ints, for
    example.

    Args:
        from_, to: dtypes

    Example:
        >>> facula.can_cast(facula.float32, facula.int32), facula.can_cast(facula.int32, facula.float32)
        (False, True)
    """
    return bool(kind_fits(as_dtype(from_).index, as_dtype(to).index))


cdef inline bint kind_fits(int source, int target):
    if KIND[source] == KIND_COMPLEX and KIND[target] != KIND_COMPLEX: return False
    if KIND[source] == KIND_FLOAT and KIND[target] < KIND_FLOAT: return False
    if KIND[source] == KIND_INT and KIND[target] == KIND_BOOL: return False
    return True


cdef inline int combine_categories(int higher, int lower) except -1:
    """`higher` decides unless `lower` is of a higher kind."""
    if higher == NO_DTYPE: return lower
    if lower == NO_DTYPE: return higher
    if KIND[higher] == KIND_COMPLEX: return higher
    if KIND[higher] == KIND_FLOAT:
        return COMPLEX_OF[higher] if KIND[lower] == KIND_COMPLEX else higher
    if KIND[higher] == KIND_BOOL or KIND[lower] >= KIND_FLOAT:
        return promoted(higher, lower)
    return higher


# ------------------------------------------------------------------ devices

cdef class device:
    """Where a tensor lives: a type ('cpu', 'meta', or that of a registered backend) and an index.

    Args:
        type: the type, or 'type:index'
        index: the number; None for the present one

    Raises:
        RuntimeError: there is no such backend.

    Example:
        >>> facula.device("cpu").type, facula.device("meta:0").index
        ('cpu', 0)
    """
    cdef readonly str type
    cdef readonly object index

    def __init__(self, type, index=None):
        cdef str text
        if isinstance(type, device):
            self.type = (<device>type).type; self.index = (<device>type).index if index is None else index
            return
        if isinstance(type, int):
            raise said(RuntimeError, "[device] a device type was required: got the index %d alone\nhint: no accelerator is "
                               "registered; use device('cpu')" % type)
        text = type
        if ":" in text:
            text, _, number = text.partition(":")
            if index is not None or not number.isdigit() or (len(number) > 1 and number[0] == "0"):
                raise said(RuntimeError, "[device] 'type' or 'type:index' was required: got %r\nhint: for example "
                                   "'cpu' or 'cuda:0'" % (type,))
            index = int(number)
        if text not in DEVICE_TYPES and not find_backend(text):
            raise said(RuntimeError, "[device] one of " + ", ".join(sorted(DEVICE_TYPES)) + " was required: got %r\nhint: other "
                               "devices come from backend packages" % (type,))
        self.type = text; self.index = index

    def __repr__(self):
        if self.index is None:
            return "device(type='%s')" % self.type
        return "device(type='%s', index=%d)" % (self.type, self.index)

    def __str__(self):
        return self.type if self.index is None else "%s:%d" % (self.type, self.index)

    def __eq__(self, other):
        return isinstance(other, device) and self.type == (<device>other).type and self.index == (<device>other).index

    def __hash__(self):
        return hash((self.type, self.index))

    def __reduce__(self):
        return (device, (self.type, self.index) if self.index is not None else (self.type,))

    def __enter__(self):
        global fk_in_operator
        ENTERED.append(self)
        LEFT.append(fk_in_operator)
        fk_in_operator = 0           # entered by what an operator calls: it holds there
        return self

    def __exit__(self, *exc):
        global fk_in_operator
        ENTERED.pop()
        fk_in_operator = LEFT.pop()


#: device types that may be named; backends add theirs
DEVICE_TYPES = {"cpu", "meta", "cuda", "mps", "xpu"}
cdef list DEVICES = []           # by number: 0 cpu, 1 meta, then as they come
cdef dict DEVICE_NUMBER = {}
cdef list ENTERED = []           # devices that tensors are made on which are told none, the innermost last
cdef list LEFT = []              # for each `with device`, whether an operator ran around it
DEVICE_STACK = ENTERED

cdef extern from *:
    """
    static __thread int fk_in_operator;       /* what an operator makes on its way lies where its arguments lie */
    """
    int fk_in_operator


cdef int device_number(object x) except -1:
    """The core's number of a device given as None, a string, an index or a device."""
    cdef device d
    if x is None:
        if not ENTERED or fk_in_operator:
            return 0
        x = ENTERED[len(ENTERED) - 1]
    n = DEVICE_NUMBER.get(x)
    if n is not None:
        return n
    d = x if isinstance(x, device) else device(x)
    n = DEVICE_NUMBER.get(d)
    if n is None:
        if d.type == "cpu":
            n = 0
        elif d.type == "meta":
            n = 1
        else:
            if d.type not in BACKENDS and not find_backend(d.type):
                raise said(RuntimeError, "[device] a device with a backend was required: got '%s'\nhint: this installation has "
                                   "cpu and meta; other devices come from backend packages" % d)
            counted = getattr(BACKENDS[d.type], "current_device", None)
            if d.index is None and counted is not None:     # the one in use: not kept, since another may be chosen
                return device_number(device(d.type, counted()))
            n = len(DEVICES)
            DEVICES.append(d)
        DEVICE_NUMBER[d] = n
    return n

#: backends of other devices by type, see `facula.backends`
BACKENDS = {}
#: slot: device type -> whether a backend for it could be found and registered
FIND_BACKEND = [None]


cdef bint find_backend(str type) except -1:
    return FIND_BACKEND[0] is not None and FIND_BACKEND[0](type)


DEVICES.append(device("cpu"))
DEVICES.append(device("meta"))
for _i, _d in enumerate(DEVICES):
    DEVICE_NUMBER[_d] = _i
    DEVICE_NUMBER[(<device>_d).type] = _i


class _Constant:
    """A named constant of the public API."""

    def __init__(self, family, name):
        self.family, self.name = family, name

    def __repr__(self):
        return DTYPE_PREFIX[0] + "." + self.name

    def __reduce__(self):
        return self.name


class layout(_Constant):
    """How the elements of a tensor are arranged: ``facula.strided``, ``facula.sparse_coo`` and others.

    Args:
        name: its name

    Example:
        >>> facula.ones(1).layout
        facula.strided
    """

    def __init__(self, name):
        super().__init__("layout", name)


class memory_format(_Constant):
    """The order of the dimensions in memory: ``facula.contiguous_format``, ``facula.channels_last``
    and others.

    Args:
        name: its name

    Example:
        >>> facula.ones(1, 2, 3, 3).to(memory_format=facula.channels_last).stride()
        (18, 1, 6, 2)
    """

    def __init__(self, name):
        super().__init__("memory_format", name)


strided, sparse_coo, sparse_csr, sparse_csc, sparse_bsr, sparse_bsc, jagged = (
    layout(_n) for _n in ("strided", "sparse_coo", "sparse_csr", "sparse_csc", "sparse_bsr", "sparse_bsc", "jagged"))
contiguous_format, channels_last, channels_last_3d, preserve_format = (
    memory_format(_n) for _n in ("contiguous_format", "channels_last", "channels_last_3d", "preserve_format"))


class Size(tuple):
    """The shape of a tensor: a tuple of ints; ``numel()`` is their product.

    Args:
        iterable: the ints

    Raises:
        TypeError: an element is no int.

    Example:
        >>> facula.Size([2, 3]).numel()
        6
    """
    __slots__ = ()

    def __new__(cls, iterable=()):
        values = tuple.__new__(cls, iterable)
        for v in values:
            if not isinstance(v, int):
                if not hasattr(v, "__index__"):
                    raise said(TypeError, "[Size] integers were required: got " + type(v).__name__ + "\nhint: int(size) converts")
                if isinstance(v, Tensor): v.__index__()   # raises where it holds no integer
        return values

    def numel(self):
        """The product of the sizes."""
        n = 1
        for v in self:
            n *= v
        return n

    def __repr__(self):
        return DTYPE_PREFIX[0] + ".Size(" + repr(list(self)) + ")"

    __str__ = __repr__

    def __add__(self, value):
        if not isinstance(value, tuple):
            if hasattr(value, "__radd__"): return NotImplemented
            raise said(TypeError, "[Size] a tuple was required: can only concatenate tuple (not %s) to torch.Size" % type(value).__name__ + "\nhint: tuple(sizes) makes one")
        return Size(tuple.__add__(self, value))

    def __radd__(self, value):
        if not isinstance(value, tuple):
            return NotImplemented
        return Size(tuple.__add__(value, self))

    def __mul__(self, value):
        return Size(tuple.__mul__(self, value))

    __rmul__ = __mul__

    def __getitem__(self, key):
        value = tuple.__getitem__(self, key)
        return Size(value) if isinstance(key, slice) else value

    def __reduce__(self):
        return (Size, (tuple(self),))

cdef extern from *:
    """
    /* shape[0] and shape[1:] without a Python call: what `Size.__getitem__` says, in the slots of the class */
    static PyObject *fk_size_subscript(PyObject *self, PyObject *key) {
        PyObject *value = PyTuple_Type.tp_as_mapping->mp_subscript(self, key), *size;
        if (!value || !PySlice_Check(key)) return value;
        size = fk_object_tuple(fk_sizes_class, PyTuple_GET_SIZE(value), &PyTuple_GET_ITEM(value, 0));
        Py_DECREF(value);
        return size;
    }
    static void fk_size_slots(PyObject *size) {
        PyTypeObject *kind = (PyTypeObject *)size;
        fk_sizes_class = size;
        kind->tp_as_mapping->mp_subscript = fk_size_subscript;
        kind->tp_as_sequence->sq_item = PyTuple_Type.tp_as_sequence->sq_item;
    }
    """
    void fk_size_slots(PyObject *size)

fk_size_slots(<PyObject *>Size)


cdef inline object make_size(int n, const int64_t *values):
    return fk_int_tuple(fk_sizes_class, n, values)
