"""The text of a trace: its nodes as Python, short enough to be read.

1. Objects have the names by which the program finds them; what `torch.nn.Module` keeps in dicts is an attribute.
2. Looks at a tensor's sizes are one line, and so is a condition that is checked.
3. Lines that come again, such as those of equal layers, are a loop: `self.h[0]`, `self.h[1]`, ... are `self.h[i]`. What
   differs otherwise is listed in the head of the loop, so running it does the same as the lines did.
"""

import linecache
import os
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import groupby

_REGISTER = re.compile(r"\br\d+\b")
_TARGETS = re.compile(r"^\(?((?:(?:r\d+|_)(?:, )?)+),?\)? = ")
_DIMENSIONS = re.compile(r"^assert (.+)\.dim\(\) == (\d+)$")
_FIRST_SIZE = re.compile(r"^r\d+ = (.+)\.size\(0\)$")
_TRUTH = re.compile(r"^assert (r\d+) is (True|False)$")
_SUBSCRIPT = re.compile(r"(?<=[\w\])])\[(\d+)\]")
_PARTS = (
    (re.compile(r"\._(?:modules|parameters|buffers)\['([A-Za-z_]\w*)'\]"), r".\1"),
    (re.compile(r"\._modules\['(\d+)'\]"), r"[\1]"),
    (re.compile(r"\._modules\.(\d+)\b"), r"[\1]"),
    (re.compile(r"\.?<(\w+) (\d+)>"), r".\1_\2"),
)

_MOST_PERIODS = 12  # lengths of a repeated part that are tried
_LEAST_SAVED = 6  # lines, or a loop is not worth it
_MOST_LOOPS = 8
_LONGEST_CHECK = 100


@dataclass(frozen=True, slots=True)
class Line:
    """A line of the text, the user's line and the nodes that it comes from; `indent` levels inside the function."""

    text: str
    file: str = ""
    line: int = 0
    indent: int = 0
    nodes: tuple[int, ...] = ()


def readable(text: str) -> str:
    """An expression with the parts of modules as attributes: `self.layers[0].weight`."""
    for pattern, replacement in _PARTS:
        text = pattern.sub(replacement, text)
    return text


def body(lines: Iterable[Line], ranks: Mapping[str, int] | None = None) -> list[Line]:
    """The lines, shortened; `ranks`: how many dimensions tensors are known to have, by their names."""
    return _fold(_merge([replace(line, text=readable(line.text)) for line in lines if line.text], ranks or {}))


def with_sources(lines: Iterable[Line]) -> Iterator[str]:
    """The lines as text, each line of the user's above what comes from it; beside it, if only checks do."""
    for (file, number, indent), group in groupby(lines, lambda line: (line.file, line.line, line.indent)):
        margin, texts = "    " * (indent + 1), [line.text for line in group]
        name = f"{file.replace(os.sep, '/').rpartition('/')[2]}:{number}"
        if file and all(text.startswith("assert ") for text in texts):
            yield from (f"{margin}{text}  # {name}" for text in texts)
            continue
        if file:
            yield f"{margin}# {name}: {linecache.getline(file, number).strip()}"
        yield from (margin + text for text in texts)


def _nodes(lines: Iterable[Line]) -> tuple[int, ...]:
    return tuple(node for line in lines for node in line.nodes)


