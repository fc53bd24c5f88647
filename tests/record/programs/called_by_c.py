# ruff: noqa
"""Numbers that vary in frames that C code calls: an exit there has the whole instruction executed once more."""


# %% numbers_in_generators_that_c_drives: long; change n = 2**62; undo n = step = 0.5
def f(items, n):
    total = sum(x * n for x in items)
    some = any(x * n > 3 for x in items), all(x + n > 0 for x in items)
    return (
        total,
        some,
        max(x - n for x in items),
        sorted(items, key=lambda x: -x * n),
        list(map(lambda x: x + n, items)),
    )


n, step = 0, 1


def args():
    global n
    n += step
    return [1, 2, 3], n


# %% numbers_in_methods_that_c_calls: long; n = 0 -> 60 -> 2**62
class Number:
    def __init__(self, value):
        self.value = value

    def __bool__(self):
        return self.value * n > 2

    def __contains__(self, item):
        return item * n == self.value

    def __lt__(self, other):
        return self.value * n < other.value

    def __getattr__(self, name):
        if n * 2 > 100:
            raise AttributeError(name)
        return n + 1

    def __iter__(self):
        return iter([self.value, n + 1])


def f(n):
    a, b = Number(1), Number(4)
    return bool(a), not b, 2 in b, a < b, getattr(a, "x", "default"), hasattr(b, "y"), list(a), min(a, b) is a


def call():
    global n
    n += 1
    return f(n)


# %% writes_in_frames_that_c_calls: long stops; n = 0 -> 2**62 -> 0.5
written, table = [], {}


def key(x):
    written.append(x)
    table[x] = n
    return -x * n


def numbers():
    for x in (1, 2, 3):
        table["last"] = x
        yield x * n


class Marked:
    def __bool__(self):
        written.append("bool")
        return n * 2 > 5


def f(n):
    out = sorted([1, 2, 3], key=key), sum(numbers()), max(numbers())
    out += (1 if Marked() else 2, n + 1)
    seen = list(written), dict(table)
    written.clear()
    return out, seen


def call():
    global n
    n += 1
    return f(n)


# %% fresh_containers_written_before_c_code_is_left: f(len(k)); k = "1" -> "four" -> "."
import collections


class Box:
    def __init__(self, value):
        self.value = value


def f(a):
    made, table, queue, box = [[a]], {"first": [a], "second": [2]}, collections.deque([[a], [3]]), Box([a])
    kept, many, cell = made[0], {a, "x"}, [a]

    def key(i):
        nonlocal cell
        made.append([a, i])
        made.pop(0)
        table[i] = [i]
        del table["second" if "second" in table else i]
        queue.append([i])
        queue.popleft()
        many.add(i)
        many.discard("x")
        box.value, box.other = [i, kept], [box.value]
        cell = [cell, i]
        print("key", i, end=k)
        return -i

    found = sorted([a, 2, 5], key=key)
    made.append(kept)
    return found, made, kept, table, queue, sorted(map(str, many)), box, cell
