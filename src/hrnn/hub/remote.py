"""To and from the Hugging Face Hub. Who you are is the business of its own login, not of hrnn."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path

from hrnn.errors import UserError, require_extra, words_of

REPOSITORY = re.compile(r"[\w.-]+/[\w.-]+")


def sent(folder: Path, repository: str, private: bool) -> str:
    """Send the folder as one commit to a repository, which is made if it is not there; returns its address."""
    import huggingface_hub

    try:
        api = huggingface_hub.HfApi()
        made = api.create_repo(repository, private=private, exist_ok=True)
        api.upload_folder(folder_path=folder, repo_id=repository, commit_message="Model saved by hrnn")
    except Exception as error:  # whatever the network, the login and the Hub come up with
        raise UserError(f"{repository} cannot be written to the Hub: {words_of(error)}") from None
    return str(made)


def fetched(where: str, revision: str | None, files: Sequence[str]) -> Path:
    """The folder with these files of a repository."""
    check(where)
    import huggingface_hub

    try:
        return Path(huggingface_hub.snapshot_download(where, revision=revision, allow_patterns=list(files)))
    except Exception as error:  # whatever the network, the login and the Hub come up with
        raise UserError(f"{where} is no folder, and cannot be fetched from the Hub: {words_of(error)}") from None


def check(repository: str) -> None:
    """Is this the name of one, and can it be reached from here?"""
    if not isinstance(repository, str) or not REPOSITORY.fullmatch(repository):
        raise UserError(f"{repository} is neither a folder nor a repository of the Hub; give one that is there, or owner/name")
    require_extra("hub", "hrnn.hub")
