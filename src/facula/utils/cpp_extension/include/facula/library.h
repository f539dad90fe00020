// Operators that C++ registers: TORCH_LIBRARY and its brothers.
//
// Takes schemas and functions. Gives operators of facula's (`facula.ops.<namespace>.<name>`), each function as one that
// Python calls. Keeps true: a registration that fails, which happens while a library is loaded, where no exception
// may leave, is kept and raised by who loads it.
#pragma once

#include <facula/autograd.h>

// By this text `load_library` knows a library of these headers.
__attribute__((used)) static const char facula_cpp_extension[] = "facula C++ extension 1";

namespace c10 {
enum class DispatchKey {
  Undefined, CPU, CUDA, Meta, XPU, MPS, PrivateUse1, Autograd, AutogradCPU, AutogradCUDA, CompositeImplicitAutograd,
  CompositeExplicitAutograd, AutocastCPU, AutocastCUDA
};
inline const char *toString(DispatchKey key) {
  static const char *const words[] = {"", "CPU", "CUDA", "Meta", "XPU", "MPS", "PrivateUse1", "Autograd", "AutogradCPU",
                                      "AutogradCUDA", "CompositeImplicitAutograd", "CompositeExplicitAutograd",
                                      "AutocastCPU", "AutocastCUDA"};
  return words[static_cast<int>(key)];
}
}  // namespace c10

namespace facula {

// What schemas call a type.
template <class T, class = void>
struct SchemaType;
#define FACULA_SCHEMA(type, word)                      \
  template <>                                          \
  struct SchemaType<type> {                            \
    static std::string name() { return word; }         \
  };
FACULA_SCHEMA(at::Tensor, "Tensor")
FACULA_SCHEMA(int64_t, "int")
FACULA_SCHEMA(double, "float")
FACULA_SCHEMA(bool, "bool")
FACULA_SCHEMA(std::string, "str")
FACULA_SCHEMA(c10::Scalar, "Scalar")
FACULA_SCHEMA(c10::ScalarType, "ScalarType")
FACULA_SCHEMA(c10::Device, "Device")
FACULA_SCHEMA(c10::Layout, "Layout")
FACULA_SCHEMA(c10::MemoryFormat, "MemoryFormat")
FACULA_SCHEMA(at::Generator, "Generator")
#undef FACULA_SCHEMA
template <class T>
struct SchemaType<std::optional<T>> {
  static std::string name() { return SchemaType<T>::name() + "?"; }
};
template <class T>
struct SchemaType<std::vector<T>> {
  static std::string name() { return SchemaType<T>::name() + "[]"; }
};
template <class T>
struct SchemaType<c10::List<T>> : SchemaType<std::vector<T>> {};
template <class T, size_t N>
struct SchemaType<std::array<T, N>> {
  static std::string name() { return SchemaType<T>::name() + "[" + std::to_string(N) + "]"; }
};
template <class... Items>
struct SchemaType<std::tuple<Items...>> {
  static std::string name() {
    std::string all;
    ((all += (all.empty() ? "" : ", ") + SchemaType<Items>::name()), ...);
    return "(" + all + ")";
  }
};

// A function of C++ as Python calls it.
template <class Result, class... Args>
struct Signature {
  template <class F>
  static Object call(const F &function, PyObject *args) {
    Py_ssize_t count = PyTuple_GET_SIZE(args);
    TORCH_CHECK_TYPE(count == sizeof...(Args), "[cpp_extension] ", sizeof...(Args), " arguments were required: got ", count);
    return called(function, args, std::index_sequence_for<Args...>{});
  }
  static std::string schema() {
    std::string all;
    int i = 0;
    ((all += (i ? ", " : "") + SchemaType<owned_t<Args>>::name() + " _" + std::to_string(i), i++), ...);
    static_cast<void>(i);
    std::string result = "()";
    if constexpr (!std::is_void_v<Result>) result = SchemaType<owned_t<Result>>::name();
    return "(" + all + ") -> " + result;
  }

