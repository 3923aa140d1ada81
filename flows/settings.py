"""Settings of the operator, from the environment; a campaign file can change none of them.

FIELDCRAFT_HOME      folder of ledger, fields, tracking and work (default: runs)
FIELDCRAFT_LEDGER    the ledger: postgresql://USER@HOST/DATABASE or a file's path (default: HOME/ledger.sqlite)
FIELDCRAFT_FIELDS    where fields lie: a directory or s3://BUCKET/PREFIX (default: under the home)
FIELDCRAFT_PLUGINS   directories with further kinds, separated as in PATH
FIELDCRAFT_MLFLOW    tracking store: a server's URL or sqlite:////absolute/path.db (default: under the home);
                     "off" shows nothing, and a later export catches up
FIELDCRAFT_TRAIN     where models are trained: "here" (default), in the pass; "prefect:FLOW/DEPLOYMENT" asks for a run
                     of that deployment (prefect:train/train), ends the pass, and a later pass goes on with the model
FIELDCRAFT_TRAIN_WAIT_S    seconds without a worker on such a run before the model is trained here (default: 600)
FIELDCRAFT_DEVICE    device of trainings: "auto" (default), a CUDA device where torch finds one; "cpu"; "cuda",
                     which is refused where there is none
FIELDCRAFT_PEOPLE    file of roles and token digests (docs/security.md); without one the operating system's user may
                     do everything, and no token is known
FIELDCRAFT_TOKEN     token of the person who acts, where that is not the operating system's user
FIELDCRAFT_LAB       folder in which the dispatcher "lab" exchanges work orders and results (default: HOME/lab)
FIELDCRAFT_LAB_URL   webhook that is sent each work order, too
FIELDCRAFT_PROGRAMS  programs that campaigns may run by the dispatcher "command": absolute paths, separated as in PATH
FIELDCRAFT_RECORDS   folder of recorded results that campaigns may read by the dispatcher "replay"
FIELDCRAFT_DASK      Dask cluster for the dispatcher "dask": tcp://HOST:PORT, tls://HOST:PORT or the path of a scheduler
                     file (default: one that is started on this machine)
FIELDCRAFT_NOTIFY_URL      webhook for notices that need a person
FIELDCRAFT_NOTIFY_COMMAND  program with arguments, run for each such notice with its JSON on standard input
FIELDCRAFT_WEBHOOK_TOKEN   bearer token sent to both webhooks
FIELDCRAFT_DESK_URL  address of the desk, for links in notices: https://HOST:PORT (default: none are sent)
"""

import math
import os
import re
import shlex
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal, get_args
from urllib.parse import urlsplit

from fieldcraft.flows.errors import InputError
from fieldcraft.flows.text import quoted
from fieldcraft.storage.text import without_password

DESK_PORT = 8477
"""Port of the desk where its operator names none."""
MLFLOW_PORT = 5000
"""Port of MLflow's pages of a home, MLflow's own."""
_LONGEST_S = 1e8  # three years
Device = Literal["auto", "cpu", "cuda"]


@dataclass(frozen=True)
class Settings:
    """Settings of the operator: the stores of a user's campaigns, further kinds, and services.

    Args:
        home: Folder of all stores.
        plugins: Directories searched for kinds beside the built-in ones.
        mlflow: Tracking URI, or ``off``.
        train: Prefect's name of the deployment that trains models, FLOW/DEPLOYMENT; None to train within the pass.
        train_wait_s: Time in seconds after which a training that no process has taken up is done within the pass.
        device: Device on which networks are trained.
        people: File of roles and token digests.
        token: Token of the current user.
        lab: Folder of work orders and results; None for the one under the home.
        lab_url: Webhook for work orders.
        notify_url: Webhook for notices.
        notify_command: Program and arguments for notices.
        webhook_token: Bearer token for both webhooks.
        desk_url: Address of the desk, for links in notices, without a slash at its end.
        programs: External programs that campaigns may run.
        records: Folder of recorded results that campaigns may read.
        dask: Address or scheduler file of a Dask cluster; None for one of this machine.
        field_store: Root of the field store, a directory or a URL; None for the one under the home.
        ledger_url: The ledger's URL or path; None for the file under the home.
    """

    home: Path
    plugins: tuple[Path, ...]
    mlflow: str = field(repr=False)
    train: str | None = None
    train_wait_s: float = 600.0
    device: Device = "auto"
    people: Path | None = None
    token: str | None = field(default=None, repr=False)
    lab: Path | None = None
    lab_url: str | None = field(default=None, repr=False)
    notify_url: str | None = field(default=None, repr=False)
    notify_command: tuple[str, ...] = ()
    webhook_token: str | None = field(default=None, repr=False)
    desk_url: str | None = None
    programs: tuple[Path, ...] = ()
    records: Path | None = None
    dask: str | None = None
    field_store: Path | str | None = None
    ledger_url: str | None = field(default=None, repr=False)

    @property
    def ledger(self) -> str | Path:
        """The ledger's URL or file, as ``open_ledger`` takes it; a URL may hold a password."""
        return self.ledger_url or self.home / "ledger.sqlite"

    @property
    def ledger_shown(self) -> str:
        """The ledger's URL or file without its password."""
        return without_password(str(self.ledger))

    @property
    def fields(self) -> Path | str:
        """Root of the field store: a directory, or the URL of an object store."""
        return self.home / "fields" if self.field_store is None else self.field_store

    @property
    def work(self) -> Path:
        """Scratch folders of running simulations and unfinished trainings."""
        return self.home / "work"


