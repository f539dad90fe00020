# Subclasses that override functions: who they are, what they do by default, and the properties that they are offered.
#
# Keeps true: plain tensors, and subclasses that override nothing, have the properties in C and pay nothing; a class
# that overrides gets, once, a descriptor for each property, and for each method that is no operator, that it or a base
# of its own has not replaced, so that reading `x.shape` and calling `x.size()` are offered to `__torch_function__` too.

cdef dict SUBCLASS_KEYS = {}


cdef uint32_t subclass_keys(object cls) except *:
    """The routing bits of a Python subclass: does it override functions, or dispatch?"""
    cdef uint32_t k = 0
    cached = SUBCLASS_KEYS.get(cls)
    if cached is not None:
        return cached
    override = getattr(cls, "__torch_function__", None)
    if override is not None and getattr(override, "__func__", override) is not _disabled_torch_function_impl:
        k |= K_OVERRIDE
        if overrides_by_itself(cls):
            offer_members(cls)
    if getattr(cls, "__torch_dispatch__", None) is not None:
        k |= K_DISPATCH
        expect_listener(cls)
    if getattr(cls, "_is_transform_wrapper", False):
        k |= K_TRANSFORM
    if getattr(cls, "_is_fake", False):
        k |= K_FAKE
    if getattr(cls, "_is_sparse_tensor", False):
        k |= K_SPARSE
    SUBCLASS_KEYS[cls] = k
    return k


def become(Tensor t, cls):
    """Give a tensor another class, with the routing of that class: `__class__ =` alone keeps the old one's."""
    cdef uint32_t routed = K_OVERRIDE | K_DISPATCH
    t.__class__ = cls
    t.keys = (t.keys & ~routed) | (subclass_keys(cls) & routed if cls is not Tensor else 0)


def _disabled_torch_function_impl(func, types, args=(), kwargs=None):
    """What a subclass sets as `__torch_function__` to be treated as a plain tensor."""
    previous = fk_tls_keys()
    return func(*args, **(kwargs or {}))


def _default_torch_function(cls, func, types, args=(), kwargs=None):
    """What a subclass does with functions unless it says otherwise: run them, and give results of its own class."""
    if not all(issubclass(cls, t) for t in types):
        return NotImplemented
    keys = fk_tls_keys()
    result = run_without_overrides(func, args, kwargs or {})
    if getattr(func, "__name__", "") in ("item", "tolist", "numpy", "stride", "size") or cls is Tensor:
        return result
    accessed = getattr(func, "__self__", None)
    if accessed is Tensor.grad or accessed is Tensor._grad or accessed is Tensor._base:
        return result  # a gradient and the root of a view keep the class that they have
    return _as_class(result, cls)


def _as_class(result, cls):
    if isinstance(result, Tensor):
        # what a function transform wraps stays its wrapper: the class would hide the entry of a batch or the tangent
        if isinstance(result, cls) or (<Tensor>result).keys & K_TRANSFORM:
            return result
        return m_as_subclass(result, cls)
    if result.__class__ in (tuple, list):
        return result.__class__([_as_class(r, cls) for r in result])
    if isinstance(result, tuple) and hasattr(result, "_fields"):
        return result.__class__(*[_as_class(r, cls) for r in result])
    return result


def run_without_overrides(func, args, kwargs):
    """Call a function with subclass overrides switched off: their tensors are treated as plain ones."""
    cdef uint32_t tls = fk_tls_keys()
    fk_tls_set(tls | K_PLAIN)
    try:
        return func(*args, **kwargs)
    finally:
        fk_tls_set((fk_tls_keys() & ~<uint32_t>K_PLAIN) | (tls & K_PLAIN))


def set_overrides_disabled(bint disabled):
    """Switch the overrides of subclasses off or on for this thread; gives what it was."""
    cdef uint32_t tls = fk_tls_keys()
    fk_tls_set(tls | K_PLAIN if disabled else tls & ~<uint32_t>K_PLAIN)
    return (tls & K_PLAIN) != 0


class OfferedProperty:
    """A property of Tensor as a subclass has it: `__torch_function__` gets `Tensor.shape.__get__`, and the like."""

    def __init__(self, own):
        self.own = own
        self.__doc__ = own.__doc__

    def _offer(self, accessor, tuple arguments):
        if not fk_tls_keys() & K_PLAIN:
            r = torch_function(accessor, arguments, {}, K_OVERRIDE)
            if r is not NotImplemented:
                return r
        return accessor(*arguments)

    def __get__(self, instance, owner):
        return self.own if instance is None else self._offer(self.own.__get__, (instance,))

    def __set__(self, instance, value):
        self._offer(self.own.__set__, (instance, value))

    def __delete__(self, instance):
        self._offer(self.own.__delete__, (instance,))


class OfferedMethod:
    """A method of Tensor that is no operator, as a subclass has it: `__torch_function__` gets `Tensor.size`, and the like."""

    def __init__(self, own):
        self.own = own
        self.__name__ = own.__name__
        self.__doc__ = own.__doc__

    def __get__(self, instance, owner):
        return self.own if instance is None else PyMethod_New(self, instance)

    def __call__(self, instance, *args, **kwargs):
        if not fk_tls_keys() & K_PLAIN:
            r = torch_function(self.own, (instance, *args), kwargs, K_OVERRIDE)
            if r is not NotImplemented:
                return r
        return self.own(instance, *args, **kwargs)


#: what Python's own protocols call and overrides hear of
cdef frozenset OFFERED_PROTOCOLS = frozenset(
    "__array__ __bool__ __complex__ __contains__ __deepcopy__ __dlpack__ __dlpack_device__ __float__ __format__ "
    "__index__ __int__ __len__ __repr__ __reversed__".split())


def _is_method(name, value):
    if name == "as_subclass" or name.startswith("_") and name not in OFFERED_PROTOCOLS:
        return False
    return callable(value) and not isinstance(value, (Op, InplaceOp, Alias, type)) and hasattr(type(value), "__get__")


def _is_property(name, value):
    return hasattr(type(value), "__set__") and not (name.startswith("__") and name.endswith("__"))


cdef bint overrides_by_itself(object cls):
    """Whether a class has its own `__torch_function__`, neither Tensor's nor the disabled one."""
    override = getattr(cls, "__torch_function__", None)
    plain = getattr(override, "__func__", override)
    return plain is not _disabled_torch_function_impl and plain is not _default_torch_function


cdef object offer_members(object cls):
    """Put the descriptors into a class that overrides functions; the package's own classes hear of properties alone."""
    from facula.core.errors import is_own
    cdef bint methods = not is_own(cls.__module__)
    for name, value in list(vars(Tensor).items()):
        if _is_property(name, value):
            offered = OfferedProperty
        elif methods and _is_method(name, value):
            offered = OfferedMethod
        else:
            continue
        for base in cls.__mro__:
            if name in vars(base):
                if base is Tensor:
                    setattr(cls, name, offered(value))
                break
