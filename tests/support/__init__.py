"""What tests share: server processes, raw sockets, transcripts and their comparison."""
