"""The C++ that each file has above its model: calls of operators, files of safetensors, indexing, numbers of Python.

Each piece stands in a file only where something in it is used. Names are those of `RESERVED`, which no value gets.
"""

CALLS = """\
using Arguments = std::initializer_list<c10::IValue>;

[[maybe_unused]] const c10::IValue none;

// An operator by its name and overload; c10::Error where no library that is loaded has it.
c10::OperatorHandle find(const char* name, const char* overload) {
  return c10::Dispatcher::singleton().findSchemaOrThrow(name, overload);
}

// Calls an operator. Arguments that are left out are the defaults of its schema.
torch::jit::Stack call(const c10::OperatorHandle& op, Arguments given) {
  torch::jit::Stack stack(given);
  const auto& arguments = op.schema().arguments();
  for (size_t at = stack.size(); at < arguments.size(); ++at) {
    TORCH_CHECK(arguments[at].default_value().has_value(), "this torch wants another argument of ", op.operator_name(),
                ": ", arguments[at].name());
    stack.push_back(*arguments[at].default_value());
  }
  op.callBoxed(stack);
  return stack;
}

// One of several results; an operator may leave a tensor out.
[[maybe_unused]] at::Tensor tensor(const c10::IValue& result) {
  return result.isNone() ? at::Tensor() : result.toTensor();
}

// Calls an operator that gives one tensor.
[[maybe_unused]] at::Tensor one(const c10::OperatorHandle& op, Arguments given) {
  return tensor(call(op, given).at(0));
}

// Calls an operator that gives a list of tensors. The program took this many.
[[maybe_unused]] std::vector<at::Tensor> listed(size_t count, const c10::OperatorHandle& op, Arguments given) {
  std::vector<at::Tensor> made = call(op, given).at(0).toTensorVector();
  TORCH_CHECK(made.size() == count, op.operator_name(), " gives ", made.size(), " tensors, in the exported call ",
              count, "; export with such sizes");
  return made;
}

[[maybe_unused]] c10::IValue tensors(std::initializer_list<at::Tensor> items) {
  return c10::List<at::Tensor>(items);
}
[[maybe_unused]] c10::IValue optional_tensors(std::initializer_list<std::optional<at::Tensor>> items) {
  return c10::List<std::optional<at::Tensor>>(items);
}
[[maybe_unused]] c10::IValue ints(std::initializer_list<int64_t> items) { return c10::List<int64_t>(items); }
[[maybe_unused]] c10::IValue floats(std::initializer_list<double> items) { return c10::List<double>(items); }
[[maybe_unused]] c10::IValue bools(std::initializer_list<bool> items) { return c10::List<bool>(items); }
[[maybe_unused]] c10::IValue scalars(std::initializer_list<at::Scalar> items) { return c10::List<at::Scalar>(items); }

// A dtype, layout or memory format as operators take it.
template <class Word>
[[maybe_unused]] c10::IValue word(Word of_torch) {
  return static_cast<int64_t>(of_torch);
}

// A number where an operator wants a tensor. Its dtype gives way to that of tensors, as in Python.
[[maybe_unused]] at::Tensor number(const at::Scalar& value) {
  static const c10::OperatorHandle op = find("aten::scalar_tensor", "");
  at::Tensor made = one(op, {value, word(value.type())});
  made.unsafeGetTensorImpl()->set_wrapped_number(true);
  return made;
}

// Data or sizes are as the exported call decided on.
[[maybe_unused]] void check(bool holds, const char* said) { TORCH_CHECK(holds, said); }
[[maybe_unused]] void check(const at::Tensor& holds, const char* said) { TORCH_CHECK(holds.is_nonzero(), said); }
"""

