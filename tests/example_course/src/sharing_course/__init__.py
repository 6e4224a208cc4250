"""Sharing a CPU: a course beside the chapters of sched-labs."""
