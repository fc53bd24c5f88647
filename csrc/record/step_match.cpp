// The match statement on subjects whose class and content are known.
#include "cpython/keys.h"
#include "cpython/opcodes.h"
#include "record/builtins.h"

namespace pijit {
namespace {

void push_flag(Recorder& recorder, ShadowFrame& frame, unsigned long flag) {
  PyTypeObject* type = guarded_type(recorder, frame.top());
  if (type == nullptr)
    return recorder.live() ? recorder.stop(Abort::kUnknownOperand, "the subject of a match") : void();
  recorder.guard_type_version(type);
  if (recorder.live()) recorder.known(frame, 0, Val::constant((type->tp_flags & flag) != 0 ? Py_True : Py_False));
}

// len(subject), above it.
void push_length(Recorder& recorder, ShadowFrame& frame) {
  std::vector<Val> items;
  std::vector<PyObject*> keys;
  PyTypeObject* type = frame.top().is_reg() ? nullptr : recorder.type_of(frame.top());
  const bool sequence =
      type != nullptr && (type == &PyList_Type || type == &PyRange_Type || PyType_IsSubtype(type, &PyTuple_Type));
  const bool mapping = type == &PyDict_Type || type == &PyODict_Type;
  const bool known = sequence  ? recorder.try_items(frame.top(), &items)
                     : mapping ? recorder.dict_content(frame.top(), &keys, &items)
                               : false;
  if (!known) return recorder.live() ? recorder.stop(Abort::kUnknownOperand, "the length of a subject") : void();
  recorder.known(frame, 0, recorder.owned(Ref::steal(PyLong_FromSize_t(items.size())).get()));
}

// The values of the keys on top as a tuple, or None when one is missing.
void push_values(Recorder& recorder, ShadowFrame& frame) {
  const Val subject = frame.top(2);
  std::vector<Val> keys, values;
  PyTypeObject* type = recorder.type_of(subject);
  bool known =
      (type == &PyDict_Type || type == &PyODict_Type) && !subject.is_reg() && recorder.try_items(frame.top(), &keys);
  for (size_t i = 0; i < keys.size() && known; ++i) {
    Val value;
    const int found = mapping_find(recorder, subject, keys[i], &value);
    if (found == 0) return recorder.known(frame, 0, Val::constant(Py_None));
    known = found > 0;
    values.push_back(value);
  }
  if (!known) return recorder.live() ? recorder.stop(Abort::kUnknownOperand, "the keys of a subject") : void();
  recorder.known(frame, 0, recorder.new_tuple(&PyTuple_Type, values.data(), values.size()));
}

}  // namespace

bool step_match(Recorder& recorder, ShadowFrame& frame, int opcode) {
  switch (opcode) {
    case GET_LEN:
      return push_length(recorder, frame), true;
    case MATCH_SEQUENCE:
      return push_flag(recorder, frame, Py_TPFLAGS_SEQUENCE), true;
    case MATCH_MAPPING:
      return push_flag(recorder, frame, Py_TPFLAGS_MAPPING), true;
    case MATCH_KEYS:
      return push_values(recorder, frame), true;
    default:
      return false;
  }
}

}  // namespace pijit