_OURS = ("FIELDCRAFT_", "PREFECT_", "MLFLOW_", "AWS_", "PGPASS", "PGSERVICE")
_HARMLESS = frozenset({"FIELDCRAFT_HOME", "FIELDCRAFT_PLUGINS", "FIELDCRAFT_DIE_AT", "FIELDCRAFT_POINTS_LOG"})


def without_secrets(environment: Mapping[str, str]) -> dict[str, str]:
    """The environment for a process that needs no tokens, passwords or webhooks: a simulation.

    Of fieldcraft's, Prefect's, MLflow's and the object store's own variables it keeps only those that hold no secret
    and that it needs; of PostgreSQL's, none that holds a password or the place of one.
    """
    return {name: value for name, value in environment.items() if name in _HARMLESS or not name.startswith(_OURS)}


@contextmanager
def no_secrets() -> Iterator[None]:
    """Remove the variables that no simulation gets (see ``without_secrets``) from ``os.environ`` within the block."""
    kept = without_secrets(os.environ)
    hidden = {name: value for name, value in os.environ.items() if name not in kept}
    for name in hidden:
        del os.environ[name]
    try:
        yield
    finally:
        os.environ.update(hidden)


def settings_from(environment: Mapping[str, str] = os.environ, home: Path | None = None) -> Settings:
    """Read the settings; ``home`` (a command's ``--home``) overrides the environment.

    Raises:
        InputError: a plug-in directory does not exist, a path, a program or a webhook is invalid, a token cannot be
            sent, a command's quotes do not match, or a variable has a word or a number that it may not have.
    """
    place = _path(home, "--home") if home else _path(environment.get("FIELDCRAFT_HOME") or "runs", "FIELDCRAFT_HOME")
    parts = [part for part in environment.get("FIELDCRAFT_PLUGINS", "").split(os.pathsep) if part]
    listed = [_path(part, "FIELDCRAFT_PLUGINS") for part in parts]
    for directory in listed:
        if not directory.is_dir():
            raise InputError(
                f"FIELDCRAFT_PLUGINS names {quoted(str(directory))}, which is no directory. Create it or take it out."
            )
    mlflow = environment.get("FIELDCRAFT_MLFLOW") or f"sqlite:///{place / 'mlflow' / 'mlflow.db'}"
    people, lab = environment.get("FIELDCRAFT_PEOPLE"), environment.get("FIELDCRAFT_LAB")
    records = environment.get("FIELDCRAFT_RECORDS")
    return Settings(
        home=place,
        plugins=tuple(listed),
        mlflow=mlflow,
        train=_deployment(environment.get("FIELDCRAFT_TRAIN") or "here"),
        train_wait_s=_seconds(environment.get("FIELDCRAFT_TRAIN_WAIT_S") or "600", "FIELDCRAFT_TRAIN_WAIT_S"),
        device=_device(environment.get("FIELDCRAFT_DEVICE") or "auto"),
        people=_path(people, "FIELDCRAFT_PEOPLE") if people else None,
        token=environment.get("FIELDCRAFT_TOKEN") or None,
        lab=_path(lab, "FIELDCRAFT_LAB") if lab else None,
        lab_url=_webhook(environment, "FIELDCRAFT_LAB_URL"),
        notify_url=_webhook(environment, "FIELDCRAFT_NOTIFY_URL"),
        notify_command=_words(environment, "FIELDCRAFT_NOTIFY_COMMAND"),
        webhook_token=_webhook_token(environment),
        desk_url=_desk(environment.get("FIELDCRAFT_DESK_URL")),
        programs=_programs(environment),
        records=_path(records, "FIELDCRAFT_RECORDS") if records else None,
        dask=_dask(environment.get("FIELDCRAFT_DASK")),
        field_store=_field_store(environment.get("FIELDCRAFT_FIELDS")),
        ledger_url=_ledger(environment.get("FIELDCRAFT_LEDGER")),
    )


def _programs(environment: Mapping[str, str]) -> tuple[Path, ...]:
    """Paths of the programs, links not resolved: campaigns name a program by the link's own name."""
    listed = [part for part in environment.get("FIELDCRAFT_PROGRAMS", "").split(os.pathsep) if part]
    for part in listed:
        if not os.path.isabs(part):
            raise InputError(
                f"FIELDCRAFT_PROGRAMS names {quoted(part)}, which is no absolute path. Give the whole path."
            )
    return tuple(map(Path, listed))


