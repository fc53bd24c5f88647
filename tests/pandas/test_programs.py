"""Frames in globals, in objects, under changed classes and filters; and a pipeline from a file to a model."""

from __future__ import annotations

import threading
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

import pijit

TABLE = pd.DataFrame({"a": [1.0, 2.0, 3.0], "b": [3, 2, 1]})


def of_global(x: float) -> Any:
    return TABLE["a"] * x + TABLE["b"]


def test_a_global_frame_changes(outcome: Callable[..., Any], monkeypatch: pytest.MonkeyPatch) -> None:
    jitted = pijit.jit(of_global)
    for table in (TABLE, TABLE.copy(), TABLE.astype("float32"), TABLE.rename(columns={"b": "c"}), TABLE):
        monkeypatch.setitem(globals(), "TABLE", table.copy())
        for _ in range(2):
            assert outcome(jitted, 2.0) == outcome(of_global, 2.0)
            TABLE.loc[0, "a"] = 7.0  # the same object holds something else


class Store:
    """Frames kept in state."""

    def __init__(self) -> None:
        self.table = pd.DataFrame({"a": [0.0, 1.0]})

    def add(self, rows: Any) -> Any:
        self.table = pd.concat([self.table, rows], ignore_index=True)
        self.table["b"] = self.table["a"].cumsum()
        return self.table["b"].sum()


def test_frames_in_state(outcome: Callable[..., Any]) -> None:
    plain, jitted = Store(), Store()
    add = pijit.jit(jitted.add)
    for size in (1, 2, 2, 3, 0, 2):
        rows = pd.DataFrame({"a": np.arange(size) * 1.5})
        assert outcome(add, rows) == outcome(plain.add, rows)
        pd.testing.assert_frame_equal(plain.table, jitted.table)


def doubled(f: Any) -> Any:
    return (f["a"] * 2).clip(0, 3), f["a"].sum()


@pytest.mark.parametrize("name", ["__mul__", "clip", "sum"])
def test_a_method_of_the_program(name: str, outcome: Callable[..., Any], monkeypatch: pytest.MonkeyPatch) -> None:
    jitted, calls = pijit.jit(doubled), []
    for _ in range(3):
        assert outcome(jitted, TABLE) == outcome(doubled, TABLE)
    own = getattr(pd.Series, name)

    def told(self: Any, *args: Any, **named: Any) -> Any:
        calls.append(name)
        return own(self, *args, **named)

    monkeypatch.setattr(pd.Series, name, told)
    for count in range(1, 4):
        assert outcome(jitted, TABLE) == outcome(doubled, TABLE)
        assert len(calls) == 2 * count
    monkeypatch.undo()
    assert outcome(jitted, TABLE) == outcome(doubled, TABLE)
    assert len(calls) == 6


def test_an_attribute_hides_a_method(outcome: Callable[..., Any]) -> None:
    jitted = pijit.jit(doubled)
    for _ in range(2):
        assert outcome(jitted, TABLE) == outcome(doubled, TABLE)
    table = TABLE.copy()
    object.__setattr__(table, "groupby", 1)
    assert outcome(jitted, table) == outcome(doubled, table)


def test_what_nothing_uses_raises(outcome: Callable[..., Any]) -> None:
    def asks(f: Any) -> Any:
        f["b"]
        f.merge(f, on="a")
        return len(f)

    jitted = pijit.jit(asks)
    for table in (TABLE, TABLE, TABLE.drop(columns="b"), TABLE.rename(columns={"a": "c"}), TABLE):
        assert outcome(jitted, table) == outcome(asks, table)


def test_a_variable_keeps_what_it_shares(outcome: Callable[..., Any]) -> None:
    """A write copies while a variable holds a column, whether or not that is used again."""

    def held(f: Any) -> Any:
        column = f["a"]
        array = column.to_numpy()
        f.loc[0, "a"] = 5.0
        return array

    def not_held(f: Any) -> Any:
        array = f["a"].to_numpy()
        f.iloc[0, 0] = 5.0
        return array

    for function in (held, not_held):
        jitted = pijit.jit(function)
        for _ in range(4):
            assert outcome(jitted, TABLE.copy()) == outcome(function, TABLE.copy())


def test_dates_and_missing_values(outcome: Callable[..., Any]) -> None:
    def dated(f: Any, since: Any) -> Any:
        late = f[f["when"] >= since]
        day = since.normalize() + pd.Timedelta(days=1)
        ages = (since - f["when"]).dt.days
        return (
            late,
            day,
            since.year,
            ages,
            f["when"].dt.month,
            since.strftime("%Y"),
            f["when"].isna() | (f["n"] == pd.NA),
        )

    jitted = pijit.jit(dated)
    when = pd.Series(pd.date_range("2024-01-30", periods=4, freq="D"))
    table = pd.DataFrame({"when": when, "n": pd.array([1, None, 3, 4], dtype="Int64")})
    holes = table.assign(when=table["when"].where(table["n"] > 1))
    for given in (table, holes, table[1:], table.assign(when=when.dt.tz_localize("UTC"))):
        for since in (pd.Timestamp("2024-01-31"), pd.Timestamp("2024-02-01 12:00"), pd.NaT):
            assert outcome(jitted, given, since) == outcome(dated, given, since)


