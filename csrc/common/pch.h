// What nearly every file of the core includes, compiled once.
#pragma once
#include "common/python.h"

#include <algorithm>
#include <array>
#include <coroutine>
#include <cstdint>
#include <cstring>
#include <deque>
#include <functional>
#include <memory>
#include <sstream>
#include <string>
#include <string_view>
#include <unordered_map>
#include <unordered_set>
#include <utility>
#include <vector>
