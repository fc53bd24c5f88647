# ruff: noqa
"""Text: methods of str and bytes, f-strings, formatting and printing of objects of all sorts."""


# %% f_strings_of_objects: f(k); k = 3 -> 25
class P:
    def __init__(self, x):
        self.x = x

    def __repr__(self):
        return f"P({self.x!r})"


class S(P):
    def __str__(self):
        return f"S:{self.x}"


class F(P):
    def __format__(self, spec):
        return f"<{spec}|{self.x}>"


def f(x):
    p, s, g = P(x), S("a"), F(x)
    return f"{p} {p!s} {p!r} {s} {s!r} {g} {g:abc} {g:{x}} {x:>4} {x!r:>5} {[p, s]} {(p,)} { {'k': p} } {P} {None}"


# %% str_and_repr: f(4); tag = "" -> "!"; undo xs.append(P("new"))
class P:
    def __init__(self, x):
        self.x = x

    def __repr__(self):
        return f"P{tag}({self.x})"


xs = [1, "a", P(2)]


def f(x):
    return (
        str(P(x)),
        repr(xs),
        str((x, "b", None)),
        repr({"a": [x], "b": P(x)}),
        str([]),
        str(()),
        format(P(x)),
        format(x, "03d"),
        str(1.5),
        repr("q'"),
        ascii("abc"),
        str(ValueError("v")),
        str(),
    )


# %% str_methods: f("lo"); word = "Hello, World" -> "World owl"
def f(s):
    a = (
        word.upper(),
        word.lower(),
        word.split(", "),
        word.replace("l", s),
        word.find("o"),
        word.startswith("He"),
        word[::-1],
    )
    b = (
        word.partition(","),
        word.strip("Hd"),
        word.title(),
        word.swapcase(),
        word.center(20, "*"),
        word.count("l"),
        word.index("W"),
    )
    c = (
        word.encode(),
        word.isalpha(),
        word.zfill(15),
        word.splitlines(),
        word.rsplit("o", 1),
        word.removeprefix("Hel"),
        word.casefold(),
    )
    return a, b, c, s in word, len(word), word * 2, word + s, word < s, hash(word) == hash(word), word[1:3]


# %% join_of_all_sorts: f(["a", "b"]); n = 3 -> 1
def gen(n):
    for i in range(n):
        yield str(i)


def f(xs):
    return (
        ",".join(xs),
        "-".join(gen(n)),
        "".join(str(x) for x in (1, 2)),
        " ".join(map(repr, xs)),
        ", ".join(["a"]),
        "x".join("abc"),
        "/".join({"k": 1, "l": 2}),
        "".join(sorted({"b", "a"})),
    )


# %% join_raises: f(["a", k]); k = "b" -> 1
def f(xs):
    try:
        return ",".join(xs)
    except TypeError:
        return "not a string"


# %% str_format: f(k); k = 3 -> 2.5
class P:
    def __str__(self):
        return "P!"


def f(x):
    return (
        "{} {}".format(x, "a"),
        "{1}{0}".format(x, 2),
        "{a:>{w}}".format(a=x, w=4) if False else "{a:>4}".format(a=x),
        "{!r}|{!s}".format("q", P()),
        "{{}}{}".format(P()),
        "{:.2f}".format(x),
    )


# %% bytes_and_numbers_as_text: f(k); k = 3 -> 4
def f(x):
    return (
        b"abc".hex(),
        bytes([1, x]),
        int("ff", 16),
        float("2.5"),
        complex("1j"),
        int(x),
        hex(x),
        bin(x),
        oct(x),
        chr(65 + x),
        ord("z"),
        b"a" + b"b",
        b"a,b".split(b","),
        x.bit_length(),
        (2.5).is_integer(),
    )


# %% multiline_logging_helper: f(k); k = 0.5 -> 0.25
class Config:
    def __init__(self, **values):
        self.values = values

    def __repr__(self):
        inner = ", ".join(f"{name}={value!r}" for name, value in sorted(self.values.items()))
        return f"{type(self).__name__}({inner})"


def f(x):
    c = Config(lr=x, name="adam", betas=(0.9, 0.999))
    lines = [repr(c)]
    lines += ["%s: %5.3f" % ("loss", x), "{:>8}".format("end")]
    return "\n".join(lines)


# %% formats_of_odd_texts: leaves; f(a, 3); a = "bcd" -> "b\0cd\ud800x" -> Text("")
class Text(str):
    pass


FORMATS = (
    "{} {}",
    "{}",
    "{0}{}",
    "{}{0}",
    "{!s}",
    "{!z}",
    "x",
    "{{",
    "{{}}",
    "",
    "{99999999999999999999}",
    "{:>5}|",
    "{0!r:>9}",
    "a{",
    "a}",
    "{a}",
    "{} {",
    "{:{}}",
    "{}x",
    "\ud800{}",
    "\0{}\0",
)


def attempt(format, *args, **named):
    try:
        return format.format(*args, **named)
    except Exception as error:
        return type(error).__name__, str(error)


def f(a, b):
    found = [attempt(format, a, b) for format in FORMATS]
    found.append(attempt("{a}", a=a))
    found += "%s|%r" % (a, b), f"{a}|{b!r}", repr([a, b]), str((a,)), type(a.format()).__name__
    same = (
        "{}".format(a),
        "{!s}".format(a),
        "{:s}".format(a),
        "{0}".format(a),
        "%s" % a,
        f"{a}",
        "".join([a]),
        a.format(),
    )
    found.append([text is a for text in same])
    try:
        sorted([2, 1], **{a: None})
    except TypeError as error:
        found.append(str(error).count("keyword"))
    return found
