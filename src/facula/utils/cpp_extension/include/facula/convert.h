// Between objects of Python and values of C++, one way and back.
//
// Takes an object with the lock held; gives the value, or the TypeError that says what was required.
#pragma once

#include <map>
#include <unordered_map>

#include <facula/tensor.h>

namespace c10 {

// A value of any kind, as schemas and contexts carry it.
class IValue {
 public:
  IValue() = default;
  template <class T, std::enable_if_t<!std::is_same_v<std::decay_t<T>, IValue>, int> = 0>
  IValue(const T &value) {
    ::facula::Lock lock;
    object_ = ::facula::to_python<std::decay_t<T>>(value);
  }
  IValue(const char *words) : IValue(std::string(words)) {}
  template <class T>
  T to() const {
    ::facula::Lock lock;
    return ::facula::from_python<T>(object());
  }
  PyObject *object() const { return object_ ? object_.get() : Py_None; }
  at::Tensor toTensor() const { return to<at::Tensor>(); }
  int64_t toInt() const { return to<int64_t>(); }
  double toDouble() const { return to<double>(); }
  bool toBool() const { return to<bool>(); }
  Scalar toScalar() const { return to<Scalar>(); }
  std::string toStringRef() const { return to<std::string>(); }
  std::vector<int64_t> toIntVector() const { return to<std::vector<int64_t>>(); }
  std::vector<double> toDoubleVector() const { return to<std::vector<double>>(); }
  std::vector<at::Tensor> toTensorVector() const { return to<std::vector<at::Tensor>>(); }
  bool isNone() const { return object() == Py_None; }
  bool isTensor() const {
    ::facula::Lock lock;
    return PyObject_TypeCheck(object(), reinterpret_cast<PyTypeObject *>(::facula::Runtime::get().tensor_type));
  }
  bool isInt() const { return PyLong_CheckExact(object()); }
  bool isDouble() const { return PyFloat_Check(object()); }
  bool isBool() const { return PyBool_Check(object()); }
  bool isString() const { return PyUnicode_Check(object()); }
  bool isList() const { return PyList_Check(object()); }

 private:
  ::facula::Object object_;
};

template <class T>
class List : public std::vector<T> {
 public:
  using std::vector<T>::vector;
  List(const std::vector<T> &all) : std::vector<T>(all) {}
  T get(size_t i) const { return this->at(i); }
  void set(size_t i, T value) { this->at(i) = std::move(value); }
  std::vector<T> vec() const { return *this; }
};
template <class K, class V>
class Dict : public std::unordered_map<K, V> {
 public:
  using std::unordered_map<K, V>::unordered_map;
  bool contains(const K &key) const { return this->count(key) != 0; }
};

}  // namespace c10

namespace facula {

[[noreturn]] inline void refuse(PyObject *object, const char *wanted) {
  throw c10::TypeError(c10::str("[cpp_extension] ", wanted, " was required: got ", Py_TYPE(object)->tp_name,
                                "\nhint: the types of the C++ function's arguments decide"));
}

// An array of C++'s own behind a view of it, for functions that take ArrayRef: `from_python` gives the array.
template <class T>
struct Owned {
  using type = std::remove_cv_t<std::remove_reference_t<T>>;
};
template <class T>
struct Owned<c10::ArrayRef<T>> {
  using type = std::vector<T>;
};
template <class T>
struct Owned<std::optional<c10::ArrayRef<T>>> {
  using type = std::optional<std::vector<T>>;
};
template <>
struct Owned<std::string_view> {
  using type = std::string;
};
template <class T>
struct Owned<const T &> : Owned<T> {};
template <class T>
struct Owned<const T> : Owned<T> {};
template <class T>
using owned_t = typename Owned<T>::type;

template <class T, class = void>
struct Convert;

template <>
struct Convert<at::Tensor> {
  static at::Tensor from(PyObject *object) {
    if (object == Py_None) return {};
    if (!PyObject_TypeCheck(object, reinterpret_cast<PyTypeObject *>(Runtime::get().tensor_type)))
      refuse(object, "a tensor");
    return at::Tensor(Object::borrow(object));
  }
  static Object to(const at::Tensor &tensor) { return Object::borrow(tensor.object()); }
};
template <>
struct Convert<bool> {
  static bool from(PyObject *object) {
    int truth = PyObject_IsTrue(object);
    checked_status(truth);
    return truth != 0;
  }
  static Object to(bool value) { return Object::borrow(value ? Py_True : Py_False); }
};
template <class T>
struct Convert<T, std::enable_if_t<std::is_integral_v<T> && !std::is_same_v<T, bool>>> {
  static T from(PyObject *object) {
    Object whole = checked(PyNumber_Index(object));
    if constexpr (std::is_unsigned_v<T>) {
      unsigned long long value = PyLong_AsUnsignedLongLong(whole.get());
      if (PyErr_Occurred()) throw PythonError::taken();
      return narrowed<T>(value);
    } else {
      long long value = PyLong_AsLongLong(whole.get());
      if (value == -1 && PyErr_Occurred()) throw PythonError::taken();
      return narrowed<T>(value);
    }
  }
  static Object to(T value) {
    return checked(std::is_unsigned_v<T> ? PyLong_FromUnsignedLongLong(value) : PyLong_FromLongLong(static_cast<long long>(value)));
  }

