// Reads files with traces of another process.
#include "hook/kept.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <string_view>
#include <unordered_map>

#include "cache/variants.h"
#include "common/clock.h"
#include "cpython/frame.h"
#include "cpython/objects.h"
#include "hook/keep.h"
#include "hook/log.h"
#include "kept/describe.h"
#include "kept/kept.h"
#include "record/pace.h"

namespace pijit {
namespace {

constexpr off_t kLargestFile = off_t{1} << 28;
constexpr size_t kMostTexts = 64;  // of one root
constexpr size_t kMostAsked = 4096;
constexpr int kTries = 2;              // of calls that would be recorded, for traces of which an object was not there
constexpr size_t kMostArguments = 64;  // that are remembered for a root

class Descriptor {
 public:
  explicit Descriptor(const std::string& path)
      : number_(open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK)) {}
  ~Descriptor() {
    if (number_ >= 0) close(number_);
  }
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;
  int number() const { return number_; }

 private:
  int number_;
};

// All bytes of a file that nobody else can have written; false, and *why.
bool read_own(const std::string& path, std::string* bytes, std::string* why) {
  const Descriptor file(path);
  if (file.number() < 0) return *why = "there is none", false;
  struct stat found;
  if (fstat(file.number(), &found) != 0) return *why = "it cannot be looked at", false;
  if (!S_ISREG(found.st_mode) || found.st_uid != geteuid() || (found.st_mode & (S_IWGRP | S_IWOTH)) != 0)
    return *why = "others may have written it", false;
  if (found.st_size > kLargestFile) return *why = "it is too large", false;
  bytes->resize(static_cast<size_t>(found.st_size));
  size_t at = 0;
  while (at < bytes->size()) {
    const ssize_t count = read(file.number(), bytes->data() + at, bytes->size() - at);
    if (count <= 0) return *why = "it cannot be read", false;
    at += static_cast<size_t>(count);
  }
  return true;
}

// Takes a line off the text, without its end; false: there is none.
bool take_line(std::string_view* text, std::string_view* line) {
  const size_t end = text->find('\n');
  if (end == std::string_view::npos) return false;
  *line = text->substr(0, end);
  text->remove_prefix(end + 1);
  return true;
}

// "trace SIZE DIGEST"
bool take_trace(std::string_view* text, std::string_view* trace) {
  std::string_view line;
  constexpr std::string_view kWord = "trace ";
  if (!take_line(text, &line) || line.substr(0, kWord.size()) != kWord) return false;
  const std::string numbers(line.substr(kWord.size()));
  char* end = nullptr;
  const unsigned long long size = std::strtoull(numbers.c_str(), &end, 10);
  if (*end != ' ' || size > text->size()) return false;
  *trace = text->substr(0, size);
  text->remove_prefix(size);
  return hex(digest_of(*trace)) == end + 1;
}

// "packed SIZE": what follows is compressed, and has so many bytes. Anything else is as it is.
bool unpack(std::string_view* rest, std::string* bytes) {
  std::string_view line, packed = *rest;
  constexpr std::string_view kWord = "packed ";
  if (!take_line(&packed, &line) || line.substr(0, kWord.size()) != kWord) return true;
  const std::string number(line.substr(kWord.size()));
  char* end = nullptr;
  const unsigned long long size = std::strtoull(number.c_str(), &end, 10);
  if (*end != 0 || size > kLargestFile || !keeping().unpacker) return false;
  const Ref object = Ref::steal(PyObject_CallNoArgs(keeping().unpacker.get()));
  const Ref found = Ref::steal(!object ? nullptr
                                       : PyObject_CallMethod(object.get(), "decompress", "y#n", packed.data(),
                                                             static_cast<Py_ssize_t>(packed.size()),
                                                             static_cast<Py_ssize_t>(size + 1)));
  const Ref whole = Ref::steal(!found ? nullptr : PyObject_GetAttrString(object.get(), "eof"));
  const Ref more = Ref::steal(!whole ? nullptr : PyObject_GetAttrString(object.get(), "unused_data"));
  if (!more || whole.get() != Py_True || !PyBytes_Check(found.get()) || !PyBytes_Check(more.get()) ||
      PyBytes_GET_SIZE(more.get()) != 0 || static_cast<unsigned long long>(PyBytes_GET_SIZE(found.get())) != size)
    return PyErr_Clear(), false;
  bytes->assign(PyBytes_AS_STRING(found.get()), static_cast<size_t>(size));
  *rest = *bytes;
  return true;
}

// Remembered: only which file is looked for depends on it, and what is found there is compared anew.
uint64_t known_class_digest(PyTypeObject* type, Descriptions* descriptions) {
  static auto* known = new std::unordered_map<PyTypeObject*, std::pair<uint64_t, uint64_t>>;
  const uint64_t version = cpython::type_version(type);
  const auto found = known->find(type);
  if (version != 0 && found != known->end() && found->second.first == version) return found->second.second;
  const uint64_t digest = descriptions->class_digest(type);
  (*known)[type] = {version, digest};
  return digest;
}

PyObject* owner_of(const Root& root) {
  return root.owner.living();
}

std::vector<PyObject*> arguments_of(const Root& root, cpython::Frame* frame) {
  std::vector<PyObject*> arguments;
  for (int i = 0; i < root.owner.code->co_nlocalsplus; ++i) arguments.push_back(cpython::slot(frame, i));
  return arguments;
}

}  // namespace

