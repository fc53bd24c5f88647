# ruff: noqa
"""except*: groups that are matched in part, split, derived and raised again."""


# %% group_partly_matched: f(1)
def f(x):
    seen = []
    try:
        try:
            raise ExceptionGroup("g", [ValueError(x), TypeError(x + 1), KeyError(x)])
        except* ValueError as group:
            seen.append(group)
        except* (TypeError, OSError) as group:
            seen.append(group.exceptions)
    except ExceptionGroup as rest:
        seen.append(rest)
    return seen


# %% group_wholly_matched: f(1)
def f(x):
    seen = []
    try:
        raise ExceptionGroup("g", [ValueError(x), ExceptionGroup("inner", [ValueError(x + 1)])])
    except* ValueError as group:
        seen.append(len(group.exceptions))
    except* TypeError:
        seen.append("never")
    seen.append(x)
    return seen


# %% group_nested: f(2)
def made(x):
    try:
        raise OSError(x)
    except OSError as error:
        inner = ExceptionGroup("inner", [error, TypeError(x)])
        inner.add_note("a note")
        return ExceptionGroup("outer", [inner, ValueError(x)])


def f(x):
    try:
        try:
            raise made(x)
        except* OSError as group:
            first = group
        before = x
    except ExceptionGroup as rest:
        return first, rest


# %% naked_exception_is_wrapped: f(1)
def f(x):
    seen = []
    for kind in (ValueError, KeyError):
        try:
            raise kind(x)
        except* ValueError as group:
            seen.append(group)
        except* LookupError as group:
            seen.append((repr(group), group.exceptions))
    return seen


# %% naked_exception_not_matched: f(1)
def f(x):
    try:
        try:
            raise ValueError(x)
        except* OSError:
            x += 1
    except ValueError as error:
        return error


# %% raised_in_except_star: f(1)
def f(x):
    try:
        try:
            raise ExceptionGroup("g", [ValueError(x), TypeError(x), OSError(x)])
        except* ValueError:
            raise KeyError("raised")
        except* TypeError:
            raise
    except ExceptionGroup as group:
        return group


# %% group_of_a_class_with_derive: stops; f(1)
class Group(ExceptionGroup):
    def __new__(cls, message, exceptions, code):
        made = super().__new__(cls, message, exceptions)
        made.code = code
        return made

    def derive(self, exceptions):
        return Group(self.message, exceptions, self.code + 1)


def f(x):
    try:
        try:
            raise Group("g", [ValueError(x), TypeError(x)], x)
        except* ValueError as group:
            first = group, group.code
    except Group as rest:
        return first, rest, rest.code


def change():
    Group.derive = lambda self, exceptions: Group("other", exceptions, 0)


# %% no_exception_with_except_star: f(1)
def f(x):
    try:
        value = x + 1
    except* ValueError:
        value = 0
    else:
        value += 1
    finally:
        value += 10
    return value


# %% except_star_in_a_caller: f(2)
def inner(items, x):
    for item in items:
        try:
            raise ExceptionGroup("in", [ValueError(item), KeyError(item)])
        except* KeyError as group:
            x.append(len(group.exceptions))


def f(n):
    seen = []
    try:
        inner(range(n), seen)
    except* ValueError as group:
        seen.append(group)
    return seen


# %% except_star_of_wrong_classes: f(kind); kind = 1 -> ExceptionGroup
def f(kind):
    try:
        try:
            raise ExceptionGroup("g", [ValueError(1)])
        except* kind:
            kind = None
    except TypeError as error:
        return str(error), error.__context__


# %% groups_split_by_several_clauses: f(1); k = 2 -> 3
class Mine(ValueError):
    pass


def leaf(kind, x):
    try:
        raise kind(x)
    except kind as error:
        return error


def f(x):
    seen = []
    inner = ExceptionGroup("inner", [leaf(Mine, x), leaf(KeyError, x), OSError(x)])
    inner.add_note("of the inner one")
    try:
        try:
            group = ExceptionGroup("outer", (inner, TypeError(x), leaf(ValueError, k)))
            group.add_note("a note")
            group.add_note("another")
            raise group from inner
        except* Mine as part:
            seen.append(part)
        except* (LookupError, TypeError) as part:
            seen.append((part, part.exceptions, part.message, part.__suppress_context__))
    except ExceptionGroup as rest:
        same = rest.__traceback__.tb_next is seen[0].__traceback__.tb_next
        return seen, rest, rest.__notes__ is group.__notes__, same, group.exceptions is group.args[1]


# %% groups_of_other_exceptions: f(1); k = 2 -> 3
def f(x):
    seen = []
    for kind in (KeyboardInterrupt, ValueError, SystemExit):
        try:
            try:
                raise BaseExceptionGroup("g", [kind(x), TypeError(k)])
            except* (KeyboardInterrupt, SystemExit) as group:
                seen.append((type(group), group.exceptions[0].args))
            except* ValueError as group:
                seen.append(type(group))
        except BaseExceptionGroup as rest:
            seen.append(type(rest))
            seen.append(rest.exceptions[0].__context__)
    return seen


# %% groups_raised_again_and_anew: f(how); how = 1 -> 3; undo how = 2; undo k = 2
def f(how):
    seen = []
    try:
        try:
            raise ExceptionGroup("g", [ValueError(k), TypeError(k), KeyError(k), OSError(k)])
        except* ValueError as group:
            if how % 2:
                raise
            seen.append(group.exceptions)
        except* TypeError as group:
            if how % 3 == 0:
                raise group
            raise RuntimeError(how) from group
        except* KeyError:
            if how == 3:
                raise
    except ExceptionGroup as rest:
        seen.append(rest)
        parts = rest.exceptions
        seen.append([(type(part), part.args, part.__context__, part.__cause__) for part in parts])
    return seen


