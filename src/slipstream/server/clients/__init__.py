"""Where clients come in: the client port, WebSocket, the HTTP API, the dashboard, and clients inside the server."""
