// Arguments of operators: whatever C++ passes, and how it becomes Python's.
//
// `Arg` is made implicitly from tensors, numbers, braces, options, ...; `List` is one whose empty braces are the
// empty list. `invoke` calls an operator. Keeps true: making an Arg touches no Python, so that it takes no lock; what it
// views lives to the end of the full expression, as for IntArrayRef.
#pragma once

#include <memory>

#include <facula/python.h>

namespace at {
class Tensor;
class Generator;
}  // namespace at

namespace facula {

// The object of a tensor, shared by the Tensors that are copies of each other; sizes as last asked.
struct TensorImpl {
  explicit TensorImpl(Object given) : object(std::move(given)) {}
  std::atomic<int> references{1};
  Object object;
  std::unique_ptr<int64_t[]> sizes, strides;
  int64_t rank = -1;
};

class TensorRef {
 public:
  TensorRef() = default;
  explicit TensorRef(Object object) : impl_(object ? new TensorImpl(std::move(object)) : nullptr) {}
  TensorRef(const TensorRef &other) noexcept : impl_(other.impl_) {
    if (impl_ != nullptr) impl_->references.fetch_add(1, std::memory_order_relaxed);
  }
  TensorRef(TensorRef &&other) noexcept : impl_(std::exchange(other.impl_, nullptr)) {}
  TensorRef &operator=(TensorRef other) noexcept {
    std::swap(impl_, other.impl_);
    return *this;
  }
  ~TensorRef() {
    if (impl_ != nullptr && impl_->references.fetch_sub(1, std::memory_order_acq_rel) == 1) delete impl_;
  }
  TensorImpl *get() const { return impl_; }
  PyObject *object() const { return impl_ == nullptr ? Py_None : impl_->object.get(); }

 private:
  TensorImpl *impl_ = nullptr;
};

class Arg {
 public:
  enum class Kind : uint8_t {
    Absent, None, Number, Tensor, Ints, List, Text, Dtype, Device, Layout, Format, Options, Object, Reduction, Slice, Ellipsis
  };
  Arg() : kind_(Kind::None) {}
  static Arg absent() {
    Arg made;
    made.kind_ = Kind::Absent;
    return made;
  }
  Arg(std::nullopt_t) : Arg() {}
  Arg(at::indexing::NoneType) : Arg() {}
  template <class T, std::enable_if_t<std::is_arithmetic_v<T>, int> = 0>
  Arg(T value) : kind_(Kind::Number), number_(value) {}
  Arg(c10::Half value) : Arg(c10::Scalar(value)) {}
  Arg(c10::BFloat16 value) : Arg(c10::Scalar(value)) {}
  template <class T>
  Arg(std::complex<T> value) : Arg(c10::Scalar(value)) {}
  Arg(const c10::Scalar &value) : kind_(Kind::Number), number_(value) {}
  Arg(const at::Tensor &tensor);
  Arg(const at::Generator &generator);
  Arg(Object object) : kind_(Kind::Object), more_(std::make_shared<More>()) { more_->object = std::move(object); }
  Arg(c10::IntArrayRef ints) : kind_(Kind::Ints), ints_(ints) {}
  Arg(const std::vector<int64_t> &ints) : kind_(Kind::Ints), ints_(ints) {}
  template <size_t N>
  Arg(const std::array<int64_t, N> &ints) : kind_(Kind::Ints), ints_(ints) {}
  template <size_t N>
  Arg(const std::array<bool, N> &all) : Arg(all.begin(), all.end()) {}
  Arg(std::initializer_list<Arg> items) : Arg(items.begin(), items.end()) {}
  template <class T>
  Arg(const std::vector<T> &items) : Arg(items.begin(), items.end()) {}
  template <class T>
  Arg(c10::ArrayRef<T> items) : Arg(items.begin(), items.end()) {}
  template <class T>
  Arg(const std::optional<T> &value) : Arg() {
    if (value.has_value()) *this = Arg(*value);
  }
  Arg(const char *words) : Arg(std::string_view(words)) {}
  Arg(const std::string &words) : Arg(std::string_view(words)) {}
  Arg(std::string_view words) : kind_(Kind::Text), more_(std::make_shared<More>()) { more_->words = words; }
  Arg(c10::ScalarType dtype) : kind_(Kind::Dtype), code_(static_cast<int>(dtype)) {}
  Arg(c10::TypeMeta dtype) : Arg(c10::ScalarType(dtype)) {}
  Arg(c10::Layout layout) : kind_(Kind::Layout), code_(static_cast<int>(layout)) {}
  Arg(c10::MemoryFormat format) : kind_(Kind::Format), code_(static_cast<int>(format)) {}
  Arg(at::Reduction::Reduction reduction) : kind_(Kind::Reduction), code_(reduction) {}
  Arg(const c10::Device &device) : kind_(Kind::Device), more_(std::make_shared<More>()) { more_->words = device.str(); }
  Arg(c10::DeviceType device) : Arg(c10::Device(device)) {}
  Arg(const c10::TensorOptions &options) : kind_(Kind::Options), more_(std::make_shared<More>()) { more_->options = options; }
  Arg(const at::indexing::Slice &slice)
      : Arg({Arg(slice.start()), Arg(slice.stop()), Arg(slice.step())}) {
    kind_ = Kind::Slice;
  }
  Arg(at::indexing::EllipsisType) : kind_(Kind::Ellipsis) {}

