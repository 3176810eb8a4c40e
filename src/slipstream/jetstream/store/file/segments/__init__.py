"""Segments: their layout, which of them make a log, and how they are rewritten."""
