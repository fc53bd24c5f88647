// Keys that are found by their hash.
#include "record/state/key_list.h"

#include <algorithm>

#include "cpython/keys.h"

namespace pijit {
namespace {

size_t spread(Py_hash_t hash) {
  return static_cast<size_t>((static_cast<uint64_t>(hash) * 0x9E3779B97F4A7C15ull) >> 20);
}

// That of an object that computes its hash in Python is its address (identity_key): it is equal to nothing else.
Py_hash_t hash_of(PyObject* key) {
  return cpython::is_native_key(key) ? PyObject_Hash(key) : static_cast<Py_hash_t>(reinterpret_cast<uintptr_t>(key));
}

}  // namespace

ptrdiff_t KeyList::look_through(PyObject* key) const {
  do_work(keys_.size());
  for (size_t i = 0; i < keys_.size(); ++i)
    if (keys_[i] == key) return static_cast<ptrdiff_t>(i);
  for (size_t i = 0; i < keys_.size(); ++i)
    if (keys_[i] != nullptr && cpython::keys_equal(keys_[i], key)) return static_cast<ptrdiff_t>(i);
  return -1;
}

ptrdiff_t KeyList::find(PyObject* key) const {
  if (keys_.size() <= kFew || !complete_index()) return look_through(key);
  const Py_hash_t hash = hash_of(key);
  if (hash == -1) {
    PyErr_Clear();
    return look_through(key);
  }
  const Index& index = *index_;
  const size_t mask = index.places.size() - 1;
  ptrdiff_t equal = -1;
  for (size_t i = spread(hash) & mask; index.places[i].serial != kEmpty; i = (i + 1) & mask) {
    const Place& place = index.places[i];
    do_work();
    if (place.hash != hash || place.serial == kGone) continue;
    const auto found = std::lower_bound(index.serials.begin(), index.serials.end(), place.serial);
    const ptrdiff_t at = found - index.serials.begin();
    PyObject* const known = keys_[static_cast<size_t>(at)];
    if (known == key) return at;
    if ((equal < 0 || at < equal) && cpython::keys_equal(known, key)) equal = at;
  }
  return equal;
}

void KeyList::insert(Index* index, Place place) {
  const size_t mask = index->places.size() - 1;
  size_t i = spread(place.hash) & mask;
  while (index->places[i].serial != kEmpty) i = (i + 1) & mask;
  index->places[i] = place;
  index->used += 1;
}

// Twice the room of the keys that are there; those that are gone are forgotten.
void KeyList::grow(Index* index) {
  Vec<Place> old = std::move(index->places);
  size_t size = 32;
  while (size < index->serials.size() * 4) size *= 2;
  index->places.assign(size, Place());
  index->used = 0;
  for (const Place& place : old)
    if (place.serial < kGone) insert(index, place);
}

// False: a key has no hash, or is not known any more.
bool KeyList::complete_index() const {
  if (index_ == nullptr) index_ = std::make_unique<Index>();
  Index& index = *index_;
  for (size_t i = index.serials.size(); i < keys_.size(); ++i) {
    const Py_hash_t hash = keys_[i] == nullptr ? -1 : hash_of(keys_[i]);
    if (hash == -1) {
      PyErr_Clear();
      index_.reset();
      return false;
    }
    if (index.used * 2 >= index.places.size()) grow(&index);
    insert(&index, {hash, index.next});
    index.serials.push_back(index.next++);
    index.hashes.push_back(hash);
  }
  return true;
}

void KeyList::erase(ptrdiff_t at) {
  const auto position = static_cast<size_t>(at);
  if (index_ != nullptr && position < index_->serials.size()) {
    const uint32_t serial = index_->serials[position];
    const size_t mask = index_->places.size() - 1;
    size_t i = spread(index_->hashes[position]) & mask;
    while (index_->places[i].serial != serial) i = (i + 1) & mask;
    index_->places[i].serial = kGone;
    index_->serials.erase(index_->serials.begin() + at);
    index_->hashes.erase(index_->hashes.begin() + at);
  }
  keys_.erase(keys_.begin() + at);
}

}  // namespace pijit
