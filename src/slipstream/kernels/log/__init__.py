"""Records and frames of the log: written, scanned, indexed, loaded."""
