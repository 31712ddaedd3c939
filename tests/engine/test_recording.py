"""What a recording tells of those whose requests it holds."""

import stat
from pathlib import Path
from typing import Any

import numpy as np

from kernels.constants import PAGE
from node.engine.recording import Recorder, read_recording
from tests.engine.drive import Drive, random_ids

SECRET = 77_777_777


def record(path: Path, texts: bool = False) -> list[dict[str, Any]]:
    """Two organizations ask the same, and each answer is three tokens."""
    drive, recorder = Drive(), Recorder(path, texts)
    for organization in ("acme", "acme", "else"):
        recorder.arrival(drive.add([SECRET, *random_ids(1, 2 * PAGE)], 3, organization=organization))
    while drive.scheduler.has_work:
        step, progress = drive.turn()
        assert step is not None
        recorder.plan(step)
        recorder.progress(progress)
    recorder.close()
    return list(read_recording(path))


def test_c21_a_recording_is_its_owners_alone_whatever_was_there_before(tmp_path: Path) -> None:
    path = tmp_path / "record"
    path.write_text("older")
    path.chmod(0o644)
    record(path)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


def test_c21_no_text_is_in_a_recording_unless_asked_for(tmp_path: Path) -> None:
    for texts in (False, True):
        events = record(tmp_path / "record", texts)
        plans = [event["plan"] for event in events if event["event"] == "plan"]
        sampled = [ids for event in events if event["event"] == "progress" for ids in event["ids"].values()]
        assert (SECRET in np.concatenate([plan.token_ids for plan in plans])) is texts
        assert any(any(ids) for ids in sampled) is texts
        assert sum(map(len, sampled)) == 9  # lengths are told either way


def test_c21_hashes_tell_what_is_shared_within_a_recording_and_nothing_across(tmp_path: Path) -> None:
    first, second = record(tmp_path / "first"), record(tmp_path / "second")
    arrivals = [event for event in first if event["event"] == "arrival"]
    acme, again, other = arrivals
    assert acme["organization"] == again["organization"] != other["organization"]
    assert acme["pages"] == again["pages"]
    assert not set(acme["pages"]) & set(other["pages"])
    assert b"acme" not in (tmp_path / "first").read_bytes()
    for ours, theirs in zip(arrivals, second[:3], strict=True):
        assert ours["organization"] != theirs["organization"]
        assert not set(ours["pages"]) & set(theirs["pages"])