def _merge(lines: list[Line], ranks: Mapping[str, int]) -> list[Line]:
    """Sizes that are read one by one, and conditions and their checks, as one line each."""
    uses = Counter(register for line in lines for register in _REGISTER.findall(line.text))
    made: list[Line] = []
    at = 0
    while at < len(lines):
        line = lines[at]
        dimensions = _DIMENSIONS.match(line.text)
        if asks := dimensions or _FIRST_SIZE.match(line.text):
            tensor = asks[1]
            count = int(asks[2]) if dimensions else ranks.get(tensor, 0)
            start = at + 1 if dimensions else at
            reads = [re.match(rf"^(r\d+) = {re.escape(tensor)}\.size\({i}\)$", each.text)
                     for i, each in enumerate(lines[start : start + count])]  # fmt: skip
            if count and len(reads) == count and all(reads):
                names = [read[1] if uses[read[1]] > 1 else "_" for read in reads if read]
                if any(name != "_" for name in names):
                    listed = ", ".join(names) if count > 1 else f"({names[0]},)"
                    line = replace(line, text=f"{listed} = {tensor}.shape")
                line = replace(line, nodes=_nodes(lines[at : start + count]))
                at = start + count - 1
        elif (truth := _TRUTH.match(line.text)) and made and uses[truth[1]] == 2:
            if made[-1].text.startswith(f"{truth[1]} = "):
                asked = made.pop()
                condition = asked.text.partition(" = ")[2]
                text = f"assert {condition if truth[2] == 'True' else f'not ({condition})'}"
                line = replace(line, text=text, nodes=_nodes((asked, line)))
        made.append(line)
        at += 1
    return _checks_joined(made)


def _checks_joined(lines: list[Line]) -> list[Line]:
    """Checks that stand together, and come from one line of the user's, as one."""
    made: list[Line] = []
    for line in lines:
        last = made[-1] if made else None
        together = last is not None and (last.file, last.line) == (line.file, line.line)
        if together and last is not None and last.text.startswith("assert ") and line.text.startswith("assert "):
            text = f"{last.text} and {line.text.removeprefix('assert ')}"
            if len(text) <= _LONGEST_CHECK:
                made[-1] = replace(last, text=text, nodes=_nodes((last, line)))
                continue
        made.append(line)
    return made


# ---------------------------------------------------------------------------------------------------------------- loops


@dataclass(slots=True)
class _Loop:
    """A part of the lines that comes `times` times: its first line and its length."""

    start: int
    period: int
    times: int

    @property
    def saved(self) -> int:
        return (self.times - 1) * self.period


def _fold(lines: list[Line]) -> list[Line]:
    """Parts that come again as loops, the longest first."""
    for number in range(_MOST_LOOPS):
        for loop in _candidates(lines):
            if (made := _rolled(lines, loop, number)) is not None:
                lines = made
                break
        else:
            return lines
    return lines


def _key(line: Line) -> tuple[str, str, int]:
    """What lines have in common that are one line of a loop."""
    return _SUBSCRIPT.sub("[#]", _REGISTER.sub("r", line.text)), line.file, line.line


def _candidates(lines: Sequence[Line]) -> list[_Loop]:
    """Repeated parts, those first that save the most lines."""
    keys = [_key(line) if not line.indent else object() for line in lines]
    last: dict[object, int] = {}
    gaps: Counter[int] = Counter()
    for at, key in enumerate(keys):
        if key in last:
            gaps[at - last[key]] += 1
        last[key] = at
    found = []
    for period, _ in sorted(gaps.most_common(_MOST_PERIODS), key=lambda gap: gap[0]):
        at = 0
        while at + period < len(keys):
            run = at
            while run + period < len(keys) and keys[run] == keys[run + period]:
                run += 1
            times = (run - at) // period + 1
            if times > 1 and (times - 1) * period >= _LEAST_SAVED:
                spare = (run - at) % period
                found += [_Loop(start, period, times) for start in range(at, at + spare + 1)]
            at = max(run, at + 1)
    return sorted(found, key=lambda loop: -loop.saved)[:200]


def _defined(line: Line) -> list[str]:
    targets = _TARGETS.match(line.text)
    return [name for name in targets[1].split(", ") if name != "_"] if targets else []


def _rolled(lines: list[Line], loop: _Loop, number: int) -> list[Line] | None:
    """The lines with this part as a loop; None if it is none."""
    return _Rolling(lines, loop, number).made()


