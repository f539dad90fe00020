# Finish the types: vectorcall, the lazy __dict__, mutability; then the attached methods.

cdef void finish_types() except *:
    cdef Op op = Op.__new__(Op)
    cdef InplaceOp inplace = InplaceOp.__new__(InplaceOp, op)
    cdef Alias alias = Alias.__new__(Alias)
    cdef Tensor t = Tensor.__new__(Tensor)
    fk_type_vectorcall(<PyTypeObject *>Op, <char *>&op.vectorcall - <char *><void *>op)
    fk_type_vectorcall(<PyTypeObject *>InplaceOp, <char *>&inplace.vectorcall - <char *><void *>inplace)
    fk_type_vectorcall(<PyTypeObject *>Alias, <char *>&alias.vectorcall - <char *><void *>alias)
    fk_type_lazy_dict(<PyTypeObject *>Tensor, <char *>&t.dict_ - <char *><void *>t)
    fk_type_mutable(<PyTypeObject *>Tensor)
    name_types("facula")
    attach_methods()


cdef list TYPE_NAMES = []  # keeps the texts alive


def name_types(str prefix):
    """Say under which package's name users know the core's types, dtypes included: facula's or its alias's."""
    DTYPE_PREFIX[0] = prefix
    for kind in (Tensor, dtype, device, Generator, UntypedStorage):
        name = ("%s.%s" % (prefix, kind.__name__)).encode()
        TYPE_NAMES.append(name)
        fk_type_name(<PyTypeObject *>kind, name)
    for kind in (Size, layout, memory_format, OutOfMemoryError):
        kind.__module__ = prefix


finish_types()
