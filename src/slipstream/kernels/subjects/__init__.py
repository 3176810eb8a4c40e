"""Subjects and patterns: validity, matching, sets of them."""
