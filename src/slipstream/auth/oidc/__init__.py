"""Tokens of OpenID issuers: who signed them, whether they count now, and what they make of a client."""
