"""Operator mode: tokens that operators, accounts and users sign for each other, and what they say."""
