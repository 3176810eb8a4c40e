"""The index of a stream's messages in memory, a layer each: names, places, messages, questions."""
