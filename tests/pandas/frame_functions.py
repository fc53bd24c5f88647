"""Small functions over frames of columns a, b, n, key, flag: each shows some of what pandas does."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd

RATES = pd.DataFrame({"n": [0, 1, 2, 3], "rate": [0.1, 0.2, 0.3, 0.4]})
COLUMNS = ["a", "b"]


def arithmetic(f: Any) -> Any:
    x = f["a"] * 2 + f["b"] / (f["n"] + 1) - 1
    return 1 - x, x // 2, x % 3, -x, abs(x), x**2


def comparison(f: Any) -> Any:
    return (f["a"] > 0) & ~(f["b"] <= f["a"]) | (f["n"] == 2), f["key"] == "x"


def masks(f: Any) -> Any:
    return f[f["a"] > 0], f["b"][f["n"] != 1], f.loc[f["a"] < 0, "b"], f[(f["a"] > 0) & f["n"].isin([1, 2])]


def choices(f: Any) -> Any:
    return f["a"].where(f["a"] > 0, 0.0), f["b"].mask(f["a"] > 0), f["a"].clip(-0.5, 0.5), f["n"].clip(1, 2)


def cleaned(f: Any) -> Any:
    g = f.dropna(subset=["b"]).drop_duplicates("n")
    return g, f["b"].fillna(0), f["b"].ffill(), f.fillna({"a": 1.0}), f["b"].isna().sum(), f["n"].fillna(1)


def cast(f: Any) -> Any:
    return (
        f["n"].astype("float32"),
        f["a"].to_numpy(),
        f[["a", "b"]].to_numpy(dtype="float32"),
        f["key"].astype("category"),
    )


def grouped(f: Any) -> Any:
    by = f.groupby("key")
    return by["a"].sum(), by["b"].mean(), by["n"].count(), by["a"].min(), by["a"].max(), by["a"].transform("mean")


def normalised(f: Any) -> Any:
    by = f["a"].groupby(f["key"])
    return (f["a"] - by.transform("mean")) / (by.transform("max") - by.transform("min") + 1e-6)


def aggregated(f: Any) -> Any:
    return f.groupby(["key", "n"], as_index=False).agg({"a": "sum", "b": "mean"}), f.groupby("n").size()


def merged(f: Any) -> Any:
    return f.merge(RATES, on="n", how="left"), f.merge(RATES, on="n"), pd.merge(f, RATES, how="outer", on="n")


def sorts(f: Any) -> Any:
    return (
        f.sort_values("a"),
        f.sort_values(["n", "a"], ascending=[False, True]),
        f["a"].sort_values().head(3),
        f.sort_index(),
    )


def scale(value: Any) -> Any:
    return value * 0.5 + 1


def applied(f: Any) -> Any:
    return f["a"].apply(scale), f["n"].map({0: "zero", 1: "one"}), f[COLUMNS].apply(np.sqrt)


def assigned(f: Any) -> Any:
    g = f.assign(c=f["a"] * 2)
    g["d"] = g["c"] + g["b"]
    g.loc[g["a"] > 0, "d"] = 0.0
    g["e"] = np.arange(len(g))
    del g["c"]
    return g


def written(f: Any) -> Any:
    f["c"] = f["a"] * 2
    f["a"] = f["a"].fillna(0)
    f["n"] += 1
    return f["c"].sum()


def shared(f: Any) -> Any:
    column = f["a"]
    array = column.to_numpy()
    copy = f.copy()
    f.iloc[0, 0] = 100.0
    return column, array, copy, f


def in_place(f: Any) -> Any:
    g = f.copy()
    g.fillna({"b": 0.0}, inplace=True)
    g.rename(columns={"a": "z"}, inplace=True)
    return g


def chained(f: Any) -> Any:
    f[f["a"] > 0]["b"] = 1
    f["b"].fillna(0, inplace=True)
    return f


def texts(f: Any) -> Any:
    return f["key"].str.upper(), f["key"].str.len(), f["key"] + "!", f["key"].value_counts(), f["key"].str.contains("x")


def attributes(f: Any) -> Any:
    return f.a * f.b, f.shape, len(f), f.columns.tolist(), f.index, f.dtypes, f["a"].name, f.empty, "a" in f, f.values


def positions(f: Any) -> Any:
    return f.iloc[0], f.iloc[1:3], f.loc[f.index[0], "a"], f.iloc[-1, 0], f[1:3], f["a"].iloc[::2], f.iat[0, 0]


def numbers(f: Any) -> Any:
    return (
        f["a"].mean(),
        f["n"].sum(),
        f["a"].max() if f["a"].max() > 1 else f["a"].min(),
        f["b"].std(),
        float(f["a"].iloc[0]),
    )


def of_numpy(f: Any) -> Any:
    return (
        np.log(f["a"]),
        np.where(f["a"] > 0, f["b"], 0),
        np.sqrt(f[COLUMNS]),
        np.maximum(f["a"], 0),
        np.asarray(f["n"]),
    )


def rolled(f: Any) -> Any:
    return (
        f["a"].rolling(3).mean(),
        f["a"].shift(1),
        f["a"].diff(),
        f["a"].cumsum(),
        f["a"].ewm(span=3).mean(),
        f["a"].rank(),
    )


def shaped(f: Any) -> Any:
    wide = f.pivot_table(index="key", columns="n", values="a", aggfunc="sum")
    return wide, f.melt(id_vars=["key"], value_vars=["a", "b"]), f.set_index("key"), f.reset_index(), f.T.shape


def made(f: Any) -> Any:
    g = pd.DataFrame({"x": f["a"], "y": f["n"].to_numpy()})
    return g, pd.concat([f, f], ignore_index=True), pd.Series([1.0, 2.0]) + 1, pd.get_dummies(f["key"]), pd.isna(f["b"])


def aligned(f: Any) -> Any:
    return f["a"] + f["b"].iloc[1:], f["a"].iloc[::-1] * f["b"], f["a"].add(f["b"], fill_value=0)


def looped(f: Any) -> Any:
    total = 0.0
    for name in ["a", "b"]:
        total = total + f[name].sum()
    for key, part in f.groupby("key"):
        total += part["a"].sum() * len(key)
    for name in f.columns:
        total += len(name)
    return total


def piped(f: Any) -> Any:
    return f.pipe(lambda g: g[g["a"] > 0]).assign(z=lambda g: g["a"] + 1).query("z > 1.5"), f.agg(
        ["min", "max"], numeric_only=True
    ) if len(f) else 0


FUNCTIONS: dict[str, Callable[[Any], Any]] = {
    name: value
    for name, value in list(globals().items())
    if getattr(value, "__module__", "") == __name__ and name != "scale"
}
