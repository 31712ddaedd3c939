"""Fetching a checkpoint from the Hugging Face hub."""

from __future__ import annotations

from pathlib import Path

from huggingface_hub import snapshot_download
from huggingface_hub.errors import (
    GatedRepoError,
    HfHubHTTPError,
    HFValidationError,
    LocalEntryNotFoundError,
    RepositoryNotFoundError,
    RevisionNotFoundError,
)

WANTED = ["*.safetensors", "*.json", "*.jinja", "*.txt", "LICENSE*", "README*"]


class PullError(Exception):
    """The checkpoint could not be fetched. The message says why, for people."""


def pull(repo: str, folder: Path | None = None, revision: str | None = None) -> Path:
    """Fetch `repo` ("Qwen/Qwen3.5-9B") into `folder` [weights/NAME]; what is there is not fetched again."""
    target = folder or Path("weights") / repo.rpartition("/")[2]
    try:
        snapshot_download(repo, revision=revision, local_dir=target, allow_patterns=WANTED)
    except GatedRepoError:
        raise PullError(f"{repo} asks for consent on its page, and for a token in HF_TOKEN") from None
    except RevisionNotFoundError:
        raise PullError(f"{repo} has no revision {revision}") from None
    except RepositoryNotFoundError:
        raise PullError(f"the hub has no {repo}, or it is private and HF_TOKEN does not open it") from None
    except HFValidationError as error:
        raise PullError(f"{repo} is not the name of a repository: {error}") from None
    except LocalEntryNotFoundError:
        raise PullError(
            "the hub could not be reached; what was fetched is kept, call again to go on"
        ) from None
    except (HfHubHTTPError, OSError) as error:
        raise PullError(f"{error}; what was fetched is kept, call again to go on") from None
    return target
