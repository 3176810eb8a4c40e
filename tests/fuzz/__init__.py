"""Targets for fuzzing: bytes in, and whatever they are, nothing but what was promised may happen."""
