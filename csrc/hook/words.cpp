// One form for each thing that is named.
#include "hook/words.h"

#include "hook/log.h"
#include "ir/print.h"

namespace pijit {

std::string place_text(const std::string& file, int line, const std::string& function) {
  return file + ":" + std::to_string(line) + " in " + function + "(): ";
}

std::string stop_text(const StopInfo& stop) {
  if (stop.code == nullptr) return "";
  return ": stopped at " + stop.file + ":" + std::to_string(stop.line) + " in " + stop.function + "(): " + stop.reason +
         " [" + stop.code + "]";
}

std::string range_name(const Root& root) {
  std::string name = root.written.name;
  if (root.is_entry()) name = (root.entry.is_loop ? "loop in " : "part of ") + name.substr(0, name.rfind(':'));
  return name + " (" + root.written.file.substr(root.written.file.rfind('/') + 1) + ":" +
         std::to_string(root.written.line) + ")";
}

void log_again(const Root& root, const std::string& why) {
  if (root.traces.empty() || !logs(Channel::kRecompiles)) return;
  log_line(Channel::kRecompiles, "recompiles: " + range_name(root) + " is recorded again, trace " +
                                     std::to_string(root.traces.size()) + ": " + why);
}

std::string left_there(const Wanted& wanted) {
  const Node& node = wanted.from->nodes[wanted.node];
  const Printer printer(*wanted.from, false);
  return "replays of a trace keep being left at " + printer.site(node.site) + " (" + printer.node(node) + ")";
}

}  // namespace pijit
