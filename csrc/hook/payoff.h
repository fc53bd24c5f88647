// Whether recordings and replays of a root pay: what is done where they do not.
#pragma once
#include "cache/root.h"
#include "record/pace.h"

namespace pijit {

// Whether replays that take longer than CPython are given up; an option.
bool& gives_up() noexcept;

// Somebody gave it, or the function that it was found in, to jit; or recordings have no budget. What nobody asked for is
// recorded less often, and given up sooner.
bool is_asked_for(const Root& root) noexcept;
// The root is left alone. So are functions that its last recording showed to be called once and to take most of the
// call, such as Module._call_impl: what kept the root's calls from gaining reaches them, too. What they call is looked
// at.
void pass_through_drivers(Root& root);

// The role of root passes on: functions that the root calls are looked at from now on, through those that its recordings
// showed to be called once.
void pass_on(Root& root, const std::string& why);

// Calls of the root are timed now and then.
bool is_measured(const Root& root) noexcept;
// Compiled code is under way for some segment, or is being measured there: what calls take now is not what they will.
bool awaits_plans(const Root& root) noexcept;
// What the ledger wants of the next call, of which nothing is known as long as compilers are at work for the root.
Ledger::Turn next_turn(Root& root) noexcept;
// The root was given up because its replays lost, long ago; it is not any more.
bool is_tried_again(Root& root);
// What a timed call came to is noted; replays that lose are given up.
void note_timed(Root& root, Ledger::Kind kind, double seconds, const CallForm& form);

// A replay of a trace that begins at the head of a loop has done so many nodes. Where no operator is among them, again
// and again, CPython runs the loop.
void note_worth(Root& loop, const Trace& trace, size_t nodes);

// The root has been recorded again and again, and there were few replays: it is recorded ever more rarely.
bool records_too_often(const Root& root) noexcept;
// A recording begins; false: it is too early for the next one, or recordings that no call could use have used up the
// budget, and the role of root has passed to what the root calls.
bool may_record(Root& root);
void begin_recording(const Root& root) noexcept;
// It has ended; over its budget the role passes on.
void note_cost(Root& root);

}  // namespace pijit
