"""`credo theatre`: the flags reach the page, and a page that cannot be written is said early."""

import pytest

import credo.report.theatre


@pytest.fixture
def written(monkeypatch):
    """What the command asked for, without the minutes of recording."""
    seen = []

    def write(path, *settings):
        path.write_text("<!DOCTYPE html>", "utf-8")
        seen.append((path, *settings))

    monkeypatch.setattr(credo.report.theatre, "write_theatre", write)
    return seen


def test_flags_reach_the_page(command, written, tmp_path):
    out = tmp_path / "page.html"
    result = command("theatre", "--out", out, "--num-steps", "50", "--seed", "7")
    assert result == (0, f"wrote {out}\n", "")
    assert written == [(out, 50, 7)]


def test_the_page_is_written_here_by_default(command, written, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert command("theatre").code == 0 and (tmp_path / "theatre.html").is_file()


def test_bad_requests_are_refused_at_once(refused, tmp_path):
    (tmp_path / "folder").mkdir()
    refused("theatre", "--out", tmp_path / "nowhere" / "t.html", words=("cannot write", "nowhere"))
    refused("theatre", "--out", tmp_path / "folder", words="folder")
    refused("theatre", "--out", tmp_path / "t.html", "--num-steps", "2", words="num_steps")
    refused("theatre", "--out", tmp_path / "t.html", "--num-steps", "many", words="num-steps")
