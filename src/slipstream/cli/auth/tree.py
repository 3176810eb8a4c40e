"""Operators, accounts and users as `nsc` and `nats` keep them: a tree of tokens, and the seeds of their keys beside it.

    stores/OP/.nsc                          what the directory is
    stores/OP/OP.jwt                        the operator
    stores/OP/accounts/A/A.jwt              an account
    stores/OP/accounts/A/users/U.jwt        a user
    keys/keys/…                             seeds (`keyring`)

Tokens are changed as the JSON that they are, so that fields of other programs stay. Whatever is written was signed,
read back and checked first; seeds are written before the tokens that need them.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import time
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from slipstream.auth.jwt.checks import account_findings, activation_findings, operator_findings, user_findings
from slipstream.auth.jwt.claims import AccountClaims, ActivationClaims, OperatorClaims, UserClaims
from slipstream.auth.jwt.findings import Finding
from slipstream.auth.jwt.making import make_token
from slipstream.auth.jwt.token import InvalidToken, decode, undecorated
from slipstream.auth.nkeys import KeyKind, payload_of
from slipstream.cli.auth.files import make_directory, read_text, write_secret
from slipstream.cli.auth.keyring import KeyPair, Keyring
from slipstream.cli.connection import Failure

if TYPE_CHECKING:
    from datetime import tzinfo

__all__ = [
    "AccountEntry",
    "Fields",
    "OperatorEntry",
    "Tree",
    "TreeEntry",
    "UserEntry",
    "checked_name",
    "default_tree",
    "fields_of",
    "issue",
]

Fields: TypeAlias = dict[str, Any]

_NAME: Final = re.compile(r"[^./\\\0-\x1f][^/\\\0-\x1f]{0,200}")
_VERSION: Final = 2  # of claims
_STORE_VERSION: Final = "1"


def default_tree() -> Tree:
    """The tree of this user: where `nsc` and `nats` have it, also if `nsc env --store` chose another place."""
    data = os.environ.get("XDG_DATA_HOME") or Path.home() / ".local" / "share"
    place = Path(data) / "nats" / "nsc"
    return Tree(_chosen_store() or place / "stores", Keyring(Path(os.environ.get("NKEYS_PATH") or place / "keys")))


def _chosen_store() -> Path | None:
    """The directory that the settings of `nsc` name, if it is there."""
    settings = Path(os.environ.get("XDG_CONFIG_HOME") or Path.home() / ".config") / "nats" / "nsc"
    settings = Path(os.environ.get("NSC_HOME") or settings) / "nsc.json"
    try:
        found = json.loads(settings.read_text())
    except (OSError, ValueError):
        return None
    root = found.get("store_root") if isinstance(found, dict) else None
    return Path(root) if isinstance(root, str) and root and Path(root).is_dir() else None


def checked_name(name: str, what: str) -> str:
    """A name that is safe as that of a file.

    Raises:
        Failure: it is not.
    """
    name = name.strip()
    if not _NAME.fullmatch(name):
        raise Failure(f"{name!r} cannot be the name of {what}")
    return name


# --- tokens ----------------------------------------------------------------------------------------------------------


def fields_of(text: str) -> Fields:
    """The JSON of a token that was checked before."""
    fields: Fields = json.loads(payload_of(text))
    return fields


def issue(fields: Fields, key: KeyPair) -> str:
    """Sign claims, and make sure that a server will take them.

    Raises:
        Failure: it would not; the text says why.
    """
    text = make_token({**fields, "iss": key.public, "iat": int(time.time())}, key.sign)
    try:
        found = _findings(decode(text))
    except InvalidToken as error:
        raise Failure(f"no valid token: {error}") from error
    wrong = [finding.text for finding in found if finding.blocking]
    if wrong:
        raise Failure("; ".join(wrong))
    return text


def _findings(claims: object) -> list[Finding]:
    now_s = int(time.time())
    match claims:
        case UserClaims():
            return user_findings(claims, now_s, _zone)
        case AccountClaims():
            return account_findings(claims, now_s)
        case OperatorClaims():
            return operator_findings(claims, now_s)
        case ActivationClaims():
            return activation_findings(claims, now_s)
    raise InvalidToken("unknown kind of token")


def _zone(name: str) -> tzinfo | None:
    from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

    try:
        return ZoneInfo(name)
    except (ZoneInfoNotFoundError, ValueError, OSError):
        return None


class TreeEntry:
    """A token in a file."""

    def __init__(self, name: str, path: Path, kind: type) -> None:
        """Read it.

        Raises:
            Failure: it is no token of this kind, or its signature is wrong.
        """
        self.name = name
        self.path = path
        self.text = undecorated(read_text(path))
        try:
            claims = decode(self.text)
        except InvalidToken as error:
            raise Failure(f"{path}: {error}") from error
        if not isinstance(claims, kind):
            raise Failure(f"{path} is the token of something else")
        self.claims = claims
        self.fields = fields_of(self.text)

    @property
    def subject(self) -> str:
        """Its public key."""
        return self.claims.sub

    @property
    def issuer(self) -> str:
        """Whose key signed it."""
        return self.claims.iss

    @property
    def part(self) -> Fields:
        """`nats` of the claims, to be changed; `OperatorEntry.save` and the like make it last."""
        if "nats" not in self.fields or self.fields["nats"].get("version", 1) != _VERSION:
            raise Failure(f"{self.path} is a token of version 1: `nsc upgrade-jwt` makes it one that can be changed")
        part: Fields = self.fields["nats"]
        return part

    def expire_at(self, second: int) -> None:
        """Let it end at a time; 0: never."""
        if second:
            self.fields["exp"] = second
        else:
            self.fields.pop("exp", None)

    def write(self, key: KeyPair) -> None:
        """Sign what the fields say now, and put it in place."""
        self.text = issue(self.fields, key)
        write_secret(self.path, self.text)
        self.claims, self.fields = decode(self.text), fields_of(self.text)


class UserEntry(TreeEntry):
    """A user of an account."""

    claims: UserClaims

    def __init__(self, name: str, path: Path) -> None:
        super().__init__(name, path, UserClaims)


class AccountEntry(TreeEntry):
    """An account of an operator."""

    claims: AccountClaims

    def __init__(self, name: str, directory: Path, keyring: Keyring) -> None:
        super().__init__(name, directory / f"{name}.jwt", AccountClaims)
        self._users = directory / "users"
        self._keyring = keyring

    def users(self) -> list[UserEntry]:
        """All users, by name."""
        return [UserEntry(path.stem, path) for path in sorted(self._users.glob("*.jwt"))]

    def user(self, name: str) -> UserEntry:
        """One user.

        Raises:
            Failure: there is no such user.
        """
        path = self._users / f"{checked_name(name, 'a user')}.jwt"
        if not path.is_file():
            raise Failure(f"user {name!r} is not in account {self.name!r}")
        return UserEntry(path.stem, path)

    def has_user(self, name: str) -> bool:
        """Whether there is a user of this name."""
        return (self._users / f"{checked_name(name, 'a user')}.jwt").is_file()

    def scope_of(self, role_or_key: str) -> str:
        """A signing key by its role, or by itself.

        Raises:
            Failure: none or several fit.
        """
        keys = self.claims.nats.signing_keys
        fit = [key for key, scope in keys.items() if role_or_key in (key, scope.role if scope is not None else key)]
        if len(fit) != 1:
            raise Failure(f"{'several' if fit else 'no'} signing keys of {self.name!r} are {role_or_key!r}")
        return fit[0]

    def signer(self, wanted: str = "", *, strict: bool = False) -> KeyPair:
        """The key for users: the one that is wanted, or the account's own, or one without a scope.

        Args:
            wanted: role or public key.
            strict: the operator does not let accounts sign with their own key.

        Raises:
            Failure: no such key is here.
        """
        keys = self.claims.nats.signing_keys
        if wanted and wanted != self.subject:
            candidates = [self.scope_of(wanted)]
        elif wanted:
            candidates = [wanted]
        else:
            plain = [key for key, scope in keys.items() if scope is None]
            candidates = plain if strict else [self.subject, *plain]
        return _first_key(self._keyring, candidates, f"account {self.name!r}")

    def add_user(self, name: str, part: Fields, signer: KeyPair, *, expires_s: int = 0) -> UserEntry:
        """Make a user, with a key of its own."""
        key = KeyPair.new(KeyKind.USER)
        named = {} if signer.public == self.subject else {"issuer_account": self.subject}
        fields = _new_fields(name, key.public, "user", {**part, **named})
        if expires_s:
            fields["exp"] = expires_s
        return self.put_user(name, issue(fields, signer), [key])

    def put_user(self, name: str, text: str, keys: Iterable[KeyPair]) -> UserEntry:
        """Take a user in that was made before, with its key if that is known."""
        path = self._users / f"{checked_name(name, 'a user')}.jwt"
        for key in keys:
            self._keyring.add(key)
        make_directory(self._users)
        write_secret(path, text)
        return UserEntry(path.stem, path)

    def save_user(self, user: UserEntry) -> None:
        """Sign a user again whose fields were changed, with the key that signed before."""
        user.write(_first_key(self._keyring, [user.issuer], f"user {user.name!r}"))

    def remove_user(self, user: UserEntry) -> None:
        """Remove a user with its key."""
        user.path.unlink()
        self._keyring.remove(user.subject)

    def credentials(self, user: UserEntry, *, expires_s: int = 0) -> str:
        """What a client needs to connect as this user.

        Raises:
            Failure: the key of the user is not here.
        """
        key = _first_key(self._keyring, [user.subject], f"user {user.name!r}")
        text = user.text
        if expires_s:
            text = issue({**user.fields, "exp": expires_s}, _first_key(self._keyring, [user.issuer], user.name))
        return _CREDENTIALS.format(token=text, seed=key.seed)


_CREDENTIALS: Final = """\
-----BEGIN NATS USER JWT-----
{token}
------END NATS USER JWT------

