// Functions with a gradient of their own.
//
// A class with static `forward(ctx, ...)` and `backward(ctx, grads)` becomes a Function of facula's at each `apply`: its
// node holds the context. Keeps true: backward gives one tensor (or an undefined one) for each argument of forward.
#pragma once

#include <facula/functions.h>

namespace torch::autograd {

using Variable = at::Tensor;
using variable_list = std::vector<at::Tensor>;

class AutogradContext {
 public:
  std::unordered_map<std::string, c10::IValue> saved_data;
  void save_for_backward(variable_list all) {
    ::facula::Lock lock;
    ::facula::ask("save_for_backward", node_.get(), ::facula::Arg(all).object().get());
  }
  variable_list get_saved_variables() const {
    ::facula::Lock lock;
    return ::facula::from_python<variable_list>(::facula::checked(PyObject_GetAttrString(node_.get(), "saved_tensors")).get());
  }
  void mark_dirty(const variable_list &all) { mark("mark_dirty", all); }
  void mark_non_differentiable(const variable_list &all) { mark("mark_non_differentiable", all); }
  void set_materialize_grads(bool value) {
    ::facula::Lock lock;
    ::facula::checked(PyObject_CallMethod(node_.get(), "set_materialize_grads", "O", value ? Py_True : Py_False));
  }
  bool needs_input_grad(size_t i) const {
    ::facula::Lock lock;
    auto all = ::facula::from_python<std::vector<bool>>(
        ::facula::checked(PyObject_GetAttrString(node_.get(), "needs_input_grad")).get());
    TORCH_CHECK_INDEX(i < all.size(), "[needs_input_grad] an argument below ", all.size(), " was required: got ", i);
    return all[i];
  }
  // the node for the time of a call: it holds this context, which must not hold it
  struct During {
    During(AutogradContext &context, PyObject *node) : context_(context) { context_.node_ = ::facula::Object::borrow(node); }
    ~During() { context_.node_ = {}; }
    AutogradContext &context_;
  };

 private:
  void mark(const char *name, const variable_list &all) {
    ::facula::Lock lock;
    ::facula::ask("mark", node_.get(), ::facula::text(name).get(), ::facula::Arg(all).object().get());
  }
  ::facula::Object node_;
};

namespace detail {
// A callable of Python for a function of C++ that takes objects and gives one.
inline ::facula::Object callable(std::function<::facula::Object(PyObject *)> function) {
  using Function = std::function<::facula::Object(PyObject *)>;
  ::facula::Object capsule = ::facula::checked(
      PyCapsule_New(new Function(std::move(function)), nullptr, [](PyObject *self) {
        delete static_cast<Function *>(PyCapsule_GetPointer(self, nullptr));
      }));
  static PyMethodDef definition{"cpp_function",
                                [](PyObject *self, PyObject *args) -> PyObject * {
                                  try {
                                    return (*static_cast<Function *>(PyCapsule_GetPointer(self, nullptr)))(args).release();
                                  } catch (...) {
                                    ::facula::translate();
                                    return nullptr;
                                  }
                                },
                                METH_VARARGS, nullptr};
  return ::facula::checked(PyCFunction_New(&definition, capsule.get()));
}
template <class T>
::facula::Object argument(const T &value) {
  if constexpr (std::is_same_v<T, at::Tensor> || std::is_same_v<T, std::optional<at::Tensor>>)
    return ::facula::Arg(value).object();
  else
    return ::facula::Object::borrow(Py_None);
}
template <class T>
T given(const T &value, PyObject *object) {
  if constexpr (std::is_same_v<T, at::Tensor> || std::is_same_v<T, std::optional<at::Tensor>>)
    return ::facula::from_python<T>(object);
  else
    return value;
}
template <class Self, class... Args, size_t... I>
auto forward(AutogradContext *context, const std::tuple<Args...> &values, PyObject *args, std::index_sequence<I...>) {
  return Self::forward(context, given(std::get<I>(values), PyTuple_GET_ITEM(args, I + 1))...);
}
}  // namespace detail

template <class Self>
class Function {
 public:
  template <class Derived = Self, class... Args>
  static auto apply(Args &&...args) {
    using Result = decltype(Derived::forward(static_cast<AutogradContext *>(nullptr), args...));
    ::facula::Lock lock;
    auto context = std::make_shared<AutogradContext>();
    // arguments as values: views of arrays are copied, since nothing here outlives the call but the context
    std::tuple<std::decay_t<Args>...> values(args...);
    ::facula::Object forward = detail::callable([context, &values](PyObject *given) {
      AutogradContext::During during(*context, PyTuple_GET_ITEM(given, 0));
      return ::facula::to_python<Result>(
          detail::forward<Derived>(context.get(), values, given, std::index_sequence_for<Args...>{}));
    });
    ::facula::Object backward = detail::callable([context](PyObject *given) {
      AutogradContext::During during(*context, PyTuple_GET_ITEM(given, 0));
      return ::facula::to_python<variable_list>(Derived::backward(
          context.get(), ::facula::from_python<variable_list>(PyTuple_GET_ITEM(given, 1))));
    });
    ::facula::Object inputs = std::apply(
        [](const auto &...all) {
          return ::facula::checked(PyTuple_Pack(sizeof...(all), detail::argument(all).get()...));
        },
        values);
    return ::facula::from_python<Result>(::facula::ask("apply", forward.get(), backward.get(), inputs.get()).get());
  }
};

inline variable_list grad(const variable_list &outputs, const variable_list &inputs, const variable_list &grad_outputs = {},
                          std::optional<bool> retain_graph = {}, bool create_graph = false, bool allow_unused = false) {
  using ::facula::Arg;
  ::facula::Lock lock;
  ::facula::Object given = grad_outputs.empty() ? Arg().object() : Arg(grad_outputs).object();
  return ::facula::from_python<variable_list>(
      ::facula::ask("grad", Arg(outputs).object().get(), Arg(inputs).object().get(), given.get(),
                    Arg(retain_graph).object().get(), Arg(create_graph).object().get(), Arg(allow_unused).object().get())
          .get());
}
inline void backward(const variable_list &tensors, const variable_list &gradients = {}, std::optional<bool> retain_graph = {},
                     bool create_graph = false) {
  static const ::facula::Word word("backward");
  ::facula::Lock lock;
  ::facula::Object given = gradients.empty() ? ::facula::Arg().object() : ::facula::Arg(gradients).object();
  ::facula::invoke_method(::facula::Runtime::get().bridge, word, tensors, ::facula::Arg(given), ::facula::Arg(retain_graph),
                          create_graph);
}

}  // namespace torch::autograd
namespace torch {
using autograd::Variable;
}
