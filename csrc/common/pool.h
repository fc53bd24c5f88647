// An allocator for what a recording makes. What is given back is handed out again and stays with the process. Needs the
// GIL: so nothing that a thread's own variables destroy when it ends is in it.
//
// A recording makes thousands of small things between the tensors of the program. In the heap they would cut up what
// the tensors leave free: the process would grow by the size of tensors that it does not have.
#pragma once
#include <sys/mman.h>

#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <new>
#include <unordered_map>
#include <utility>
#include <vector>

#include "common/work.h"

namespace pijit {

class Pool {
 public:
  static void* allocate(size_t bytes) {
    note_work((bytes + 63) / 64);
    if constexpr (kSanitized) return ::operator new(bytes);
    const size_t at = place(bytes);
    if (at >= kPlaces) return ::operator new(bytes);
    Free*& head = free_[at];
    if (head == nullptr) return carve(size_at(at));
    Free* const found = head;
    head = found->next;
    return found;
  }

  static void release(void* memory, size_t bytes) noexcept {
    if constexpr (kSanitized) return ::operator delete(memory);
    const size_t at = place(bytes);
    if (at >= kPlaces) return ::operator delete(memory);
    free_[at] = ::new (memory) Free{free_[at]};
  }

  static constexpr size_t kStep = 16, kChunk = size_t{256} << 10, kRoom = 2 * kChunk;
  static constexpr bool is_large(size_t bytes) { return bytes >= kChunk / 4; }
  // A piece of the first size takes less memory than one of the second.
  static constexpr bool is_less(size_t bytes, size_t than) { return place(bytes) < place(than); }

 private:
#ifdef __SANITIZE_ADDRESS__
  static constexpr bool kSanitized = true;  // the sanitizer sees every vector
#else
  static constexpr bool kSanitized = false;
#endif
  struct Free {
    Free* next;
  };
  // Steps of 16 bytes up to 1 KiB, then four to each doubling up to 1 MiB: traces keep vectors of any length.
  static constexpr size_t kSteps = 65, kPlaces = kSteps + 40;

  static constexpr size_t place(size_t bytes) {
    const size_t steps = (bytes + kStep - 1) / kStep;
    if (steps < kSteps) return steps;
    const auto doublings = static_cast<size_t>(std::bit_width((bytes - 1) >> 10)) - 1;
    return kSteps + 4 * doublings + (((bytes - 1) >> (8 + doublings)) & 3);
  }
  static constexpr size_t size_at(size_t place) {
    if (place < kSteps) return place * kStep;
    const size_t doublings = (place - kSteps) / 4, quarters = (place - kSteps) % 4;
    return (quarters + 5) << (8 + doublings);
  }

  // A recording fills megabytes once; its pages are made many at a time, for page faults are slow. A piece that is
  // large is mostly filled at once, unless it is room to grow in.
  static void* carve(size_t bytes) {
    if (is_large(bytes)) return map(bytes, bytes < kRoom ? MAP_POPULATE : 0);
    if (left_ < bytes) {
      rest_ = static_cast<std::byte*>(map(kChunk, MAP_POPULATE));
      left_ = kChunk;
    }
    std::byte* const found = rest_;
    rest_ += bytes;
    left_ -= bytes;
    return found;
  }

  static void* map(size_t bytes, int flags) {
    void* const found = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | flags, -1, 0);
    if (found == MAP_FAILED) throw std::bad_alloc();
    return found;
  }

  static inline std::array<Free*, kPlaces> free_{};
  static inline std::byte* rest_ = nullptr;
  static inline size_t left_ = 0;
};

// Objects of a class derived from this one.
struct FromPool {
  static void* operator new(size_t bytes) { return Pool::allocate(bytes); }
  static void operator delete(void* memory, size_t bytes) noexcept { Pool::release(memory, bytes); }
};

template <class T>
struct Pooled {
  using value_type = T;
  Pooled() = default;
  template <class U>
  Pooled(const Pooled<U>&) noexcept {}
  T* allocate(size_t count) {
    static_assert(alignof(T) <= Pool::kStep);
    return static_cast<T*>(Pool::allocate(count * sizeof(T)));
  }
  void deallocate(T* memory, size_t count) noexcept { Pool::release(memory, count * sizeof(T)); }
  bool operator==(const Pooled&) const noexcept { return true; }
};

template <class T>
using Vec = std::vector<T, Pooled<T>>;

// A vector that is nearly always empty, in one word.
template <class T>
class Seldom {
 public:
  size_t size() const noexcept { return items_ == nullptr ? 0 : items_->size(); }
  bool empty() const noexcept { return size() == 0; }
  const T& operator[](size_t i) const noexcept { return (*items_)[i]; }
  const T* begin() const noexcept { return items_ == nullptr ? nullptr : items_->data(); }
  const T* end() const noexcept { return begin() + size(); }
  void push_back(T item) { all().push_back(item); }
  void clear() noexcept { items_.reset(); }
  Vec<T>& all() {
    if (items_ == nullptr) items_ = std::make_unique<Items>();
    return *items_;
  }

 private:
  struct Items : FromPool, Vec<T> {};
  std::unique_ptr<Items> items_;
};

// A vector that grows long while a trace is recorded: one that is copied whenever it grows leaves as much behind as it
// is long. What is not used of its room, a multiple of kRoom, is never touched.
template <class T>
void make_room(Vec<T>* items, size_t rooms) {
  items->reserve(rooms * Pool::kRoom / sizeof(T) + 1);
}
// Nothing more is added to the vector: it goes where there is less room, and the next recording has the room that this
// one leaves. One that has filled half of its room is not copied in the call that is recorded: it gives the rest back
// when replays are prepared.
template <class T>
void give_back_room(Vec<T>* items) {
  if (Pool::is_large(items->capacity() * sizeof(T)) && items->size() < items->capacity() / 2 &&
      Pool::is_less(items->size() * sizeof(T), items->capacity() * sizeof(T)))
    items->shrink_to_fit();
}

template <class Key, class Value>
using Map = std::unordered_map<Key, Value, std::hash<Key>, std::equal_to<Key>, Pooled<std::pair<const Key, Value>>>;

}  // namespace pijit
