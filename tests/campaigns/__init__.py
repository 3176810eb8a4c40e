"""Long proofs: the same checks as in the tests, over many more cases, with their figures written down.

`tools/prove.py` runs them and writes `docs/proofs.md`. Every campaign has a control: a build or a disk in which the
promise is broken on purpose, and in which the campaign must find that.
"""
