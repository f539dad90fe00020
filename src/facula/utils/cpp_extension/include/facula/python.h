// Python from C++: the lock, owned objects, errors, and what of facula is asked again and again.
//
// Keeps true: every object is counted with the interpreter's lock held; who calls need not hold it; an error of
// Python travels through C++ as an exception and arrives in Python as the error that it was.
#pragma once

#include <atomic>

#include <facula/types.h>

namespace facula {

// The interpreter's lock for a block; nothing where the thread holds it.
class Lock {
 public:
  Lock() : taken_(!PyGILState_Check()) {
    if (taken_) state_ = PyGILState_Ensure();
  }
  ~Lock() {
    if (taken_) PyGILState_Release(state_);
  }
  Lock(const Lock &) = delete;
  Lock &operator=(const Lock &) = delete;

 private:
  bool taken_;
  PyGILState_STATE state_{};
};

// An owned object.
class Object {
 public:
  Object() = default;
  // takes over a reference
  static Object steal(PyObject *object) {
    Object made;
    made.object_ = object;
    return made;
  }
  static Object borrow(PyObject *object) {
    Lock lock;
    Py_XINCREF(object);
    return steal(object);
  }
  Object(const Object &other) : Object(borrow(other.object_)) {}
  Object(Object &&other) noexcept : object_(std::exchange(other.object_, nullptr)) {}
  Object &operator=(Object other) noexcept {
    std::swap(object_, other.object_);
    return *this;
  }
  ~Object() {
    // at the end of the process there is nobody to count for
    if (object_ == nullptr || !Py_IsInitialized()) return;
    Lock lock;
    Py_DECREF(object_);
  }
  PyObject *get() const { return object_; }
  PyObject *release() { return std::exchange(object_, nullptr); }
  explicit operator bool() const { return object_ != nullptr; }

 private:
  PyObject *object_ = nullptr;
};

// An error of Python's on its way through C++.
class PythonError : public c10::Error {
 public:
  // takes the error that is set; the lock is held
  static PythonError taken() {
    PyObject *kind, *value, *trace;
    PyErr_Fetch(&kind, &value, &trace);
    PyErr_NormalizeException(&kind, &value, &trace);
    if (value != nullptr && trace != nullptr) PyException_SetTraceback(value, trace);
    Object error = Object::steal(value);
    Py_XDECREF(kind);
    Py_XDECREF(trace);
    Object text = Object::steal(error ? PyObject_Str(error.get()) : nullptr);
    const char *words = text ? PyUnicode_AsUTF8(text.get()) : nullptr;
    if (words == nullptr) PyErr_Clear();
    return PythonError(words == nullptr ? "an error without a text" : words, std::move(error));
  }
  void restore() const override {
    if (error_)
      PyErr_SetObject(reinterpret_cast<PyObject *>(Py_TYPE(error_.get())), error_.get());
    else
      Error::restore();
  }

 private:
  PythonError(std::string text, Object error) : Error(std::move(text)), error_(std::move(error)) {}
  Object error_;
};

// A new reference, or the error that stands in its place.
inline Object checked(PyObject *made) {
  if (made == nullptr) throw PythonError::taken();
  return Object::steal(made);
}
inline void checked_status(int status) {
  if (status < 0) throw PythonError::taken();
}

// Gives the exception that is being handled to Python; the lock is held.
inline void translate() {
  try {
    throw;
  } catch (const c10::Error &error) {
    error.restore();
  } catch (const std::bad_alloc &) {
    PyErr_NoMemory();
  } catch (const std::out_of_range &error) {
    PyErr_SetString(PyExc_IndexError, error.what());
  } catch (const std::invalid_argument &error) {
    PyErr_SetString(PyExc_ValueError, error.what());
  } catch (const std::exception &error) {
    PyErr_SetString(PyExc_RuntimeError, error.what());
  } catch (...) {
    PyErr_SetString(PyExc_RuntimeError, "[cpp_extension] an exception of C++ that is no std::exception\n"
                                        "hint: throw std::runtime_error, or use TORCH_CHECK");
  }
}

// A word that Python keeps once; never given back.
class Word {
 public:
  explicit constexpr Word(const char *text) : text_(text) {}
  const char *text() const { return text_; }
  PyObject *get() const {
    PyObject *kept = kept_.load(std::memory_order_acquire);
    if (kept == nullptr) {
      kept = checked(PyUnicode_InternFromString(text_)).release();
      kept_.store(kept, std::memory_order_release);
    }
    return kept;
  }

 private:
  const char *text_;
  mutable std::atomic<PyObject *> kept_{nullptr};
};

// What is asked of facula once, and kept as long as the process: the lock is held.
struct Runtime {
  PyObject *bridge, *tensor_type, *dtype_type, *device_type, *generator_type;
  PyObject *dtypes[64] = {};

  static const Runtime &get() {
    // no static object: who makes it calls Python, which may let another thread in that would wait for it for ever
    static std::atomic<const Runtime *> known{nullptr};
    const Runtime *found = known.load(std::memory_order_acquire);
    if (found == nullptr) {
      const Runtime *made = new Runtime();
      if (known.compare_exchange_strong(found, made)) return *made;
      delete made;
    }
    return *found;
  }
  PyObject *dtype(c10::ScalarType code) const {
    int i = static_cast<int>(code);
    TORCH_CHECK(i >= 0 && i < 64 && dtypes[i] != nullptr, "a dtype was required: got ", c10::toString(code));
    return dtypes[i];
  }
  c10::ScalarType code(PyObject *dtype) const {
    for (int i = 0; i < 64; i++)
      if (dtypes[i] == dtype) return static_cast<c10::ScalarType>(i);
    return c10::ScalarType::Undefined;
  }

 private:
  Runtime() {
    bridge = checked(PyImport_ImportModule("facula.utils.cpp_extension.bridge")).release();
    tensor_type = attribute("Tensor");
    dtype_type = attribute("dtype");
    device_type = attribute("device");
    generator_type = attribute("Generator");
#define FACULA_OBJECT(type, name, code, python) dtypes[code] = of_dtype(python);
    FACULA_DTYPES(FACULA_OBJECT)
#undef FACULA_OBJECT
    dtypes[8] = of_dtype("complex32");
    dtypes[23] = of_dtype("float8_e5m2");
    dtypes[24] = of_dtype("float8_e4m3fn");
  }
  PyObject *attribute(const char *name) { return checked(PyObject_GetAttrString(bridge, name)).release(); }
  PyObject *of_dtype(const char *name) {
    return checked(PyObject_CallMethod(bridge, "find_dtype", "s", name)).release();
  }
};

// A function of `bridge.py`, which is what C++ asks of Python; arguments are objects, borrowed.
template <class... Args>
Object ask(const char *name, Args... args) {
  Object function = checked(PyObject_GetAttrString(Runtime::get().bridge, name));
  PyObject *given[sizeof...(Args) + 1] = {nullptr, args...};
  return checked(PyObject_Vectorcall(function.get(), given + 1, sizeof...(Args) | PY_VECTORCALL_ARGUMENTS_OFFSET, nullptr));
}
inline Object attribute(PyObject *object, const Word &name) { return checked(PyObject_GetAttr(object, name.get())); }

inline Object text(std::string_view words) {
  return checked(PyUnicode_FromStringAndSize(words.data(), static_cast<Py_ssize_t>(words.size())));
}

}  // namespace facula
