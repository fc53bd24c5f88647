"""Writes docs/graph.md (the operators of a graph, the formats, the schema of its JSON) and docs/graph.svg.

The operators are the rows of `pijit.graph.vocabulary`, the formats those of `pijit.formats()`, the schema is the
docstring of `pijit._formats.json`.
"""

from __future__ import annotations

import inspect
import sys
from pathlib import Path
from typing import Any

from pijit import _formats
from pijit._formats import json
from pijit.graph import model, vocabulary

ROOT = Path(__file__).resolve().parent.parent.parent
PAGE = ROOT / "docs" / "graph.md"
PICTURE = ROOT / "docs" / "graph.svg"


def page() -> str:
    """The whole of docs/graph.md."""
    rows = vocabulary.rows().values()
    lines = [
        "# Graphs",
        "",
        "Made by `python tests/graph/graph_page.py` from the tables; a test compares it with them.",
        "",
        *_section("What a graph is", _plain(model)),
        *_section(
            "Formats", ["`pijit.export(fn, *args, format=...)`; what each needs is said by `pijit.formats()`.", ""]
        ),
        "| format | what it is | needs |",
        "| --- | --- | --- |",
        *(f"| {module.NAME} | {_cell(module.DOC)} | {', '.join(module.PACKAGES)} |" for module in formats()),
        "",
        *_section("JSON", ["```text", *_plain(json), "```", ""]),
        *_section(
            "Operators",
            [
                f"{len(rows)} rows. Names and meanings are those of the Python array API standard (2024.12) where it",
                "has the operator, else those of ONNX or torch under a plain name. The last column has the operators",
                "of torch that a row stands for; one that writes to its first argument (`add_`) has the row of the",
                "one that does not. Each row is tested in torch, NumPy, JAX, MindSpore and ONNX Runtime on the same",
                "numbers, where it has a form there.",
                "",
            ],
        ),
    ]
    families: dict[str, list[Any]] = {}
    for row in rows:
        families.setdefault(row.family, []).append(row)
    for family, members in families.items():
        lines += [f"### {family[0].upper()}{family[1:]}", "", "| operator | meaning | torch |", "| --- | --- | --- |"]
        for row in members:
            names = dict.fromkeys(pattern.operator.removeprefix("aten::") for pattern in row.patterns)
            lines.append(
                f"| `{_cell(row.signature)}` | {_cell(row.doc)} | {', '.join(f'`{name}`' for name in names)} |"
            )
        lines.append("")
    return "\n".join(lines)


def formats() -> list[Any]:
    """The modules of pijit's own formats."""
    return [__import__(f"pijit._formats.{name}", fromlist=["make"]) for name in _formats._own()]


def _section(title: str, lines: list[str]) -> list[str]:
    return [f"## {title}", "", *lines]


def _plain(module: Any) -> list[str]:
    return [*(inspect.getdoc(module) or "").splitlines(), ""]


def _cell(text: str) -> str:
    return text.replace("|", "\\|").replace("<", "&lt;")


def picture() -> str:
    """The picture of a small model of language."""
    import torch

    import pijit

    class Attention(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.qkv = torch.nn.Linear(64, 192)
            self.out = torch.nn.Linear(64, 64)

        def forward(self, x: Any) -> Any:
            q, k, v = self.qkv(x).unflatten(-1, (3, 4, 16)).permute(2, 0, 3, 1, 4).unbind()
            y = torch.nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True)
            return self.out(y.transpose(1, 2).flatten(-2))

    class Block(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.norm1, self.attention, self.norm2 = torch.nn.LayerNorm(64), Attention(), torch.nn.LayerNorm(64)
            self.up, self.down = torch.nn.Linear(64, 256), torch.nn.Linear(256, 64)

        def forward(self, x: Any) -> Any:
            x = x + self.attention(self.norm1(x))
            return x + self.down(torch.nn.functional.gelu(self.up(self.norm2(x))))

    class Language(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.table = torch.nn.Embedding(1000, 64)
            self.blocks = torch.nn.ModuleList([Block() for _ in range(12)])
            self.norm, self.head = torch.nn.LayerNorm(64), torch.nn.Linear(64, 1000, bias=False)

        def forward(self, words: Any) -> Any:
            x = self.table(words)
            for block in self.blocks:
                x = block(x)
            return self.head(self.norm(x))

    with torch.no_grad():
        return pijit.graph.capture(Language().eval(), torch.zeros(2, 16, dtype=torch.int64)).to_svg()


if __name__ == "__main__":
    PAGE.write_text(page())
    PICTURE.write_text(picture())
    sys.exit(0)
