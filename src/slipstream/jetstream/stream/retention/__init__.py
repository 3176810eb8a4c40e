"""What leaves a stream, and when: limits, age, interest, purges, and what holds it back."""
