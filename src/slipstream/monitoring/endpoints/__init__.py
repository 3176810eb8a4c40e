"""What each monitoring path answers, and the table of them."""
