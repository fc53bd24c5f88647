// Traces that outlive the process: which file has those of a root, and what is taken from there.
//
// 1. A file is looked for where a function or object is given to jit, so that the first call need not wait for it; and
//    if that gave nothing of use, by the first call that would be recorded, which is to be replayed already.
// 2. Nothing is written here. Python asks for the texts between calls, and writes them (pijit/_kept.py).
// 3. Whatever is wrong with a file, the call is recorded as if there were none, and a line of the log says why.
#pragma once
#include <string>
#include <vector>

#include "cache/root.h"

namespace pijit {

// The first line of each file: another one for another form.
inline constexpr const char* kKeptHeading = "pijit cache 2";

struct Keeping {
  static constexpr double kNever = 1e300;
  uint8_t on = 0;
  uint64_t limit = uint64_t{1} << 30;  // bytes of all files
  std::string directory;               // which Python has found to be this user's alone; empty: there is none
  std::string environment;             // versions and options without which a trace is another
  Ref writer;                          // is called where something is to be written by now; null: nobody is
  double every = 0;                    // seconds between two calls, at most where something is to be written
  double pause = 0;               // before the next one: a quarter of a second at first, then twice as long each time
  double due = kNever;            // when that will be; seconds of now()
  Ref unpacker;                   // makes what decompresses a file; null: there is none
  uint64_t hits = 0, misses = 0;  // files that gave a trace, and those that were not there or gave none
  // What became of the first roots that were looked for.
  struct Asked {
    std::string function, file, code, why;  // `why`: there is no trace; empty: there was one
  };
  std::vector<Asked> asked;
};
Keeping& keeping() noexcept;

// The file with the traces of a root, under this environment, and what tells its code apart; empty: they are not kept.
struct KeptName {
  std::string file, code;
};
KeptName kept_name(const Root& root);
// The traces of a file, as texts. Empty: it is none of this user's, of another environment, or damaged; *why.
std::vector<std::string> read_kept(const std::string& path, const std::string& environment, std::string* why);
// Traces of the root come from its file; false: none does. The root has no others, or those that came ahead did not take
// the call.
bool find_kept(Root& root, cpython::Frame* frame);
// The same of traces of which an object was not there when the file was read.
bool find_left(Root& root, cpython::Frame* frame);
// The same before there is a call: what needs its arguments is found with it.
void look_ahead(Root& root);
// Something was recorded that is to be written. A call comes at this time: the writer is told, if it is due.
void note_unwritten() noexcept;
void write_if_due(double time) noexcept;
// The call is about to be recorded: objects among its arguments, by which its trace may name others.
void note_arguments(Root& root, cpython::Frame* frame);
// The texts of all traces of a root that can be kept, and why others cannot.
struct KeptTexts {
  std::vector<std::string> texts, reasons;
};
KeptTexts texts_of(Root& root);
// Why the text is of no use for the root; empty: it is. Nothing is kept of it.
std::string check_text(const Root& root, const std::string& text, const std::vector<PyObject*>& arguments);
// Other processes have kept these traces of the root, such as those that `pijit.load` has read. How many are of use.
size_t install_texts(Root& root, const std::vector<std::string>& texts, const std::vector<PyObject*>& arguments,
                     std::vector<std::string>* reasons);

}  // namespace pijit
