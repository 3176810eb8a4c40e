"""One stream: what it accepts, keeps, removes and answers."""
