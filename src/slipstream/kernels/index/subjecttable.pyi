"""Types of the subject table kernel: see subjecttable.pyx."""

class FilterView:
    """The verdict of one set of filters on each subject."""

    filters: tuple[bytes, ...]

class SubjectTable:
    """The subjects of a stream, each with a number."""

    num_subjects: int

    def __init__(self, seed: int) -> None: ...
