"""Runs jobs of Spark on tables in an object store, for tests: the environment says where that is.

python store_jobs.py URL STREAM BUCKET LOCATION TARGET
"""

from __future__ import annotations

import json
import sys

from deltalake import DeltaTable

from slipstream.spark import Reach, jobs, session, table


def main(url: str, name: str, bucket: str, location: str, target: str) -> None:
    spark, reach = session(master="local[2,3]"), Reach(servers=url)
    archive, view = f"{location}/archive", f"{location}/view"
    found = {}
    for part in ("first", "again"):
        found[part] = jobs.archive(spark, name, archive, reach=reach, target_bytes=4096).figures["messages"]
    jobs.compact(spark, archive, vacuum=True)
    found["audit"] = jobs.audit(spark, name, location=archive, reach=reach).figures["equal"]
    rows = table(spark, name, archive=archive, reach=reach)
    found["table"] = [rows.count(), rows.where(f"subject = '{name}.3'").count()]
    found["then"] = table(spark, name, archive=archive, as_of=100, reach=reach).count()
    for _ in range(2):
        found["keys"] = jobs.materialize(spark, bucket, view, reach=reach).figures["rows"]
    found["view"] = DeltaTable(view).to_pyarrow_table().num_rows
    found["erased"] = jobs.erase(spark, [f"{name}.3"], location=archive, reach=reach).figures["archive_messages"]
    found["replayed"] = jobs.replay(spark, archive, target, reach=reach).figures["messages"]
    print(json.dumps(found))


if __name__ == "__main__":
    main(*sys.argv[1:])