k = 1


# %% groups_all_handled_in_turn: f(1); k = 2 -> 3
def g(x):
    try:
        raise ExceptionGroup("g", [ValueError(x), TypeError(k)])
    except* ValueError:
        try:
            raise KeyError(x)
        except* KeyError as inner:
            return_value = type(inner.exceptions[0].__context__), inner.__context__
    except* TypeError as group:
        return_value += (group.exceptions[0].args, group.__context__)
    return return_value


def f(x):
    first = g(x)
    try:
        raise OSError(x)
    except OSError:
        return first, g(x)


# %% groups_of_own_classes_split: f(kind); change kind = Derives; k = 1 -> 2; undo kind = Splits
class Group(ExceptionGroup):
    pass


class Derives(ExceptionGroup):
    def derive(self, exceptions):
        return Derives(self.message + "!", exceptions)


class Splits(ExceptionGroup):
    def split(self, condition):
        return None, self


def f(kind):
    seen = []
    try:
        try:
            raise kind("g", [ValueError(k), TypeError(k)])
        except* ValueError as group:
            seen.append(group)
    except ExceptionGroup as rest:
        seen.append(rest)
    return seen


kind = Group


# %% groups_of_a_class_whose_bases_change: f(1); change C.__bases__ = (B,); undo C.__bases__ = (A,)
class A(Exception):
    pass


class B(Exception):
    pass


class C(A):
    pass


def f(x):
    seen = []
    try:
        raise ExceptionGroup("g", [C(x), B(x)])
    except* A as group:
        seen.append(("A", group.exceptions))
    except* B as group:
        seen.append(("B", group.exceptions))
    return seen


# %% groups_whose_split_gives_more_than_a_pair: f(1); kind = TypeError -> ValueError -> KeyError
class Splits(ExceptionGroup):
    def split(self, condition):
        return (*super().split(condition), "and more")


def f(x):
    seen = []
    try:
        try:
            raise Splits("g", [ValueError(x), kind(x)])
        except* ValueError as group:
            seen.append(group)
    except ExceptionGroup as rest:
        seen.append(rest)
    return seen


# %% groups_of_a_sequence_that_changes: f(1); kind = TypeError -> ValueError -> TypeError
from collections import deque


def f(x):
    seen = []
    for errors in ([ValueError(x)], deque([ValueError(x), kind(x)])):
        try:
            group = ExceptionGroup("g", errors)
            errors.append(KeyError(x))
            raise group
        except* ValueError as part:
            seen.append((part, repr(part), repr(group)))
        except* TypeError as part:
            seen.append(repr(part))
    return seen


# %% group_that_is_known_elsewhere: stops; f(1); k = 2 -> 3
kept = []


def note(group):
    kept.append(group)
    group.__notes__ = ["noted"]


def f(x):
    kept.clear()
    seen = []
    try:
        try:
            group = ExceptionGroup("g", [ValueError(x), TypeError(k)])
            print(group)
            note(group)
            raise group
        except* ValueError as part:
            seen.append(part)
            seen.append(part.__notes__ is group.__notes__)
    except ExceptionGroup as rest:
        seen.append(rest)
    return seen, kept[0] is group


# %% groups_that_leave_frames: f(k); k = 2 -> 3
def g(x, kinds):
    try:
        raise ExceptionGroup("g", [kind(x) for kind in kinds])
    except* ValueError:
        x += 1
    except* KeyError as group:
        h(group)
    return x


def h(group):
    raise group


def f(x):
    seen = []
    for kinds in ((ValueError,), (ValueError, TypeError), (KeyError, OSError), (KeyError,)):
        try:
            seen.append(g(x, kinds))
        except* TypeError as group:
            seen.append(group)
        except* (KeyError, OSError) as group:
            seen.append((group, group.__context__))
    return seen


# %% contexts_in_nested_handlers: f(4); k = 2 -> 9 -> 3
def g(n):
    raise KeyError(n) if n > k else ValueError(n)


def f(n):
    seen = []
    try:
        g(n)
    except LookupError as first:
        seen.append(first.__context__)
        try:
            g(-n)
        except ValueError as second:
            seen.append((second.__context__ is first, second.__cause__))
            try:
                raise TypeError from first
            except TypeError as third:
                seen.append((third.__context__ is second, third.__cause__ is first, third.args))
        try:
            int(n / 0)
        except ArithmeticError as fourth:
            seen.append(fourth.__context__ is first)
    except ValueError as error:
        seen.append(error.__context__)
    return seen


def call():
    try:
        raise OSError(k)
    except OSError:
        if k == 9:
            return f(4)
    return f(4)


# %% except_star_of_what_others_raise: leaves; f(name); name = "/nowhere" -> "/nowhere/else"
def f(name):
    seen = []
    try:
        try:
            open(name)
        except* KeyError:
            seen.append("key")
    except OSError as error:
        seen.append(type(error).__name__)
    try:
        int(name)
    except* ValueError as group:
        seen.append(repr(group))
    return seen


# %% except_star_lets_others_pass: stops; k = 1 -> 2
def f(given):
    try:
        raise ExceptionGroup("g", [given])
    except* KeyError:
        pass


def call():
    try:
        return f(ExceptionGroup("h", [ValueError(k)]))
    except ExceptionGroup as error:
        return error
