# Finish the types: vectorcall, the lazy __dict__, mutability; then the attached methods.

cdef void finish_types() except *:
    cdef Op op = Op.__new__(Op)
    cdef InplaceOp inplace = InplaceOp.__new__(InplaceOp, op)
    cdef Tensor t = Tensor.__new__(Tensor)
    fk_type_vectorcall(<PyTypeObject *>Op, <char *>&op.vectorcall - <char *><void *>op)
    fk_type_vectorcall(<PyTypeObject *>InplaceOp, <char *>&inplace.vectorcall - <char *><void *>inplace)
    fk_type_lazy_dict(<PyTypeObject *>Tensor, <char *>&t.dict_ - <char *><void *>t)
    fk_type_mutable(<PyTypeObject *>Tensor, "facula.Tensor")
    attach_methods()

finish_types()
