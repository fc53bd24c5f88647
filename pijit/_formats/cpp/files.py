"""The files of a model: header, source, a program that runs it on files, and what builds them."""

import re
from collections.abc import Iterator
from typing import Any

from pijit._array_bytes import DTYPES, Raw, raw
from pijit._formats._graph_results import named
from pijit._formats.cpp import support
from pijit._formats.cpp.body import Body
from pijit._formats.cpp.words import KINDS, comment, dtype, identifier, quoted
from pijit.errors import ExportError
from pijit.graph.model import Graph, Value
from pijit.graph.run import computes_gradients
from pijit.graph.show.text import Writer, key

_HEADERS = """\
#include <algorithm>
#include <cctype>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <fstream>
#include <initializer_list>
#include <limits>
#include <numeric>
#include <optional>
#include <utility>

#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/core/grad_mode.h>
#include <ATen/core/ivalue.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/empty_strided.h>
#include <c10/core/DefaultDtype.h>
"""


class Files:
    """Writes the files of one graph.

    Attributes:
        name: of the class in C++.
        stem: of the files, and of the target in CMake.
        arrays: the weights.
    """

    def __init__(self, graph: Graph, name: str) -> None:
        import torch

        self.graph = graph
        self.gradients = torch.is_grad_enabled()
        self.default_dtype = str(torch.get_default_dtype()).removeprefix("torch.")
        self.name = class_name(name or graph.name)
        stem = re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", self.name).lower()
        self.stem = stem if stem != "main" else "main_model"
        taken: set[str] = {self.name}
        self.inputs = [(value, identifier(value.name, taken)) for value in graph.inputs]
        self.held: dict[str, Any] = {value.name: self.tensor(value) for value in graph.parameters}
        self.arrays = {key(value): _in_file(raw(self.held[value.name], key(value))) for value in graph.parameters}
        taken = {self.name}
        self.results = [(path, value, identifier(path, taken)) for path, value in named(graph.outputs)]
        self.check_written()
        self.body = self.make_body()

    def tensor(self, value: Value) -> Any:
        if value.name not in self.graph.data:
            raise ExportError(f"parameter {key(value)!r} has no array; read the graph with its weights")
        return self.graph.data[value.name]

    def check_written(self) -> None:
        """`ExportError` for a weight that is written while another one lies in the same memory: a file has both."""
        written = set(self.graph.written)
        memory: dict[int, str] = {}
        for name, tensor in self.held.items():
            if not tensor.numel() or not hasattr(tensor, "untyped_storage"):
                continue
            other = memory.setdefault(tensor.untyped_storage().data_ptr(), name)
            if other != name and written & {name, other}:
                raise ExportError(
                    f"{self.graph.name!r} writes to {name!r}, which shares its memory with {other!r}; format 'cpp' "
                    "keeps them as two tensors: clone one of them before the export"
                )

    def make_body(self) -> Body:
        taken: set[str] = set()
        names = {value.name: f"inputs.{word}" for value, word in self.inputs}
        names |= {value.name: identifier(value.path or value.name, taken) for value in self.graph.parameters}
        body = Body(self.graph, names, taken)
        self.weight_names = [names[value.name] for value in self.graph.parameters]
        self.statements = list(body.lines())
        return body

    # --- the header

    def header(self) -> str:
        writer = Writer(self.graph)
        yielded = [
            comment(f"{self.graph.name}: {writer.summary()}, written by pijit. It needs libtorch only, no Python."),
            "#pragma once",
            "",
            "#include <cstdint>",
            "#include <map>",
            "#include <string>",
            "#include <vector>",
            "",
            "#include <ATen/core/Tensor.h>",
            "",
            f"class {self.name} {{",
            " public:",
            "  using Tensors = std::map<std::string, at::Tensor>;",
            "",
            "  // What a call is given.",
            "  struct Inputs {",
            *(f"    {_type(value)} {word};  {comment(value.type)}" for value, word in self.inputs),
            "  };",
            "",
            *(f"  {line}" for line in self.result_comment()),
            "  struct Results {",
            *(f"    {_type(value)} {word};  {comment(value.type)}" for _, value, word in self.results),
            "  };",
            "",
            "  // Reads the weights, a file of safetensors. c10::Error says what is wrong with it, and which operator",
            "  // this program lacks: a library with operators of its own is loaded before.",
            f"  explicit {self.name}(const std::string& weights);",
            "",
            "  // One call. It writes to inputs and weights where the program did, and takes random numbers of torch's",
            "  // generators. Gradients are recorded where the calling thread does that: at::NoGradGuard stops it.",
            "  // Several threads may call it where it writes to no weights.",
            "  Results run(const Inputs& inputs);",
            "",
            "  // Parameters and buffers by their paths in the module. They are those of `run`, not copies.",
            "  Tensors weights() const;",
            "",
            "  // Files of safetensors.",
            "  static Tensors read(const std::string& path);",
            "  static void write(const std::string& path, const Tensors& tensors);",
            "",
            " private:",
            "  std::vector<at::Tensor> weights_;",
            "};",
        ]
        return "\n".join(yielded) + "\n"

    def result_comment(self) -> Iterator[str]:
        words = {id(value): word for _, value, word in reversed(self.results)}
        shown = _shown(self.graph.outputs, words)
        yield "// What a call gives. In Python it was"
        for at in range(0, len(shown), 108):
            yield comment(f"  {shown[at : at + 108]}")

    # --- the source

    def source(self) -> str:
        uses = self.body.uses
        pieces = [support.CALLS, *(_operators(self.body)), support.SAFETENSORS, support.WEIGHTS]
        if any(value.kind == "tensor" for value, _ in self.inputs):
            pieces.append(support.INPUTS)
        if self.default_dtype != "float32":
            pieces.append(support.DEFAULT_DTYPE)
        for name, text in (
            ("indexing", support.INDEXING),
            ("literals", support.LITERALS),
            ("numbers", support.NUMBERS),
        ):
            if name in uses:
                pieces.append(text)
        pieces.append(self.rows())
        parts = [
            comment(
                f"{self.graph.name} as calls of libtorch's operators, written by pijit; the model begins at `run`."
            ),
            f'#include "{self.stem}.h"',
            "",
            _HEADERS,
            f"namespace {self.stem}_parts {{",
            "namespace {",
            "",
            *pieces,
            *self.run(),
            "",
            "}  // namespace",
            f"}}  // namespace {self.stem}_parts",
            "",
            *self.members(),
        ]
        return "\n".join(parts) + "\n"

    def rows(self) -> str:
        lines = ["", "const std::vector<Held>& held() {", "  static const std::vector<Held> rows = {"]
        for value in self.graph.parameters:
            tensor = self.held[value.name]
            made = raw(tensor, key(value))
            dims = ", ".join(map(str, made.shape))
            strides = ", ".join(map(str, made.strides or ()))
            device = quoted(str(getattr(tensor, "device", "cpu")))
            flags = f"{str(made.requires_grad).lower()}, {str(made.dtype == 'complex128').lower()}"
            lines.append(
                f"      {{{quoted(key(value))}, {dtype(made.dtype)}, {{{dims}}}, {{{strides}}}, {device}, {flags}}},"
            )
        return "\n".join([*lines, "  };", "  return rows;", "}", ""])

    def members(self) -> Iterator[str]:
        name, parts = self.name, f"{self.stem}_parts"
        yield f"{name}::{name}(const std::string& weights) {{"
        if self.body.operators:
            yield f"  {parts}::operators();  // says at once which of them is missing"
        yield "  Tensors file = read(weights);"
        yield f"  for (const auto& each : {parts}::held()) weights_.push_back({parts}::weight(file, each));"
        yield from ["}", ""]
        yield f"{name}::Tensors {name}::weights() const {{"
        yield "  Tensors found;"
        yield "  for (size_t at = 0; at < weights_.size(); ++at) {"
        yield f"    found.emplace({parts}::held()[at].name, weights_[at]);"
        yield from ["  }", "  return found;", "}", ""]
        yield f"{name}::Tensors {name}::read(const std::string& path) {{ return {parts}::read_file(path); }}"
        yield f"void {name}::write(const std::string& path, const Tensors& tensors) {{"
        yield from [f"  {parts}::write_file(path, tensors);", "}", ""]
        yield f"{name}::Results {name}::run(const Inputs& inputs) {{ return {parts}::run(weights_, inputs); }}"

    def run(self) -> Iterator[str]:
        """The model itself."""
        given = "[[maybe_unused]] const std::vector<at::Tensor>& held"
        yield f"{self.name}::Results run({given}, [[maybe_unused]] const {self.name}::Inputs& inputs) {{"
        yield from (f"  {line}" if line else "" for line in self.inner())
        yield "}"

    def inner(self) -> Iterator[str]:
        if self.writes_leaves():
            yield "const at::NoGradGuard no_gradients;  // it writes to weights that ask for gradients"
        if self.default_dtype != "float32":
            yield f"const DefaultDtype dtype_of_new({dtype(self.default_dtype)});"
        yield from self.input_checks()
        if self.body.operators:
            yield "[[maybe_unused]] const Operators& ops = operators();"
        results = [self.body.names[value.name] for _, value, _ in self.results]
        used = {*re.findall(r"\w+", "\n".join(self.statements)), *results}
        for at, (value, word) in enumerate(zip(self.graph.parameters, self.weight_names, strict=True)):
            if word in used:
                yield f"const at::Tensor& {word} = held[{at}];  {comment(value.type)}"
        yield from self.statements
        yield ""
        yield f"{self.name}::Results results;"
        for (_, _, word), made in zip(self.results, results, strict=True):
            yield f"results.{word} = {made};"
        yield "return results;"

    def writes_leaves(self) -> bool:
        leaves = {name for name, tensor in self.held.items() if getattr(tensor, "requires_grad", False)}
        return computes_gradients(self.graph) or bool(leaves & set(self.graph.written))

    def input_checks(self) -> Iterator[str]:
        first: dict[str, str] = {}
        for value, word in self.inputs:
            if value.kind != "tensor":
                continue
            if value.dtype is None or value.shape is None:
                continue
            sizes = ", ".join(str(size) if isinstance(size, int) else "-1" for size in value.shape)
            yield f"check_input({quoted(value.name)}, inputs.{word}, {dtype(value.dtype)}, {{{sizes}}});"
        for value, word in self.inputs:
            for at, size in enumerate(value.shape or ()):
                if not isinstance(size, str) or not size.isidentifier():
                    continue
                here = f"inputs.{word}.size({at})"
                if size in first:
                    said = f"{value.name} and another input have different sizes for {size!r}"
                    yield f"check({here} == {first[size]}, {quoted(said)});"
                first.setdefault(size, here)

    # --- a program

    def main(self) -> str:
        name = self.name
        inputs = [_given(value) for value, _ in self.inputs]
        outputs = [f"{{{quoted(path)}, {_kept(value, f'results.{word}')}}}" for path, value, word in self.results]
        paths = {value.name: word for value, word in self.inputs}
        outputs += [
            f"{{{quoted(f'{each}.updated')}, inputs.{paths[each]}}}" for each in self.graph.written if each in paths
        ]
        words = {
            "NAME": name,
            "STEM": self.stem,
            "MODE": "true" if self.gradients else "false",
            "GIVEN": ",\n                               ".join(inputs),
            "GIVES": ",\n                         ".join(outputs),
        }
        return _filled(_MAIN, words)

    def cmake(self) -> str:
        return _filled(_CMAKE, {"NAME": self.name, "STEM": self.stem})


