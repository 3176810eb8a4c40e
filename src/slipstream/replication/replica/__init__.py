"""One copy of a stream: its files, who works on them, what a leader commits and how a damaged one is repaired."""
