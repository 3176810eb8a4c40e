"""The listeners of a server: a row each, which opens, reloads and closes its own."""
