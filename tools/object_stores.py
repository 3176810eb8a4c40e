"""Has real object stores for tests of tables: S3 and GCS ones from the Go module proxy, one of Azure from npm.

python tools/object_stores.py DIRECTORY [rclone] [versitygw] [minio] [fake-gcs-server] [azurite]

Programs that are there already stay. `SLIPSTREAM_OBJECT_STORES=DIRECTORY` lets the tests find them. rclone is built
with what it needs to serve a directory alone, which takes a minute instead of ten.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

# Versions are named: what is newest is not always to be had.
MODULES = {
    "rclone": ("github.com/rclone/rclone", "v1.74.4", "./only"),
    "versitygw": ("github.com/versity/versitygw", "v1.8.0", "./cmd/versitygw"),
    "minio": ("github.com/minio/minio", "v0.0.0-20250907161309-07c3a429bfed", "."),
    "fake-gcs-server": ("github.com/fsouza/fake-gcs-server", "v1.55.0", "."),
}
PACKAGES = {"azurite": "3.35.0"}
ONLY_SERVE = """package main

import (
\t_ "github.com/rclone/rclone/backend/local"
\t"github.com/rclone/rclone/cmd"
\t_ "github.com/rclone/rclone/cmd/serve"
\t_ "github.com/rclone/rclone/cmd/serve/s3"
)

func main() { cmd.Main() }
"""


# fake-gcs-server has conditions of uploads, and lists from a place on, in the JSON dialect of GCS; libraries in Rust
# speak the XML one.
XML_LISTS = (
    (
        'Versions:  r.URL.Query().Get("versions") == "true",\n',
        'Versions: r.URL.Query().Get("versions") == "true", StartOffset: r.URL.Query().Get("start-after") + "\\x00",\n',
    ),
)
XML_UPLOADS = (
    ('if r.URL.Query().Get("X-Goog-Algorithm") != "" {', "if r.Method == http.MethodPut {"),
    (
        'ifGenerationMatch := r.URL.Query().Get("ifGenerationMatch")\n',
        'ifGenerationMatch := r.URL.Query().Get("ifGenerationMatch") + r.Header.Get("X-Goog-If-Generation-Match")\n',
    ),
    (
        """\tobj, err := s.createObject(obj, backend.NoConditions{})
\tif err != nil {
\t\treturn errToJsonResponse(err)
\t}
\tobj.Close()
\treturn jsonResponse{data: newObjectResponse(obj.ObjectAttrs, urlhelper.GetBaseURL(r))}
""",
        """\tconditions, err := s.wrapUploadPreconditions(r, bucketName, name)
\tif err != nil {
\t\treturn jsonResponse{status: http.StatusBadRequest, errorMessage: err.Error()}
\t}
\tobj, err = s.createObject(obj, conditions)
\tif err != nil {
\t\treturn errToJsonResponse(err)
\t}
\tobj.Close()
\tabout := http.Header{}
\tabout.Set("ETag", fmt.Sprintf("%q", obj.Etag))
\tabout.Set("X-Goog-Generation", strconv.FormatInt(obj.Generation, 10))
\treturn jsonResponse{header: about, data: newObjectResponse(obj.ObjectAttrs, urlhelper.GetBaseURL(r))}
""",
    ),
)


def build(name: str, target: Path) -> None:
    module, version, package = MODULES[name]
    environment = {**os.environ, "GOFLAGS": "-buildvcs=false", "CGO_ENABLED": "0"}
    with tempfile.TemporaryDirectory() as scratch:
        asked = ["go", "mod", "download", "-json", f"{module}@{version}"]
        found = subprocess.run(asked, cwd=scratch, env=environment, capture_output=True, text=True)
        facts = json.loads(found.stdout)
        if "Error" in facts:
            sys.exit(f"{name} cannot be had: {facts['Error']}")
        # The module's own directives to replace others count in its own directory alone.
        source = Path(scratch, "source")
        shutil.copytree(facts["Dir"], source)
        subprocess.run(["chmod", "-R", "u+w", source], check=True)
        if name == "rclone":
            (source / "only").mkdir()
            (source / "only" / "main.go").write_text(ONLY_SERVE)
        if name == "fake-gcs-server":
            for file, edits in (("upload.go", XML_UPLOADS), ("object.go", XML_LISTS)):
                path = source / "fakestorage" / file
                text = path.read_text()
                for old, new in edits:
                    assert old in text, f"{name} {version} is another one than this was written for"
                    text = text.replace(old, new)
                path.write_text(text)
        command = ["go", "build", "-trimpath", "-ldflags", "-s -w", "-o", str(target / name), package]
        subprocess.run(command, cwd=source, env=environment, check=True)


def install(name: str, target: Path) -> None:
    folder = target / f"{name}-modules"
    folder.mkdir(exist_ok=True)
    command = ["npm", "install", "--no-audit", "--no-fund", "--prefix", str(folder), f"{name}@{PACKAGES[name]}"]
    subprocess.run(command, check=True)
    (target / name).symlink_to(folder / "node_modules" / ".bin" / f"{name}-blob")


def main(directory: str, *names: str) -> None:
    target = Path(directory).resolve()
    target.mkdir(parents=True, exist_ok=True)
    for name in names or (*MODULES, *PACKAGES):
        if not (target / name).exists():
            print(f"building {name}", flush=True)
            build(name, target) if name in MODULES else install(name, target)


if __name__ == "__main__":
    if len(sys.argv) < 2 or not set(sys.argv[2:]) <= MODULES.keys() | PACKAGES.keys():
        sys.exit(__doc__)
    main(*sys.argv[1:])
