// The place of a stop: the innermost line that the user wrote.
#include "record/stop_place.h"

#include "cpython/places.h"

namespace pijit {
namespace {

cpython::Place user_place(const FrameStack& frames) {
  for (size_t i = frames.size(); i-- > 0;)
    if (!cpython::is_library(frames[i]->code)) return cpython::place_of(frames[i]->code, frames[i]->operation);
  return cpython::user_place(cpython::previous(frames[0]->frame));
}

}  // namespace

void set_place(StopInfo* info, const FrameStack& frames) {
  const ShadowFrame& innermost = *frames.back();
  const cpython::Place inside = cpython::place_of(innermost.code, innermost.operation);
  cpython::Place place = user_place(frames);
  const bool in_library = cpython::is_library(innermost.code);
  info->inside = in_library && place.line != 0 ? cpython::library_words(inside) : "";
  if (place.line == 0) place = inside;
  info->file = std::move(place.file);
  info->function = std::move(place.function);
  info->line = place.line;
}

}  // namespace pijit
