"""Gateways: the connections between clusters that together are a supercluster."""
