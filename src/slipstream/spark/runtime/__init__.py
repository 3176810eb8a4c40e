"""What reads, writes and jobs stand on: sessions, connections, targets, option values."""
