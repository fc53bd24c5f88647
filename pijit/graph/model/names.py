"""Names for the values of a graph, each once."""


class Names:
    """Those that are taken.

    Args:
        taken: from the start.
    """

    def __init__(self, taken: set[str] | None = None) -> None:
        self.taken = set() if taken is None else taken
        self._counts: dict[str, int] = {}  # of names that begin with a word

    def fresh(self, word: str) -> str:
        """The word, or if it is taken the word with a number."""
        name, count = word, self._counts.get(word, 0)
        while name in self.taken:
            count += 1
            name = f"{word}_{count}"
        self.taken.add(name)
        self._counts[word] = count
        return name