Keeping& keeping() noexcept {
  static auto* all = new Keeping;
  return *all;
}

KeptName kept_name(const Root& root) {
  if (root.is_entry() || root.owner.suspends || root.owner.code == nullptr) return {};
  Descriptions descriptions;
  KeptName made;
  made.code = hex(descriptions.digest(root.owner.code));
  if (root.owner.instance != nullptr && owner_of(root) != nullptr) {
    PyTypeObject* type = Py_TYPE(root.owner.instance);
    made.code += " of " + full_name(type) + " " + hex(known_class_digest(type, &descriptions));
  }
  if (root.asked.fixed_sizes) made.code += ", sizes fixed";
  made.file = hex(digest_of(made.code + "\n" + keeping().environment)) + ".pijit";
  return made;
}

std::vector<std::string> read_kept(const std::string& path, const std::string& environment, std::string* why) {
  std::string bytes;
  std::vector<std::string> texts;
  if (!read_own(path, &bytes, why)) return texts;
  std::string_view rest = bytes, line;
  if (!take_line(&rest, &line) || line != kKeptHeading) return *why = "it is of another version, or damaged", texts;
  if (!take_line(&rest, &line) || line != "environment " + environment)
    return *why = "it is of another environment", texts;
  if (!take_line(&rest, &line) || line.substr(0, 5) != "root ") return *why = "it is damaged", texts;
  std::string unpacked;
  if (!unpack(&rest, &unpacked)) return *why = "it is damaged", texts;
  for (std::string_view trace; !rest.empty() && texts.size() < kMostTexts;) {
    if (!take_trace(&rest, &trace)) return *why = "it is damaged", std::vector<std::string>();
    texts.emplace_back(trace);
  }
  return texts;
}

size_t install_texts(Root& root, const std::vector<std::string>& texts, const std::vector<PyObject*>& arguments,
                     std::vector<std::string>* reasons) {
  size_t installed = 0;
  root.kept.left.clear();
  for (const std::string& text : texts) {
    if (!may_grow(root)) break;
    std::string why;
    std::unique_ptr<Trace> trace;
    try {
      trace = revive(text, owner_of(root), arguments, &why);
    } catch (const std::exception& error) {
      why = error.what();
    }
    if (trace == nullptr) {
      log_line(Channel::kRecord, "kept trace of " + root.written.name + ": " + why);
      if (may_come(why)) root.kept.left.push_back(text);
      reasons->push_back(std::move(why));
      continue;
    }
    install_kept(root, std::move(trace));
    installed += 1;
  }
  root.kept.found += installed;
  return installed;
}

std::string check_text(const Root& root, const std::string& text, const std::vector<PyObject*>& arguments) {
  std::string why;
  try {
    return revive(text, owner_of(root), arguments, &why) == nullptr ? why : "";
  } catch (const std::exception& error) {
    return error.what();
  }
}

void look_ahead(Root& root) {
  if (keeping().on == 0 || keeping().directory.empty() || !root.traces.empty()) return;
  const KeptName name = kept_name(root);
  if (name.file.empty()) return;
  std::string why;
  std::vector<std::string> reasons;
  const std::vector<std::string> texts = read_kept(keeping().directory + "/" + name.file, keeping().environment, &why);
  root.kept.ahead = install_texts(root, texts, {}, &reasons) > 0;
  root.kept.tries = kTries;
  if (!root.kept.ahead) return root.kept.left.clear();  // the first call looks again, and says why
  keeping().hits += 1;
  if (keeping().asked.size() < kMostAsked) keeping().asked.push_back({root.written.name, name.file, name.code, ""});
}

