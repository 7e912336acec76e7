"""The `covdp` command: every door a person or a scheduler comes in by.

    __main__      the program: a command line, signals, faults
    commands      what it can do, and the modules with each: catalogue, start, check, releases,
                  ledger, status, documents, experiments
    options       what several commands share
    output        how they print: texts, tables, JSON
    streams       standard output and standard error in any encoding

Exit code 0 means done, 1 that an audit found a claim violated, 2 that something given was wrong
and one line on stderr says what, 3 that images differ or a population is late, 70 that covdp failed
in a way that was not expected, 130 that it was interrupted. What a command works with is imported
when it runs: help comes at once, and Ctrl-C is answered while something is imported, too.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach(
    __name__,
    submod_attrs={
        "__main__": ["main", "run_in_thread"],
        "commands": ["app", "version"],
    },
)
