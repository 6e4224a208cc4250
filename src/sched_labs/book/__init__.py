"""Making the book: run the chapters on this machine, then turn them into pages.

    python -m sched_labs.book build | live | serve

`chapters` knows which notebooks the book has, `measure` runs one and keeps what came out, in the `kernel`
that all of them share, `progress` shows on the terminal what is being measured, `pages` hands everything to
Jupyter Book, `command` is the command line.
`needs` says which cells have to run before others; a page asks it when a reader runs a part of it.
Nothing is written outside the checkout's `_build/` and the reader's data folder.
"""
