"""Auth callout: a service on the bus decides who a client is. What it is asked, and what its answer is worth."""
