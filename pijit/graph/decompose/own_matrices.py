"""Decompositions of operators on matrices that torch does not have, in calls of torch.

Each takes the arguments of its operator. What LAPACK does column by column is a few nodes for each column, of which
there may be 32. What it does until nothing changes is a loop of a number of turns that suffices: `while_loop` becomes a
node "while". Vectors of which every library has its own signs are not given.
"""

from collections.abc import Callable, Mapping
from typing import Any

# ---- A few nodes for each column

_LARGEST = 32  # columns


def _columns(x: Any) -> int:
    """Their number, which is fixed thereby."""
    count = int(x.shape[-1])
    if count > _LARGEST or not x.is_floating_point():
        raise NotImplementedError("large matrices")
    return count


def _eliminated(x: Any, right: Any) -> Any:
    """What solves x @ made = right: Gauss and Jordan, with the largest pivot of each column."""
    import torch

    count = _columns(x)
    rows = torch.cat([x, right], -1)
    places = torch.arange(count, device=x.device).unsqueeze(-1)
    for at in range(count):
        column = rows.narrow(-1, at, 1)
        largest = column.abs().masked_fill(places < at, -1.0).argmax(-2, keepdim=True)
        chosen = places == largest  # moves up; what stood there moves down
        pivot = (rows * chosen.to(x.dtype)).sum(-2, keepdim=True)
        upper = rows.narrow(-2, at, 1)
        rows = torch.where(chosen, upper, rows)
        pivot = pivot / pivot.narrow(-1, at, 1)
        rest = rows - rows.narrow(-1, at, 1) * pivot
        rows = torch.where(places == at, pivot, rest)
    return rows.narrow(-1, count, rows.shape[-1] - count)


def _sign_and_log_of_determinant(x: Any) -> Any:
    """Of the pivots of Gauss."""
    import torch

    count = _columns(x)
    places = torch.arange(count, device=x.device).unsqueeze(-1)
    rows, sign, size = x, torch.ones_like(x[..., 0, 0]), torch.zeros_like(x[..., 0, 0])
    for at in range(count):
        largest = rows.narrow(-1, at, 1).abs().masked_fill(places < at, -1.0).argmax(-2, keepdim=True)
        chosen = places == largest
        line = (rows * chosen.to(x.dtype)).sum(-2, keepdim=True)
        rows = torch.where(chosen, rows.narrow(-2, at, 1), rows)
        pivot = line.narrow(-1, at, 1)
        flat = pivot.squeeze(-1).squeeze(-1)
        swapped = (largest != at).squeeze(-1).squeeze(-1)
        sign = sign * flat.sign() * torch.where(swapped, -1.0, 1.0).to(x.dtype)
        size = size + flat.abs().log()
        factors = rows.narrow(-1, at, 1) / torch.where(pivot == 0, 1.0, pivot)
        rows = torch.where(places > at, rows - factors * line, rows)
    return sign, size, None, None


def _inverse(x: Any) -> Any:
    import torch

    return _eliminated(x, torch.eye(_columns(x), dtype=x.dtype, device=x.device).expand_as(x))


def _inverse_and_info(x: Any, check_errors: bool = False) -> Any:
    return _inverse(x), None


def _solve(x: Any, right: Any, left: bool = True) -> Any:
    if not left:
        return _solve(x.mT, right.mT).mT
    sizes = zip(reversed(right.shape), reversed(x.shape[:-1]), strict=False)  # the last first: it tells most often
    if right.dim() == 1 or (right.dim() == x.dim() - 1 and all(one == other for one, other in sizes)):
        return _solve(x, right.unsqueeze(-1)).squeeze(-1)
    return _eliminated(*_of_one_batch(x, right))


def _of_one_batch(x: Any, y: Any) -> Any:
    """Matrices, with as many in either."""
    import torch

    if x.dim() == 2 and y.dim() == 2:
        return x, y
    batch = torch.broadcast_shapes(x.shape[:-2], y.shape[:-2])  # type: ignore[no-untyped-call]
    return tuple(each.expand(*batch, *each.shape[-2:]) for each in (x, y))


def _cholesky(x: Any, upper: bool = False) -> Any:
    import torch

    count = _columns(x)
    places = torch.arange(count, device=x.device).unsqueeze(-1)
    columns = []
    rest = x
    for at in range(count):
        column = rest.narrow(-1, at, 1)
        column = column / column.narrow(-2, at, 1).sqrt()
        column = torch.where(places < at, 0.0, column)
        rest = rest - column @ column.mT
        columns.append(column)
    made = torch.cat(columns, -1)
    return made.mT if upper else made


