"""HTTP for those who have no NATS client: publish, request, key-value buckets, streams as events. See ADR 81."""
