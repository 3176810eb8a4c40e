"""Everything of one account: its streams, what they may take, and where they are kept."""
