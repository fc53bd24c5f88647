// The one include of Python.h for the core rooms.
#pragma once
#define PY_SSIZE_T_CLEAN
#include <Python.h>
