"""Objects of an object store, addressed by their URLs. s3fs is imported where it is used."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cached_property
from typing import Any

from fieldcraft.storage.field_store.staging import StoreAway

_SECRETS = ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN")


class Objects:
    """Objects under one URL (``s3://BUCKET/PREFIX``).

    Every method may raise ``StoreAway``: the store does not answer or refuses, or there is no such bucket.
    """

    def __init__(self, url: str) -> None:
        self.url = url.rstrip("/")

    def get(self, url: str) -> bytes | None:
        """Content of an object; None where there is none."""
        with self._served() as store:
            try:
                return bytes(store.cat_file(url))
            except FileNotFoundError:
                self._require_bucket(store)
                return None

    def sizes(self, url: str) -> dict[str, int]:
        """Sizes in bytes of all objects under ``url``, by their names below it."""
        with self._served() as store:
            store.invalidate_cache()
            try:
                found = store.find(url, detail=True)
            except FileNotFoundError:
                found = {}
            if not found:
                self._require_bucket(store)
        start = len(url.partition("://")[2]) + 1
        return {name[start:]: int(about["size"]) for name, about in found.items()}

    def put(self, url: str, content: bytes) -> None:
        """Put an object in one request, which makes it visible whole or not at all."""
        with self._served() as store:
            store.pipe_file(url, content)

    def delete(self, url: str) -> None:
        """Delete one object."""
        with self._served() as store:
            store.rm_file(url)

    def delete_all(self, url: str) -> None:
        """Delete all objects under ``url``."""
        for name in self.sizes(url):
            self.delete(f"{url}/{name}")

    @cached_property
    def _store(self) -> Any:
        try:
            import s3fs
        except ImportError as error:
            raise StoreAway(
                f"Fields at {self.url} need the package s3fs, which is not installed: pip install 'fieldcraft[s3]', or "
                "leave FIELDCRAFT_FIELDS out to keep them under the home."
            ) from error
        patience = {"connect_timeout": 10, "read_timeout": 60, "retries": {"max_attempts": 2}}
        return s3fs.S3FileSystem(use_listings_cache=False, config_kwargs=patience)

    def _require_bucket(self, store: Any) -> None:
        """Raise unless the bucket exists; called when an object was not found.

        Raises:
            StoreAway: There is no such bucket.
        """
        bucket = self.url.partition("://")[2].partition("/")[0]
        if not store.exists(bucket):
            raise StoreAway(
                f"There is no bucket {bucket!r} for the fields at {self.url}. Make it, or name another in "
                "FIELDCRAFT_FIELDS; nothing was lost."
            )

    @contextmanager
    def _served(self) -> Iterator[Any]:
        """The file system; its errors become one clear error that quotes no credential."""
        store = self._store
        from botocore.exceptions import BotoCoreError, ClientError

        try:
            yield store
        except (OSError, BotoCoreError, ClientError) as error:
            if isinstance(error, FileNotFoundError):
                self._require_bucket(store)
            raise StoreAway(
                f"The object store of {self.url} refused or did not answer: {_without_secrets(error)}. Nothing was "
                "published and nothing is lost. Check the credentials (AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY or "
                "AWS_PROFILE), AWS_ENDPOINT_URL and the bucket, then run again."
            ) from None


def _without_secrets(error: Exception) -> str:
    """Text of an error on one line, without the values of credentials."""
    text = " ".join(f"{type(error).__name__}: {error}".split()).rstrip(".")
    for secret in filter(None, map(os.environ.get, _SECRETS)):
        text = text.replace(secret, "***")
    return text[:300]