bool find_left(Root& root, cpython::Frame* frame) {
  if (root.kept.left.empty() || keeps_inputs()) return false;
  const std::vector<std::string> texts = std::exchange(root.kept.left, {});
  std::vector<std::string> reasons;
  const size_t installed = install_texts(root, texts, arguments_of(root, frame), &reasons);
  if (--root.kept.tries <= 0) root.kept.left.clear();
  return installed > 0;
}

bool find_kept(Root& root, cpython::Frame* frame) {
  if (keeping().on == 0 || keeping().directory.empty() || root.kept.asked) return false;
  if (keeps_inputs()) return false;  // who asks for a graph needs the recording itself
  root.kept.asked = true;
  root.traces.clear();
  root.kept.found = 0;
  const KeptName name = kept_name(root);
  if (name.file.empty()) return false;
  std::string why;
  const std::vector<std::string> texts = read_kept(keeping().directory + "/" + name.file, keeping().environment, &why);
  std::vector<std::string> reasons;
  const size_t installed = texts.empty() ? 0 : install_texts(root, texts, arguments_of(root, frame), &reasons);
  root.kept.tries = kTries;
  if (texts.empty()) log_line(Channel::kRecord, "cache: no file for " + root.written.name + ": " + why);
  for (const std::string& reason : reasons) why += (why.empty() ? "" : "; ") + reason;
  (installed > 0 ? keeping().hits : keeping().misses) += 1;
  if (keeping().asked.size() < kMostAsked)
    keeping().asked.push_back({root.written.name, name.file, name.code, installed > 0 ? "" : why});
  return installed > 0;
}

void note_unwritten() noexcept {
  Keeping& all = keeping();
  if (!all.writer) return;
  all.due = std::min(all.due, now() + all.pause);
  write_if_due(now());
}

void write_if_due(double time) noexcept {
  Keeping& all = keeping();
  if (time < all.due) return;
  all.pause = std::min(2 * all.pause, all.every);
  all.due = Keeping::kNever;
  const SavedError error;
  const Ref done = Ref::steal(!all.writer ? nullptr : PyObject_CallNoArgs(all.writer.get()));
  PyErr_Clear();
}

void note_arguments(Root& root, cpython::Frame* frame) {
  if (keeping().on == 0) return;
  const int count = root.is_entry() ? 0 : root.owner.code->co_nlocalsplus;
  for (int i = 0; i < count && root.kept.arguments.size() < kMostArguments; ++i) {
    PyObject* object = cpython::slot(frame, i);
    if (object == nullptr || object == root.owner.instance || !PyType_SUPPORTS_WEAKREFS(Py_TYPE(object))) continue;
    Ref weak = Ref::steal(PyWeakref_NewRef(object, nullptr));
    if (!weak) PyErr_Clear();
    bool known = !weak;
    for (const Ref& other : root.kept.arguments) known |= other.get() == weak.get();
    if (!known) root.kept.arguments.push_back(std::move(weak));
  }
}

KeptTexts texts_of(Root& root) {
  KeptTexts made;
  const Ref arguments = Ref::steal(PyList_New(0));
  if (!arguments) return PyErr_Clear(), made;
  for (const Ref& weak : root.kept.arguments)
    if (PyList_Append(arguments.get(), weak.get()) != 0) PyErr_Clear();
  PyObject* owner = owner_of(root);
  if (owner == nullptr || root.is_entry()) return made;
  // Those that are replayed most come first, and are tried first.
  Traces::All traces = root.traces.all();
  std::stable_sort(traces.begin(), traces.end(),
                   [](const auto& one, const auto& other) { return one->replays > other->replays; });
  for (const std::shared_ptr<Trace>& trace : traces) {
    std::string why, text;
    try {
      text = kept_text(*trace, owner, arguments.get(), &why);
    } catch (const std::exception& error) {
      why = error.what();
    }
    if (text.empty())
      made.reasons.push_back(std::move(why));
    else
      made.texts.push_back(std::move(text));
  }
  return made;
}

}  // namespace pijit