def _qr(x: Any, mode: str = "reduced") -> Any:
    """By Householder's reflections, with the signs of LAPACK."""
    import torch

    columns, rows = _columns(x), _columns(x.mT)
    count = min(rows, columns)
    places = torch.arange(rows, device=x.device).unsqueeze(-1)
    turned, upper = torch.eye(rows, dtype=x.dtype, device=x.device).expand(*x.shape[:-1], rows), x
    for at in range(min(count, rows - 1)):
        column = torch.where(places < at, 0.0, upper.narrow(-1, at, 1))
        head = column.narrow(-2, at, 1)
        length = (column * column).sum(-2, keepdim=True).sqrt()
        sign = torch.where(head < 0, -1.0, 1.0)
        tail = (column * (places > at).to(x.dtype)).abs().sum(-2, keepdim=True)
        mirror = torch.where(places == at, head + sign * length, column)
        norm = (mirror * mirror).sum(-2, keepdim=True)
        factor = torch.where(tail == 0, 0.0, 2 / torch.where(norm == 0, 1.0, norm))
        upper = upper - factor * mirror @ (mirror.mT @ upper)
        turned = turned - factor * (turned @ mirror) @ mirror.mT
    if mode == "r":
        return torch.zeros(0, dtype=x.dtype, device=x.device), upper.narrow(-2, 0, count).triu()
    kept = rows if mode == "complete" else count
    return turned.narrow(-1, 0, kept), upper.narrow(-2, 0, kept).triu()


def _triangular(x: Any, right: Any, upper: bool, left: bool, unit: bool) -> Any:
    import torch

    if not left:
        return _triangular(x.mT, right.mT, not upper, True, unit).mT
    x = x.triu() if upper else x.tril()
    if unit:
        eye = torch.eye(_columns(x), dtype=x.dtype, device=x.device)
        x = x * (1 - eye) + eye
    return _solve(x, right)


def _solve_triangular(x: Any, right: Any, *, upper: bool, left: bool = True, unitriangular: bool = False) -> Any:
    return _triangular(x, right, upper, left, unitriangular)


def _triangular_solve(right: Any, x: Any, upper: bool = True, transpose: bool = False, unit: bool = False) -> Any:
    made = _triangular(x.mT, right, not upper, True, unit) if transpose else _triangular(x, right, upper, True, unit)
    return made, x


def _lu_factors(x: Any) -> tuple[Any, Any, Any]:
    """Both triangles in one array, with which row each has changed places (from 1 on), and the order of rows."""
    import torch

    rows_, columns_ = _columns(x.mT), _columns(x)
    places = torch.arange(rows_, device=x.device).unsqueeze(-1)
    across = torch.arange(columns_, device=x.device)
    order = places.expand(*x.shape[:-1], 1)
    pivots = []
    for at in range(min(rows_, columns_)):
        largest = x.narrow(-1, at, 1).abs().masked_fill(places < at, -1.0).argmax(-2, keepdim=True)

        def changed(each: Any, largest: Any = largest, at: int = at) -> Any:
            lower = each.gather(-2, largest.expand(*largest.shape[:-1], each.shape[-1]))
            each = torch.where(places == largest, each.narrow(-2, at, 1), each)
            return torch.where(places == at, lower, each)

        x, order = changed(x), changed(order)
        pivots.append(largest.squeeze(-1) + 1)
        pivot = x.narrow(-2, at, 1).narrow(-1, at, 1)
        factors = x.narrow(-1, at, 1) / torch.where(pivot == 0, 1.0, pivot)
        below = places > at
        x = torch.where(below & (across > at), x - factors * x.narrow(-2, at, 1), x)
        x = torch.where(below & (across == at), factors, x)
    return x, torch.cat(pivots, -1).to(torch.int32), order


def _lu(x: Any, *, pivot: bool = True) -> Any:
    import torch

    if not pivot:
        raise NotImplementedError("without pivots")
    both, _, order = _lu_factors(x)
    count = min(x.shape[-2], x.shape[-1])
    turned = (torch.arange(x.shape[-2], device=x.device).unsqueeze(-1) == order.mT).to(x.dtype)
    unit = torch.eye(x.shape[-2], dtype=x.dtype, device=x.device).narrow(-1, 0, count)
    return turned, both.narrow(-1, 0, count).tril(-1) + unit, both.narrow(-2, 0, count).triu()


