// The keys of a dict or set, or the names of attributes, in order; found by their hash.
//
// A short list is looked through. A longer one gets an index from hashes to serial numbers: these are handed out in the
// order of the keys and stay when an earlier key goes, so that a removal renumbers nothing. Rejected: positions in the
// index, with which a loop that empties a dict from its front would be quadratic.
// 1. Keys are native (cpython::is_native_key), or their hash is their address (identity_key): hashing and comparing
//    them runs no Python.
// 2. They are hashed when something is first sought among many of them: the container that they are in is alive then,
//    and holds them.
#pragma once
#include <cstdint>
#include <memory>

#include "ir/value.h"

namespace pijit {

class KeyList {
 public:
  KeyList() = default;
  KeyList(const Objects& keys) : keys_(keys) {}
  KeyList(std::initializer_list<PyObject*> keys) : keys_(keys) {}
  KeyList(const KeyList& other) : keys_(other.keys_) {}
  KeyList(KeyList&&) noexcept = default;
  KeyList& operator=(const KeyList& other) {
    keys_ = other.keys_;
    index_.reset();
    return *this;
  }
  KeyList& operator=(KeyList&&) noexcept = default;
  operator const Objects&() const { return keys_; }
  bool operator==(const KeyList& other) const { return keys_ == other.keys_; }

  size_t size() const { return keys_.size(); }
  bool empty() const { return keys_.empty(); }
  PyObject* operator[](size_t at) const { return keys_[at]; }
  PyObject* back() const { return keys_.back(); }
  Objects::const_iterator begin() const { return keys_.begin(); }
  Objects::const_iterator end() const { return keys_.end(); }

  // Where the key itself is, else one that is equal to it as a dict compares them; -1: nowhere.
  ptrdiff_t find(PyObject* key) const;
  bool holds(PyObject* key) const { return find(key) >= 0; }
  // Of the key it is known that it is not there.
  void push_back(PyObject* key) { keys_.push_back(key); }
  void erase(ptrdiff_t at);
  void clear() {
    keys_.clear();
    index_.reset();
  }

 private:
  struct Place {
    Py_hash_t hash = 0;
    uint32_t serial = kEmpty;
  };
  struct Index : FromPool {
    Vec<Place> places;
    Vec<uint32_t> serials;  // of the keys that are indexed, in their order
    Vec<Py_hash_t> hashes;  // of the same keys, when they were alive
    uint32_t next = 0;      // serial
    size_t used = 0;        // places, those of keys that are gone included
  };
  static constexpr uint32_t kEmpty = UINT32_MAX, kGone = UINT32_MAX - 1;
  static constexpr size_t kFew = 8;

  ptrdiff_t look_through(PyObject* key) const;
  bool complete_index() const;
  static void insert(Index* index, Place place);
  static void grow(Index* index);

  Objects keys_;
  mutable std::unique_ptr<Index> index_;  // of the first keys; the others follow when something is sought
};

}  // namespace pijit
