"""The clients of `slipstream bench`: many small programs on one event loop, each with a tally of its own.

`peer` is a connection, `course` what a client does and what it may wait for, `loop` runs them and `job` puts them into
a process. The courses are in `core`, `publish`, `consume` and `get`.

What this is not: the generators of `benchmarks`, which measure connections together and only count what comes back.
Here every answer is read, and a refusal ends the run.
"""
