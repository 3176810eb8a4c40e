"""Writes: rows checked, staged or published, and committed once."""
