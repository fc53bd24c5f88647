"""The version of pijit, and the CPythons that it is for, read by the build, the package and the C++ modules alike."""

__version__ = "0.1.0.dev0"

PYTHONS = ("3.11", "3.12", "3.13", "3.14")
