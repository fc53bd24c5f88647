// Values: constants, registers, virtual objects and what these hold.
#pragma once
#include "record/recorder.h"

namespace pijit {

Val constant(Recorder&, PyObject* object);  // borrowed: proven by a guard already taken; tensors become inputs
void take_tensor(Recorder&, Val source, PyObject* tensor, Val reg);  // an input from here on
Val tensor_source(const Loading&, Val tensor);  // where an input tensor's object is; Null for a result

// Virtual objects, and what is put into them.
Val new_virtual(Recorder&, VirtualKind kind, PyTypeObject* type);
void log(Recorder&, Val object, LogOp op, Val key, Val value, uint32_t index = 0);
Val new_sequence(Recorder&, VirtualKind kind, PyTypeObject* type, const Val* items, size_t count);
Val new_dict(Recorder&);
Val new_iterator(Recorder&, Val iterable);
void set_field(Recorder&, Val object, uint32_t field, Val value);

// Virtual dicts, and keys.
void dict_set(Recorder&, Val dict, PyObject* key, Val value);  // virtual dict (or __dict__ of a virtual instance)
void dict_put(Recorder&, Val dict, PyObject* key, Val value);  // its model alone
PyObject* key_of(Recorder&, Val value);  // the key as a dict compares it without running Python; null: not such a key
PyObject* tensor_key(Recorder&, Val tensor);  // the same of a tensor (tensor_keys.cpp)
void meet_key(Recorder&, PyObject* key);
Val keep_key(Recorder&, PyObject* key);  // the shadow of a key
// id() of a virtual object, or of a scalar. The program may need it after the object has died: where the object is real
// already the number is built now, and keeps nothing alive.
Val address_of(Recorder&, Val value);
bool are_other_addresses(Recorder&, Val container, Val object);
PyObject* key_in(Recorder&, Val container, Val key);  // key_of() where such a number may be the key
bool dict_delete(Recorder&, Val dict, PyObject* key);
bool dict_find(Heap&, Val dict, PyObject* key, Val* value);  // virtual dict

// Attributes of virtual objects.
void attr_set(Recorder&, Val object, PyObject* name, Val value);
bool attr_delete(Recorder&, Val object, PyObject* name);  // false: it is not there
bool attr_find(Heap&, Val object, PyObject* name, Val* value);
Val dict_of(Recorder&, Val instance);  // its __dict__

// What must be a constant, or real.
Val force(Recorder&, Val value);        // a Const: guards a scalar register in place; Null: stopped
Val materialize(Recorder&, Val value);  // a Reg or Const holding the real object; Null: stopped

// Registers.
Val add_reg(Recorder&, Rep rep, PyTypeObject* type, PyObject* observed);
bool touches_tensor(const Kernel&, Val value);
bool can_build(Heap&, uint32_t index, uint32_t time);

}  // namespace pijit
