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
