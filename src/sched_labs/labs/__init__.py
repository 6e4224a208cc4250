"""Hands-on labs: a sheet, a starter, and a check that runs the reader's own work on the reader's own machine.

    labs.find("caches")          # by its folder's name, its number, or a part of its name
    labs.start(lab)              # lays the sheet and the starter in the reader's data folder
    labs.check(lab)              # runs the check on what the reader made of it -> Report
    labs.hints(lab)              # those that were shown, and the next one
    labs.reveal(lab)             # the solution, and a note in the progress that it was looked at

A lab is a folder `labs/NN-name/` of the book: `sheet.md`, `starter/`, `check.py`, `solution/`,
`instructor.md`.
`starter/` and `solution/` hold files of the same names.  `check.py` has one function, `check(judge)`; see
`judge.Judge`.  The reader's copies and progress live in the data folder; the book's folder is only read.
"""

from __future__ import annotations

from .catalogue import Lab, all_labs, find
from .compare import Compared, compare, summed_up
from .desk import hints, place, reveal, start
from .judge import Judge
from .ledger import export, progress
from .report import Report, check, check_folder

__all__ = [
    "Compared", "Judge", "Lab", "Report", "all_labs", "check", "check_folder", "compare", "export", "find",
    "hints", "place", "progress", "reveal", "start", "summed_up",
]  # fmt: skip