def _lu_factor(x: Any, *, pivot: bool = True) -> Any:
    if not pivot:
        raise NotImplementedError("without pivots")
    return _lu_factors(x)[:2]


# ---- Until nothing changes

_SWEEPS = 10  # of Jacobi; six or seven suffice for 32 columns of float32


def _turns(count: Any, body: Callable[..., Any], carried: tuple[Any, ...]) -> tuple[Any, ...]:
    """What is carried after so many turns; the number is an array without axes."""
    import torch
    from torch._higher_order_ops.while_loop import while_loop_op

    def going(at: Any, end: Any, *now: Any) -> Any:
        return at < end

    def turn(at: Any, end: Any, *now: Any) -> Any:
        return (at + 1, end.clone(), *body(*now))

    start = torch.zeros((), dtype=torch.int64, device=count.device)
    return tuple(while_loop_op(going, turn, (start, count, *carried), ())[2:])


def along(body: Callable[..., Any], start: Any, given: tuple[Any, ...]) -> Any:
    """What `body` makes of a tensor, turn by turn, given the number of the turn and other tensors.

    There is a turn for each item of the first of these but the first.
    """
    import torch
    from torch._higher_order_ops.while_loop import while_loop_op

    def going(at: Any, now: Any, *given: Any) -> Any:
        return at < given[0].shape[0]

    def turn(at: Any, now: Any, *given: Any) -> Any:
        return at + 1, body(at, now, *given)

    first = torch.ones((), dtype=torch.int64, device=start.device)
    carried: Any = (first, start)
    return while_loop_op(going, turn, carried, given)[1]


def _orthogonal(x: Any) -> tuple[Any, Any]:
    """The matrices with columns turned until they are orthogonal, and what turns them: Jacobi's method of one side.

    Each turn takes all columns in pairs, the first with the last, and has the others meet in the next one.
    """
    import torch

    count = _columns(x)
    turned = torch.eye(count, dtype=x.dtype, device=x.device).expand(*x.shape[:-2], count, count)
    if count == 1:
        return x, turned
    if count % 2:
        x = torch.cat([x, torch.zeros_like(x.narrow(-1, 0, 1))], -1)
        turned = torch.cat([turned, torch.zeros_like(turned.narrow(-1, 0, 1))], -1)
    wide = count + count % 2
    half = wide // 2

    def pairs(each: Any) -> tuple[Any, Any]:
        return each.narrow(-1, 0, half), each.narrow(-1, half, half).flip(-1)

    def met(first: Any, last: Any) -> Any:
        """In the order of the next turn: the first column stays."""
        every = torch.cat([first, last.flip(-1)], -1)
        return torch.cat([every.narrow(-1, 0, 1), every.narrow(-1, wide - 1, 1), every.narrow(-1, 1, wide - 2)], -1)

    def turn(x: Any, turned: Any) -> tuple[Any, Any]:
        first, last = pairs(x)
        product = (first * last).sum(-2, keepdim=True)
        apart = (last * last).sum(-2, keepdim=True) - (first * first).sum(-2, keepdim=True)
        ratio = apart / (2 * torch.where(product == 0, 1.0, product))
        tangent = torch.where(ratio < 0, -1.0, 1.0) / (ratio.abs() + (1 + ratio * ratio).sqrt())
        tangent = torch.where(product == 0, 0.0, tangent)
        cosine = 1 / (1 + tangent * tangent).sqrt()
        sine = cosine * tangent
        made = []
        for one, other in (pairs(x), pairs(turned)):
            made.append(met(cosine * one - sine * other, sine * one + cosine * other))
        return made[0], made[1]

    turns = torch.tensor(_SWEEPS * (wide - 1), device=x.device)
    x, turned = _turns(turns, turn, (x, turned.contiguous()))
    return x, turned


def _singular_values(x: Any, *, driver: str | None = None) -> Any:
    x = x.mT if x.shape[-1] > x.shape[-2] else x
    count = x.shape[-1]
    values = (_orthogonal(x)[0] ** 2).sum(-2).sqrt()
    return values.sort(-1, descending=True)[0].narrow(-1, 0, count)


def _svd(x: Any, full_matrices: bool = False, compute_uv: bool = True, *, driver: str | None = None) -> Any:
    return None, _singular_values(x), None


def _eigenvalues(x: Any, triangle: str = "L", compute_v: bool = True) -> Any:
    """Of a matrix with as much on its diagonal that none is negative: these are its singular values."""
    import torch

    lower = x.tril(-1) if triangle == "L" else x.triu(1)
    x = torch.diag_embed(x.diagonal(0, -2, -1)) + lower + lower.mT
    more = (x * x).sum((-2, -1)).sqrt().unsqueeze(-1)
    values = _singular_values(x + torch.diag_embed(more.expand(x.shape[:-1])))
    return (values - more).flip(-1), None


