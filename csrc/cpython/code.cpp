// Opcode table and exception table of CPython 3.11.
#include "cpython/code.h"

#include <array>

namespace pijit::cpython {

namespace {

constexpr std::array<OpcodeInfo, 256> make_opcodes() {
  std::array<OpcodeInfo, 256> table{};
  for (int i = 0; i < 256; ++i) table[i] = {static_cast<uint8_t>(i), 0};
#define PIJIT_OPCODE(number, name, base, caches) table[number] = {base, caches};
#include "cpython/opcodes_311.def"
#undef PIJIT_OPCODE
  return table;
}

constexpr std::array<const char*, 256> make_names() {
  std::array<const char*, 256> table{};
#define PIJIT_OPCODE(number, name, base, caches) table[number] = #name;
#include "cpython/opcodes_311.def"
#undef PIJIT_OPCODE
  return table;
}

constexpr std::array<const char*, 256> kNames = make_names();

// A number of the exception table: six bits a byte, most significant first, bit 6 set when more follow.
int read_varint(const unsigned char** at) noexcept {
  int value = **at & 63;
  while ((*(*at)++ & 64) != 0) value = (value << 6) | (**at & 63);
  return value;
}

}  // namespace

const std::array<OpcodeInfo, 256> kOpcodes = make_opcodes();

const char* opcode_name(int opcode) noexcept {
  const char* name = opcode >= 0 && opcode < 256 ? kNames[static_cast<size_t>(opcode)] : nullptr;
  return name != nullptr ? name : "<unknown>";
}

int full_oparg(PyCodeObject* code, int index) noexcept {
  int value = oparg(code, index);
  for (int shift = 8, i = index - 1; i >= 0 && base_opcode(code, i) == kExtendedArg; --i, shift += 8)
    value |= oparg(code, i) << shift;
  return value;
}

bool find_handler(PyCodeObject* code, int index, Handler* handler) noexcept {
  const auto* at = reinterpret_cast<const unsigned char*>(PyBytes_AS_STRING(code->co_exceptiontable));
  const unsigned char* end = at + PyBytes_GET_SIZE(code->co_exceptiontable);
  while (at < end) {  // sorted by start; entries do not overlap
    const int start = read_varint(&at), size = read_varint(&at), target = read_varint(&at),
              depth_lasti = read_varint(&at);
    if (start > index) return false;
    if (index < start + size) {
      *handler = {target, depth_lasti >> 1, (depth_lasti & 1) != 0};
      return true;
    }
  }
  return false;
}

// _PyCode_SetExtra makes room for everybody's slot. Code that dies then calls everybody's free function, with null
// where nothing was kept; and at the interpreter's end that of a ctypes callback may be gone by then. So there is room
// only for the slots up to this one.
bool set_code_extra(PyCodeObject* code, Py_ssize_t slot, void* value) noexcept {
  auto* extra = static_cast<CodeExtra*>(code->co_extra);
  Py_ssize_t size = extra == nullptr ? 0 : extra->size;
  if (size <= slot) {
    const size_t bytes = sizeof(CodeExtra) + static_cast<size_t>(slot) * sizeof(void*);
    extra = static_cast<CodeExtra*>(PyMem_Realloc(extra, bytes));
    if (extra == nullptr) return false;
    for (; size <= slot; ++size) extra->items[size] = nullptr;
    extra->size = size;
    code->co_extra = extra;
  }
  extra->items[slot] = value;
  return true;
}

}  // namespace pijit::cpython
