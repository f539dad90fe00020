// Modules of pybind11 with tensors in them: what becomes of arguments, results and exceptions.
#pragma once

#if !__has_include(<pybind11/pybind11.h>)
#error "torch/extension.h needs pybind11: pip install 'facula[cpp]'"
#endif
#include <pybind11/complex.h>
#include <pybind11/functional.h>
#include <pybind11/pybind11.h>
#include <pybind11/stl.h>

#include <facula/library.h>

namespace py = pybind11;

namespace facula {
// The errors of extensions, in the words of Python: known to this library's modules alone.
struct Translator {
  Translator() {
    Lock lock;
    pybind11::register_local_exception_translator([](std::exception_ptr held) {
      try {
        if (held) std::rethrow_exception(held);
      } catch (const c10::Error &error) {
        error.restore();
      }
    });
  }
};
static const Translator translator;

template <class T>
struct Caster {
  static bool load(PyObject *object, owned_t<T> &value) {
    try {
      value = from_python<owned_t<T>>(object);
      return true;
    } catch (const c10::Error &) {
      return false;  // another overload may take it, or pybind11 says which types are asked for
    }
  }
};
}  // namespace facula

namespace pybind11::detail {

#define FACULA_CASTER(Type, words)                                                       \
  template <>                                                                            \
  struct type_caster<Type> {                                                             \
    PYBIND11_TYPE_CASTER(Type, const_name(words));                                       \
    bool load(handle source, bool) { return ::facula::Caster<Type>::load(source.ptr(), value); } \
    static handle cast(const Type &source, return_value_policy, handle) {                \
      return ::facula::to_python<Type>(source).release();                                \
    }                                                                                    \
  };
FACULA_CASTER(at::Tensor, "Tensor")
FACULA_CASTER(c10::Scalar, "Number")
FACULA_CASTER(c10::Layout, "layout")
FACULA_CASTER(c10::MemoryFormat, "memory_format")
FACULA_CASTER(at::Generator, "Generator")
FACULA_CASTER(c10::IValue, "object")
#undef FACULA_CASTER

// what has no default value of its own to load into
#define FACULA_CASTER(Type, words, start)                                                \
  template <>                                                                            \
  struct type_caster<Type> {                                                             \
    template <class T>                                                                   \
    using cast_op_type = pybind11::detail::movable_cast_op_type<T>;                      \
    static constexpr auto name = const_name(words);                                      \
    Type value = start;                                                                  \
    operator Type *() { return &value; }                                                 \
    operator Type &() { return value; }                                                  \
    operator Type &&() && { return std::move(value); }                                   \
    bool load(handle source, bool) { return ::facula::Caster<Type>::load(source.ptr(), value); } \
    static handle cast(const Type &source, return_value_policy, handle) {                \
      return ::facula::to_python<Type>(source).release();                                \
    }                                                                                    \
  };
FACULA_CASTER(c10::ScalarType, "dtype", c10::ScalarType::Float)
FACULA_CASTER(c10::Device, "device", c10::kCPU)
#undef FACULA_CASTER

template <class T>
struct type_caster<c10::ArrayRef<T>> {
  static constexpr auto name = const_name("List");
  template <class U>
  using cast_op_type = c10::ArrayRef<T>;
  operator c10::ArrayRef<T>() { return c10::ArrayRef<T>(value); }
  bool load(handle source, bool) { return ::facula::Caster<std::vector<T>>::load(source.ptr(), value); }
  static handle cast(const c10::ArrayRef<T> &source, return_value_policy, handle) {
    return ::facula::to_python<c10::ArrayRef<T>>(source).release();
  }
  std::vector<T> value;
};
template <class T>
struct type_caster<c10::List<T>> : list_caster<c10::List<T>, T> {};

}  // namespace pybind11::detail

namespace torch {
// Errors become Python's in any case: the function as it is.
template <class F>
F *wrap_pybind_function(F *function) { return function; }
template <class F>
F *wrap_pybind_function_no_gil(F *function) { return function; }
}  // namespace torch