  Kind kind() const { return kind_; }
  const c10::TensorOptions &options() const { return more_->options; }
  // The object; the lock is held.
  Object object() const;
  // As one of an index: the text "..." is the ellipsis.
  Object index() const {
    return kind_ == Kind::Text && more_->words == "..." ? Object::borrow(Py_Ellipsis) : object();
  }
  // The items of a list, as an index: a tuple.
  Object indices() const {
    const std::vector<Arg> none, &items = kind_ == Kind::List ? more_->items : none;
    TORCH_CHECK(kind_ == Kind::List, "a list of indices was required");
    Object tuple = checked(PyTuple_New(static_cast<Py_ssize_t>(items.size())));
    for (size_t i = 0; i < items.size(); i++)
      PyTuple_SET_ITEM(tuple.get(), static_cast<Py_ssize_t>(i), items[i].index().release());
    return tuple;
  }

 protected:
  struct More {
    std::vector<Arg> items;
    std::string words;
    c10::TensorOptions options;
    Object object;
  };
  template <class Iterator>
  Arg(Iterator begin, Iterator end) : kind_(Kind::List), more_(std::make_shared<More>()) {
    for (; begin != end; ++begin) more_->items.emplace_back(Arg(*begin));
  }
  Kind kind_;
  int code_ = 0;
  c10::Scalar number_;
  c10::IntArrayRef ints_;
  TensorRef tensor_;
  std::shared_ptr<More> more_;
};

class List : public Arg {
 public:
  using Arg::Arg;
  List() : Arg(std::initializer_list<Arg>{}) {}
  List(const Arg &arg) : Arg(arg) {}
};

// ---- numbers and options as objects

inline Object number_object(const c10::Scalar &number) {
  switch (number.kind()) {
    case c10::Scalar::Kind::Bool: return Object::borrow(number.toBool() ? Py_True : Py_False);
    case c10::Scalar::Kind::Int: return checked(PyLong_FromLongLong(number.toLong()));
    case c10::Scalar::Kind::Float: return checked(PyFloat_FromDouble(number.toDouble()));
    default: {
      auto value = number.toComplexDouble();
      return checked(PyComplex_FromDoubles(value.real(), value.imag()));
    }
  }
}
inline Object layout_object(int layout) {
  static const char *const words[] = {"strided", "sparse_coo", "sparse_csr"};
  return ask("find_constant", text(words[layout]).get());
}
inline Object format_object(int format) {
  static const char *const words[] = {"contiguous_format", "preserve_format", "channels_last", "channels_last_3d"};
  return ask("find_constant", text(words[format]).get());
}
inline Object device_object(std::string_view words) {
  return checked(PyObject_CallOneArg(Runtime::get().device_type, text(words).get()));
}

inline Object Arg::object() const {
  switch (kind_) {
    case Kind::Number: return number_object(number_);
    case Kind::Tensor: return Object::borrow(tensor_.object());
    case Kind::Ints: {
      Object list = checked(PyList_New(static_cast<Py_ssize_t>(ints_.size())));
      for (size_t i = 0; i < ints_.size(); i++)
        PyList_SET_ITEM(list.get(), static_cast<Py_ssize_t>(i), checked(PyLong_FromLongLong(ints_[i])).release());
      return list;
    }
    case Kind::List: {
      Object list = checked(PyList_New(static_cast<Py_ssize_t>(more_->items.size())));
      for (size_t i = 0; i < more_->items.size(); i++)
        PyList_SET_ITEM(list.get(), static_cast<Py_ssize_t>(i), more_->items[i].object().release());
      return list;
    }
    case Kind::Text: return text(more_->words);
    case Kind::Dtype: return Object::borrow(Runtime::get().dtype(static_cast<c10::ScalarType>(code_)));
    case Kind::Device: return device_object(more_->words);
    case Kind::Layout: return layout_object(code_);
    case Kind::Format: return format_object(code_);
    case Kind::Reduction: return text(code_ == 0 ? "none" : code_ == 1 ? "mean" : "sum");
    case Kind::Object: return more_->object;
    case Kind::Slice: {
      const auto &bounds = more_->items;
      return checked(PySlice_New(bounds[0].object().get(), bounds[1].object().get(), bounds[2].object().get()));
    }
    case Kind::Ellipsis: return Object::borrow(Py_Ellipsis);
    case Kind::Options: TORCH_CHECK_TYPE(false, "a value was required: got TensorOptions");
    default: return Object::borrow(Py_None);
  }
}

// ---- calls

// One parameter of an operator: its name, and whether it takes a value by this name only.
struct Parameter {
  const char *name;
  bool by_name;
};

// The arguments of one call as Python takes them; room for the widest operator, and for options.
class Call {
 public:
  static constexpr int kMost = 40;
  ~Call() {
    for (int i = 0; i < count_ + named_; i++) Py_DECREF(stack_[i + 1]);
  }
  void place(Object value) { stack_[1 + count_++] = value.release(); }
  void name(const char *name, Object value) {
    names_[named_] = name;
    stack_[1 + count_ + named_++] = value.release();
  }
  // An argument at its place: what says of itself what it is goes by name.
  void add(const Arg &arg, const char *name, bool by_name) {
    TORCH_CHECK(count_ + named_ < kMost - 8, "fewer arguments were required");
    switch (arg.kind()) {
      case Arg::Kind::Absent: skipped_ = true; return;
      case Arg::Kind::Dtype: return this->name("dtype", arg.object());
      case Arg::Kind::Device: return this->name("device", arg.object());
      case Arg::Kind::Layout: return this->name("layout", arg.object());
      case Arg::Kind::Format: return this->name("memory_format", arg.object());
      case Arg::Kind::Reduction: return this->name("reduction", arg.object());
      case Arg::Kind::Options: return options(arg.options());
      default: break;
    }
    if (by_name || skipped_ || named_ > 0)
      this->name(name, arg.object());
    else
      place(arg.object());
  }
  Object run(PyObject *function) {
    Object names;
    if (named_ > 0) {
      names = checked(PyTuple_New(named_));
      for (int i = 0; i < named_; i++)
        PyTuple_SET_ITEM(names.get(), i, checked(PyUnicode_InternFromString(names_[i])).release());
    }
    return checked(PyObject_Vectorcall(function, stack_ + 1, static_cast<size_t>(count_) | PY_VECTORCALL_ARGUMENTS_OFFSET,
                                       names.get()));
  }

