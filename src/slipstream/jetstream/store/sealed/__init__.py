"""Encryption at rest: a disk whose files nobody can read without the main key. See docs/adr/0061."""
