"""Bulk access to streams: plans, reads of raw records, holds, and staged atomic writes."""