SAFETENSORS = r"""
// What a safetensors file says of a tensor.
struct Row {
  at::ScalarType dtype = at::kFloat;
  std::vector<int64_t> shape;
  uint64_t start = 0, stop = 0;  // in the bytes behind the header
};

struct Dtype {
  const char* name;
  at::ScalarType dtype;
};
constexpr Dtype kDtypes[] = {
    {"BOOL", at::kBool},  {"U8", at::kByte},       {"I8", at::kChar},     {"I16", at::kShort},
    {"I32", at::kInt},    {"I64", at::kLong},      {"U16", at::kUInt16},  {"U32", at::kUInt32},
    {"U64", at::kUInt64}, {"F16", at::kHalf},      {"BF16", at::kBFloat16}, {"F32", at::kFloat},
    {"F64", at::kDouble}, {"C64", at::kComplexFloat}, {"F8_E4M3", at::kFloat8_e4m3fn}, {"F8_E5M2", at::kFloat8_e5m2}};

// Reads the header of a safetensors file, which is JSON. Whatever the text is, it throws or gives rows within the file.
class Header {
 public:
  Header(std::string text, uint64_t bytes) : text_(std::move(text)), bytes_(bytes) {}

  std::map<std::string, Row> rows() {
    std::map<std::string, Row> found;
    members([&](const std::string& name) {
      if (name == "__metadata__") {
        members([&](const std::string&) { string(); });
        return;
      }
      require(found.count(name) == 0, "a name stands there twice");
      found[name] = row();
    });
    space();
    require(at_ == text_.size(), "something stands behind the header");
    return found;
  }

 private:
  void require(bool holds, const char* said) const { TORCH_CHECK(holds, "no file of safetensors: ", said); }

  void space() {
    while (at_ < text_.size() && std::strchr(" \t\r\n", text_[at_]) != nullptr && text_[at_] != 0) ++at_;
  }

  bool take(char wanted) {
    space();
    if (at_ >= text_.size() || text_[at_] != wanted) return false;
    ++at_;
    return true;
  }

  template <class Each>
  void members(Each each) {
    require(take('{'), "'{' is missing");
    if (take('}')) return;
    do {
      std::string name = string();
      require(take(':'), "':' is missing");
      each(name);
    } while (take(','));
    require(take('}'), "'}' is missing");
  }

  Row row() {
    Row found;
    int seen = 0;
    members([&](const std::string& name) {
      if (name == "dtype") {
        found.dtype = dtype(string());
        seen |= 1;
      } else if (name == "shape") {
        for (uint64_t size : numbers()) found.shape.push_back(static_cast<int64_t>(size));
        seen |= 2;
      } else if (name == "data_offsets") {
        std::vector<uint64_t> both = numbers();
        require(both.size() == 2, "data_offsets are two");
        found.start = both[0];
        found.stop = both[1];
        seen |= 4;
      } else {
        require(false, "a tensor has dtype, shape and data_offsets only");
      }
    });
    require(seen == 7, "a tensor lacks dtype, shape or data_offsets");
    require(found.start <= found.stop && found.stop <= bytes_, "a tensor lies outside of the file");
    uint64_t length = c10::elementSize(found.dtype), bytes = found.stop - found.start;
    for (int64_t size : found.shape) {
      require(size == 0 || length <= UINT64_MAX / static_cast<uint64_t>(size), "a tensor is too large");
      length *= static_cast<uint64_t>(size);
    }
    require(length == bytes, "a tensor has more or fewer bytes than its shape says");
    return found;
  }

  at::ScalarType dtype(const std::string& name) const {
    for (const Dtype& each : kDtypes) {
      if (name == each.name) return each.dtype;
    }
    require(false, "a dtype is not known");
    return at::kFloat;
  }

  std::vector<uint64_t> numbers() {
    std::vector<uint64_t> found;
    require(take('['), "'[' is missing");
    if (take(']')) return found;
    do {
      found.push_back(whole());
      require(found.size() <= 64, "a shape has too many sizes");
    } while (take(','));
    require(take(']'), "']' is missing");
    return found;
  }

  uint64_t whole() {
    space();
    require(at_ < text_.size() && text_[at_] >= '0' && text_[at_] <= '9', "a number is missing");
    uint64_t found = 0;
    for (; at_ < text_.size() && text_[at_] >= '0' && text_[at_] <= '9'; ++at_) {
      require(found < INT64_MAX / 10 - 1, "a number is too large");
      found = found * 10 + static_cast<uint64_t>(text_[at_] - '0');
    }
    return found;
  }

  std::string string() {
    require(take('"'), "a text is missing");
    std::string found;
    while (true) {
      require(at_ < text_.size(), "a text has no end");
      char letter = text_[at_++];
      if (letter == '"') return found;
      if (letter != '\\') {
        found += letter;
        continue;
      }
      require(at_ < text_.size(), "a text has no end");
      letter = text_[at_++];
      static const char kFrom[] = "\"\\/bfnrt", kTo[] = "\"\\/\b\f\n\r\t";
      const char* known = letter != 0 ? std::strchr(kFrom, letter) : nullptr;
      if (known != nullptr) {
        found += kTo[known - kFrom];
      } else {
        require(letter == 'u', "a text has an escape that JSON does not know");
        utf8(found);
      }
    }
  }

  uint32_t hex() {
    require(text_.size() - at_ >= 4, "a text has no end");
    uint32_t found = 0;
    for (int i = 0; i < 4; ++i) {
      const char letter = text_[at_++];
      require(std::isxdigit(static_cast<unsigned char>(letter)) != 0, "an escape has no number");
      found = found * 16 + static_cast<uint32_t>(letter <= '9' ? letter - '0' : (letter | 32) - 'a' + 10);
    }
    return found;
  }

  void utf8(std::string& text) {
    uint32_t letter = hex();
    if (letter >= 0xD800 && letter < 0xDC00) {
      require(text_.size() - at_ >= 2 && text_[at_] == '\\' && text_[at_ + 1] == 'u', "half of a letter is missing");
      at_ += 2;
      const uint32_t low = hex();
      require(low >= 0xDC00 && low < 0xE000, "half of a letter is missing");
      letter = 0x10000 + ((letter - 0xD800) << 10) + (low - 0xDC00);
    }
    const int more = letter < 0x80 ? 0 : letter < 0x800 ? 1 : letter < 0x10000 ? 2 : 3;
    static const uint32_t kFirst[] = {0, 0xC0, 0xE0, 0xF0};
    text += static_cast<char>(kFirst[more] | (letter >> (6 * more)));
    for (int i = more - 1; i >= 0; --i) text += static_cast<char>(0x80 | ((letter >> (6 * i)) & 0x3F));
  }

  std::string text_;
  uint64_t bytes_;
  size_t at_ = 0;
};

std::map<std::string, at::Tensor> read_file(const std::string& path) {
  std::ifstream file(path, std::ios::binary | std::ios::ate);
  TORCH_CHECK(file.good(), path, " cannot be read");
  const auto size = static_cast<uint64_t>(file.tellg());
  unsigned char first[8] = {};
  file.seekg(0);
  TORCH_CHECK(size >= 8 && file.read(reinterpret_cast<char*>(first), 8), path, " is no file of safetensors: too short");
  uint64_t length = 0;
  for (int i = 7; i >= 0; --i) length = length << 8 | first[i];
  TORCH_CHECK(length <= size - 8 && length <= 100'000'000, path, " is no file of safetensors: its header has no end");
  std::string text(length, ' ');
  TORCH_CHECK(file.read(text.data(), static_cast<std::streamsize>(length)), path, " cannot be read");
  std::map<std::string, at::Tensor> found;
  for (const auto& [name, row] : Header(std::move(text), size - 8 - length).rows()) {
    at::Tensor made = at::empty(row.shape, row.dtype);
    file.seekg(static_cast<std::streamoff>(8 + length + row.start));
    const auto bytes = static_cast<std::streamsize>(row.stop - row.start);
    TORCH_CHECK(bytes == 0 || file.read(static_cast<char*>(made.data_ptr()), bytes), path, " cannot be read");
    found.emplace(name, std::move(made));
  }
  return found;
}

std::string quoted(const std::string& text) {
  std::string made = "\"";
  for (char letter : text) {
    if (letter == '"' || letter == '\\') made += '\\';
    if (static_cast<unsigned char>(letter) < 32) {
      char escape[8];
      std::snprintf(escape, sizeof escape, "\\u%04x", letter);
      made += escape;
    } else {
      made += letter;
    }
  }
  return made + '"';
}

void write_file(const std::string& path, const std::map<std::string, at::Tensor>& given) {
  std::string text;
  std::vector<at::Tensor> arrays;
  uint64_t at = 0;
  for (const auto& [name, tensor] : given) {
    if (!tensor.defined()) continue;
    at::Tensor array = tensor.detach().resolve_conj().resolve_neg().cpu().contiguous();
    if (array.scalar_type() == at::kComplexDouble) array = array.unsqueeze(-1).view(at::kDouble);  // pairs
    const char* dtype = nullptr;
    for (const Dtype& each : kDtypes) {
      if (each.dtype == array.scalar_type()) dtype = each.name;
    }
    TORCH_CHECK(dtype != nullptr, "a file of safetensors has no tensors of ", array.scalar_type(), ": ", name);
    std::string shape;
    for (int64_t size : array.sizes()) shape += (shape.empty() ? "" : ",") + std::to_string(size);
    const uint64_t stop = at + array.nbytes();
    text += (text.empty() ? "{" : ",") + quoted(name) + ":{\"dtype\":\"" + dtype + "\",\"shape\":[" + shape +
            "],\"data_offsets\":[" + std::to_string(at) + "," + std::to_string(stop) + "]}";
    at = stop;
    arrays.push_back(std::move(array));
  }
  text += text.empty() ? "{}" : "}";
  text.resize((text.size() + 7) / 8 * 8, ' ');
  std::ofstream file(path, std::ios::binary);
  for (uint64_t i = 0, length = text.size(); i < 8; ++i) file.put(static_cast<char>(length >> (8 * i) & 0xFF));
  file.write(text.data(), static_cast<std::streamsize>(text.size()));
  for (const at::Tensor& each : arrays) {
    file.write(static_cast<const char*>(each.const_data_ptr()), static_cast<std::streamsize>(each.nbytes()));
  }
  file.close();
  TORCH_CHECK(!file.fail(), path, " cannot be written");
}
"""

