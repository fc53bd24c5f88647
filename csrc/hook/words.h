// Roots, stops and recordings in words, for messages, logs and profilers.
#pragma once
#include <string>

#include "cache/root.h"

namespace pijit {

// "train.py:42 in step(): "
std::string place_text(const std::string& file, int line, const std::string& function);
// ": stopped at train.py:42 in step(): ..."; empty: nothing stopped.
std::string stop_text(const StopInfo& stop);
// How a profiler shows what happens in a call: "step (train.py:10)", or "loop in step (train.py:12)".
std::string range_name(const Root& root);
// Logs that the root, which has traces, is recorded again, and why: a recompilation, as users of torch know it.
void log_again(const Root& root, const std::string& why);
// Why a side trace is recorded.
std::string left_there(const Wanted& wanted);

}  // namespace pijit
