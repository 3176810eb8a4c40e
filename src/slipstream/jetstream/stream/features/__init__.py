"""What a message can ask for besides being stored: counting, schedules, being published again."""
