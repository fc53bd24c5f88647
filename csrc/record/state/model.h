// The model of a virtual object: what it holds now.
//
// Kinds of which the same is known are a family. What several families know stands in a part, which they have as a
// base. Whoever asks an object for a part that it does not have gets an exception, which ends the recording
// (guarded.h); whoever cannot know its family looks first (find).
#pragma once
#include <type_traits>
#include <variant>

#include "record/state/shadow.h"

namespace pijit {
namespace family {

// Parts.
struct Shape {
  Seldom<uint32_t> reshaped;  // when keys, names or items of a deque came or went
};
struct Keys {
  KeyList keys;  // dict keys or set items, in order (immutable scalars, kept by owned)
};
struct Attributes {
  KeyList names;
  Vals values;
  uint32_t dict = kNone;   // the __dict__ of this object
  bool any_order = false;  // an argument whose attributes may come in another order
};
struct Written {
  Val home;                    // a container that existed before and is written: the object (writes.cpp)
  Seldom<PyObject*> original;  // items of `home` before the first write (borrowed)
  bool unread = false;         // items of `home` are not guarded: `items` has only what was added
  bool guarded = false;        // items of `home` were guarded before
};
struct Shared {
  unsigned long switches = 0;  // cpython::thread_switches() when it was last seen to be as it is here
};
struct Progress {
  uint32_t position = 0;        // kExhausted once it has ended
  uint32_t begun = UINT32_MAX;  // since when no call of its class makes it what it is
};

// Families.
struct List : Shape, Attributes, Written, Shared {};  // attributes: of an argument whose class derives from list
struct Deque : Shape, Shared {};
struct Dict : Shape, Keys, Attributes, Shared {  // attributes: the factory of a defaultdict
  uint32_t owner = kNone;                        // the object whose __dict__ this is
};
struct Set : Shape, Keys, Written, Shared {};
struct Instance : Shape, Keys, Attributes {};  // keys: of a class derived from dict
struct Function : Shape, Attributes {};
struct Exception : Shape, Attributes {
  Seldom<TracedFrame> traced;  // its traceback, innermost frame first
  Seldom<Val> tracebacks;      // what stands for the traceback
};
struct Iterator : Progress {
  Seldom<Val> ahead;       // over a set: all the items, in order
  size_t ahead_epoch = 0;  // the epoch of `ahead`
};
struct Zip {
  bool strict = false;  // zip(strict=True)
};
struct Lazy : Progress {
  Objects names;  // methodcaller: those of the last of its arguments
};
struct Generator {
  std::unique_ptr<ShadowFrame> suspended;  // where it stands at a yield
};
struct Frame {
  bool ended = false;
};
struct Address {
  PyObject* key = nullptr;  // what the number is compared by; null: that of a scalar
};
struct Plain {};  // what it holds are items

}  // namespace family

using Family = std::variant<family::Plain, family::List, family::Deque, family::Dict, family::Set, family::Instance,
                            family::Function, family::Exception, family::Iterator, family::Zip, family::Lazy,
                            family::Generator, family::Frame, family::Address>;

// The content model of a virtual object while recording.
class Model : public FromPool {
  Family family_;  // at first: which one it is stands beside what follows

 public:
  Model(VirtualKind kind, PyTypeObject* type);

  VirtualKind kind;
  bool building = false;  // being materialised
  bool own = false;       // it is real, and nothing but the trace reaches it
  PyTypeObject* type;
  PyObject* real = nullptr;    // the object, when it was seen (borrowed, may be gone)
  Vals items;                  // sequence items; dict values; fields
  uint32_t last_part = kNone;  // last entry of its log that names a virtual object
  uint32_t address = kNone;    // what id() gives of it

  // Its family, or a part of it; null: it has no such part.
  template <class Part>
  Part* find() noexcept {
    return part_of<Part>(family_);
  }
  template <class Part>
  const Part* find() const noexcept {
    return part_of<const Part>(family_);
  }
  template <class Part>
  Part& get() {
    return must_be(find<Part>());
  }
  template <class Part>
  const Part& get() const {
    return must_be(find<Part>());
  }
  KeyList& keys() { return get<family::Keys>().keys; }
  const KeyList& keys() const { return get<family::Keys>().keys; }
  family::Attributes& attributes() { return get<family::Attributes>(); }
  const family::Attributes& attributes() const { return get<family::Attributes>(); }
  uint32_t owner() const noexcept {  // kNone: it is no __dict__
    const auto* dict = find<family::Dict>();
    return dict == nullptr ? kNone : dict->owner;
  }

 private:
  template <class Part>
  static Part& must_be(Part* part) {
    if (part == nullptr) [[unlikely]]
      throw std::bad_variant_access();
    return *part;
  }
  // Of so many families std::visit would call one function through a table.
  template <class Part, class... Families>
  static Part* part_in(auto& family, std::type_identity<std::variant<Families...>>) noexcept {
    Part* found = nullptr;
    const auto look = [&]<class One>(std::type_identity<One>) {
      if constexpr (std::is_base_of_v<Part, One>)
        if (auto* held = std::get_if<One>(&family)) found = held;
    };
    (look(std::type_identity<Families>()), ...);
    return found;
  }
  template <class Part>
  static Part* part_of(auto& family) noexcept {
    return part_in<Part>(family, std::type_identity<Family>());
  }
};

// use(value) of all that it holds.
template <class Use>
void each_value(Model& content, const Use& use) {
  for (Val& value : content.items) use(value);
  if (auto* attributes = content.find<family::Attributes>())
    for (Val& value : attributes->values) use(value);
}

}  // namespace pijit