 private:
  template <class F, size_t... I>
  static Object called(const F &function, PyObject *args, std::index_sequence<I...>) {
    std::tuple<owned_t<Args>...> values{from_python<owned_t<Args>>(PyTuple_GET_ITEM(args, I))...};
    static_cast<void>(values);
    if constexpr (std::is_void_v<Result>) {
      function(passed<Args>(std::get<I>(values))...);
      return Object::borrow(Py_None);
    } else {
      return to_python<owned_t<Result>>(owned_t<Result>(function(passed<Args>(std::get<I>(values))...)));
    }
  }
  template <class Arg_>
  static decltype(auto) passed(owned_t<Arg_> &value) {
    if constexpr (std::is_rvalue_reference_v<Arg_>) return std::move(value);
    else return (value);
  }
};
template <class F>
struct SignatureOf : SignatureOf<decltype(&F::operator())> {};
template <class Result, class... Args>
struct SignatureOf<Result(Args...)> : Signature<Result, Args...> {};
template <class Result, class... Args>
struct SignatureOf<Result (*)(Args...)> : Signature<Result, Args...> {};
template <class Class, class Result, class... Args>
struct SignatureOf<Result (Class::*)(Args...) const> : Signature<Result, Args...> {};
template <class Class, class Result, class... Args>
struct SignatureOf<Result (Class::*)(Args...)> : Signature<Result, Args...> {};

}  // namespace facula

namespace torch {

// A function with the schema of its types.
class CppFunction {
 public:
  template <class F>
  CppFunction(F function)
      : call_([function = std::move(function)](PyObject *args) {
          return ::facula::SignatureOf<std::decay_t<F>>::call(function, args);
        }),
        schema_(&::facula::SignatureOf<std::decay_t<F>>::schema) {
    if constexpr (std::is_pointer_v<std::decay_t<F>>)
      TORCH_CHECK(function != nullptr, "[Library.impl] a function was required: Kernel function cannot be nullptr\n"
                  "hint: pass the address of a function, as in m.impl(\"name\", &function)");
  }
  static CppFunction makeFallthrough() { return CppFunction([] {}, true); }
  bool falls_through() const { return falls_through_; }
  std::string schema() const { return schema_(); }
  ::facula::Object callable() const { return autograd::detail::callable(call_); }
  std::optional<c10::DispatchKey> key;

 private:
  template <class F>
  CppFunction(F function, bool falls_through) : CppFunction(std::move(function)) {
    falls_through_ = falls_through;
  }
  std::function<::facula::Object(PyObject *)> call_;
  std::string (*schema_)();
  bool falls_through_ = false;
};
template <class F>
CppFunction dispatch(c10::DispatchKey key, F &&function) {
  CppFunction made(std::forward<F>(function));
  made.key = key;
  return made;
}
template <class F>
CppFunction dispatch(c10::DeviceType device, F &&function) {
  return dispatch(device == c10::kMeta ? c10::DispatchKey::Meta : device == c10::kCUDA ? c10::DispatchKey::CUDA : c10::DispatchKey::CPU,
                  std::forward<F>(function));
}
// A function of the compiler's choice by its pointer.
#define TORCH_FN(function) &function
#define TORCH_SELECTIVE_NAME(name) name
#define TORCH_SELECTIVE_SCHEMA(schema) schema

class Library {
 public:
  enum Kind { DEF, IMPL, FRAGMENT };
  Library(Kind kind, std::string space, std::string key) : kind_(kind), space_(std::move(space)), key_(std::move(key)) {}
  Library &def(const std::string &schema) & {
    ::facula::Lock lock;
    ::facula::ask("define", word(space_).get(), word(schema).get(), word("").get());
    return *this;
  }
  template <class F>
  Library &def(const std::string &schema, F &&function) & {
    ::facula::Lock lock;
    CppFunction made(std::forward<F>(function));
    ::facula::ask("define", word(space_).get(), word(schema).get(), word(made.schema()).get());
    const char *key = made.key ? c10::toString(*made.key) : "CompositeImplicitAutograd";
    return implement(schema.substr(0, schema.find('(')), made, key);
  }
  template <class F>
  Library &impl(const std::string &name, F &&function) & {
    CppFunction made(std::forward<F>(function));
    return implement(name, made, made.key ? c10::toString(*made.key) : key_.c_str());
  }
  template <class F>
  Library &impl(const std::string &name, c10::DispatchKey key, F &&function) & {
    return implement(name, CppFunction(std::forward<F>(function)), c10::toString(key));
  }
  // one function for all operators: only "go on below", which is what happens without it
  template <class F>
  Library &fallback(F &&function) & {
    CppFunction made(std::forward<F>(function));
    TORCH_CHECK(made.falls_through(), "[Library.fallback] CppFunction::makeFallthrough() was required: got another function\n"
                "hint: m.impl registers a function for one operator");
    return *this;
  }
  // where the functions for tensors without data stand in Python: they are registered when that module is imported
  Library &set_python_module(const char *, const char * = "") & { return *this; }
  Library &impl_abstract_pystub(const char *, const char * = "") & { return *this; }