WEIGHTS = """
// What a weight was when the model was exported.
struct Held {
  const char* name;
  at::ScalarType dtype;
  std::vector<int64_t> shape;
  std::vector<int64_t> strides;  // none: its elements lie in order
  const char* device;
  bool requires_grad;
  bool complex;  // the file has pairs of doubles
};

at::Tensor weight(std::map<std::string, at::Tensor>& file, const Held& held) {
  auto found = file.find(held.name);
  TORCH_CHECK(found != file.end(), "the weights lack ", held.name);
  at::Tensor made = std::move(found->second);
  if (held.complex) made = made.view(at::kComplexDouble).squeeze(-1);
  TORCH_CHECK(made.scalar_type() == held.dtype && made.sizes() == at::IntArrayRef(held.shape), "the weights have ",
              held.name, " as ", made.scalar_type(), made.sizes(), "; the model takes ", held.dtype,
              at::IntArrayRef(held.shape));
  if (!held.strides.empty()) {
    at::Tensor laid = at::empty_strided(held.shape, held.strides, made.options());
    laid.copy_(made);
    made = laid;
  }
  made = made.to(at::Device(held.device));
  return made.set_requires_grad(held.requires_grad);
}
"""

INPUTS = """
// An input is as it was when the model was exported; -1 is a size that is free.
void check_input(const char* name, const at::Tensor& given, at::ScalarType dtype, std::vector<int64_t> shape) {
  TORCH_CHECK(given.defined(), "the input ", name, " is missing");
  bool holds = given.scalar_type() == dtype && given.dim() == static_cast<int64_t>(shape.size());
  for (size_t at = 0; holds && at < shape.size(); ++at) {
    holds = shape[at] < 0 || shape[at] == given.size(static_cast<int64_t>(at));
  }
  TORCH_CHECK(holds, "the input ", name, " is ", given.scalar_type(), given.sizes(), "; the model takes ", dtype,
              at::IntArrayRef(shape), ", where -1 is any size");
}
"""