************************* IMPORTANT *************************
The seed below proves who you are. Keep it secret.

-----BEGIN USER NKEY SEED-----
{seed}
------END USER NKEY SEED------

*************************************************************
"""


class OperatorEntry(TreeEntry):
    """An operator with its accounts."""

    claims: OperatorClaims

    def __init__(self, directory: Path, keyring: Keyring) -> None:
        super().__init__(directory.name, directory / f"{directory.name}.jwt", OperatorClaims)
        self._accounts = directory / "accounts"
        self.keyring = keyring

    def accounts(self) -> list[AccountEntry]:
        """All accounts, by name."""
        found = (path for path in sorted(self._accounts.glob("*")) if (path / f"{path.name}.jwt").is_file())
        return [AccountEntry(path.name, path, self.keyring) for path in found]

    def account(self, name: str) -> AccountEntry:
        """One account, by its name or public key.

        Raises:
            Failure: there is no such account.
        """
        found = self.find_account(name)
        if found is None:
            raise Failure(f"account {name!r} is not in operator {self.name!r}")
        return found

    def find_account(self, name: str) -> AccountEntry | None:
        """The same; None when there is none."""
        directory = self._accounts / checked_name(name, "an account")
        if (directory / f"{directory.name}.jwt").is_file():
            return AccountEntry(directory.name, directory, self.keyring)
        return next((account for account in self.accounts() if account.subject == name), None)

    def signer(self, wanted: str = "") -> KeyPair:
        """The key for accounts: the one that is wanted, or the operator's own unless it may not be used.

        Raises:
            Failure: no such key is here.
        """
        part = self.claims.nats
        signing = part.signing_keys or []
        own = [] if part.strict_signing_key_usage else [self.subject]
        if wanted and wanted not in (*own, *signing):
            raise Failure(f"{wanted} is no key with which operator {self.name!r} signs")
        return _first_key(self.keyring, [wanted] if wanted else [*own, *signing], f"operator {self.name!r}")

    def add_account(self, name: str, part: Fields, signer: KeyPair, *, expires_s: int = 0) -> AccountEntry:
        """Make an account, with a key of its own."""
        key = KeyPair.new(KeyKind.ACCOUNT)
        fields = _new_fields(name, key.public, "account", part)
        if expires_s:
            fields["exp"] = expires_s
        return self.put_account(name, issue(fields, signer), [key])

    def put_account(self, name: str, text: str, keys: Iterable[KeyPair]) -> AccountEntry:
        """Take an account in that was made before, with those of its keys that are known."""
        directory = self._accounts / checked_name(name, "an account")
        for key in keys:
            self.keyring.add(key)
        make_directory(directory)
        write_secret(directory / f"{name}.jwt", text)
        return AccountEntry(name, directory, self.keyring)

    def save_account(self, account: AccountEntry) -> None:
        """Sign an account again whose fields were changed, with the key that signed before if it still may."""
        part = self.claims.nats
        still = account.issuer in (part.signing_keys or ()) or (
            account.issuer == self.subject and not part.strict_signing_key_usage
        )
        is_here = still and self.keyring.get(account.issuer) is not None
        account.write(self.signer(account.issuer if is_here else ""))

    def remove_account(self, account: AccountEntry, *, with_keys: bool) -> None:
        """Remove an account with its users; their keys stay unless they should go, too."""
        keys = [account.subject, *account.claims.nats.signing_keys, *(user.subject for user in account.users())]
        shutil.rmtree(account.path.parent)
        for public in keys if with_keys else ():
            self.keyring.remove(public)

    def save(self) -> None:
        """Sign the operator again after its fields were changed: it signs itself."""
        self.write(_first_key(self.keyring, [self.subject], f"operator {self.name!r}"))


class Tree:
    """All operators."""

    def __init__(self, stores: Path, keyring: Keyring) -> None:
        self._stores = stores
        self.keyring = keyring

    def names(self) -> list[str]:
        """The names of all operators."""
        return sorted(path.parent.name for path in self._stores.glob("*/.nsc"))

    def operator(self, name: str) -> OperatorEntry:
        """One operator.

        Raises:
            Failure: there is no such operator.
        """
        directory = self._stores / checked_name(name, "an operator")
        if not (directory / ".nsc").is_file():
            raise Failure(f"there is no operator {name!r}")
        return OperatorEntry(directory, self.keyring)

    def new_operator(self, name: str, part: Fields, key: KeyPair) -> OperatorEntry:
        """Make an operator."""
        return self.put_operator(name, issue(_new_fields(name, key.public, "operator", part), key), [key])

    def put_operator(self, name: str, text: str, keys: Iterable[KeyPair]) -> OperatorEntry:
        """Take an operator in that was made before, with those of its keys that are known.

        Raises:
            Failure: there is one of this name.
        """
        directory = self._stores / checked_name(name, "an operator")
        if directory.exists():
            raise Failure(f"operator {name!r} exists already")
        for key in keys:
            self.keyring.add(key)
        make_directory(directory)
        write_secret(directory / f"{directory.name}.jwt", text)
        info = {"managed": False, "name": directory.name, "kind": "operator", "version": _STORE_VERSION}
        write_secret(directory / ".nsc", json.dumps(info))
        return OperatorEntry(directory, self.keyring)


def _new_fields(name: str, public: str, kind: str, part: Fields) -> Fields:
    return {"name": name, "sub": public, "nats": {**part, "type": kind, "version": _VERSION}}


def _first_key(keyring: Keyring, candidates: Iterable[str], whose: str) -> KeyPair:
    for public in candidates:
        key = keyring.get(public)
        if key is not None:
            return key
    raise Failure(f"no key that signs for {whose} is in {keyring.directory}")
