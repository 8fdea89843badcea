"""Packages with faults that task suites really had, each with its symptom, its history and its historical repair.

    case      what a case is
    office    the made-up files of the workspaces
    tasks     drafts of tasks on hand-made workspaces, in the words of the built-in families
    pack      a package in memory, and edits of it as a person makes them
    sound     the sound form of each package, built as any other
    values, demands, answers, drift, readable   the cases by the kind of their fault
    witness   what was seen to run before and after
    make      the whole suite
    page      the table of the cases

Nothing here is known to diagnosis or repair.
"""
