// The opcode table of the CPython that pijit is built for, and its exception table.
#include "cpython/bytecode.h"

#include <opcode.h>

#include <algorithm>
#include <array>
#include <initializer_list>

#include "common/ref.h"

#if PY_VERSION_HEX >= 0x030e0000
#define PIJIT_OPCODES "cpython/opcodes_314.def"
#elif PY_VERSION_HEX >= 0x030d0000
#define PIJIT_OPCODES "cpython/opcodes_313.def"
#elif PY_VERSION_HEX >= 0x030c0000
#define PIJIT_OPCODES "cpython/opcodes_312.def"
#else
#define PIJIT_OPCODES "cpython/opcodes_311.def"
#endif

namespace pijit::cpython {

namespace {

constexpr std::array<OpcodeInfo, 256> make_opcodes() {
  std::array<OpcodeInfo, 256> table{};
  for (int i = 0; i < 256; ++i) table[i] = {static_cast<uint8_t>(i), 0, Operation::kUnknown, kPlain};
#define PIJIT_OPCODE(number, name, caches, operation, form) \
  table[number] = {number, caches, Operation::operation, form};
#define PIJIT_SPECIALISED(number, name, base)
#include PIJIT_OPCODES
#undef PIJIT_SPECIALISED
#undef PIJIT_OPCODE
#define PIJIT_OPCODE(number, name, caches, operation, form)
#define PIJIT_SPECIALISED(number, name, base) table[number] = table[base];
#include PIJIT_OPCODES
#undef PIJIT_SPECIALISED
#undef PIJIT_OPCODE
  return table;
}

constexpr std::array<const char*, 256> make_names() {
  std::array<const char*, 256> table{};
#define PIJIT_OPCODE(number, name, caches, operation, form) table[number] = #name;
#define PIJIT_SPECIALISED(number, name, base) table[number] = #name;
#include PIJIT_OPCODES
#undef PIJIT_SPECIALISED
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

#if PY_VERSION_HEX >= 0x030d0000 && PY_VERSION_HEX < 0x030e0000
uint8_t compiled_opcode_at(PyCodeObject* code, int index) noexcept {
  const Ref bytes = Ref::steal(PyCode_GetCode(code));  // kept with the code from the first time on
  if (!bytes) PyErr_Clear();
  return bytes ? static_cast<uint8_t>(PyBytes_AS_STRING(bytes.get())[2 * index]) : 0;
}
#endif

const char* opcode_name(int opcode) noexcept {
  const char* name = opcode >= 0 && opcode < 256 ? kNames[static_cast<size_t>(opcode)] : nullptr;
  return name != nullptr ? name : "<unknown>";
}

LocalName local_name(PyCodeObject* code, int index) noexcept {
  const auto kinds = _PyLocals_GetKind(code->co_localspluskinds, index);
  PyObject* name = PyTuple_GET_ITEM(code->co_localsplusnames, index);
  if ((kinds & CO_FAST_FREE) != 0) return {name, Local::kFree};
  if ((kinds & CO_FAST_CELL) == 0) return {name, Local::kPlain};
  return {name, (kinds & CO_FAST_LOCAL) != 0 ? Local::kPlainCell : Local::kCell};
}

namespace {

// The names of those kinds.
Ref names_of(const std::vector<LocalName>& locals, std::initializer_list<Local> kinds) {
  const Ref list = Ref::steal(PyList_New(0));
  for (const LocalName& local : locals)
    for (Local kind : kinds)
      if (list && local.kind == kind && PyList_Append(list.get(), local.name) < 0) return Ref();
  return list ? Ref::steal(PyList_AsTuple(list.get())) : Ref();
}

}  // namespace

Ref stand_in_code(PyObject* name, PyObject* qualname, const std::vector<LocalName>& locals, int stack, int units) {
  const Ref plain = names_of(locals, {Local::kPlain, Local::kPlainCell});
  const Ref cells = names_of(locals, {Local::kCell, Local::kPlainCell});
  const Ref free = names_of(locals, {Local::kFree});
  const Ref none = Ref::steal(PyTuple_New(0)), no_bytes = Ref::steal(PyBytes_FromStringAndSize("", 0));
  const Ref file = Ref::steal(PyUnicode_FromString("<trace>"));
  std::vector<char> bytes;
  for (int i = 0; i < units; ++i) bytes.insert(bytes.end(), {static_cast<char>(NOP), 0});
  const Ref body = Ref::steal(PyBytes_FromStringAndSize(bytes.data(), static_cast<Py_ssize_t>(bytes.size())));
  if (!plain || !cells || !free || !none || !no_bytes || !file || !body) return Ref();
  return Ref::steal(reinterpret_cast<PyObject*>(PyCode_NewWithPosOnlyArgs(
      0, 0, 0, static_cast<int>(PyTuple_GET_SIZE(plain.get())), stack, CO_OPTIMIZED | CO_NEWLOCALS, body.get(),
      none.get(), none.get(), plain.get(), free.get(), cells.get(), file.get(), name, qualname, 1, no_bytes.get(),
      no_bytes.get())));
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

bool find_own_handler(PyCodeObject* code, int index, Handler* handler) noexcept {
  while (find_handler(code, index, handler)) {
    const Operation begins = instruction_at(code, handler->target).operation;
    if (begins == Operation::kStopIterationError) return false;
    if (begins != Operation::kEndThrow) return true;
    index = handler->target;
  }
  return false;
}

int loop_end(PyCodeObject* code, int head) noexcept {
  int end = -1;
  for (int start = 0, at = 0; start < unit_count(code); start = at = next_index(code, at)) {
    const Operation now = decode(code, &at).operation;
    const bool jumps = now == Operation::kJump || now == Operation::kJumpIf || now == Operation::kJumpIfNone;
    if (jumps && start >= head && jump_target(code, start) == head) end = start;
  }
  return end;
}

std::vector<Loop> loops_around(PyCodeObject* code, int index) {
  std::vector<Loop> loops;
  for (int start = 0, at = 0; start < unit_count(code); start = at = next_index(code, at)) {
    const Operation now = decode(code, &at).operation;
    if (now != Operation::kJump && now != Operation::kJumpIf && now != Operation::kJumpIfNone) continue;
    const int head = jump_target(code, start);
    if (start < index || head > index || head > start) continue;
    const auto known = std::find_if(loops.begin(), loops.end(), [&](const Loop& each) { return each.head == head; });
    if (known == loops.end()) {
      loops.push_back({head, start});
    } else {
      known->last = start;
    }
  }
  std::sort(loops.begin(), loops.end(), [](const Loop& a, const Loop& b) { return a.head < b.head; });
  return loops;
}

bool gives_back_at_once(PyCodeObject* code, int index) noexcept {
  for (int at = index; at < unit_count(code); at = next_index(code, at)) {
    const Instruction now = decode(code, &at);
    switch (now.operation) {
      case Operation::kPop:
      case Operation::kEndFor:
      case Operation::kLoadLocal:
      case Operation::kLoadConst:
      case Operation::kLoadSmallInt:
        break;
      default:
        return gives_back(now);
    }
  }
  return false;
}

std::vector<int> assigned_locals(PyCodeObject* code, int start, int end) {
  std::vector<int> slots;
  for (int at = start; at < end; at = next_index(code, at)) {
    const Instruction now = decode(code, &at);
    if (now.is(Operation::kStoreLocal)) slots.push_back(now.argument);
    if (now.then == Operation::kStoreLocal) slots.push_back(now.then_argument);
  }
  return slots;
}

std::vector<PyObject*> assigned_names(PyCodeObject* code, int start, int end) {
  std::vector<PyObject*> names;
  for (int at = start; at < end; at = next_index(code, at)) {
    const Instruction now = decode(code, &at);
    if (now.is(Operation::kStoreName) || now.is(Operation::kStoreGlobal))
      names.push_back(PyTuple_GET_ITEM(code->co_names, now.argument));
  }
  return names;
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
