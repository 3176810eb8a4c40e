"""Every stream a table of a lakehouse, Delta or Iceberg, written without Spark, and tables back into streams.

    with LakeService(reach, open_table, ["*"], settings) as service:
        service.turn()

A Delta table is an archive as `slipstream.spark.lake` keeps them, so that everything that works on archives works on
it. deltalake, pyiceberg and pyarrow come with the extra `lake`, and are imported when a table is opened.
"""
