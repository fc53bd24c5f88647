"""The version of pijit, read by the build, the package and the C++ modules alike."""

__version__ = "0.1.0.dev0"
