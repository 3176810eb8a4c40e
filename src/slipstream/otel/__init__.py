"""Metrics and message traces for OpenTelemetry: what a server shows and publishes, in the words of OTLP (ADR 82)."""