def _filled(text: str, words: dict[str, str]) -> str:
    return re.sub(r"@([A-Z]+)@", lambda found: words[found[1]], text)


_MAIN = """\
// Runs @NAME@ on files of safetensors, and is an example of how it is called:
//
//   @STEM@_main WEIGHTS INPUTS RESULTS [INPUTS RESULTS]... [--seed N] [--library FILE]... [--state FILE]
//
// --seed N        of torch's random numbers
// --library FILE  has operators of its own
// --state FILE    is written with the weights as they are after the last call
#include <cstdio>
#include <cstring>
#include <exception>
#include <list>
#include <string>
#include <vector>

#include <ATen/Context.h>
#include <ATen/DynamicLibrary.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/scalar_tensor.h>

#include "@STEM@.h"

int main(int count, char** words) try {
  std::vector<std::string> files;
  std::list<at::DynamicLibrary> libraries;
  std::string state;
  for (int at = 1; at < count; ++at) {
    const bool more = at + 1 < count;
    if (more && std::strcmp(words[at], "--seed") == 0) {
      at::manual_seed(std::stoull(words[++at]));
    } else if (more && std::strcmp(words[at], "--library") == 0) {
      libraries.emplace_back(words[++at], nullptr, true);
    } else if (more && std::strcmp(words[at], "--state") == 0) {
      state = words[++at];
    } else {
      files.emplace_back(words[at]);
    }
  }
  if (files.size() < 3 || files.size() % 2 == 0) {
    std::fputs("@STEM@_main WEIGHTS INPUTS RESULTS [INPUTS RESULTS]...\\n", stderr);
    return 2;
  }
  const c10::AutoGradMode gradients(@MODE@);  // as the exported call had it
  @NAME@ model(files[0]);
  for (size_t at = 1; at < files.size(); at += 2) {
    [[maybe_unused]] const @NAME@::Tensors given = @NAME@::read(files[at]);
    const @NAME@::Inputs inputs{@GIVEN@};
    [[maybe_unused]] const @NAME@::Results results = model.run(inputs);
    @NAME@::write(files[at + 1], {@GIVES@});
  }
  if (!state.empty()) @NAME@::write(state, model.weights());
  return 0;
} catch (const c10::Error& error) {
  std::fprintf(stderr, "%s\\n", error.what_without_backtrace());
  return 1;
} catch (const std::exception& error) {
  std::fprintf(stderr, "%s\\n", error.what());
  return 1;
}
"""

