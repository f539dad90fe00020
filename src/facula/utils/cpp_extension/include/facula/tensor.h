// at::Tensor: a tensor of facula's, held by C++.
//
// What it is (sizes, dtype, memory) is written here; the operators among its methods are those of the operator table, in
// the generated `methods.h`, which leaves out the names that stand here.
// Keeps true: copies share one object; a default Tensor is undefined, None in Python.
#pragma once

#include <facula/accessor.h>
#include <facula/arguments.h>

namespace facula {

// What C++ has for an object of Python (convert.h); the lock is held.
template <class T>
T from_python(PyObject *object);
template <class T>
Object to_python(const T &value);

// The result of a call.
template <class T>
T result(Object object) {
  if constexpr (!std::is_void_v<T>) {
    Lock lock;
    return from_python<T>(object.get());
  }
}

// A result of which the call says what it is: converts to what is asked of it.
class Value {
 public:
  explicit Value(Object object) : object_(std::move(object)) {}
  template <class T>
  operator T() const { return result<T>(object_); }

 private:
  Object object_;
};

}  // namespace facula

namespace at {

using ::facula::Arg;
using ::facula::List;

class Tensor {
 public:
  Tensor() = default;
  explicit Tensor(::facula::Object object) : ref_(std::move(object)) {}
  Tensor(const Tensor &) = default;
  Tensor(Tensor &&) noexcept = default;
  Tensor &operator=(const Tensor &) & = default;
  Tensor &operator=(Tensor &&) & noexcept = default;
  // to a result, `x[0] = y`: into its memory
  Tensor &operator=(const Tensor &other) && { return copy_(other); }
  Tensor &operator=(Tensor &&other) && { return copy_(other); }
  Tensor &operator=(const Scalar &value) && { return fill_(value); }

  // ---- the object
  PyObject *object() const { return ref_.object(); }
  const ::facula::TensorRef &reference() const { return ref_; }
  bool defined() const { return ref_.get() != nullptr; }
  bool is_same(const Tensor &other) const { return object() == other.object(); }
  void reset() { ref_ = {}; }
  long use_count() const { return defined() ? ref_.get()->references.load() : 0; }
  void *unsafeGetTensorImpl() const { return ref_.get(); }

  // ---- sizes
  IntArrayRef sizes() const { return geometry().first; }
  IntArrayRef strides() const { return geometry().second; }
  IntArrayRef sym_sizes() const { return sizes(); }
  IntArrayRef sym_strides() const { return strides(); }
  int64_t size(int64_t dim) const { return number<int64_t>(size_, dim); }
  int64_t sym_size(int64_t dim) const { return size(dim); }
  int64_t stride(int64_t dim) const { return number<int64_t>(stride_, dim); }
  int64_t dim() const { return number<int64_t>(dim_); }
  int64_t ndimension() const { return dim(); }
  int64_t numel() const { return number<int64_t>(numel_); }
  int64_t sym_numel() const { return numel(); }
  int64_t storage_offset() const { return number<int64_t>(storage_offset_); }
  int64_t element_size() const { return number<int64_t>(element_size_); }
  int64_t itemsize() const { return element_size(); }
  size_t nbytes() const { return static_cast<size_t>(numel() * element_size()); }

