"""A server that is a whole process: command line, log, signals, files for others, and what it says at its start."""