def logs(f: Any) -> Any:
    return np.log(f["a"]).sum()


def test_warnings_name_the_line(outcome: Callable[..., Any]) -> None:
    jitted = pijit.jit(logs)
    for low in (1.0, -1.0, 2.0, -2.0, 0.0):
        table = pd.DataFrame({"a": [low, 1.0]})
        assert outcome(jitted, table) == outcome(logs, table)
    before = list(warnings.filters)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert outcome(jitted, table) == outcome(logs, table)
    assert warnings.filters == before


def test_a_mask_of_another_index_warns(outcome: Callable[..., Any]) -> None:
    def picked(f: Any, mask: Any) -> Any:
        return f[mask]

    jitted = pijit.jit(picked)
    mask = TABLE["a"] > 1
    for each in (mask, mask[::-1], mask, mask.iloc[:2], mask.to_numpy(), mask.tolist()):
        assert outcome(jitted, TABLE, each) == outcome(picked, TABLE, each)


def test_options_are_asked_each_time(outcome: Callable[..., Any]) -> None:
    def shown(f: Any) -> Any:
        return str(f["a"])

    jitted = pijit.jit(shown)
    for digits in (3, 3, 1, 5):
        with pd.option_context("display.precision", digits):
            assert outcome(jitted, TABLE / 3) == outcome(shown, TABLE / 3)


def test_other_threads_warn_as_ever() -> None:
    jitted, told, done = pijit.jit(doubled), [], threading.Event()

    def warn() -> None:
        while not done.is_set():
            try:
                warnings.warn("from beside", UserWarning, stacklevel=1)
            except UserWarning as error:
                told.append(error)

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        beside = threading.Thread(target=warn)
        beside.start()
        results = [jitted(TABLE)[1] for _ in range(300)]
        done.set()
        beside.join()
    assert results == [6.0] * 300
    assert told == []


def csv(path: Path, rows: int, seed: int) -> Path:
    draw = np.random.default_rng(seed)
    table = pd.DataFrame({"region": draw.choice(["north", "south", "east"], rows), "kind": draw.integers(0, 5, rows)})
    table["price"] = draw.normal(20, 8, rows).round(2)
    table["count"] = np.where(draw.random(rows) < 0.1, np.nan, draw.integers(-2, 30, rows))
    table.to_csv(path, index=False)
    return path


def scale(value: float) -> float:
    return value * 0.5 + 1


@pytest.mark.parametrize("reads", [False, True])
def test_a_pipeline_is_recorded_from_end_to_end(tmp_path: Path, reads: bool) -> None:
    torch = pytest.importorskip("torch")
    torch.manual_seed(0)
    model = torch.nn.Sequential(torch.nn.Linear(6, 8), torch.nn.ReLU(), torch.nn.Linear(8, 1)).eval()
    rates = pd.DataFrame({"kind": [0, 1, 2, 3], "rate": [0.1, 0.2, 0.3, 0.4]})

    def pipeline(source: Any) -> Any:
        frame = pd.read_csv(source) if reads else source
        frame = frame[(frame["price"] > 0) & frame["kind"].isin([0, 1, 2, 3])]
        frame = frame.merge(rates, on="kind", how="left").sort_values("price")
        count = frame["count"].fillna(0.0).clip(0, 25)
        price = frame["price"].where(frame["price"] < 35, 35.0)
        total = price * count * (1 - frame["rate"])
        by = total.groupby(frame["region"])
        norm = (total - by.transform("mean")) / (by.transform("max") - by.transform("min") + 1e-6)
        scaled = frame["price"].apply(scale)
        sums = frame.groupby("kind")["count"].sum()
        frame = frame.assign(count=count, price=price, total=total, norm=norm, scaled=scaled)
        x = frame[["price", "count", "rate", "total", "norm", "scaled"]].to_numpy(dtype="float32")
        with torch.no_grad():
            y = model(torch.from_numpy(x))
        frame["score"] = y.numpy()[:, 0]
        return frame, sums, y

    jitted = pijit.jit(pipeline)
    for seed in range(8):
        path = str(csv(tmp_path / "sales.csv", 40 + 10 * (seed % 3), seed))
        source = path if reads else pd.read_csv(path)
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            wanted, got = pipeline(source), jitted(source)
        pd.testing.assert_frame_equal(got[0], wanted[0], check_exact=True)
        pd.testing.assert_series_equal(got[1], wanted[1], check_exact=True)
        assert torch.equal(got[2], wanted[2])
    trace = max(pijit.traces(jitted), key=lambda each: each.replays)
    assert (trace.ends, trace.stop) == ("return", None)
    assert trace.opaque_calls <= 10
    assert trace.replays >= 4
