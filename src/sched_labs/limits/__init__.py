"""Limits on CPU time: control groups, the units that limits are written in, and a model of them."""
