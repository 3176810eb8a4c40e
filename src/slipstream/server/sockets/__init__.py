"""What all sockets share: accepting, dialling, TLS, how much is read and written at a time."""
