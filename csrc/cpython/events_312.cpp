// INSTRUCTION events of CPython 3.12 and later, and the static stack depth that they need.
#include "cpython/events.h"

#if PY_VERSION_HEX >= 0x030c0000
#include <opcode.h>

#include <unordered_map>
#include <unordered_set>
#include <utility>
#include <vector>

#include "common/ref.h"
#include "cpython/hand_back.h"
#include "cpython/objects.h"

namespace pijit::cpython {
namespace {

constexpr int kInstructionEvents = 1 << PY_MONITORING_EVENT_INSTRUCTION, kLineEvents = 1 << PY_MONITORING_EVENT_LINE;
constexpr int kNoTool = -1;

struct Unit {
  int16_t depth = -1;
  bool handler = false;
};
using Depths = std::vector<Unit>;

// A code object that has events, and how many recordings want them.
struct Followed {
  Ref code;
  Depths depths;
  int count = 0;
};

// With the GIL.
std::unordered_map<PyCodeObject*, Followed>& followed() noexcept {
  static auto* map = new std::unordered_map<PyCodeObject*, Followed>();
  return *map;
}
// Code objects that have LINE events, and how many want them. With the GIL.
std::unordered_map<PyCodeObject*, int>& lines_wanted() noexcept {
  static auto* map = new std::unordered_map<PyCodeObject*, int>();
  return *map;
}
uint64_t g_ended = 0;  // how many code objects nobody follows any more
thread_local std::vector<PyCodeObject*> t_followed;
// What was found last, which may be of code that only another thread follows: it holds until some code is given up.
thread_local PyCodeObject* t_last = nullptr;
thread_local const Depths* t_depths = nullptr;
thread_local uint64_t t_ended = 0;

// A number of the exception table: six bits a byte, most significant first, bit 6 set when more follow.
int read_number(const unsigned char** at) noexcept {
  int value = **at & 63;
  while ((*(*at)++ & 64) != 0) value = (value << 6) | (**at & 63);
  return value;
}

// use(target, depth that its entry of the exception table says).
template <class Use>
void each_handler(PyCodeObject* code, const Use& use) {
  const auto* at = reinterpret_cast<const unsigned char*>(PyBytes_AS_STRING(code->co_exceptiontable));
  const auto* const end = at + PyBytes_GET_SIZE(code->co_exceptiontable);
  while (at < end) {
    read_number(&at);
    read_number(&at);
    const int target = read_number(&at), depth = read_number(&at);
    use(target, depth);
  }
}

#if PY_VERSION_HEX >= 0x030e0000
// The frame has its depth itself.
Depths find_depths(PyCodeObject* code) {
  Depths depths(static_cast<size_t>(unit_count(code)));
  each_handler(code, [&](int target, int) { depths[static_cast<size_t>(target)].handler = true; });
  return depths;
}
#else
// Follows the flow of control from every place whose depth is known.
class DepthFinder {
 public:
  explicit DepthFinder(PyCodeObject* code) : code_(code), depths_(static_cast<size_t>(unit_count(code))) {}
  Depths find() {
    reach(0, 0);
    run();
    each_handler(code_, [&](int target, int depth) {
      reach(target, (depth >> 1) + (depth & 1) + 1);
      depths_[static_cast<size_t>(target)].handler = true;
    });
    run();
    return std::move(depths_);
  }

 private:
  void reach(int index, int depth) {
    if (index >= static_cast<int>(depths_.size()) || depths_[static_cast<size_t>(index)].depth >= 0) return;
    depths_[static_cast<size_t>(index)].depth = static_cast<int16_t>(depth);
    open_.push_back(index);
  }
  void run() {
    while (!open_.empty()) {
      int at = open_.back();
      open_.pop_back();
      step(at, depths_[static_cast<size_t>(at)].depth);
    }
  }
  void step(int at, int depth) {
    int argument = oparg(code_, at);
    const int first = at;
    const Operation operation = decode(code_, &at).operation;
    for (int i = first + 1; i <= at; ++i) {
      depths_[static_cast<size_t>(i)].depth = static_cast<int16_t>(depth);
      argument = (argument << 8) | oparg(code_, i);
    }
    const int opcode = opcode_info(code_, at).base, next = next_index(code_, at);
    const auto effect = [&](int jump) {
      return PyCompile_OpcodeStackEffectWithJump(opcode, opcode < HAVE_ARGUMENT ? 0 : argument, jump);
    };
    switch (operation) {
      case Operation::kReturn:
      case Operation::kReturnConst:
      case Operation::kRaise:
      case Operation::kReraise:
        return;
      case Operation::kJump:
        return reach(jump_target(code_, first), depth);
      case Operation::kReturnGenerator:
        return reach(next, depth + 1);  // what is sent first
      case Operation::kForIter:
        reach(jump_target(code_, first), depth - 1);
        return reach(next, depth + 1);
      case Operation::kJumpIf:
      case Operation::kJumpIfNone:
      case Operation::kJumpIfOrPop:
      case Operation::kSend:
        reach(jump_target(code_, first), depth + effect(1));
        break;
      default:
        break;
    }
    reach(next, depth + effect(0));
  }

