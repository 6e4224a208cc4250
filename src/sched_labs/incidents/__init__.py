"""The incident room: something on this machine is slow, and the reader finds out why, and mends it.

    sched-labs incident start scoring --seed 7     # leave it running, and go to a second terminal
    sched-labs incident status

All incidents are told as invented, and are real: the programs run and work on this machine, and so does the
cause.  Data flows one way:

    causes      what may be the cause of an incident, and the piece of evidence that each is proved by
    story       what a story is made of: programs, what goes wrong in each of its variants, what mends it
    stories     a folder for each: its text and its programs
    program     actor.c, which all of them are, compiled
    cast        the programs of one incident: started, told, placed, ended
    meter       what they did in a window: requests, times, CPU, switches, work
    desk        the running incident as other terminals see it: its folder and its state
    stage       one incident from its healthy run to its end
    evidence    what the judge measures to compare the player's value with
    judge       is the cause right, is the evidence, is it mended?
    ledger      how far the reader has come with them
"""
