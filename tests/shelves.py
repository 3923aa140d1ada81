"""The stores that the suite of fields runs over: a directory, and a bucket of a local S3 server, both for real."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import boto3
import pytest
import s3fs
from moto.server import ThreadedMotoServer

from fieldcraft.storage.fields import FieldStore, fields_at
from fieldcraft.storage.records import FieldRef

SECRET = "the-secret-key-of-the-tests"


@dataclass(frozen=True)
class Directory:
    """Fields in a directory; a field's files are named as its manifest names them."""

    before: ClassVar = ("field.rename.before",)  # commit points of a write up to its commit
    after: ClassVar = "field.rename.after"
    overtaken: ClassVar = "field.rename.before"  # where another writer may still be first
    folder: Path

    @property
    def root(self) -> Path:
        return self.folder / "fields"

    @property
    def store(self) -> FieldStore:
        return fields_at(self.root)

    def file(self, ref: FieldRef, name: str) -> Path:
        return self.root / ref.digest[:2] / ref.digest / name

    def group(self, ref: FieldRef) -> str:
        """What xarray opens."""
        return str(self.file(ref, "field.zarr"))

    def read(self, ref: FieldRef, name: str) -> bytes:
        return self.file(ref, name).read_bytes()

    def write(self, ref: FieldRef, name: str, content: bytes) -> None:
        self.file(ref, name).write_bytes(content)

    def delete(self, ref: FieldRef, name: str) -> None:
        self.file(ref, name).unlink()

    def everything(self) -> list[str]:
        """All files there are."""
        return [str(path.relative_to(self.root)) for path in self.root.rglob("*") if path.is_file()]


@dataclass(frozen=True)
class Bucket:
    """Fields in a bucket of their own."""

    before: ClassVar = ("objects.staged.before", "objects.staged.after", "objects.commit.before")
    after: ClassVar = "objects.commit.after"
    overtaken: ClassVar = "objects.staged.after"
    name: str
    client: Any

    @property
    def root(self) -> str:
        return f"s3://{self.name}/fields"

    @property
    def store(self) -> FieldStore:
        return fields_at(self.root)

    def key(self, ref: FieldRef, name: str) -> str:
        home = f"fields/{ref.digest[:2]}/{ref.digest}"
        if name == "manifest.json":
            return f"{home}/{name}"
        writers = {key.removeprefix(f"{home}/").split("/")[0] for key in self.keys(home)} - {"manifest.json"}
        return f"{home}/{writers.pop()}/{name}"

    def group(self, ref: FieldRef) -> str:
        return f"s3://{self.name}/{self.key(ref, 'field.zarr')}"

    def read(self, ref: FieldRef, name: str) -> bytes:
        return self.client.get_object(Bucket=self.name, Key=self.key(ref, name))["Body"].read()

    def write(self, ref: FieldRef, name: str, content: bytes) -> None:
        self.client.put_object(Bucket=self.name, Key=self.key(ref, name), Body=content)

    def delete(self, ref: FieldRef, name: str) -> None:
        self.client.delete_object(Bucket=self.name, Key=self.key(ref, name))

    def keys(self, under: str = "") -> list[str]:
        return [each["Key"] for each in self.client.list_objects_v2(Bucket=self.name, Prefix=under).get("Contents", [])]

    def everything(self) -> list[str]:
        return [key.removeprefix("fields/") for key in self.keys()]


@contextmanager
def s3_server() -> Iterator[Any]:
    """A local S3 server and a client of it; the environment names it to every process that is started meanwhile."""
    server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    server.start()
    host, port = server.get_host_and_port()
    with pytest.MonkeyPatch.context() as patch:
        for name in [name for name in os.environ if name.startswith("AWS_")]:
            patch.delenv(name)
        patch.setenv("AWS_ENDPOINT_URL", f"http://{host}:{port}")
        patch.setenv("AWS_ACCESS_KEY_ID", "tests")
        patch.setenv("AWS_SECRET_ACCESS_KEY", SECRET)
        patch.setenv("AWS_DEFAULT_REGION", "us-east-1")
        s3fs.S3FileSystem.clear_instance_cache()  # which knows an instance by its arguments, not by the environment
        try:
            yield boto3.client("s3")
        finally:
            server.stop()


def bucket(client: Any, name: str) -> Bucket:
    """A new bucket."""
    client.create_bucket(Bucket=name)
    return Bucket(name, client)
