// Checks and errors of C++ extensions.
//
// Takes conditions and the parts of a message. Gives c10::Error and its kinds, each of which becomes one kind of
// Python exception where it leaves C++ (`translate` in python.h), and the macros that raise them.
#pragma once

#include <Python.h>

#include <cstdlib>
#include <exception>
#include <iostream>
#include <sstream>
#include <string>
#include <utility>

namespace c10 {

// Text made of everything that a stream can take.
template <class... Parts>
std::string str(const Parts &...parts) {
  std::ostringstream text;
  ((text << parts), ...);
  return text.str();
}

class Error : public std::exception {
 public:
  explicit Error(std::string text, PyObject *kind = PyExc_RuntimeError) : text_(std::move(text)), kind_(kind) {}
  const char *what() const noexcept override { return text_.c_str(); }
  const char *what_without_backtrace() const noexcept { return text_.c_str(); }
  const std::string &msg() const { return text_; }
  // Gives the error to Python; the caller holds the interpreter's lock.
  virtual void restore() const { PyErr_SetString(kind_, text_.c_str()); }

 private:
  std::string text_;
  PyObject *kind_;
};

#define FACULA_ERROR_KIND(name, kind)                                         \
  class name : public Error {                                                 \
   public:                                                                    \
    explicit name(std::string text) : Error(std::move(text), PyExc_##kind) {} \
  };
FACULA_ERROR_KIND(IndexError, IndexError)
FACULA_ERROR_KIND(ValueError, ValueError)
FACULA_ERROR_KIND(TypeError, TypeError)
FACULA_ERROR_KIND(NotImplementedError, NotImplementedError)
FACULA_ERROR_KIND(LinAlgError, RuntimeError)
#undef FACULA_ERROR_KIND

namespace detail {

template <class Kind, class... Parts>
[[noreturn]] void raise(const char *condition, const Parts &...parts) {
  if constexpr (sizeof...(Parts) == 0)
    throw Kind(str("Expected ", condition, " to be true, but got false."));
  else
    throw Kind(str(parts...));
}

template <class... Parts>
[[noreturn]] void raise_internal(const char *condition, const char *file, int line, const Parts &...parts) {
  throw Error(str(condition, " INTERNAL ASSERT FAILED at \"", file, "\":", line, ", an error of the extension. ", parts...));
}

template <class... Parts>
void warn(const Parts &...parts) {
  PyGILState_STATE state = PyGILState_Ensure();
  int failed = PyErr_WarnEx(PyExc_UserWarning, str(parts...).c_str(), 1);
  // a filter that makes warnings errors: the exception is told as one that nobody can catch here
  if (failed) PyErr_WriteUnraisable(nullptr);
  PyGILState_Release(state);
}

}  // namespace detail
}  // namespace c10

#define FACULA_CHECK(Kind, condition, ...) \
  do {                                     \
    if (!(condition)) ::c10::detail::raise<::c10::Kind>(#condition, ##__VA_ARGS__); \
  } while (false)
#define TORCH_CHECK(condition, ...) FACULA_CHECK(Error, condition, ##__VA_ARGS__)
#define TORCH_CHECK_INDEX(condition, ...) FACULA_CHECK(IndexError, condition, ##__VA_ARGS__)
#define TORCH_CHECK_VALUE(condition, ...) FACULA_CHECK(ValueError, condition, ##__VA_ARGS__)
#define TORCH_CHECK_TYPE(condition, ...) FACULA_CHECK(TypeError, condition, ##__VA_ARGS__)
#define TORCH_CHECK_LINALG(condition, ...) FACULA_CHECK(LinAlgError, condition, ##__VA_ARGS__)
#define TORCH_CHECK_NOT_IMPLEMENTED(condition, ...) FACULA_CHECK(NotImplementedError, condition, ##__VA_ARGS__)
#define TORCH_CHECK_ARG(condition, number, ...) FACULA_CHECK(ValueError, condition, "argument #", number, ": ", ##__VA_ARGS__)
#define STD_TORCH_CHECK TORCH_CHECK
#define AT_ASSERTM TORCH_CHECK
#define AT_ERROR(...) ::c10::detail::raise<::c10::Error>("", ::c10::str(__VA_ARGS__))
#define TORCH_INTERNAL_ASSERT(condition, ...) \
  do {                                        \
    if (!(condition)) ::c10::detail::raise_internal(#condition, __FILE__, __LINE__, ##__VA_ARGS__); \
  } while (false)
#ifdef NDEBUG
#define TORCH_INTERNAL_ASSERT_DEBUG_ONLY(...) static_cast<void>(0)
#else
#define TORCH_INTERNAL_ASSERT_DEBUG_ONLY TORCH_INTERNAL_ASSERT
#endif
#define AT_ASSERT TORCH_INTERNAL_ASSERT
#define TORCH_WARN(...) ::c10::detail::warn(__VA_ARGS__)
#define TORCH_WARN_ONCE(...)                                                        \
  do {                                                                              \
    static const bool told = (::c10::detail::warn(__VA_ARGS__), true);              \
    static_cast<void>(told);                                                        \
  } while (false)
#define C10_THROW_ERROR(kind, text) throw ::c10::kind(text)

// What marks functions and branches in PyTorch's sources.
#define TORCH_API
#define C10_API
#define C10_EXPORT __attribute__((visibility("default")))
#define C10_HOST_DEVICE
#define C10_DEVICE
#define C10_HOST
#define C10_UNUSED __attribute__((unused))
#define C10_ALWAYS_INLINE __attribute__((always_inline)) inline
#define C10_NOINLINE __attribute__((noinline))
#define C10_LIKELY(condition) __builtin_expect(static_cast<bool>(condition), 1)
#define C10_UNLIKELY(condition) __builtin_expect(static_cast<bool>(condition), 0)
#define C10_RESTRICT __restrict
#define C10_CONCATENATE_PLAIN(a, b) a##b
#define C10_CONCATENATE(a, b) C10_CONCATENATE_PLAIN(a, b)
#define C10_ANONYMOUS_VARIABLE(name) C10_CONCATENATE(name, __COUNTER__)
