"""`python -m slipstream` is the command line."""

from slipstream.cli.main import main

main()