class _Rolling:
    """Makes one loop: the rounds, what each defines, and how the loop calls what differs from round to round."""

    def __init__(self, lines: list[Line], loop: _Loop, number: int) -> None:
        self.lines, self.loop, self.number = lines, loop, number
        self.rounds = [lines[loop.start + i * loop.period :][: loop.period] for i in range(loop.times)]
        self.defined = [[name for line in each for name in _defined(line)] for each in self.rounds]
        self.places = [{name: at for at, name in enumerate(names)} for names in self.defined]
        self.variable = "ijklmnpq"[number]
        self.carried: dict[int, tuple[str, str]] = {}  # by definition: the loop's name, and that of the first value
        self.listed: dict[tuple[str, ...], str] = {}  # other registers, one for each round: the loop's name

    def made(self) -> list[Line] | None:
        """The lines with the loop; None if this part cannot be one."""
        inside = []
        for each in zip(*self.rounds, strict=True):
            text = _subscripts([line.text for line in each], self.variable)
            names = list(zip(*(_REGISTER.findall(line.text) for line in each), strict=True))
            words = [word for uses in names if (word := self._word(uses)) is not None]
            if text is None or len(words) != len(names):
                return None
            inside.append(replace(each[0], text=_substituted(text, words), indent=1, nodes=_nodes(each)))
        return self._assembled(inside)

    def _word(self, uses: tuple[str, ...]) -> str | None:
        """How the loop calls what its rounds call by these names; None: it cannot."""
        own = {place.get(use) for place, use in zip(self.places, uses, strict=True)}
        if own != {None}:
            return uses[0] if len(own) == 1 else None
        if len(set(uses)) == 1:
            return uses[0]
        before = {place.get(use) for place, use in zip(self.places, uses[1:], strict=False)}
        if len(before) == 1 and (at := before.pop()) is not None:
            name, first = self.carried.setdefault(at, (f"last{self.number or ''}_{len(self.carried)}", uses[0]))
            return name if first == uses[0] else None
        if any(use in place for place in self.places for use in uses):
            return None
        return self.listed.setdefault(uses, f"each{self.number or ''}_{len(self.listed)}")

    def _assembled(self, inside: list[Line]) -> list[Line]:
        """What stands before, the loop, and what stands behind it, which may ask for what any round has made."""
        end = self.loop.start + self.loop.period * self.loop.times
        before, behind = self.lines[: self.loop.start], self.lines[end:]
        wanted = {name for line in behind for name in _REGISTER.findall(line.text)}
        renamed, kept = {}, []
        for each in zip(*self.defined, strict=True):
            if wanted.intersection(each[:-1]):
                kept.append(each[0])
                renamed.update({name: f"all_{each[0]}[{i}]" for i, name in enumerate(each)})
            else:
                renamed[each[-1]] = each[0]
        head = [f"{name} = {first}" for name, first in self.carried.values()] + [f"all_{name} = []" for name in kept]
        rounds = f"range({self.loop.times})"
        if self.listed:
            sequences = ", ".join(f"({', '.join(names)})" for names in self.listed)
            head.append(f"for {self.variable}, {', '.join(self.listed.values())} in zip({rounds}, {sequences}):")
        else:
            head.append(f"for {self.variable} in {rounds}:")
        tail = [f"{name} = {self.defined[0][at]}" for at, (name, _) in self.carried.items()]
        tail += [f"all_{name}.append({name})" for name in kept]
        rest = [
            replace(line, text=_REGISTER.sub(lambda found: renamed.get(found[0], found[0]), line.text))
            for line in behind
        ]
        return [*before, *map(Line, head), *inside, *(Line(text, indent=1) for text in tail), *rest]


def _substituted(text: str, words: list[str]) -> str:
    """The text with these words for its registers."""
    following = iter(words)
    return _REGISTER.sub(lambda _: next(following), text)


def _subscripts(texts: list[str], variable: str) -> str | None:
    """One text for all rounds, with the loop's variable where they count."""
    words = []
    for column in zip(*(_SUBSCRIPT.findall(text) for text in texts), strict=True):
        first = int(column[0])
        if len(set(column)) == 1:
            words.append(f"[{first}]")
        elif [int(value) for value in column] == list(range(first, first + len(column))):
            words.append(f"[{variable} + {first}]" if first else f"[{variable}]")
        else:
            return None
    following = iter(words)
    return _SUBSCRIPT.sub(lambda _: next(following), texts[0])
