# ruff: noqa
"""except*: groups that are matched in part, split, derived and raised again."""


# %% group_partly_matched
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


def args():
    return (1,)


# %% group_wholly_matched
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


def args():
    return (1,)


# %% group_nested
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


def args():
    return (2,)


# %% naked_exception_is_wrapped
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


def args():
    return (1,)


# %% naked_exception_not_matched
def f(x):
    try:
        try:
            raise ValueError(x)
        except* OSError:
            x += 1
    except ValueError as error:
        return error


def args():
    return (1,)


# %% raised_in_except_star
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


def args():
    return (1,)


# %% group_of_a_class_with_derive: stops
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


def args():
    return (1,)


def change():
    Group.derive = lambda self, exceptions: Group("other", exceptions, 0)


# %% no_exception_with_except_star
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


def args():
    return (1,)


# %% except_star_in_a_caller
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


def args():
    return (2,)


# %% except_star_of_wrong_classes
def f(kind):
    try:
        try:
            raise ExceptionGroup("g", [ValueError(1)])
        except* kind:
            kind = None
    except TypeError as error:
        return str(error), error.__context__


kind = 1


def args():
    return (kind,)


def change():
    global kind
    kind = ExceptionGroup


# %% groups_split_by_several_clauses
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


def args():
    return (1,)


k = 2


def change():
    global k
    k = 3


# %% groups_of_other_exceptions
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


def args():
    return (1,)


k = 2


def change():
    global k
    k = 3


# %% groups_raised_again_and_anew
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


def args():
    return (how,)


how = 1
k = 1


def change():
    global how
    how = 3


def undo():
    global how, k
    how = 2
    k = 2


# %% groups_all_handled_in_turn
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


def args():
    return (1,)


k = 2


def change():
    global k
    k = 3


# %% groups_of_own_classes_split
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


def args():
    return (kind,)


k = 1


def change():
    global kind, k
    kind = Derives
    k = 2


def undo():
    global kind
    kind = Splits


# %% groups_of_a_class_whose_bases_change
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


def args():
    return (1,)


def change():
    C.__bases__ = (B,)


def undo():
    C.__bases__ = (A,)


# %% groups_whose_split_gives_more_than_a_pair
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


kind = TypeError


def args():
    return (1,)


def change():
    global kind
    kind = ValueError


def undo():
    global kind
    kind = KeyError


# %% groups_of_a_sequence_that_changes
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


kind = TypeError


def args():
    return (1,)


def change():
    global kind
    kind = ValueError


def undo():
    global kind
    kind = TypeError


# %% group_that_is_known_elsewhere: stops
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


def args():
    return (1,)


k = 2


def change():
    global k
    k = 3


# %% groups_that_leave_frames
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


def args():
    return (k,)


k = 2


def change():
    global k
    k = 3


# %% contexts_in_nested_handlers
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


def args():
    return (4,)


k = 2


def change():
    global k
    k = 9


def undo():
    global k
    k = 3


# %% except_star_of_what_others_raise: leaves
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


def args():
    return (name,)


name = "/nowhere"


def change():
    global name
    name = "/nowhere/else"


# %% except_star_lets_others_pass: stops
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


k = 1


def change():
    global k
    k = 2
