"""Write experiments, chapters and labs: `sched-labs new`, `check` and `record`; and give runs: `contribute`.

`project` finds the course (or the book) that a folder belongs to, `new` lays files into it from `templates`.
"""