INDEXING = """
// A place in an index of Python: x[2], x[1:n], x[..., None], x[mask].
struct Place {
  enum Kind { kItem, kSlice, kRest, kNew, kFlag, kTensor } kind;
  std::optional<int64_t> start, stop;
  int64_t step = 1;
  at::Tensor tensor;

  Place(Kind of) : kind(of) {}
  Place(int64_t item) : kind(kItem), start(item) {}
  Place(int item) : kind(kItem), start(item) {}
  Place(at::Tensor of) : kind(kTensor), tensor(std::move(of)) {}
};
using Places = std::initializer_list<Place>;

[[maybe_unused]] Place rest() { return Place::kRest; }
[[maybe_unused]] Place new_axis() { return Place::kNew; }
[[maybe_unused]] Place flag(bool holds) {
  Place made(Place::kFlag);
  made.start = holds;
  return made;
}
[[maybe_unused]] Place range(std::optional<int64_t> start, std::optional<int64_t> stop, int64_t step = 1) {
  Place made(Place::kSlice);
  made.start = start;
  made.stop = stop;
  made.step = step;
  TORCH_CHECK(step > 0, "torch takes steps above zero only");
  return made;
}

// The axes of a tensor that Python takes one after another, and the tensors that are left as indices.
at::Tensor sliced(at::Tensor x, Places places, c10::List<std::optional<at::Tensor>>& indices) {
  const int64_t axes = x.dim();
  int64_t axis = 0, taken = 0;
  for (const Place& each : places) {
    const bool mask = each.kind == Place::kTensor && (each.tensor.scalar_type() == at::kBool ||
                                                      each.tensor.scalar_type() == at::kByte);
    if (each.kind == Place::kItem || each.kind == Place::kSlice) taken += 1;
    if (each.kind == Place::kTensor) taken += mask ? each.tensor.dim() : 1;
  }
  auto index_by = [&](const at::Tensor& by) {
    while (static_cast<int64_t>(indices.size()) < axis) indices.push_back(std::nullopt);
    indices.push_back(by);
    axis += 1;
  };
  auto flagged = [&](bool holds, at::Device device) {
    x = x.unsqueeze(axis);
    index_by(at::empty({holds ? 1 : 0}, at::TensorOptions(at::kLong).device(device)).zero_());
  };
  for (const Place& each : places) {
    if (each.kind == Place::kItem) {
      x = x.select(axis, *each.start);
    } else if (each.kind == Place::kSlice) {
      x = x.slice(axis, each.start, each.stop, each.step);
      axis += 1;
    } else if (each.kind == Place::kRest) {
      axis += axes - taken;
    } else if (each.kind == Place::kNew) {
      x = x.unsqueeze(axis);
      axis += 1;
    } else if (each.kind == Place::kFlag) {
      flagged(*each.start != 0, x.device());
    } else if (each.tensor.dim() == 0 && c10::isIntegralType(each.tensor.scalar_type(), true)) {
      const bool mask = each.tensor.scalar_type() == at::kBool || each.tensor.scalar_type() == at::kByte;
      if (mask) {
        flagged(each.tensor.is_nonzero(), x.device());
      } else {
        x = x.select(axis, each.tensor.item().toLong());
      }
    } else {
      index_by(each.tensor);
    }
  }
  return x;
}
"""

