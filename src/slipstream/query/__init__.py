"""SQL over streams without a cluster: DuckDB reads them as Arrow, and the server's index answers what it can.

    import slipstream

    slipstream.sql("nats://127.0.0.1:4222", "SELECT subject, count(*) FROM ORDERS GROUP BY subject").read_all()

DuckDB and pyarrow come with the extra `sql`, and are imported when a query is made.
"""
