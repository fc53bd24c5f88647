"""Tests of devices other than the CPU: a device of their own ("twin"), and scenarios that any device can run."""
