"""The `$JS.API.>` requests: who answers what, and how."""