INDEXING += """
// x[places]
[[maybe_unused]] at::Tensor item(const at::Tensor& x, Places places) {
  c10::List<std::optional<at::Tensor>> indices;
  at::Tensor made = sliced(x, places, indices);
  return indices.empty() ? made : made.index(indices);
}

// x[places] = value
[[maybe_unused]] void set_item(const at::Tensor& x, Places places, const at::Tensor& value) {
  c10::List<std::optional<at::Tensor>> indices;
  const at::Tensor target = sliced(x, places, indices);
  at::IntArrayRef sizes = value.sizes();
  if (indices.empty() && target.sizes() == sizes) {
    target.copy_(value);
    return;
  }
  if (indices.empty() && sizes.empty() && value.is_cpu()) {
    target.fill_(value);
    return;
  }
  while (!sizes.empty() && sizes.front() == 1) sizes = sizes.slice(1);
  const at::Tensor given = sizes == value.sizes() ? value : value.view(sizes);
  if (indices.empty()) {
    target.copy_(given);
  } else {
    target.index_put_(indices, given);
  }
}

// A number that is written to a part of a tensor.
[[maybe_unused]] at::Tensor like(const at::Tensor& x, const at::Scalar& value) {
  static const c10::OperatorHandle op = find("aten::scalar_tensor", "");
  return one(op, {value, word(x.scalar_type()), none, x.device()});
}
"""