  PyCodeObject* code_;
  Depths depths_;
  std::vector<int> open_;
};
Depths find_depths(PyCodeObject* code) {
  return DepthFinder(code).find();
}
#endif

const Depths& depths_of(PyCodeObject* code) {
  if (code == t_last && t_ended == g_ended) return *t_depths;
  const auto found = followed().find(code);
  static const Depths none;
  if (found == followed().end()) return none;
  t_last = code;
  t_depths = &found->second.depths;
  t_ended = g_ended;
  return *t_depths;
}

Ref monitoring() noexcept {
  return Ref::borrow(PySys_GetObject("monitoring"));
}

#if PY_VERSION_HEX >= 0x030d0000
// From 3.13 on f_locals is a view of the frame itself, and no frame says that it was asked for one. So the attribute
// notes the frames of code that is followed.
std::unordered_set<PyFrameObject*>& seen() noexcept {
  static auto* set = new std::unordered_set<PyFrameObject*>();
  return *set;
}
getter g_locals = nullptr;

PyObject* locals_of(PyObject* object, void* closure) {
  auto* frame = reinterpret_cast<PyFrameObject*>(object);
  if (followed().count(code(frame_of(frame))) != 0) seen().insert(frame);
  return g_locals(object, closure);
}

void watch_locals() noexcept {
  if (g_locals != nullptr) return;
  PyObject* attribute = PyDict_GetItemString(type_dict(&PyFrame_Type), "f_locals");
  if (attribute == nullptr || Py_TYPE(attribute) != &PyGetSetDescr_Type) return;
  PyGetSetDef* definition = reinterpret_cast<PyGetSetDescrObject*>(attribute)->d_getset;
  g_locals = std::exchange(definition->get, locals_of);
}
#endif

PyObject* on_line(PyObject*, PyObject* const* arguments, Py_ssize_t) noexcept {
  _PyInterpreterFrame* frame = current_frame(PyThreadState_Get());
  if (reinterpret_cast<PyObject*>(code(frame)) == arguments[0]) HandBack::note_event(frame);
  Py_RETURN_NONE;
}

// What is called at the events of one kind.
bool register_callback(int number, int events, PyMethodDef* row) noexcept {
  const Ref callable = Ref::steal(PyCFunction_New(row, nullptr));
  if (!callable) return false;
  return static_cast<bool>(
      Ref::steal(PyObject_CallMethod(monitoring().get(), "register_callback", "iiO", number, events, callable.get())));
}

PyMethodDef fast_row(EventFunction function) noexcept {
  return {"pijit", reinterpret_cast<PyCFunction>(reinterpret_cast<void (*)()>(function)), METH_FASTCALL, nullptr};
}

// The number under which sys.monitoring knows us; kNoTool: every one is taken.
int tool(EventFunction function) noexcept {
  static int number = kNoTool;
  if (number != kNoTool) return number;
  static PyMethodDef instructions = fast_row(function), lines = fast_row(on_line);
  const Ref module = monitoring();
  if (!module) return kNoTool;
  for (int free : {4, 3}) {
    const Ref done = Ref::steal(PyObject_CallMethod(module.get(), "use_tool_id", "is", free, "pijit"));
    if (done && register_callback(free, kInstructionEvents, &instructions) &&
        register_callback(free, kLineEvents, &lines))
      return number = free;
    PyErr_Clear();
  }
  return kNoTool;
}

int g_tool = kNoTool;

bool set_events(PyCodeObject* code, int events) noexcept {
  const SavedError error;
  if (lines_wanted().count(code) != 0) events |= kLineEvents;
  const Ref done = Ref::steal(PyObject_CallMethod(monitoring().get(), "set_local_events", "iOi", g_tool,
                                                  reinterpret_cast<PyObject*>(code), events));
  if (!done) PyErr_Clear();
  return static_cast<bool>(done);
}

}  // namespace

Events& thread_events() noexcept {
  thread_local Events events;
  return events;
}

EventsAside::EventsAside() noexcept
    : events_(std::exchange(thread_events(), Events())), followed_(std::exchange(t_followed, {})) {}

EventsAside::~EventsAside() {
  thread_events() = events_;
  t_followed = std::move(followed_);
}

#if PY_VERSION_HEX < 0x030e0000
int static_depth(PyCodeObject* code, int index) noexcept {
  const Depths& depths = depths_of(code);
  return index >= 0 && static_cast<size_t>(index) < depths.size() ? depths[static_cast<size_t>(index)].depth : -1;
}
#endif

bool begins_handler(PyCodeObject* code, int index) noexcept {
  const Depths& depths = depths_of(code);
  return index >= 0 && static_cast<size_t>(index) < depths.size() && depths[static_cast<size_t>(index)].handler;
}

#if PY_VERSION_HEX >= 0x030d0000
bool locals_were_seen(Frame* frame) noexcept {
  PyFrameObject* object = frame_object(frame);
  return object != nullptr &&
         (object->f_locals_cache != nullptr || object->f_extra_locals != nullptr || seen().count(object) != 0);
}
#endif

Ref monitoring_tool(PyThreadState* ts) noexcept {
  const int tools = monitoring_tools(ts);
  int number = 0;
  while (number < PY_MONITORING_TOOL_IDS && (tools & (1 << number)) == 0) ++number;
  if (number == PY_MONITORING_TOOL_IDS) return Ref();
  Ref name = Ref::steal(PyObject_CallMethod(monitoring().get(), "get_tool", "i", number));
  if (!name) PyErr_Clear();
  return name;
}

bool start_events(PyThreadState* ts, EventFunction function) noexcept {
  if (!untraced(ts)) return false;
  g_tool = tool(function);
  if (g_tool == kNoTool) return false;
#if PY_VERSION_HEX >= 0x030d0000
  watch_locals();
#endif
  thread_events().function = function;
  return true;
}

// Another tool may have LINE events, too (5): INSTRUCTION events are given up, and asked for anew.
bool want_line_events(PyCodeObject* code) noexcept {
  if (g_tool == kNoTool) return false;
  if (lines_wanted()[code]++ > 0) return true;
  const bool is_followed = followed().count(code) != 0;
  if (set_events(code, 0) && (!is_followed || set_events(code, kInstructionEvents))) return true;
  lines_wanted().erase(code);
  if (is_followed) set_events(code, kInstructionEvents);
  return false;
}

void end_line_events(PyCodeObject* code) noexcept {
  const auto wanted = lines_wanted().find(code);
  if (wanted == lines_wanted().end() || --wanted->second > 0) return;
  lines_wanted().erase(wanted);
  set_events(code, followed().count(code) == 0 ? 0 : kInstructionEvents);
}

bool has_events(PyCodeObject* code) noexcept {
  const auto* data = code->_co_monitoring;
  if (data == nullptr || data->per_instruction_tools == nullptr) return true;
  return (data->per_instruction_tools[first_observed(code)] & (1 << g_tool)) != 0;
}

bool follow_events(_PyInterpreterFrame* frame) noexcept {
  PyCodeObject* const code = cpython::code(frame);
  for (PyCodeObject* known : t_followed)
    if (known == code) return true;
  Followed& state = followed()[code];
  if (state.count == 0) {
    state.code = Ref::borrow(reinterpret_cast<PyObject*>(code));
    state.depths = find_depths(code);
    if (!set_events(code, kInstructionEvents)) {
      followed().erase(code);
      g_ended += 1;
      return false;
    }
  }
  state.count += 1;
  t_followed.push_back(code);
  return true;
}

void stop_events(PyThreadState*) noexcept {
  thread_events() = Events();
  t_last = nullptr;
  t_depths = nullptr;
  for (PyCodeObject* code : std::exchange(t_followed, {})) {
    const auto found = followed().find(code);
    if (--found->second.count > 0) continue;
    set_events(code, 0);
    const Followed gone = std::move(found->second);
    followed().erase(found);
    g_ended += 1;
  }
#if PY_VERSION_HEX >= 0x030d0000
  if (followed().empty()) seen().clear();
#endif
}

}  // namespace pijit::cpython
#endif
