"""The JetStream API of a cluster: calls that the servers agree on before they are answered."""
