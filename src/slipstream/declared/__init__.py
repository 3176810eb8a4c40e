"""Declared streams: a file says what there should be, `slipstream apply` or the server itself makes it so (ADR 45).

`yaml_file` and `config_block` show a text as nodes, `reading` turns these into values, each checked against the tables
of the API, and `plan` compares them with what there is.
"""
