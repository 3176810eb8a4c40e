"""Closed segments in another form than they were written in: compressed, or sealed later. See docs/adr/0096."""