LITERALS = """
// A tensor of numbers that stand in the program.
template <class Number>
at::Tensor literal(std::initializer_list<Number> items, at::IntArrayRef shape, at::ScalarType dtype,
                   at::Device device = at::kCPU) {
  at::Tensor made = at::empty(shape, c10::CppTypeToScalarType<Number>::value);
  std::copy(items.begin(), items.end(), static_cast<Number*>(made.data_ptr()));
  return made.to(at::TensorOptions(dtype).device(device));
}
"""

NUMBERS = """
// Numbers as Python computes with them. Whole numbers have 64 bits here.
[[maybe_unused]] int64_t floor_divide(int64_t a, int64_t b) {
  TORCH_CHECK(b != 0, "integer division or modulo by zero");
  if (b == -1) return -a;
  return a / b - (a % b != 0 && (a % b < 0) != (b < 0) ? 1 : 0);
}
[[maybe_unused]] int64_t remainder(int64_t a, int64_t b) {
  TORCH_CHECK(b != 0, "integer division or modulo by zero");
  if (b == -1) return 0;
  return a % b + (a % b != 0 && (a % b < 0) != (b < 0) ? b : 0);
}
[[maybe_unused]] double remainder_of_floats(double a, double b) {
  TORCH_CHECK(b != 0, "float modulo by zero");
  const double rest = std::fmod(a, b);
  if (rest == 0) return std::copysign(0.0, b);
  return (b < 0) != (rest < 0) ? rest + b : rest;
}
[[maybe_unused]] double floor_divide_floats(double a, double b) {
  TORCH_CHECK(b != 0, "float floor division by zero");
  const double rest = std::fmod(a, b);
  double made = (a - rest) / b;
  if (rest != 0 && (b < 0) != (rest < 0)) made -= 1;
  if (made == 0) return std::copysign(0.0, a / b);
  const double whole = std::floor(made);
  return made - whole > 0.5 ? whole + 1 : whole;
}
[[maybe_unused]] double divide(double a, double b) {
  TORCH_CHECK(b != 0, "division by zero");
  return a / b;
}
[[maybe_unused]] int64_t within(bool beyond, int64_t made) {
  TORCH_CHECK(!beyond, "a whole number does not fit into 64 bits");
  return made;
}
[[maybe_unused]] int64_t plus(int64_t a, int64_t b) {
  const auto made = static_cast<int64_t>(static_cast<uint64_t>(a) + static_cast<uint64_t>(b));
  return within((a < 0) == (b < 0) && (made < 0) != (a < 0), made);
}
[[maybe_unused]] int64_t minus(int64_t a, int64_t b) {
  const auto made = static_cast<int64_t>(static_cast<uint64_t>(a) - static_cast<uint64_t>(b));
  return within((a < 0) != (b < 0) && (made < 0) != (a < 0), made);
}
[[maybe_unused]] int64_t times(int64_t a, int64_t b) {
  const auto made = static_cast<int64_t>(static_cast<uint64_t>(a) * static_cast<uint64_t>(b));
  const bool least = (a == -1 && b == INT64_MIN) || (b == -1 && a == INT64_MIN);
  return within(least || (a != 0 && a != -1 && made / a != b), made);
}
[[maybe_unused]] int64_t shift_left(int64_t a, int64_t b) {
  TORCH_CHECK(b >= 0, "negative shift count");
  const int64_t made = b < 64 ? static_cast<int64_t>(static_cast<uint64_t>(a) << b) : 0;
  return within(a != 0 && (b > 63 || made >> b != a), made);
}
[[maybe_unused]] int64_t shift_right(int64_t a, int64_t b) {
  TORCH_CHECK(b >= 0, "negative shift count");
  return a >> std::min<int64_t>(b, 63);
}
[[maybe_unused]] int64_t power(int64_t base, int64_t exponent) {
  TORCH_CHECK(exponent >= 0, "a whole number to a power below zero is no whole number");
  int64_t made = 1;
  for (; exponent > 0; --exponent) {
    if (base == 0 || base == 1) return base;
    if (base == -1) return exponent % 2 == 0 ? made : -made;
    made = times(made, base);
  }
  return made;
}
[[maybe_unused]] double power_of_floats(double base, double exponent) {
  const double made = std::pow(base, exponent);
  TORCH_CHECK(std::isfinite(made) || !std::isfinite(base) || !std::isfinite(exponent), base, " to the power ", exponent,
              " is no float");
  return made;
}
template <class Number>
[[maybe_unused]] Number of_kind(bool holds, Number made) {
  TORCH_CHECK(holds, "a number is of another kind than in the exported call; export with such numbers");
  return made;
}
[[maybe_unused]] double of_math(double made, double given) {
  TORCH_CHECK(std::isfinite(made) || !std::isfinite(given), "math domain error");
  return made;
}
[[maybe_unused]] int64_t whole_root(int64_t number) {
  TORCH_CHECK(number >= 0, "isqrt() argument must be nonnegative");
  auto made = static_cast<int64_t>(std::sqrt(static_cast<double>(number)));
  while (made > number / std::max<int64_t>(made, 1)) --made;
  while (made + 1 <= number / (made + 1)) ++made;
  return made;
}
[[maybe_unused]] int64_t truncate(double number) {
  TORCH_CHECK(number > -9.2e18 && number < 9.2e18, "cannot convert ", number, " to a whole number of 64 bits");
  return static_cast<int64_t>(number);
}
"""

