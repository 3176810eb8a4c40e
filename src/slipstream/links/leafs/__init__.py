"""Leaf nodes: an account of this server joined with one of another, hub on one side and leaf on the other."""
