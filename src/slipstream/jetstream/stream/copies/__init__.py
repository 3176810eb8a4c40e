"""Messages of other streams: mirrors, sources, and how far each was read."""
