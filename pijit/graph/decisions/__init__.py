"""Graphs that have both sides of the decisions on data that calls made, as "cond" and "while"."""
