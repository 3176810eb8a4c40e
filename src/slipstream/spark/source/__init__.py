"""What reads are made of: where they begin and end, how they are cut, what rows come of them."""