_CMAKE = """\
# @NAME@, written by pijit: the library @STEM@, and the program @STEM@_main. With torch of a Python environment:
#
#   cmake -B build -DCMAKE_PREFIX_PATH="$(python -c 'import torch; print(torch.utils.cmake_prefix_path)')"
#   cmake --build build
#
# In another project: add_subdirectory(this directory), target_link_libraries(... @STEM@).
cmake_minimum_required(VERSION 3.18)
project(@STEM@ LANGUAGES CXX)
if(NOT CMAKE_BUILD_TYPE)
  set(CMAKE_BUILD_TYPE Release)
endif()
find_package(Torch REQUIRED)

add_library(@STEM@ STATIC @STEM@.cpp)
target_compile_features(@STEM@ PUBLIC cxx_std_20)
target_include_directories(@STEM@ PUBLIC ${CMAKE_CURRENT_SOURCE_DIR})
target_link_libraries(@STEM@ PUBLIC ${TORCH_LIBRARIES})
if(NOT MSVC)
  # Numbers are computed as Python does; -O1: all the work is in torch.
  target_compile_options(@STEM@ PRIVATE -ffp-contract=off -O1)
endif()

add_executable(@STEM@_main main.cpp)
target_link_libraries(@STEM@_main PRIVATE @STEM@)
"""


