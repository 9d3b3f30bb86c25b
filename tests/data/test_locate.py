"""Where files come from: the data folder first, then a download that must match its hash."""

import gc
import hashlib
import http.server
import io
import threading
import warnings
import zipfile
from contextlib import contextmanager
from functools import partial

import numpy as np
import pytest

from credo.data import load, locate
from credo.errors import CredoError

CONTENT = b"some numbers\n"


class QuietHandler(http.server.SimpleHTTPRequestHandler):
    def log_message(self, *arguments):
        pass


@contextmanager
def serve(folder):
    """A web server for a folder, on this machine alone."""
    handler = partial(QuietHandler, directory=folder)
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler)
    threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()
    server.server_close()
    with warnings.catch_warnings():  # pooch leaves failed connections to the collector
        warnings.simplefilter("ignore", ResourceWarning)
        gc.collect()


@pytest.fixture
def publisher(tmp_path, monkeypatch):
    """A publisher on this machine that offers a file, a zip and a file that was tampered with."""
    site = tmp_path / "site"
    site.mkdir()
    (site / "file.txt").write_bytes(CONTENT)
    (site / "tampered.txt").write_bytes(b"other numbers\n")
    archive = io.BytesIO()
    with zipfile.ZipFile(archive, "w") as files:
        files.writestr("inner.txt", CONTENT)
    (site / "bundle.zip").write_bytes(archive.getvalue())
    with serve(site) as address:
        offer = {
            "file.txt": CONTENT,
            "tampered.txt": CONTENT,
            "bundle.zip": archive.getvalue(),
            "gone.txt": CONTENT,
        }
        lines = [
            f"set/{name} {hashlib.sha256(content).hexdigest()} {address}/{name}"
            for name, content in offer.items()
        ]
        monkeypatch.setenv("CREDO_CACHE", str(tmp_path / "cache"))
        monkeypatch.setenv("NO_PROXY", "127.0.0.1")
        monkeypatch.delenv("CREDO_DATA", raising=False)
        locate.publisher.cache_clear()
        fetcher = locate.publisher()
        fetcher.registry.clear()
        fetcher.load_registry(io.BytesIO("\n".join(lines).encode()))
        yield site
    locate.publisher.cache_clear()


def test_the_data_folder_comes_first(publisher, tmp_path, monkeypatch):
    folder = tmp_path / "folder"
    (folder / "set").mkdir(parents=True)
    (folder / "set" / "file.txt").write_bytes(b"mine\n")
    assert locate.locate("set/file.txt", folder).read_bytes() == b"mine\n"
    monkeypatch.setenv("CREDO_DATA", str(folder))
    assert locate.locate("set/file.txt").read_bytes() == b"mine\n"
    assert locate.locate("set/bundle.zip").is_relative_to(tmp_path / "cache")


def test_a_download_is_kept(publisher, tmp_path):
    path = locate.locate("set/file.txt")
    assert path == tmp_path / "cache" / "data" / "set" / "file.txt"
    assert path.read_bytes() == CONTENT
    (publisher / "file.txt").unlink()
    assert locate.locate("set/file.txt") == path


def test_a_damaged_copy_in_the_cache_is_fetched_again(publisher):
    locate.locate("set/file.txt").write_bytes(CONTENT[:-3])
    assert locate.locate("set/file.txt").read_bytes() == CONTENT


def test_a_file_inside_an_archive(publisher):
    assert locate.locate("set/inner.txt", archive="set/bundle.zip").read_bytes() == CONTENT


@pytest.mark.parametrize(
    ("path", "message"),
    [
        ("set/tampered.txt", r"could not download http\S+tampered.txt \(.*hash.*put it at set/tam"),
        ("set/gone.txt", r"could not download http\S+gone.txt \(404.*put it at set/gone.txt below"),
        ("set/derived.npz", r"set/derived.npz is needed and cannot be downloaded; put it at set/d"),
    ],
)
def test_what_cannot_be_had_says_where_to_put_it(publisher, tmp_path, path, message):
    with pytest.raises(CredoError, match=message) as caught:
        locate.locate(path)
    assert "CREDO_DATA" in str(caught.value) and "--data-dir" in str(caught.value)
    assert "\n" not in str(caught.value)
    assert not (tmp_path / "cache" / "data" / path).exists()


def test_a_folder_that_is_not_there(tmp_path, monkeypatch):
    with pytest.raises(CredoError, match=r"data_dir names .*nowhere"):
        locate.locate("set/file.txt", tmp_path / "nowhere")
    monkeypatch.setenv("CREDO_DATA", str(tmp_path / "nowhere"))
    with pytest.raises(CredoError, match=r"CREDO_DATA names .*nowhere"):
        locate.locate("set/file.txt")


@pytest.mark.parametrize("name", ["uci/yacht", "adbench/cardio", "text/trec"])
def test_a_whole_set_can_be_downloaded(data_dir, tmp_path, monkeypatch, name):
    """The real registry, with the data folder standing in for the publishers."""
    monkeypatch.setenv("CREDO_CACHE", str(tmp_path))
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    monkeypatch.delenv("CREDO_DATA")
    locate.publisher.cache_clear()
    with serve(data_dir) as address:
        urls = {path: f"{address}/{path}" for path in locate.publisher().registry}
        monkeypatch.setattr(locate.publisher(), "urls", urls)
        downloaded = load(name)
    locate.publisher.cache_clear()
    np.testing.assert_array_equal(downloaded.train.x, load(name, data_dir=data_dir).train.x)


def test_the_registry_knows_the_files_byte_by_byte(data_dir):
    """Text, ADBench and UCI files lie in the data folder as their publishers offer them."""
    registry = locate.publisher().registry
    as_published = [
        path
        for path in registry
        if path.startswith(("uci/", "adbench/", "text/")) and (data_dir / path).is_file()
    ]
    assert as_published
    for path in as_published:
        assert hashlib.sha256((data_dir / path).read_bytes()).hexdigest() == registry[path]
