"""Writes the table of backends in README.md from their files: `python tests/compilers/backends_table.py`."""

from __future__ import annotations

from pathlib import Path

from pijit.compilers import OWN, Backend, get

README = Path(__file__).parents[2] / "README.md"
BEGIN, END = "<!-- backends: tests/compilers/backends_table.py writes this -->", "<!-- end of backends -->"


def tolerance(backend: Backend) -> str:
    """How far results in float32 may be from eager's."""
    texts = []
    for folded in (False, True):
        rtol, atol = backend.allowed("float32", folded)
        texts.append(f"{rtol:g} relative, {atol:g} absolute" if rtol or atol else "bit for bit")
    return texts[0] if texts[0] == texts[1] else f"{texts[0]}; with folded weights {texts[1]}"


def table() -> str:
    rows = [
        "| backend | what for | install | tensors of | free sizes | training steps | difference from eager, float32 |",
        "| --- | --- | --- | --- | --- | --- | --- |",
    ]
    for name in OWN:
        backend = get(name)
        flags = ["yes" if flag else "no" for flag in (backend.symbolic, backend.training)]
        devices = ", ".join(backend.devices) or "all devices"
        cells = [f"`{name}`", backend.doc, f"`{backend.install}`", devices, *flags, tolerance(backend)]
        rows.append(f"| {' | '.join(cells)} |")
    return "\n".join(rows)


def written(text: str) -> str:
    """The README with the table as it is now."""
    before, _, rest = text.partition(BEGIN)
    after = rest.partition(END)[2]
    return f"{before}{BEGIN}\n{table()}\n{END}{after}"


if __name__ == "__main__":
    README.write_text(written(README.read_text(encoding="utf-8")), encoding="utf-8")
