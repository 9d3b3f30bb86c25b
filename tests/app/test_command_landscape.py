"""`credo landscape`: a page with every picture, and what cannot be looked at is said early."""

import re

import pytest

TINY = (
    "--members", "3", "--num-steps", "6", "--tunnel-steps", "2", "--num-points", "3",
    "--num-rows", "20", "--hidden", "4",
)  # fmt: skip


@pytest.mark.usefixtures("quick_compilation")
def test_a_page_is_written(command, table, tmp_path):
    out = tmp_path / "page.html"
    result = command("landscape", table, "--target", "kind", "--out", out, *TINY)
    assert result.code == 0, result
    assert result.out.endswith(f"wrote {out}\n") and "tunnel: barrier" in result.out
    page = out.read_text("utf-8")
    sections = ("distances", "functions", "plane", "together", "ways", "slice")
    assert re.findall(r'<section id="(\w+)"', page) == list(sections)
    assert page.count("<svg role") == 8 and "nan" not in page
    assert not re.search(r'(src|href)="(?!#|data:)', page)  # needs nothing else


def test_bad_requests_are_refused_at_once(refused, table, tmp_path):
    out = ("--out", tmp_path / "page.html")
    refused("landscape", "no-such-set", *out, words="no-such-set")
    refused("landscape", table, *out, words="--target")
    refused("landscape", "digits", "--members", "2", *out, words=("at least 3", "got 2"))
    refused("landscape", "digits", "--num-points", "2", *out, words="num_points")
    refused("landscape", "digits", "--num-steps", "0", *out, words="num_steps")
    refused("landscape", "digits", "--learning-rate", "-1", *out, words="learning_rate")
    refused("landscape", "diabetes", *out, words=("quantity", "classes"))
    refused("landscape", "digits", "--network", "resnet", *out, words="network")
    refused("landscape", "digits", "--out", tmp_path / "nowhere" / "p.html", words="nowhere")
