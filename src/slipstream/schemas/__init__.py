"""Schemas of payloads: JSON Schema, Avro and Protobuf, registered for subjects of a stream (ADR 97).

Definitions are read here, payloads held to them, and new versions compared with old ones. The work is done by
jsonschema-rs, fastavro and protobuf (extra `schemas`), which are imported when a schema of their kind is used.
"""