def _pseudo_inverse(x: Any, *, atol: Any = None, rtol: Any = None, hermitian: bool = False) -> Any:
    import torch

    if x.shape[-1] > x.shape[-2]:
        return _pseudo_inverse(x.mT, atol=atol, rtol=rtol).mT
    turned, by = _orthogonal(x)
    square = (turned * turned).sum(-2, keepdim=True)
    values = square.sqrt()
    if rtol is None:
        rtol = 0.0 if atol is not None else torch.finfo(x.dtype).eps * max(x.shape[-2], x.shape[-1])
    least = values.amax(-1, keepdim=True) * _of_matrices(rtol)
    least = least if atol is None else torch.maximum(least, _of_matrices(atol).expand_as(least))
    inverse = torch.where(values > least, 1 / torch.where(square == 0, 1.0, square), 0.0)
    return (by * inverse) @ turned.mT


def _of_matrices(number: Any) -> Any:
    return number.unsqueeze(-1).unsqueeze(-1) if hasattr(number, "unsqueeze") else number


_TERMS = 12  # of the series of exp, up to a half


def _exponential(x: Any) -> Any:
    """Of x / 2**n, squared n times."""
    import torch

    if not x.is_floating_point():
        raise NotImplementedError("of these")
    size = x.abs().sum(-1).amax()
    halvings = torch.where(size > 0, size, 1.0).log2().ceil() + 1
    halvings = halvings.clamp(0, 64).to(torch.int64)
    x = x / (2.0**halvings).to(x.dtype)
    eye = torch.eye(x.shape[-1], dtype=x.dtype, device=x.device)
    made = eye.expand_as(x)
    for term in range(_TERMS, 0, -1):
        made = eye + x @ made / term
    return _turns(halvings, lambda each: (each @ each,), (made,))[0]


# ---- Whole numbers


def _greatest_divisor(x: Any, y: Any) -> Any:
    """Of Euclid."""
    import torch
    from torch._higher_order_ops.while_loop import while_loop_op

    x, y = torch.broadcast_tensors(x, y)  # type: ignore[no-untyped-call]
    dtype = torch.result_type(x, y)

    def going(x: Any, y: Any) -> Any:
        return (y != 0).any()

    def turn(x: Any, y: Any) -> Any:
        done = y == 0
        return torch.where(done, x, y), torch.where(done, y, x.remainder(torch.where(done, 1, y)))

    given = tuple(each.to(torch.int64).abs() for each in (x, y))
    return while_loop_op(going, turn, given, ())[0].to(dtype)


def _least_multiple(x: Any, y: Any) -> Any:
    import torch

    divisor = _greatest_divisor(x, y)
    made = x.abs().div(torch.where(divisor == 0, 1, divisor), rounding_mode="trunc") * y.abs()
    return made.to(divisor.dtype)


# By the paths of the operators.
MATRICES: Mapping[str, Callable[..., Any]] = {
    "torch.ops.aten._linalg_slogdet.default": _sign_and_log_of_determinant,
    "torch.ops.aten.linalg_inv.default": _inverse,
    "torch.ops.aten.inverse.default": _inverse,
    "torch.ops.aten.linalg_inv_ex.default": _inverse_and_info,
    "torch.ops.aten.linalg_solve.default": _solve,
    "torch.ops.aten.linalg_cholesky.default": _cholesky,
    "torch.ops.aten.cholesky.default": _cholesky,
    "torch.ops.aten.linalg_qr.default": _qr,
    "torch.ops.aten.linalg_solve_triangular.default": _solve_triangular,
    "torch.ops.aten.triangular_solve.default": _triangular_solve,
    "torch.ops.aten.linalg_lu.default": _lu,
    "torch.ops.aten.linalg_lu_factor.default": _lu_factor,
    "torch.ops.aten._linalg_svd.default": _svd,
    "torch.ops.aten.linalg_svdvals.default": _singular_values,
    "torch.ops.aten._linalg_eigh.default": _eigenvalues,
    "torch.ops.aten.linalg_pinv.atol_rtol_tensor": _pseudo_inverse,
    "torch.ops.aten.linalg_matrix_exp.default": _exponential,
    "torch.ops.aten.gcd.default": _greatest_divisor,
    "torch.ops.aten.lcm.default": _least_multiple,
}
