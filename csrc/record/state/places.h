// Items of containers that existed before, by container and key: what the trace has written there, or found.
//
// They are found by hash, kept in the order in which they came, and forgotten from the end.
#pragma once
#include <vector>

#include "record/state/key_list.h"

namespace pijit {

template <class What>
class Places {
 public:
  struct Place {
    PyObject *container, *key;
    What what;
  };

  // What is noted there; null: nothing.
  What* find(PyObject* container, PyObject* key) {
    const auto found = of_.find(container);
    if (found == of_.end()) return nullptr;
    const ptrdiff_t at = found->second.keys.find(key);
    return at < 0 ? nullptr : &places_[found->second.at[static_cast<size_t>(at)]].what;
  }
  // Nothing is noted there yet.
  void add(PyObject* container, PyObject* key, What what) {
    Of& of = of_[container];
    of.keys.push_back(key);
    of.at.push_back(static_cast<uint32_t>(places_.size()));
    places_.push_back({container, key, what});
  }
  // Forgets all but the first `count`.
  void truncate(size_t count) {
    for (; places_.size() > count; places_.pop_back()) {
      const auto found = of_.find(places_.back().container);
      found->second.keys.erase(static_cast<ptrdiff_t>(found->second.keys.size() - 1));
      found->second.at.pop_back();
      if (found->second.at.empty()) of_.erase(found);
    }
  }
  void clear() {
    places_.clear();
    of_.clear();
  }
  size_t size() const { return places_.size(); }
  typename Vec<Place>::const_iterator begin() const { return places_.begin(); }
  typename Vec<Place>::const_iterator end() const { return places_.end(); }

 private:
  struct Of {
    KeyList keys;
    Vec<uint32_t> at;
  };
  Vec<Place> places_;
  Map<PyObject*, Of> of_;
};

// What was there before the trace wrote it.
struct Original {
  PyObject* object;      // null: it is there again
  bool scalar;           // `object` may be looked into, since the trace keeps it; else it is compared by address alone
  uint64_t counter = 0;  // of the attribute in its class, if that counts with it: the container may die meanwhile
};

}  // namespace pijit