  // ---- what it is
  ScalarType scalar_type() const {
    ::facula::Lock lock;
    return ::facula::Runtime::get().code(property(dtype_).get());
  }
  TypeMeta dtype() const { return scalar_type(); }
  Device device() const {
    ::facula::Lock lock;
    ::facula::Object text = ::facula::checked(PyObject_Str(property(device_).get()));
    return Device(std::string(PyUnicode_AsUTF8(text.get())));
  }
  DeviceIndex get_device() const { return device().index(); }
  Layout layout() const { return is_sparse() ? kSparse : kStrided; }
  TensorOptions options() const { return TensorOptions().dtype(dtype()).device(device()).layout(layout()); }
  bool is_contiguous() const { return number<bool>(is_contiguous_); }
  bool is_contiguous(MemoryFormat format) const { return number<bool>(is_contiguous_, format); }
  bool is_non_overlapping_and_dense() const { return number<bool>(is_contiguous_); }
  MemoryFormat suggest_memory_format() const {
    if (dim() == 4 && !is_contiguous() && is_contiguous(MemoryFormat::ChannelsLast)) return MemoryFormat::ChannelsLast;
    if (dim() == 5 && !is_contiguous() && is_contiguous(MemoryFormat::ChannelsLast3d)) return MemoryFormat::ChannelsLast3d;
    return MemoryFormat::Contiguous;
  }
#define FACULA_IS(name)                              \
  bool name() const {                                \
    static const ::facula::Word word(#name);         \
    ::facula::Lock lock;                             \
    return ::facula::from_python<bool>(property(word).get()); \
  }
  FACULA_IS(is_cpu)
  FACULA_IS(is_cuda)
  FACULA_IS(is_xpu)
  FACULA_IS(is_mps)
  FACULA_IS(is_meta)
  FACULA_IS(is_sparse)
  FACULA_IS(is_sparse_csr)
  FACULA_IS(is_quantized)
  FACULA_IS(is_nested)
  FACULA_IS(is_leaf)
  FACULA_IS(requires_grad)
#undef FACULA_IS
#define FACULA_ASKS(name)                            \
  bool name() const {                                \
    static const ::facula::Word word(#name);         \
    return number<bool>(word);                       \
  }
  FACULA_ASKS(is_floating_point)
  FACULA_ASKS(is_complex)
  FACULA_ASKS(is_signed)
  FACULA_ASKS(is_nonzero)
  FACULA_ASKS(is_conj)
  FACULA_ASKS(is_neg)
  FACULA_ASKS(is_inference)
  FACULA_ASKS(is_pinned)
  FACULA_ASKS(is_coalesced)
#undef FACULA_ASKS
  bool has_storage() const { return true; }
  std::string toString() const { return std::string("CPU") + at::toString(scalar_type()) + "Type"; }

  // ---- memory
  void *data_ptr() const {
    static const ::facula::Word word("data_ptr");
    return reinterpret_cast<void *>(number<uintptr_t>(word));
  }
  void *mutable_data_ptr() const { return data_ptr(); }
  const void *const_data_ptr() const { return data_ptr(); }
  template <class T>
  T *data_ptr() const {
    using Element = std::remove_const_t<T>;
    ScalarType found = scalar_type(), wanted = CppTypeToScalarType<Element>::value;
    TORCH_CHECK(found == wanted, "[data_ptr] expected scalar type ", wanted, " but found ", found,
                "\nhint: dispatch over the dtypes with AT_DISPATCH_ALL_TYPES, or convert with .to()");
    void *memory = data_ptr();
    TORCH_CHECK(memory || numel() == 0, "[data_ptr] a tensor with memory was required: got one without, of shape ", sizes(),
                "\nhint: tensors on meta, in traces and under vmap have none: register_fake and register_vmap say what to do with them");
    return static_cast<T *>(memory);
  }
  template <class T>
  T *mutable_data_ptr() const { return data_ptr<T>(); }
  template <class T>
  const T *const_data_ptr() const { return data_ptr<std::remove_const_t<T>>(); }
  template <class T>
  T *data() const { return data_ptr<T>(); }
  template <class T, size_t N>
  TensorAccessor<T, N> accessor() const & {
    check_rank(N);
    return {data_ptr<T>(), sizes().data(), strides().data()};
  }
  template <class T, size_t N>
  TensorAccessor<T, N> accessor() && = delete;
  template <class T, size_t N, template <class> class Traits = DefaultPtrTraits>
  PackedTensorAccessor32<T, N, Traits> packed_accessor32() const & {
    check_rank(N);
    TORCH_CHECK(numel() <= INT32_MAX, "[packed_accessor32] at most 2^31 - 1 elements were required: got ", numel(),
                "\nhint: use packed_accessor64");
    return {data_ptr<T>(), sizes().data(), strides().data()};
  }
  template <class T, size_t N, template <class> class Traits = DefaultPtrTraits>
  PackedTensorAccessor64<T, N, Traits> packed_accessor64() const & {
    check_rank(N);
    return {data_ptr<T>(), sizes().data(), strides().data()};
  }
  template <class T, size_t N, template <class> class Traits = DefaultPtrTraits>
  PackedTensorAccessor64<T, N, Traits> packed_accessor() const & { return packed_accessor64<T, N, Traits>(); }
  Scalar item() const { return number<Scalar>(item_); }
  template <class T>
  T item() const { return item().to<T>(); }

  // ---- gradients
  Tensor grad() const {
    static const ::facula::Word word("grad");
    ::facula::Lock lock;
    return ::facula::from_python<Tensor>(property(word).get());
  }
  Tensor &mutable_grad() = delete;
  const Tensor &set_requires_grad(bool wanted) const {
    static const ::facula::Word word("requires_grad");
    return assign(word, wanted);
  }
  const Tensor &requires_grad_(bool wanted = true) const { return set_requires_grad(wanted); }
  void set_data(const Tensor &other) const {
    static const ::facula::Word word("data");
    assign(word, other);
  }
  Tensor tensor_data() const { return method("detach"); }
  Tensor variable_data() const { return method("detach"); }
  void backward(const Arg &gradient = {}, const Arg &retain = {}, bool create = false) const {
    static const ::facula::Word word("backward");
    ::facula::invoke_method(object(), word, gradient, retain, create);
  }

  // ---- methods that are no operators of the table
#define FACULA_METHOD(name, Result)                                                               \
  template <class... Args>                                                                        \
  Result name(const Args &...args) const {                                                        \
    static const ::facula::Word word(#name);                                                      \
    return ::facula::result<Result>(::facula::invoke_method(object(), word, args...));            \
  }
  FACULA_METHOD(contiguous, Tensor)
  FACULA_METHOD(clone, Tensor)
  FACULA_METHOD(detach, Tensor)
  FACULA_METHOD(to_sparse, Tensor)
  FACULA_METHOD(to_dense, Tensor)
  FACULA_METHOD(type_as, Tensor)
  FACULA_METHOD(dequantize, Tensor)
  FACULA_METHOD(cuda, Tensor)
  FACULA_METHOD(cpu, Tensor)
  FACULA_METHOD(is_same_size, bool)
  FACULA_METHOD(is_set_to, bool)
  FACULA_METHOD(sparse_dim, int64_t)
  FACULA_METHOD(dense_dim, int64_t)
  FACULA_METHOD(retain_grad, void)
#undef FACULA_METHOD
#define FACULA_WRITES(name)                                          \
  template <class... Args>                                           \
  Tensor &name(const Args &...args) const {                          \
    static const ::facula::Word word(#name);                         \
    ::facula::invoke_method(object(), word, args...);                \
    return const_cast<Tensor &>(*this);                              \
  }
  FACULA_WRITES(copy_)
  FACULA_WRITES(fill_)
  FACULA_WRITES(zero_)
  FACULA_WRITES(detach_)
  FACULA_WRITES(set_)
#undef FACULA_WRITES
  Tensor &resize_(const List &size, const Arg &format = Arg::absent()) const {
    static const ::facula::Word word("resize_");
    ::facula::invoke_method(object(), word, size, format);
    return const_cast<Tensor &>(*this);
  }
  // to(dtype), to(device), to(options), to(other), to(device, dtype), each with non_blocking and copy behind
  template <class... Flags>
  Tensor to(const Arg &first, const Flags &...flags) const {
    ::facula::Lock lock;
    ::facula::Object given[] = {to_object(first), to_object(Arg(flags))...};
    ::facula::Object list = ::facula::checked(PyList_New(0));
    for (const auto &item : given) ::facula::checked_status(PyList_Append(list.get(), item.get()));
    return Tensor(::facula::ask("to", object(), list.get()));
  }
  Tensor toType(ScalarType dtype) const { return to(dtype); }
  Tensor toBackend(DeviceType device) const { return to(device); }
  Tensor data() const { return detach(); }
  Tensor indices() const { return method("indices"); }
  Tensor values() const { return method("values"); }
  Tensor mT() const { return Tensor(locked_property("mT")); }
  Tensor mH() const { return Tensor(locked_property("mH")); }

  // ---- indexing
  Tensor operator[](int64_t i) const { return index_by(Arg(i)); }
  Tensor operator[](int i) const { return index_by(Arg(i)); }
  Tensor operator[](const Tensor &i) const { return index_by(Arg(i)); }
  Tensor index(const List &indices) const {
    ::facula::Lock lock;
    return Tensor(::facula::checked(PyObject_GetItem(object(), indices.indices().get())));
  }
  Tensor &index_put_(const List &indices, const Arg &value, bool accumulate = false) const {
    ::facula::Lock lock;
    if (accumulate)
      ::facula::ask("accumulate", object(), indices.indices().get(), value.object().get());
    else
      ::facula::checked_status(PyObject_SetItem(object(), indices.indices().get(), value.object().get()));
    return const_cast<Tensor &>(*this);
  }

  // ---- operators of C++
#define FACULA_INPLACE(symbol, Function)                                                            \
  Tensor &operator symbol(const Arg &other) {                                                       \
    ::facula::Lock lock;                                                                            \
    *this = Tensor(::facula::checked(Function(object(), other.object().get())));                    \
    return *this;                                                                                   \
  }
  FACULA_INPLACE(+=, PyNumber_InPlaceAdd)
  FACULA_INPLACE(-=, PyNumber_InPlaceSubtract)
  FACULA_INPLACE(*=, PyNumber_InPlaceMultiply)
  FACULA_INPLACE(/=, PyNumber_InPlaceTrueDivide)
  FACULA_INPLACE(&=, PyNumber_InPlaceAnd)
  FACULA_INPLACE(|=, PyNumber_InPlaceOr)
  FACULA_INPLACE(^=, PyNumber_InPlaceXor)
#undef FACULA_INPLACE
  Tensor operator-() const { return by_number(PyNumber_Negative); }
  Tensor operator~() const { return by_number(PyNumber_Invert); }
  Tensor operator!() const { return method("logical_not"); }

#include <facula/generated/methods.h>

 private:
  static inline const ::facula::Word size_{"size"}, stride_{"stride"}, dim_{"dim"}, numel_{"numel"}, dtype_{"dtype"},
      device_{"device"}, storage_offset_{"storage_offset"}, element_size_{"element_size"}, item_{"item"},
      is_contiguous_{"is_contiguous"}, shape_{"shape"};

  ::facula::Object property(const ::facula::Word &word) const { return ::facula::attribute(required(), word); }
  ::facula::Object locked_property(const char *name) const {
    ::facula::Lock lock;
    return ::facula::checked(PyObject_GetAttrString(required(), name));
  }
  PyObject *required() const {
    TORCH_CHECK(defined(), "[Tensor] a tensor was required: got one that is undefined\n"
                           "hint: ask .defined() first");
    return object();
  }
  template <class T, class... Args>
  T number(const ::facula::Word &word, const Args &...args) const {
    return ::facula::result<T>(::facula::invoke_method(required(), word, args...));
  }
  Tensor method(const char *name) const {
    ::facula::Lock lock;
    return Tensor(::facula::checked(PyObject_CallMethod(required(), name, nullptr)));
  }
  template <class T>
  const Tensor &assign(const ::facula::Word &word, const T &value) const {
    ::facula::Lock lock;
    ::facula::checked_status(PyObject_SetAttr(required(), word.get(), Arg(value).object().get()));
    return *this;
  }
  static ::facula::Object to_object(const Arg &arg) {
    if (arg.kind() != Arg::Kind::Options) return arg.object();
    // options as the list of what they say
    const TensorOptions &options = arg.options();
    return List({Arg(options.device_opt()), Arg(options.dtype_opt()), Arg(options.memory_format_opt())}).object();
  }
  Tensor index_by(const Arg &arg) const {
    ::facula::Lock lock;
    return Tensor(::facula::checked(PyObject_GetItem(required(), arg.object().get())));
  }
  Tensor by_number(PyObject *(*function)(PyObject *)) const {
    ::facula::Lock lock;
    return Tensor(::facula::checked(function(required())));
  }
  void check_rank(size_t wanted) const {
    TORCH_CHECK(static_cast<size_t>(dim()) == wanted, "[accessor] expected ", wanted, " dims but tensor has ", dim(),
                "\nhint: the second argument of accessor<T, N> is the number of dimensions");
  }
  // Sizes and strides as they are now, in memory that lives as long as the tensor.
  std::pair<IntArrayRef, IntArrayRef> geometry() const {
    ::facula::Lock lock;
    PyObject *tensor = required();
    ::facula::TensorImpl *impl = ref_.get();
    ::facula::Object sizes = property(shape_);
    ::facula::Object strides = ::facula::invoke_method(tensor, stride_);
    Py_ssize_t rank = PyTuple_Size(sizes.get());
    ::facula::checked_status(rank < 0 ? -1 : 0);
    if (impl->rank < rank) {
      impl->sizes = std::make_unique<int64_t[]>(static_cast<size_t>(rank + 1));
      impl->strides = std::make_unique<int64_t[]>(static_cast<size_t>(rank + 1));
      impl->rank = rank;
    }
    for (Py_ssize_t i = 0; i < rank; i++) {
      impl->sizes[static_cast<size_t>(i)] = whole(PyTuple_GET_ITEM(sizes.get(), i));
      impl->strides[static_cast<size_t>(i)] = whole(PyTuple_GetItem(strides.get(), i));
    }
    return {IntArrayRef(impl->sizes.get(), static_cast<size_t>(rank)), IntArrayRef(impl->strides.get(), static_cast<size_t>(rank))};
  }
  static int64_t whole(PyObject *number) {
    Py_ssize_t value = number == nullptr ? -1 : PyNumber_AsSsize_t(number, PyExc_OverflowError);
    if (value == -1 && PyErr_Occurred()) throw ::facula::PythonError::taken();
    return value;
  }

  ::facula::TensorRef ref_;
};

using TensorList = ArrayRef<Tensor>;
using ITensorListRef = ArrayRef<Tensor>;
using OptionalTensorRef = const std::optional<Tensor> &;

// A generator of random numbers.
class Generator {
 public:
  Generator() = default;
  explicit Generator(::facula::Object object) : object_(std::move(object)) {}
  bool defined() const { return static_cast<bool>(object_); }
  const ::facula::Object &object() const { return object_; }

 private:
  ::facula::Object object_;
};

// ---- operators between tensors and numbers

#define FACULA_BINARY(symbol, call)                                                              \
  inline Tensor operator symbol(const Tensor &a, const Tensor &b) { return ::facula::call(a, b); } \
  inline Tensor operator symbol(const Tensor &a, const Scalar &b) { return ::facula::call(a, b); } \
  inline Tensor operator symbol(const Scalar &a, const Tensor &b) { return ::facula::call(a, b); }
}  // namespace at

namespace facula {
inline Arg::Arg(const at::Tensor &tensor) : kind_(tensor.defined() ? Kind::Tensor : Kind::None), tensor_(tensor.reference()) {}
inline Arg::Arg(const at::Generator &generator) : Arg() {
  if (generator.defined()) *this = Arg(generator.object());
}
template <PyObject *(*function)(PyObject *, PyObject *)>
at::Tensor of_numbers(const Arg &a, const Arg &b) {
  Lock lock;
  return at::Tensor(checked(function(a.object().get(), b.object().get())));
}
template <int comparison>
at::Tensor compared(const Arg &a, const Arg &b) {
  Lock lock;
  return at::Tensor(checked(PyObject_RichCompare(a.object().get(), b.object().get(), comparison)));
}
}  // namespace facula

namespace at {
FACULA_BINARY(+, of_numbers<PyNumber_Add>)
FACULA_BINARY(-, of_numbers<PyNumber_Subtract>)
FACULA_BINARY(*, of_numbers<PyNumber_Multiply>)
FACULA_BINARY(/, of_numbers<PyNumber_TrueDivide>)
FACULA_BINARY(%, of_numbers<PyNumber_Remainder>)
FACULA_BINARY(&, of_numbers<PyNumber_And>)
FACULA_BINARY(|, of_numbers<PyNumber_Or>)
FACULA_BINARY(^, of_numbers<PyNumber_Xor>)
FACULA_BINARY(<, compared<Py_LT>)
FACULA_BINARY(<=, compared<Py_LE>)
FACULA_BINARY(>, compared<Py_GT>)
FACULA_BINARY(>=, compared<Py_GE>)
FACULA_BINARY(==, compared<Py_EQ>)
FACULA_BINARY(!=, compared<Py_NE>)
#undef FACULA_BINARY

inline std::ostream &operator<<(std::ostream &out, const Tensor &tensor) {
  ::facula::Lock lock;
  ::facula::Object text = ::facula::checked(PyObject_Str(tensor.object()));
  return out << PyUnicode_AsUTF8(text.get());
}
}  // namespace at