 private:
  void options(const c10::TensorOptions &given) {
    if (given.dtype_opt()) name("dtype", Arg(given.dtype_opt()).object());
    if (given.device_opt()) name("device", Arg(given.device_opt()).object());
    if (given.layout_opt()) name("layout", Arg(given.layout_opt()).object());
    if (given.requires_grad_opt()) name("requires_grad", Arg(given.requires_grad_opt()).object());
    if (given.pinned_memory_opt()) name("pin_memory", Arg(given.pinned_memory_opt()).object());
    if (given.memory_format_opt()) name("memory_format", Arg(given.memory_format_opt()).object());
  }
  int count_ = 0, named_ = 0;
  bool skipped_ = false;
  PyObject *stack_[kMost + 1] = {};
  const char *names_[kMost];
};

// An operator of facula's, found by its name when it is first called.
class Operator {
 public:
  explicit constexpr Operator(const char *name) : name_(name) {}
  PyObject *get() const {
    PyObject *known = known_.load(std::memory_order_acquire);
    if (known == nullptr) {
      known = ask("find_operator", text(name_).get()).release();
      known_.store(known, std::memory_order_release);
    }
    return known;
  }

 private:
  const char *name_;
  mutable std::atomic<PyObject *> known_{nullptr};
};

inline Object invoke(const Operator &operation, const Parameter *parameters, std::initializer_list<const Arg *> args) {
  Lock lock;
  Call call;
  for (const Arg *arg : args) {
    call.add(*arg, parameters->name, parameters->by_name);
    parameters++;
  }
  return call.run(operation.get());
}

// A method of an object by its name, for what has no schema.
template <class... Args>
Object invoke_method(PyObject *self, const Word &name, const Args &...args) {
  Lock lock;
  Object method = attribute(self, name);
  Call call;
  (call.add(Arg(args), "", false), ...);
  return call.run(method.get());
}

}  // namespace facula
