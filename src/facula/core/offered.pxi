# Properties of subclasses that override functions: reading `x.shape` is offered to `__torch_function__` too.
#
# Keeps true: plain tensors, and subclasses that override nothing, have the properties in C and pay nothing; a class
# that overrides gets, once, a descriptor for each property that it or a base of its own has not replaced.


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


def _is_property(name, value):
    return hasattr(type(value), "__set__") and not (name.startswith("__") and name.endswith("__"))


cdef bint overrides_by_itself(object cls):
    """Whether a class has its own `__torch_function__`, neither Tensor's nor the disabled one."""
    override = getattr(cls, "__torch_function__", None)
    plain = getattr(override, "__func__", override)
    return plain is not _disabled_torch_function_impl and plain is not _default_torch_function


cdef object offer_properties(object cls):
    """Put the descriptors into a class that overrides functions."""
    for name, value in vars(Tensor).items():
        if not _is_property(name, value):
            continue
        for base in cls.__mro__:
            if name in vars(base):
                if base is Tensor:
                    setattr(cls, name, OfferedProperty(value))
                break
