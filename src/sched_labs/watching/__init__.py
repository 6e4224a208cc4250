"""The book's instruments on a program of the reader's own: where did its time go, and why did it wait?

    import sched_labs
    found = sched_labs.watch(["./server", "--port", "8080"], seconds=10)
    found = sched_labs.watch(pid=4711)
    found.summary()                   # where each thread's wall clock went
    found.tables["findings"]          # why, largest first
    found.plot()
    sched_labs.watching.wait.figure(found)   # with timeline=True: what had the CPU in the longest wait

Data flows one way:

    target      what is watched: a command, processes, a control group; found anew at every look
    looks       what /proc, /sys and control groups say at one moment, of threads, groups, CPUs and others
    clients     who is at the other end of its connections, and whether that one came to it
    seen        two looks and what lies between them: how much of everything in the window
    causes      what the waits for a CPU were spent on: counted by the helper, else estimated
    findings    what that means, in words and numbers
    lanes       who had which CPU when, and for whom a thread waited
    wait        one wait as a figure
    program     all of it in one run, as a Result
    report      a Result in a terminal
    wakers      who ended its sleeps, and where
    timeline    the turns as the page's script takes them (timeline.js)
    page        the same as one HTML file
    exports     the same for other programs
"""