 private:
  static ::facula::Object word(const std::string &words) { return ::facula::text(words); }
  Library &implement(const std::string &name, const CppFunction &function, const char *key) {
    ::facula::Lock lock;
    if (!function.falls_through())
      ::facula::ask("implement", word(space_).get(), word(name).get(), word(key).get(), function.callable().get(),
                    word(function.schema()).get());
    return *this;
  }
  Kind kind_;
  std::string space_, key_;
};

namespace detail {
struct Registration {
  Registration(Library::Kind kind, const char *space, const char *key, void (*body)(Library &)) {
    ::facula::Lock lock;
    try {
      Library library(kind, space, key);
      body(library);
    } catch (...) {
      ::facula::translate();
      try {
        ::facula::Object error = [] {
          PyObject *type, *value, *trace;
          PyErr_Fetch(&type, &value, &trace);
          PyErr_NormalizeException(&type, &value, &trace);
          Py_XDECREF(type);
          Py_XDECREF(trace);
          return ::facula::Object::steal(value);
        }();
        ::facula::ask("keep_failure", error.get());
      } catch (const c10::Error &failure) {
        failure.restore();
        PyErr_WriteUnraisable(nullptr);
      }
    }
  }
};
}  // namespace detail
}  // namespace torch

#define FACULA_LIBRARY(kind, space, key, name, m)                                                            \
  static void name(::torch::Library &);                                                                      \
  static const ::torch::detail::Registration C10_CONCATENATE(name, _registration)(::torch::Library::kind, space, key, &name); \
  static void name(::torch::Library &m)
#define TORCH_LIBRARY(ns, m) FACULA_LIBRARY(DEF, #ns, "", facula_library_##ns, m)
#define TORCH_LIBRARY_FRAGMENT(ns, m) \
  FACULA_LIBRARY(FRAGMENT, #ns, "", C10_ANONYMOUS_VARIABLE(facula_fragment_##ns##_), m)
#define TORCH_LIBRARY_IMPL(ns, key, m) \
  FACULA_LIBRARY(IMPL, #ns, #key, C10_ANONYMOUS_VARIABLE(facula_implementation_##ns##_##key##_), m)

// ---- calling operators by name

namespace c10 {
template <class F>
class TypedOperatorHandle;
template <class Result, class... Args>
class TypedOperatorHandle<Result(Args...)> {
 public:
  explicit TypedOperatorHandle(::facula::Object function) : function_(std::move(function)) {}
  Result call(Args... args) const {
    ::facula::Lock lock;
    ::facula::Call call;
    (call.add(::facula::Arg(::facula::to_python<::facula::owned_t<Args>>(::facula::owned_t<Args>(args))), "", false), ...);
    return ::facula::result<Result>(call.run(function_.get()));
  }

 private:
  ::facula::Object function_;
};
class OperatorHandle {
 public:
  explicit OperatorHandle(::facula::Object function) : function_(std::move(function)) {}
  template <class F>
  TypedOperatorHandle<F> typed() const { return TypedOperatorHandle<F>(function_); }

 private:
  ::facula::Object function_;
};
class Dispatcher {
 public:
  static Dispatcher &singleton() {
    static Dispatcher one;
    return one;
  }
  OperatorHandle findSchemaOrThrow(const char *name, const char *overload) const {
    ::facula::Lock lock;
    return OperatorHandle(::facula::ask("find_overload", ::facula::text(name).get(), ::facula::text(overload).get()));
  }
};
}  // namespace c10
namespace torch {
using c10::Dispatcher;
using c10::DispatchKey;
}  // namespace torch