def _ledger(given: str | None) -> str | None:
    """The ledger's URL unchanged, or its path made absolute; ``open_ledger`` checks both."""
    if not given or "://" in given:
        return given or None
    return str(_path(given, "FIELDCRAFT_LEDGER"))


def _path(given: str | Path, name: str) -> Path:
    try:
        return Path(given).expanduser().resolve()
    except (RuntimeError, ValueError) as error:  # ~ of nobody, a null byte
        raise InputError(f"{name} is {quoted(str(given))}, which is no path ({error}). Give another.") from None


def _deployment(given: str) -> str | None:
    if given == "here":
        return None
    scheme, _, name = given.partition(":")
    flow, _, deployment = name.partition("/")
    if scheme != "prefect" or not flow or not deployment:
        raise InputError(
            f"FIELDCRAFT_TRAIN is {quoted(given)}: give 'here', or 'prefect:train/train' (prefect.yaml has it)."
        )
    return name


def _seconds(given: str, name: str) -> float:
    try:
        seconds = float(given)
    except ValueError:
        seconds = math.nan
    if not 0 <= seconds <= _LONGEST_S:
        raise InputError(
            f"{name} is {quoted(given)}, which is no number of seconds: give one from 0 to {_LONGEST_S:g}."
        )
    return seconds


def _device(given: str) -> Device:
    for device in get_args(Device):
        if given == device:
            return device  # type: ignore[no-any-return]  # one of Device's own words
    raise InputError(f"FIELDCRAFT_DEVICE is {quoted(given)}: choose auto, cpu or cuda.")


def _field_store(given: str | None) -> Path | str | None:
    """Root of the field store; an error quotes no password."""
    if not given or "://" not in given:
        return _path(given, "FIELDCRAFT_FIELDS") if given else None
    if not re.fullmatch(r"s3://[a-z0-9][a-z0-9.-]+(/[A-Za-z0-9_.=/-]*)?", given):
        raise InputError(
            f"FIELDCRAFT_FIELDS is {quoted(without_password(given))}: give a directory or s3://BUCKET/PREFIX, without "
            "credentials, which belong into AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY."
        )
    return given.rstrip("/")


def _webhook(environment: Mapping[str, str], name: str) -> str | None:
    """A webhook's URL; an error does not quote it, since its path is often its secret."""
    url = environment.get(name)
    if not url:
        return None
    try:
        parts = urlsplit(url)
        host = (parts.hostname or "").encode("idna")  # as it is looked up
        sound = parts.scheme in ("http", "https") and bool(host) and parts.port != 0
    except ValueError:  # a port that is no number, brackets that do not close, a part of a name that is empty or long
        sound = False
    if not sound or not url.isascii() or not url.isprintable() or " " in url:
        raise InputError(f"{name} is no webhook: give a URL that begins with https:// or http:// and names a host.")
    if parts.username is not None:
        raise InputError(f"{name} holds a user name or password: take it out; FIELDCRAFT_WEBHOOK_TOKEN is for that.")
    return url


def _desk(given: str | None) -> str | None:
    if given and not re.fullmatch(r"https?://([A-Za-z0-9.-]+|\[[0-9A-Fa-f:]+\])(:[1-9][0-9]{0,4})?/?", given):
        raise InputError(
            f"FIELDCRAFT_DESK_URL is {quoted(without_password(given))}, which is no desk: give https://HOST:PORT, as "
            "people type it into a browser."
        )
    return given.rstrip("/") if given else None


def _dask(given: str | None) -> str | None:
    """A scheduler's address, or the absolute path of its file."""
    if not given:
        return None
    if "://" not in given:
        return str(_path(given, "FIELDCRAFT_DASK"))
    parts = urlsplit(given)
    try:
        sound = parts.scheme in ("tcp", "tls") and bool(parts.hostname) and bool(parts.port) and not parts.path
    except ValueError:  # a port that is no number
        sound = False
    if not sound or parts.username is not None:
        raise InputError(
            f"FIELDCRAFT_DASK is {quoted(without_password(given))}, which is no scheduler: give tcp://HOST:PORT, "
            "tls://HOST:PORT or the path of a scheduler file."
        )
    return given


def _webhook_token(environment: Mapping[str, str]) -> str | None:
    """The bearer token for webhooks; an error does not quote it."""
    token = environment.get("FIELDCRAFT_WEBHOOK_TOKEN") or None
    if token is not None and not (token.isascii() and token.isprintable() and " " not in token):
        raise InputError(
            "FIELDCRAFT_WEBHOOK_TOKEN cannot be sent in a header: it holds a space, a line break or a letter beyond "
            "ASCII. Set it again without."
        )
    return token


def _words(environment: Mapping[str, str], name: str) -> tuple[str, ...]:
    try:
        return tuple(shlex.split(environment.get(name, "")))
    except ValueError as error:
        raise InputError(f"{name} is no command: {error}. Quote it as in a shell.") from None