DEFAULT_DTYPE = """
// New tensors have the dtype that was the default when the model was exported.
struct DefaultDtype {
  explicit DefaultDtype(at::ScalarType dtype) : before(c10::get_default_dtype()) {
    c10::set_default_dtype(c10::scalarTypeToTypeMeta(dtype));
  }
  ~DefaultDtype() { c10::set_default_dtype(before); }
  caffe2::TypeMeta before;
};
"""

# What no value may be called: words of C++, macros of its headers, functions above, and what stands in `run`.
_WORDS = """
    alignas alignof and and_eq asm auto bitand bitor bool break case catch char char8_t char16_t char32_t class compl
    concept const consteval constexpr constinit const_cast continue co_await co_return co_yield decltype default
    delete do double dynamic_cast else enum explicit export extern false float for friend goto if inline int long
    mutable namespace new noexcept not not_eq nullptr operator or or_eq private protected public register
    reinterpret_cast requires return short signed sizeof static static_assert static_cast struct switch template this
    thread_local throw true try typedef typeid typename union unsigned using virtual void volatile wchar_t while xor
    xor_eq assert errno stdin stdout stderr unix linux major minor makedev isnan isinf signbit NULL EOF I std at c10
    torch size_t int64_t uint64_t Arguments none find call one listed tensor tensors optional_tensors ints floats
    bools scalars word number check Row Dtype Header read_file write_file quoted Held weight check_input Place Places
    rest new_axis flag range sliced item set_item like literal floor_divide remainder remainder_of_floats
    floor_divide_floats divide power truncate of_math of_kind whole_root within plus minus times shift_left
    shift_right power_of_floats ops inputs results run held Operators operators weights read write Inputs Results
    Tensors main given grad_mode
"""
RESERVED = frozenset(_WORDS.split())
