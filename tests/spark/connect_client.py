"""A client of Spark Connect: what users do with streams, from a process without a Java machine of its own.

python connect_client.py SPARK SERVER NAME DIRECTORY

Prints what it found as JSON.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

import slipstream.spark
from slipstream.spark import Reach, SetupError, jobs
from slipstream.spark.jobs.tasks import JobError
from slipstream.spark.lake.errors import LakeError


def main(remote: str, servers: str, name: str, directory: str) -> None:
    found: dict[str, object] = {}
    try:
        slipstream.spark.session("test", master=remote, config={"spark.executor.memory": "1g"})
    except SetupError as error:
        found["refused"] = str(error)
    spark = slipstream.spark.session("test", master=remote)
    found["same"] = slipstream.spark.session() is spark
    server = {"servers": servers}
    rows = spark.range(1000).selectExpr(f"concat('{name}.', id % 10) subject", "cast(id as string) payload")
    rows.write.format("slipstream").mode("append").options(**server, stream=name).save()
    read = spark.read.format("slipstream").options(**server, stream=name, pushdown=True)
    found["read"] = read.load().where(f"subject = '{name}.3'").count()

    live = spark.readStream.format("slipstream").options(**server, stream=name, starting="earliest").load()
    copy = live.selectExpr(f"replace(subject, '{name}', '{name}_COPY') subject", "payload").writeStream
    copy = copy.format("slipstream").options(**server, stream=f"{name}_COPY", checkpointLocation=f"{directory}/check")
    query = copy.trigger(availableNow=True).start()
    query.awaitTermination()
    found["lag"] = slipstream.spark.lag(query.lastProgress)

    reach, lake = Reach(servers=servers), f"{directory}/lake"
    found["archived"] = jobs.archive(spark, name, lake, reach=reach, drop=True, keep=300).figures["messages"]
    table = slipstream.spark.table(spark, name, archive=lake, reach=reach)
    found["table"] = table.count()
    bucket = jobs.materialize(spark, f"B{name}", f"{directory}/bucket", reach=reach)
    found["bucket"] = bucket.figures["rows"]
    try:
        jobs.materialize(spark, f"B{name}", "memory:///bucket", reach=reach)
    except JobError as error:
        found["object_store"] = str(error)
    next(Path(lake).glob("*.parquet")).unlink()
    try:
        jobs.audit(spark, location=lake)
    except (JobError, LakeError) as error:
        found["lost"] = str(error)
    spark.stop()
    print(json.dumps(found))


if __name__ == "__main__":
    main(*sys.argv[1:])
