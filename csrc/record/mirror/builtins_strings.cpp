// Text of objects: str, repr, format, f-strings and str.join; methods in Python are followed, containers are spelled
// out.
#include "cpython/keys.h"
#include "record/mirror/abstract.h"
#include "record/mirror/builtins.h"
#include "record/state/contents.h"
#include "record/state/exceptions.h"
#include "record/state/values.h"

namespace pijit {
namespace {

PyObject* interned(const char* text) {
  return PyUnicode_InternFromString(text);
}

Val text_of(ReadSet& reads, const std::string& text) {
  return reads.owned(Ref::steal(PyUnicode_FromStringAndSize(text.data(), static_cast<Py_ssize_t>(text.size()))).get());
}

// Appends what may be written in UTF-8. False: a lone surrogate is in it.
bool append_utf8(PyObject* text, std::string* out) {
  Py_ssize_t size = 0;
  const char* utf8 = text != nullptr && PyUnicode_Check(text) ? PyUnicode_AsUTF8AndSize(text, &size) : nullptr;
  if (utf8 == nullptr) return PyErr_Clear(), false;
  out->append(utf8, static_cast<size_t>(size));
  return true;
}

Val owned_text(ReadSet& reads, PyObject* made) {
  Ref text = Ref::steal(made);
  if (!text) PyErr_Clear();
  return text ? reads.owned(text.get()) : Val();
}

// A class, a function of a module, ...: its text never changes while its type does not.
bool has_fixed_text(Recorder& recorder, PyObject* object) {
  if (object == Py_None || object == Py_Ellipsis || object == Py_NotImplemented) return true;
  if (!PyType_Check(object) || Py_TYPE(object)->tp_repr != PyType_Type.tp_repr ||
      Py_TYPE(object)->tp_str != PyBaseObject_Type.tp_str)
    return false;
  recorder.reads.guard_type_version(reinterpret_cast<PyTypeObject*>(object));
  recorder.reads.guard_type_version(Py_TYPE(object));
  return recorder.live();
}

Task<std::string> repr_items(Drive& drive, Vals items) {
  std::string text;
  for (size_t i = 0; i < items.size(); ++i) {
    Val part = co_await repr_of(drive, items[i]);
    if (i > 0) text += ", ";
    if (!append_utf8(part.object(), &text)) co_await drive.unknown();
  }
  co_return text;
}

Task<Val> repr_container(Drive& drive, Val value) {
  Recorder& recorder = drive.recorder();
  PyTypeObject* type = recorder.heap.type_of(value);
  if (!drive.enter_repr(value)) co_await drive.unknown();
  Vals items;
  if (type == &PyDict_Type) {
    Objects keys;
    std::string text;
    if (!dict_content(recorder, value, &keys, &items)) co_await drive.unknown();
    for (size_t i = 0; i < keys.size(); ++i) {
      const Vals key(1, keep_key(recorder, keys[i])), item(1, items[i]);
      const std::string left = co_await repr_items(drive, key);
      const std::string right = co_await repr_items(drive, item);
      text += (i == 0 ? "" : ", ") + left + ": " + right;
    }
    drive.leave_repr();
    co_return text_of(recorder.reads, "{" + text + "}");
  }
  if (!try_items(recorder, value, &items)) co_await drive.unknown();
  const std::string text = co_await repr_items(drive, items);
  drive.leave_repr();
  if (type == &PyList_Type) co_return text_of(recorder.reads, "[" + text + "]");
  co_return text_of(recorder.reads, "(" + text + (items.size() == 1 ? ",)" : ")"));
}

// A method of the class in Python that makes text.
Task<Val> special_text(Drive& drive, Val value, PyObject* name, Vals more) {
  Val text = co_await call_special(drive, value, name, more);
  if (text.object() == nullptr || !PyUnicode_Check(text.object())) co_await drive.unknown();
  co_return text;
}

}  // namespace

Task<Val> repr_of(Drive& drive, Val value) {
  static PyObject* const name = interned("__repr__");
  Recorder& recorder = drive.recorder();
  if (value.is_reg() && !touches_tensor(recorder, value)) value = force(recorder, value);
  PyTypeObject* type = value.is_null() ? nullptr : guarded_type(recorder, value);
  if (type == nullptr) co_await drive.unknown();
  if (python_method(recorder.reads, type, name) != nullptr) {
    Vals none;
    Val text = co_await special_text(drive, value, name, none);
    co_return text;
  }
  PyObject* object = value.object();
  if (object != nullptr && (is_plain_const(object) || has_fixed_text(recorder, object))) {
    Val text = owned_text(recorder.reads, PyObject_Repr(object));
    if (text.is_null()) co_await drive.unknown();
    co_return text;
  }
  const bool container = type == &PyList_Type || type == &PyTuple_Type || type == &PyDict_Type;
  if (!container) co_await drive.unknown();
  Val text = co_await repr_container(drive, value);
  co_return text;
}

Task<Val> str_of(Drive& drive, Val value) {
  static PyObject* const name = interned("__str__");
  Recorder& recorder = drive.recorder();
  if (value.is_reg() && !touches_tensor(recorder, value)) value = force(recorder, value);
  PyTypeObject* type = value.is_null() ? nullptr : guarded_type(recorder, value);
  if (type == nullptr) co_await drive.unknown();
  if (type == &PyUnicode_Type) co_return value;
  if (python_method(recorder.reads, type, name) != nullptr) {
    Vals none;
    Val text = co_await special_text(drive, value, name, none);
    co_return text;
  }
  if (recorder.heap.is_virtual(value, VirtualKind::kException)) {
    Vals args;
    const bool of_key = type->tp_str == reinterpret_cast<PyTypeObject*>(PyExc_KeyError)->tp_str;
    const bool known = type->tp_str == reinterpret_cast<PyTypeObject*>(PyExc_Exception)->tp_str || of_key;
    if (!known || is_foreign(recorder.heap, value) || recorder.heap.model(value).items.empty() ||
        !try_items(recorder, recorder.heap.virtual_field(value, 0), &args) || args.size() > 1)
      co_await drive.unknown();
    if (args.empty()) co_return text_of(recorder.reads, "");
    if (of_key) {
      Val text = co_await repr_of(drive, args[0]);
      co_return text;
    }
    Val text = co_await str_of(drive, args[0]);
    co_return text;
  }
  if (type->tp_str != PyBaseObject_Type.tp_str) {
    // Text of a number or string of a class that inherits it.
    PyObject* object = value.object();
    if (object == nullptr || !is_plain_const(object)) co_await drive.unknown();
    Val text = owned_text(recorder.reads, PyObject_Str(object));
    co_return text;
  }
  Val text = co_await repr_of(drive, value);
  co_return text;
}

Task<Val> format_of(Drive& drive, Val value, Val spec) {
  static PyObject* const name = interned("__format__");
  Recorder& recorder = drive.recorder();
  if (value.is_reg() && !touches_tensor(recorder, value)) value = force(recorder, value);
  PyTypeObject* type = value.is_null() ? nullptr : guarded_type(recorder, value);
  PyObject* how = spec.object();
  if (type == nullptr || how == nullptr || !PyUnicode_Check(how)) co_await drive.unknown();
  if (python_method(recorder.reads, type, name) != nullptr) {
    Vals more(1, spec);
    Val text = co_await special_text(drive, value, name, more);
    co_return text;
  }
  PyObject* object = value.object();
  if (object != nullptr && cpython::is_scalar(object)) {
    Ref made = Ref::steal(PyObject_Format(object, how));
    if (!made) {
      PyErr_Clear();
      co_await drive.raise();
    }
    co_return recorder.reads.owned(made.get());
  }
  // object.__format__: str(), and nothing else may be asked for.
  PyObject* method = recorder.reads.lookup_type(type, name);
  if (method != cpython::lookup_type(&PyBaseObject_Type, name)) co_await drive.unknown();
  if (PyUnicode_GET_LENGTH(how) != 0) co_await drive.raise();
  Val text = co_await str_of(drive, value);
  co_return text;
}

namespace {

Task<Val> make_str(Drive& drive, Arguments args) {
  if (!args.names.empty() || args.values.size() > 1) co_await drive.unknown();
  if (args.values.empty()) co_return text_of(drive.recorder().reads, "");
  Val text = co_await str_of(drive, args.values[0]);
  co_return text;
}

Task<Val> builtin_repr(Drive& drive, Arguments args) {
  Val text = co_await repr_of(drive, args.values[0]);
  co_return text;
}

Task<Val> builtin_ascii(Drive& drive, Arguments args) {
  Val text = co_await repr_of(drive, args.values[0]);
  Ref plain = Ref::steal(PyUnicode_AsASCIIString(text.object()));
  PyErr_Clear();
  if (!plain) co_await drive.unknown();
  co_return text;
}

Task<Val> builtin_format(Drive& drive, Arguments args) {
  Val spec = args.values.size() == 2 ? args.values[1] : text_of(drive.recorder().reads, "");
  Val text = co_await format_of(drive, args.values[0], spec);
  co_return text;
}

// FORMAT_VALUE: the value, its conversion (0 to 3), its spec.
Task<Val> format_field(Drive& drive, Arguments args) {
  Val value = args.values[0];
  const long conversion = PyLong_AsLong(args.values[1].object());
  if (conversion == 1) value = co_await str_of(drive, value);
  if (conversion >= 2) value = co_await repr_of(drive, value);
  if (conversion == 3 && !PyUnicode_IS_ASCII(value.object())) co_await drive.unknown();
  Val text = co_await format_of(drive, value, args.values[2]);
  co_return text;
}

Task<Val> str_join(Drive& drive, Arguments args) {
  Recorder& recorder = drive.recorder();
  const Vals items = co_await collect_all(drive, args.values[1]);
  Ref list = Ref::steal(PyList_New(0));
  for (Val item : items) {
    item = force(recorder, item);
    if (item.object() == nullptr) co_await drive.unknown();
    if (!PyUnicode_Check(item.object())) co_await drive.raise();
    PyList_Append(list.get(), item.object());
  }
  PyObject* separator = args.values[0].object();
  if (separator == nullptr || !PyUnicode_Check(separator)) co_await drive.unknown();
  Val text = owned_text(recorder.reads, PyUnicode_Join(separator, list.get()));
  if (text.is_null()) co_await drive.unknown();
  co_return text;
}

// One replacement field of str.format, if it is as simple as {}, {0}, {name}, each with !r and a plain :spec.
struct Field {
  std::string before, name, spec;
  char conversion = 0;
  bool has_field = false;
  bool is_counted() const { return has_field && name.find_first_not_of("0123456789") == std::string::npos; }
};

bool parse_format(const std::string& text, std::vector<Field>* fields) {
  Field field;
  for (size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if ((c == '{' || c == '}') && i + 1 < text.size() && text[i + 1] == c) {
      field.before += c;
      ++i;
    } else if (c == '{') {
      const size_t end = text.find('}', i);
      if (end == std::string::npos) return false;
      std::string inside = text.substr(i + 1, end - i - 1);
      if (inside.find_first_of("{[.") != std::string::npos && inside.find(':') > inside.find_first_of("{[."))
        return false;
      const size_t colon = inside.find(':');
      if (colon != std::string::npos) {
        field.spec = inside.substr(colon + 1);
        inside.resize(colon);
      }
      if (field.spec.find('{') != std::string::npos) return false;
      const size_t mark = inside.find('!');
      if (mark != std::string::npos) {
        if (mark + 2 != inside.size()) return false;
        field.conversion = inside[mark + 1];
        inside.resize(mark);
      }
      field.name = inside;
      field.has_field = true;
      if (field.is_counted() && inside.size() > 4) return false;
      // Either all of them are counted by the text itself, or none.
      for (const Field& other : *fields)
        if (field.is_counted() && other.is_counted() && other.name.empty() != inside.empty()) return false;
      fields->push_back(std::exchange(field, Field()));
      i = end;
    } else if (c == '}') {
      return false;
    } else {
      field.before += c;
    }
  }
  fields->push_back(field);
  return true;
}

Task<Val> str_format(Drive& drive, Arguments args) {
  Recorder& recorder = drive.recorder();
  std::vector<Field> fields;
  std::string text;
  if (!append_utf8(args.values[0].object(), &text) || !parse_format(text, &fields)) co_await drive.unknown();
  const bool literal = fields.size() == 1 && !text.empty() && fields[0].before == text;  // it is written as it is
  if (literal) co_return args.values[0];
  text.clear();
  size_t next = 1;
  for (size_t i = 0; i < fields.size(); ++i) {
    const Field field = fields[i];
    text += field.before;
    if (!field.has_field) continue;
    Val value;
    const bool number = field.is_counted();
    const size_t at = !number ? 0 : field.name.empty() ? next++ : static_cast<size_t>(std::stoul(field.name)) + 1;
    if (number && at < args.positional()) value = args.values[at];
    for (size_t k = 0; k < args.names.size() && !number; ++k)
      if (has_name(args.names[k], field.name)) value = args.values[args.positional() + k];
    if (value.is_null()) co_await drive.raise();
    if (field.conversion != 0 && field.conversion != 's' && field.conversion != 'r') co_await drive.unknown();
    if (field.conversion == 's') value = co_await str_of(drive, value);
    if (field.conversion == 'r') value = co_await repr_of(drive, value);
    Val part = co_await format_of(drive, value, text_of(recorder.reads, field.spec));
    const bool alone = text.empty() && i + 2 == fields.size() && fields[i + 1].before.empty();
    if (alone && recorder.heap.type_of(part) == &PyUnicode_Type) co_return part;
    if (!append_utf8(part.object(), &text)) co_await drive.unknown();
  }
  co_return text_of(recorder.reads, text);
}

}  // namespace

// text % values: the conversions %s and %r of objects are made here, the others are CPython's.
Task<Val> percent(Drive& drive, Val format, Val values) {
  Recorder& recorder = drive.recorder();
  std::string text;
  if (!append_utf8(format.object(), &text)) co_await drive.unknown();
  Vals items;
  Objects keys;
  const bool mapping = is_dict_like(recorder.heap, values);
  const bool tuple = recorder.heap.type_of(values) == &PyTuple_Type;
  if (mapping && !dict_content(recorder, values, &keys, &items)) co_await drive.unknown();
  if (tuple && !try_items(recorder, values, &items)) co_await drive.unknown();
  if (!mapping && !tuple) items.push_back(values);
  // Objects become texts first, in order: each conversion takes the next one.
  std::vector<Ref> objects;
  size_t next = 0;
  for (size_t i = 0; i + 1 < text.size() && !mapping; ++i) {
    if (text[i] != '%') continue;
    const size_t end = text.find_first_not_of("0123456789.+- #", i + 1);
    if (end == std::string::npos || text.find('*', i) == end) co_await drive.unknown();
    i = end;
    if (text[end] == '%') continue;
    if (next >= items.size()) co_await drive.raise();
    Val item = items[next++];
    Ref object = plain_object(recorder, item);
    if (!object && text[end] == 's') item = co_await str_of(drive, item);
    if (!object && text[end] == 'r') co_await drive.unknown();
    if (!object) object = Ref::borrow(item.object());
    if (!object) co_await drive.unknown();
    objects.push_back(std::move(object));
  }
  if (!mapping && next < items.size()) co_await drive.raise();
  Ref right = Ref::steal(mapping ? PyDict_New() : PyTuple_New(static_cast<Py_ssize_t>(objects.size())));
  for (size_t i = 0; i < objects.size(); ++i)
    PyTuple_SET_ITEM(right.get(), static_cast<Py_ssize_t>(i), objects[i].release());
  for (size_t i = 0; i < keys.size(); ++i) {
    Ref object = plain_object(recorder, items[i]);
    if (!object || PyDict_SetItem(right.get(), keys[i], object.get()) < 0) co_await drive.unknown();
  }
  Ref made = Ref::steal(PyUnicode_Format(format.object(), right.get()));
  if (!made) {
    PyErr_Clear();
    co_await drive.raise();
  }
  co_return recorder.reads.owned(made.get());
}

bool step_format(Recorder& recorder, ShadowFrame& frame, int conversion, bool with_spec) {
  Arguments args;
  args.values = {frame.top(with_spec ? 2 : 1), recorder.reads.owned(Ref::steal(PyLong_FromLong(conversion)).get()),
                 with_spec ? frame.top() : text_of(recorder.reads, "")};
  return drive(recorder, frame, format_field, args, with_spec ? 2 : 1) != Invoke::kUnknown;
}

namespace {

constexpr KnownCallable kStringRows[] = {
    {"builtins", "str", folded<make_str, true>, 0, 3, kNamed},
    {"builtins", "repr", folded<builtin_repr, true>, 1, 1, kComputes},
    {"builtins", "ascii", folded<builtin_ascii, true>, 1, 1, kComputes},
    {"builtins", "format", folded<builtin_format, true>, 1, 2, kComputes},
    {"builtins", "chr ord bin hex oct", fold, 1, 1, kComputes},
    {"builtins", "str.join", str_join, 2, 2},
    {"builtins", "str.format", str_format, 1, kAny, kOptions},
};

}  // namespace

constinit const KnownCalls kStringCalls = kStringRows;

}  // namespace pijit
