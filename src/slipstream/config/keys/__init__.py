"""The keys of configuration files, block by block."""
