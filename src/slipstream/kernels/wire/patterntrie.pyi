class PatternTrie:
    """Used by kernels alone."""

    def __init__(self) -> None: ...
