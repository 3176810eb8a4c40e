"""From socket to socket: operations parsed, interest, delivery, outboxes, WebSocket frames."""
