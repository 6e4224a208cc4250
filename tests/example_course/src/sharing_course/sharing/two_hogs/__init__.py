"""The experiment on weights."""