 private:
  template <class To, class From>
  static To narrowed(From value) {
    if (static_cast<From>(static_cast<To>(value)) != value)
      throw c10::ValueError(c10::str("[cpp_extension] a whole number of ", sizeof(To) * 8, " bits was required: got ", value));
    return static_cast<To>(value);
  }
};
template <class T>
struct Convert<T, std::enable_if_t<std::is_floating_point_v<T>>> {
  static T from(PyObject *object) {
    double value = PyFloat_AsDouble(object);
    if (value == -1 && PyErr_Occurred()) throw PythonError::taken();
    return static_cast<T>(value);
  }
  static Object to(T value) { return checked(PyFloat_FromDouble(static_cast<double>(value))); }
};
template <class T>
struct Convert<std::complex<T>> {
  static std::complex<T> from(PyObject *object) {
    Py_complex value = PyComplex_AsCComplex(object);
    if (PyErr_Occurred()) throw PythonError::taken();
    return {static_cast<T>(value.real), static_cast<T>(value.imag)};
  }
  static Object to(std::complex<T> value) { return checked(PyComplex_FromDoubles(value.real(), value.imag())); }
};
template <>
struct Convert<c10::Scalar> {
  static c10::Scalar from(PyObject *object) {
    if (PyBool_Check(object)) return c10::Scalar(object == Py_True);
    if (PyLong_Check(object)) return c10::Scalar(Convert<int64_t>::from(object));
    if (PyComplex_Check(object)) return c10::Scalar(Convert<std::complex<double>>::from(object));
    if (PyFloat_Check(object)) return c10::Scalar(PyFloat_AS_DOUBLE(object));
    if (PyObject_TypeCheck(object, reinterpret_cast<PyTypeObject *>(Runtime::get().tensor_type)))
      return at::Tensor(Object::borrow(object)).item();
    if (PyIndex_Check(object)) return c10::Scalar(Convert<int64_t>::from(object));
    return c10::Scalar(Convert<double>::from(object));
  }
  static Object to(const c10::Scalar &value) { return number_object(value); }
};
template <>
struct Convert<std::string> {
  static std::string from(PyObject *object) {
    if (!PyUnicode_Check(object)) refuse(object, "a text");
    Py_ssize_t length;
    const char *words = PyUnicode_AsUTF8AndSize(object, &length);
    if (words == nullptr) throw PythonError::taken();
    return std::string(words, static_cast<size_t>(length));
  }
  static Object to(const std::string &value) { return text(value); }
};
template <>
struct Convert<c10::ScalarType> {
  static c10::ScalarType from(PyObject *object) {
    c10::ScalarType code = Runtime::get().code(object);
    if (code == c10::ScalarType::Undefined) refuse(object, "a dtype");
    return code;
  }
  static Object to(c10::ScalarType code) { return Object::borrow(Runtime::get().dtype(code)); }
};
template <>
struct Convert<c10::Device> {
  static c10::Device from(PyObject *object) {
    Object device = checked(PyObject_CallOneArg(Runtime::get().device_type, object));
    return c10::Device(Convert<std::string>::from(checked(PyObject_Str(device.get())).get()));
  }
  static Object to(const c10::Device &device) { return device_object(device.str()); }
};
template <>
struct Convert<c10::Layout> {
  static c10::Layout from(PyObject *object) {
    std::string words = Convert<std::string>::from(checked(PyObject_Str(object)).get());
    for (int i = 0; i < 3; i++)
      if (Convert<std::string>::from(checked(PyObject_Str(layout_object(i).get())).get()) == words)
        return static_cast<c10::Layout>(i);
    refuse(object, "a layout");
  }
  static Object to(c10::Layout layout) { return layout_object(static_cast<int>(layout)); }
};
template <>
struct Convert<c10::MemoryFormat> {
  static c10::MemoryFormat from(PyObject *object) {
    for (int i = 0; i < 4; i++)
      if (format_object(i).get() == object) return static_cast<c10::MemoryFormat>(i);
    refuse(object, "a memory format");
  }
  static Object to(c10::MemoryFormat format) { return format_object(static_cast<int>(format)); }
};
template <>
struct Convert<at::Generator> {
  static at::Generator from(PyObject *object) {
    if (!PyObject_IsInstance(object, Runtime::get().generator_type)) refuse(object, "a Generator");
    return at::Generator(Object::borrow(object));
  }
  static Object to(const at::Generator &generator) {
    return generator.defined() ? generator.object() : Object::borrow(Py_None);
  }
};
template <>
struct Convert<c10::IValue> {
  static c10::IValue from(PyObject *object) { return c10::IValue(Object::borrow(object)); }
  static Object to(const c10::IValue &value) { return Object::borrow(value.object()); }
};
template <>
struct Convert<Object> {
  static Object from(PyObject *object) { return Object::borrow(object); }
  static Object to(const Object &object) { return object; }
};
template <>
struct Convert<Value> {
  static Value from(PyObject *object) { return Value(Object::borrow(object)); }
};
template <class T>
struct Convert<std::optional<T>> {
  static std::optional<T> from(PyObject *object) {
    if (object == Py_None) return std::nullopt;
    return Convert<T>::from(object);
  }
  static Object to(const std::optional<T> &value) {
    return value.has_value() ? to_python<T>(*value) : Object::borrow(Py_None);
  }
};

template <class T>
struct ConvertSequence {
  using Item = typename T::value_type;
  static T from(PyObject *object) {
    T all;
    // one number stands for a list of it where sizes are asked for
    if (std::is_integral_v<Item> && PyIndex_Check(object) && !PySequence_Check(object)) {
      if constexpr (std::is_integral_v<Item>) all.push_back(Convert<Item>::from(object));
      return all;
    }
    Object items = checked(PySequence_Fast(object, "[cpp_extension] a list was required"));
    Py_ssize_t count = PySequence_Fast_GET_SIZE(items.get());
    all.reserve(static_cast<size_t>(count));
    for (Py_ssize_t i = 0; i < count; i++) all.push_back(Convert<Item>::from(PySequence_Fast_GET_ITEM(items.get(), i)));
    return all;
  }
  static Object to(const T &all) {
    Object list = checked(PyList_New(static_cast<Py_ssize_t>(all.size())));
    Py_ssize_t i = 0;
    for (const auto &item : all) PyList_SET_ITEM(list.get(), i++, to_python<Item>(item).release());
    return list;
  }
};
template <class T>
struct Convert<std::vector<T>> : ConvertSequence<std::vector<T>> {};
template <class T>
struct Convert<c10::List<T>> : ConvertSequence<c10::List<T>> {};
template <class T>
struct Convert<c10::ArrayRef<T>> {
  static Object to(c10::ArrayRef<T> all) { return ConvertSequence<std::vector<T>>::to(all.vec()); }
};
template <class T, size_t N>
struct Convert<std::array<T, N>> {
  static std::array<T, N> from(PyObject *object) {
    std::vector<T> all = Convert<std::vector<T>>::from(object);
    TORCH_CHECK_VALUE(all.size() == N, "[cpp_extension] a list of ", N, " items was required: got ", all.size());
    std::array<T, N> made;
    std::copy(all.begin(), all.end(), made.begin());
    return made;
  }
  static Object to(const std::array<T, N> &all) { return Convert<std::vector<T>>::to({all.begin(), all.end()}); }
};
template <class K, class V>
struct Convert<c10::Dict<K, V>> {
  static c10::Dict<K, V> from(PyObject *object) {
    c10::Dict<K, V> made;
    if (!PyDict_Check(object)) refuse(object, "a dict");
    PyObject *key, *value;
    for (Py_ssize_t i = 0; PyDict_Next(object, &i, &key, &value);) made.emplace(Convert<K>::from(key), Convert<V>::from(value));
    return made;
  }
  static Object to(const c10::Dict<K, V> &all) {
    Object made = checked(PyDict_New());
    for (const auto &[key, value] : all)
      checked_status(PyDict_SetItem(made.get(), to_python<K>(key).get(), to_python<V>(value).get()));
    return made;
  }
};
template <class... Items>
struct Convert<std::tuple<Items...>> {
  static std::tuple<Items...> from(PyObject *object) {
    Object items = checked(PySequence_Fast(object, "[cpp_extension] a tuple was required"));
    Py_ssize_t count = PySequence_Fast_GET_SIZE(items.get());
    TORCH_CHECK_VALUE(count == sizeof...(Items), "[cpp_extension] a tuple of ", sizeof...(Items), " was required: got ", count);
    return unpacked(items.get(), std::index_sequence_for<Items...>{});
  }
  static Object to(const std::tuple<Items...> &all) { return packed(all, std::index_sequence_for<Items...>{}); }

 private:
  template <size_t... I>
  static std::tuple<Items...> unpacked(PyObject *items, std::index_sequence<I...>) {
    return {Convert<Items>::from(PySequence_Fast_GET_ITEM(items, I))...};
  }
  template <size_t... I>
  static Object packed(const std::tuple<Items...> &all, std::index_sequence<I...>) {
    Object made = checked(PyTuple_New(sizeof...(Items)));
    (PyTuple_SET_ITEM(made.get(), I, to_python<Items>(std::get<I>(all)).release()), ...);
    return made;
  }
};
template <class A, class B>
struct Convert<std::pair<A, B>> {
  static std::pair<A, B> from(PyObject *object) {
    auto [a, b] = Convert<std::tuple<A, B>>::from(object);
    return {a, b};
  }
  static Object to(const std::pair<A, B> &both) { return Convert<std::tuple<A, B>>::to({both.first, both.second}); }
};

template <class T>
T from_python(PyObject *object) {
  return Convert<T>::from(object);
}
template <class T>
Object to_python(const T &value) {
  return Convert<T>::to(value);
}

}  // namespace facula

namespace torch {
using c10::IValue;
}
