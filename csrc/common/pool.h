// An allocator for the many small and short-lived vectors of a recording. What is given back is handed out again and
// stays with the process; needs the GIL.
#pragma once
#include <sys/mman.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <new>

namespace pijit {

class Pool {
 public:
  static void* allocate(size_t bytes) {
    if constexpr (kSanitized) return ::operator new(bytes);
    const size_t size = (bytes + kStep - 1) / kStep;
    if (size >= kSizes) return ::operator new(bytes);
    Free*& head = free_[size];
    if (head == nullptr) return carve(size * kStep);
    Free* const found = head;
    head = found->next;
    return found;
  }

  static void release(void* memory, size_t bytes) noexcept {
    if constexpr (kSanitized) return ::operator delete(memory);
    const size_t size = (bytes + kStep - 1) / kStep;
    if (size >= kSizes) return ::operator delete(memory);
    free_[size] = ::new (memory) Free{free_[size]};
  }

 private:
#ifdef __SANITIZE_ADDRESS__
  static constexpr bool kSanitized = true;  // the sanitizer sees every vector
#else
  static constexpr bool kSanitized = false;
#endif
  struct Free {
    Free* next;
  };
  static constexpr size_t kStep = 16, kSizes = 33, kChunk = size_t{256} << 10;

  // A recording fills megabytes once; its pages are made many at a time, for page faults are slow.
  static void* carve(size_t bytes) {
    if (left_ < bytes) {
      void* const found =
          mmap(nullptr, kChunk, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);
      if (found == MAP_FAILED) throw std::bad_alloc();
      rest_ = static_cast<std::byte*>(found);
      left_ = kChunk;
    }
    std::byte* const found = rest_;
    rest_ += bytes;
    left_ -= bytes;
    return found;
  }

  static inline std::array<Free*, kSizes> free_{};
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
  T* allocate(size_t count) { return static_cast<T*>(Pool::allocate(count * sizeof(T))); }
  void deallocate(T* memory, size_t count) noexcept { Pool::release(memory, count * sizeof(T)); }
  bool operator==(const Pooled&) const noexcept { return true; }
};

}  // namespace pijit
