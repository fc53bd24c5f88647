"""Refuses to be imported where the native modules are missing: in a source directory without a build, for example.

`import pijit` is an ImportError then that says what to type. `python -m pijit` imports the package first, too: the
subcommand `doctor` prints its checks, anything else the text of that error, and the process ends.
"""

import sys

from pijit import _built, _installation


def _refuse(text: str) -> None:
    """The import ends here: with an error, or under `python -m pijit` with what was asked for."""
    words = sys.orig_argv
    at = next((i for i, word in enumerate(words) if word in {"-m", "-mpijit"}), len(words))
    rest = words[at + 1 + (words[at : at + 1] == ["-m"]) :]
    as_command = sys.argv[:1] == ["-m"] and (words[at : at + 2] == ["-m", "pijit"] or words[at : at + 1] == ["-mpijit"])
    if as_command and rest[:1] == ["doctor"]:
        print("\n".join(map(str, _installation.checks())))
    elif as_command:
        print(f"pijit: {text}", file=sys.stderr)
    else:
        raise ImportError(text, name="pijit._core")
    sys.exit(1)


if text := _built.missing_text():
    _refuse(text)
