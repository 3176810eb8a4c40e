"""Declared streams: a file says what there should be, `slipstream apply` makes it so.

`reading` turns the file into values, each checked against the tables of the API; `plan` compares them with the server.
"""