def class_name(name: str) -> str:
    """A name for a class of C++: letters, with a capital one first."""
    words = [word for word in re.split(r"\W+|_+", name, flags=re.ASCII) if word]
    made = "".join(word[0].upper() + word[1:] for word in words) or "Model"
    return f"Model{made}" if made[0].isdigit() else made


def _in_file(held: Raw) -> Raw:
    """As a file of safetensors can have it: pairs of doubles for complex numbers."""
    if DTYPES[held.dtype][1]:
        return held
    return Raw("float64", (*held.shape, 2), held.data)


def _type(value: Value) -> str:
    if value.kind == "tensor":
        return "at::Tensor"
    if value.kind not in KINDS:
        raise ExportError(f"{value.name!r} is neither a tensor nor a number, and format 'cpp' has no other results")
    return KINDS[value.kind]


def _given(value: Value) -> str:
    held = f"given.at({quoted(value.name)})"
    return (
        held
        if value.kind == "tensor"
        else f"{held}.item().{ {'int': 'toLong', 'float': 'toDouble', 'bool': 'toBool'}[value.kind] }()"
    )


def _kept(value: Value, word: str) -> str:
    """A result as a tensor."""
    if value.kind == "tensor":
        return word
    return f"at::scalar_tensor({word}, at::{ {'int': 'kLong', 'float': 'kDouble', 'bool': 'kBool'}[value.kind] })"


def _shown(outputs: Any, words: dict[int, str]) -> str:
    """The structure of the results in Python, with their names in C++."""
    if isinstance(outputs, Value):
        return words[id(outputs)]
    if isinstance(outputs, dict):
        return f"{{{', '.join(f'{name!r}: {_shown(each, words)}' for name, each in outputs.items())}}}"
    if isinstance(outputs, tuple | list):
        inner = ", ".join(_shown(each, words) for each in outputs)
        return f"[{inner}]" if isinstance(outputs, list) else f"({inner}{',' if len(outputs) == 1 else ''})"
    return repr(outputs)


def _operators(body: Body) -> Iterator[str]:
    """What is called, looked up once."""
    if not body.operators:
        return
    lines = ["", "// The operators of the model.", "struct Operators {"]
    for (name, overload), word in body.operators.items():
        lines.append(f"  c10::OperatorHandle {word} = find({quoted(name)}, {quoted(overload)});")
    lines += ["};", "const Operators& operators() {", "  static const Operators found;", "  return found;", "}"]
    yield "\n".join(lines)
