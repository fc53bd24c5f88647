// The opcode numbers of the CPython that pijit is built for.
#pragma once
#include <opcode.h>
