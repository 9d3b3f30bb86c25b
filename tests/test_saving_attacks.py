"""Files made to deceive, each with a correct digest: one clear line, at once, and no memory.

`test_saving.py` spoils files at random; here are the attacks that somebody would think of.
"""

import hashlib
import json
import time
from pathlib import Path

import jax.numpy as jnp
import numpy as np
import pytest

import credo
from credo import files
from credo.posterior import Draws
from tests.test_saving import THINGS, rows_for, usable

KINDS = ("F64", "F32", "F16", "BF16", "F8_E4M3", "F8_E5M2", "I64", "I32", "U8", "BOOL", "C64", "X9")
SIZES = {"F64": 8, "I64": 8, "C64": 8, "F32": 4, "I32": 4, "F16": 2, "BF16": 2}


def write(path, arrays, text, kinds=None, claimed=None):
    """A safetensors file with this text, these arrays and a correct digest.

    `kinds` replaces the kind of numbers of some arrays, `claimed` their shape in the header.
    """
    kinds, claimed = kinds or {}, claimed or {}
    codes = {"f8": "F64", "f4": "F32", "f2": "F16", "i8": "I64", "i4": "I32", "u1": "U8"}
    header, body = {}, b""
    for name, array in arrays.items():
        content = np.asarray(array, order="C").tobytes()
        kind = kinds.get(name, codes.get(array.dtype.str[1:], "BOOL"))
        size = len(content) // max(array.size, 1) or 1
        content = content[: len(content) // size * SIZES.get(kind, 1)]
        spot = [len(body), len(body) + len(content)]
        shape = list(claimed.get(name, array.shape))
        header[name] = {"dtype": kind, "shape": shape, "data_offsets": spot}
        body += content
    digest = hashlib.sha256(text.encode())
    for name in sorted(arrays):
        array = np.asarray(arrays[name], order="C")
        digest.update(f"{name} {array.dtype.str} {array.shape}".encode())
        digest.update(array.tobytes())
    header["__metadata__"] = {"credo": text, "sha256": digest.hexdigest()}
    head = json.dumps(header).encode()
    head += b" " * (-len(head) % 8)
    path.write_bytes(len(head).to_bytes(8, "little") + head + body)


def parts(thing, path):
    credo.save(thing, path)
    arrays, metadata = files.load_arrays(path)
    return dict(arrays), metadata


def refusal(path):
    """What `load` says in one line, within 2 s; None: it gave a sound model."""
    began = time.process_time()
    try:
        thing = credo.load(path)
    except credo.CredoError as error:
        said = str(error)
    else:
        said = None
    seconds = time.process_time() - began  # not by the clock: other programs run, too
    assert seconds < 2, seconds
    if said is None:
        assert usable(thing)
        return None
    assert "\n" not in said and 20 < len(said) < 1000, said
    assert "Traceback" not in said
    return said


def most_memory():
    """The most bytes that this process ever had or asked for."""
    status = Path("/proc/self/status")
    if not status.exists():
        pytest.skip("the system does not tell the memory of a process")
    line = next(line for line in status.read_text().splitlines() if line.startswith("VmPeak"))
    return 1024 * int(line.split()[1])


@pytest.fixture(scope="module", autouse=True)
def no_memory():
    """No file of this module makes credo ask for a gigabyte: 10⁹ units would be four."""
    usable(THINGS[0])  # what JAX itself takes
    before = most_memory()
    yield
    assert most_memory() - before < 1e9


def test_the_writer_writes_what_credo_reads(tmp_path):
    """The control: untouched, the file is accepted, so a refusal below has its reason."""
    for thing in THINGS:
        arrays, metadata = parts(thing, tmp_path / "file")
        write(tmp_path / "file", arrays, json.dumps(metadata))
        assert refusal(tmp_path / "file") is None


def at(content, *path):
    """The node at the end of a path of fields."""
    for step in path:
        content = content["fields"][step]
    return content


def attacks():
    """Names, and changes of the description of THINGS[0]: a regression on a table."""

    def put(*path, value):
        def change(content):
            at(content, *path[:-1])["fields"][path[-1]] = value

        return change

    def many(entry, count, kind="tuple"):
        return {kind: [entry] * count}

    network, record = ("model", "network"), ("record",)
    yield "20,000 layers", put(*network, "hidden", value=many(2, 20_000))
    yield (
        "20,000 layers, the first true",
        put(*network, "hidden", value={"tuple": [True] + [2] * 20_000}),
    )
    yield (
        "20,000 layers, the first 2.0",
        put(*network, "hidden", value={"tuple": [2.0] + [2] * 20_000}),
    )
    yield "20,000 layers in a list", put(*network, "hidden", value=many(2, 20_000, "list"))
    yield "10⁹ units", put(*network, "hidden", value={"tuple": [10**9]})
    yield "10⁹ × 10⁹ units", put(*network, "hidden", value={"tuple": [10**9, 10**9]})
    yield "10⁴⁰ units", put(*network, "hidden", value={"tuple": [10**40]})
    yield "10⁹ inputs", put(*record, "input_shape", value={"tuple": [10**9]})
    yield "60 axes", put(*record, "input_shape", value=many(3, 60))
    yield "no axis", put(*record, "input_shape", value={"tuple": []})
    yield "10⁹ targets", put("model", "likelihood", "num_targets", value=10**9)
    yield (
        "10⁹ × 10⁹ targets",
        put("model", "likelihood", "num_targets", value={"tuple": [10**9] * 6}),
    )
    yield (
        "a million options",
        put(*record, "options", value={"dict": {str(i): i for i in range(1_000_000)}}),
    )
    texts = {"dict": {"a": many("x", 10**6, "list")}}
    yield "a million texts", put(*record, "options", value=texts)
    yield "a long name", put(*record, "method", value="x" * 10**6)
    yield "a name of two lines", put(*record, "method", value="map\nmap")
    yield (
        "options that are a class",
        put(*record, "options", value={"dict": {"a": {"class": "MLP", "fields": {}}}}),
    )
    yield "options that are code", put(*record, "options", value={"dict": {"a": {"missing": "f"}}})
    yield (
        "a history of one axis",
        put(*record, "history", value={"dict": {"loss": {"array": "record/history/loss"}}}),
    )
    yield "a factor of 0", put(*record, "units", "factor", value=0.0)
    yield "a factor of 10³⁰⁰", put(*record, "units", "factor", value=1e300)
    yield "a factor of another table", put(*record, "units", "factor", value=3.0)
    yield "factors of three targets", put(*record, "units", "factor", value=many(1.0, 3))
    yield "no factors", put(*record, "units", "factor", value={"tuple": []})
    yield "classes of a quantity", put(*record, "units", "classes", value={"tuple": ["a", "b"]})
    yield "one class twice", put(*record, "units", "classes", value={"tuple": ["a", "a"]})
    encoder = (*record, "units", "inputs")
    yield "no columns", put(*encoder, "numeric", value={"tuple": []})
    yield (
        "a column too many",
        lambda content: at(content, *encoder)["fields"]["numeric"]["tuple"].append(
            at(content, *encoder)["fields"]["numeric"]["tuple"][0]
        ),
    )
    yield (
        "a column of the target's name",
        lambda content: at(content, *encoder)["fields"]["numeric"]["tuple"][0]["fields"].update(
            name="y"
        ),
    )
    yield (
        "a column filled with NaN",
        lambda content: at(content, *encoder)["fields"]["numeric"]["tuple"][0]["fields"].update(
            fill={"number": "nan"}
        ),
    )
    yield (
        "a column of scale 0",
        lambda content: at(content, *encoder)["fields"]["numeric"]["tuple"][0]["fields"].update(
            std=0
        ),
    )
    yield (
        "a category twice",
        lambda content: at(content, *encoder)["fields"]["categorical"]["tuple"][0]["fields"].update(
            categories={"tuple": ["u", "u"]}
        ),
    )
    yield (
        "a category too many",
        lambda content: at(content, *encoder)["fields"]["categorical"]["tuple"][0]["fields"].update(
            categories={"tuple": ["u", "v", "w"]}
        ),
    )
    yield (
        "a table with classes",
        lambda content: at(content, *encoder, "target")["fields"].update(task="classification"),
    )
    yield "numbers as texts", put(*record, "seconds", value="1.5")
    yield "a truth as a number", put(*record, "thin", value=True)
    yield "a number beyond all", put(*record, "num_data", value=10**4000)
    yield "rows beyond all", put(*record, "num_data", value=10**30)
    yield "an array twice", put("weights", value={"array": "record/history/loss"})
    yield "an unknown array", put("weights", value={"array": "../../etc"})
    yield "an array by number", put("weights", value={"array": 3})
    yield "an array left over", put("weights", value=None)
    yield "a class of Python", put("model", value={"class": "builtins.object", "fields": {}})
    yield "a class that is no name", put("model", value={"class": ["Model"], "fields": {}})
    yield (
        "a class with two spellings",
        put("model", "prior", value={"class": "credo.model.priors.NormalPrior", "fields": {}}),
    )
    yield "a base class", put("model", "prior", value={"class": "Prior", "fields": {}})
    yield "a network for a prior", put("model", "prior", value={"class": "MLP", "fields": {}})
    yield (
        "a prior of scale −1",
        put("model", "prior", value={"class": "NormalPrior", "fields": {"scale": -1.0}}),
    )
    yield (
        "a prior of scale 0",
        put("model", "prior", value={"class": "NormalPrior", "fields": {"scale": 0}}),
    )
    yield (
        "a prior of scale ∞",
        put(
            "model", "prior", value={"class": "NormalPrior", "fields": {"scale": {"number": "inf"}}}
        ),
    )
    yield (
        "a prior of layers unknown",
        put(
            "model",
            "prior",
            value={"class": "LayerPrior", "fields": {"scale": {"dict": {"nowhere": 1.0}}}},
        ),
    )
    yield "noise of scale −1", put("model", "likelihood", "scale", value=-1.0)
    yield "noise of another name", put("model", "likelihood", "scale", value="by_magic")
    yield "an unknown field", lambda content: content["fields"].update(surplus=1)
    yield "a posterior in a posterior", put("model", value={"class": "Samples", "fields": {}})
    yield "a field less", lambda content: content["fields"].pop("draws")
    yield "no model", put("model", value=None)
    yield "an integer for a dictionary", put(*record, "options", value=3)


ATTACKS = dict(attacks())


@pytest.mark.parametrize("name", ATTACKS)
def test_an_attack_is_refused_in_one_line_at_once(name, tmp_path):
    arrays, metadata = parts(THINGS[0], tmp_path / "file")
    ATTACKS[name](metadata["content"])
    write(tmp_path / "file", arrays, json.dumps(metadata))
    assert refusal(tmp_path / "file") is not None


def test_texts_that_no_encoder_writes_are_refused(tmp_path):
    arrays, metadata = parts(THINGS[0], tmp_path / "file")
    text = json.dumps(metadata)
    deep = '{"list": [' * 100_000 + "1" + "]}" * 100_000
    texts = {
        "deep": text.replace('"hmc"', deep),
        "deep enough to build": text.replace('"hmc"', '{"list": [' * 300 + "1" + "]}" * 300),
        "twice": text.replace('"seconds": 1.5', '"seconds": 1.5, "seconds": 2.5'),
        "NaN": text.replace("1.5", "NaN"),
        "Infinity": text.replace("1.5", "-Infinity"),
        "overflow": text.replace('"seconds": 1.5', '"seconds": 1e999'),
        "digits": text.replace('"seconds": 1.5', '"seconds": ' + "1" * 5000),
        "half": text[: len(text) // 2],
        "empty": "",
        "list": "[]",
        "null": "null",
        "number": "3",
        "text": '"text"',
        "another format": text.replace('"format": 3', '"format": 4'),
        "format as text": text.replace('"format": 3', '"format": "3"'),
        "no content": '{"format": 3}',
    }
    for name, changed in texts.items():
        assert changed != text
        write(tmp_path / "file", arrays, changed)
        assert refusal(tmp_path / "file") is not None, name


@pytest.mark.parametrize("kind", KINDS)
def test_numbers_of_every_kind_are_refused_or_right(kind, tmp_path):
    """The bytes of one array are called another kind of number; the digest is as it was."""
    for thing in (THINGS[0], THINGS[4]):
        arrays, metadata = parts(thing, tmp_path / "file")
        for name, array in arrays.items():
            if array.dtype == np.float32:
                write(tmp_path / "file", arrays, json.dumps(metadata), {name: kind})
                assert (refusal(tmp_path / "file") is None) == (kind == "F32")


def weights_of(arrays):
    return [name for name, a in arrays.items() if a.dtype == np.float32 and "record" not in name]


@pytest.mark.parametrize("number", range(len(THINGS)))
def test_arrays_that_do_not_fit_are_refused(number, tmp_path):
    """NaN, ∞, wrong kinds, numbers beyond the precision, other shapes, none, too many."""
    original, metadata = parts(THINGS[number], tmp_path / "file")
    text = json.dumps(metadata)
    spoilers = {
        "NaN": lambda a: np.where(np.arange(a.size).reshape(a.shape) == 0, np.nan, a),
        "infinite": lambda a: np.full(a.shape, -np.inf, a.dtype),
        "beyond single precision": lambda a: np.full(a.shape, 1e300),
        "whole": lambda a: np.ones(a.shape, np.int64),
        "beyond whole": lambda a: np.full(a.shape, 2**40, np.int64),
        "true": lambda a: np.ones(a.shape, bool),
        "half": lambda a: a.astype(np.float16),
        "one axis more": lambda a: a[..., None],
        "one axis less": lambda a: a.reshape(-1) if a.ndim > 1 else a.sum(),
        "nothing": lambda a: a[:0] if a.ndim else np.zeros(0, a.dtype),
        "thrice": lambda a: np.tile(a, 3),
    }
    for name in weights_of(original):
        for label, spoil in spoilers.items():
            arrays = dict(original)
            spoilt = np.asarray(spoil(original[name]))
            if label != "NaN" and spoilt.dtype == np.float64 and label != "beyond single precision":
                spoilt = spoilt.astype(np.float32)
            arrays[name] = spoilt.astype(np.float32) if label == "NaN" else spoilt
            if spoilt.shape == original[name].shape and label == "one axis less":
                continue  # a number has none
            write(tmp_path / "file", arrays, text)
            said = refusal(tmp_path / "file")
            # A factor may have any number of columns, and a rank of 0.
            free = name.endswith("factor") and label == "thrice"
            assert said is not None or free, (name, label)


@pytest.mark.parametrize("number", range(len(THINGS)))
def test_negative_scales_are_refused(number, tmp_path):
    arrays, metadata = parts(THINGS[number], tmp_path / "file")
    names = [
        n for n in arrays if any(w in n for w in ("std", "spread", "rates", "weights", "scale"))
    ]
    for name in [n for n in names if "log_scale" not in n or "std" in n]:
        spoilt = dict(arrays) | {name: -np.abs(arrays[name]) - 0.5}
        write(tmp_path / "file", spoilt, json.dumps(metadata))
        assert refusal(tmp_path / "file") is not None, name


@pytest.mark.parametrize("number", range(len(THINGS)))
def test_swapped_arrays_are_refused_where_their_shapes_differ(number, tmp_path):
    original, metadata = parts(THINGS[number], tmp_path / "file")
    names = weights_of(original)
    for first in names:
        for second in names:
            if original[first].shape == original[second].shape:
                continue
            arrays = dict(original)
            arrays[first], arrays[second] = arrays[second], arrays[first]
            write(tmp_path / "file", arrays, json.dumps(metadata))
            assert refusal(tmp_path / "file") is not None, (first, second)


def test_headers_that_lie_are_refused_before_anything_is_allocated(tmp_path):
    arrays, metadata = parts(THINGS[0], tmp_path / "file")
    name = weights_of(arrays)[0]
    for shape in ([10**9], [10**9] * 4, [-1], [0], [2.5], ["2"], None, []):
        write(tmp_path / "file", arrays, json.dumps(metadata), claimed={name: shape or (7,)})
        assert refusal(tmp_path / "file") is not None, shape
    for head in (b"[]", b"3", b"null", b'{"a": 3}', b'{"a": {}}', b"[" * 100_000, b"{" * 9, b""):
        (tmp_path / "file").write_bytes(len(head).to_bytes(8, "little") + head)
        assert refusal(tmp_path / "file") is not None, head[:9]
    for length in (2**63, 10**12, 100_000_001):
        (tmp_path / "file").write_bytes(length.to_bytes(8, "little") + b"{}")
        assert refusal(tmp_path / "file") is not None, length


def test_draws_of_a_density_are_checked_too(tmp_path):
    draws = Draws(
        {"a": jnp.ones((2, 3)), "b": jnp.ones((2, 3, 2))}, weights=jnp.full((2, 3), 1 / 6)
    )
    arrays, metadata = parts(draws, tmp_path / "file")
    for change in (
        {"draws/a": np.ones((2, 4), np.float32)}, {"draws/a": np.ones(2, np.float32)},
        {"draws/a": np.full((2, 3), np.nan, np.float32)}, {"weights": np.ones((2, 3), np.float32)},
        {"weights": np.full((3, 2), 1 / 6, np.float32)}, {"draws/b": np.ones((0, 3), np.float32)},
        {"weights": np.array([[2, -1, 0], [0, 0, 0]], np.float32)},
    ):  # fmt: skip
        write(tmp_path / "file", {**arrays, **change}, json.dumps(metadata))
        with pytest.raises(credo.CredoError):
            credo.load(tmp_path / "file")
    for node in (3, "x", None, {"list": []}, {"dict": {}}, {"missing": "f"}, {"leaves": []}):
        spoilt = json.loads(json.dumps(metadata))
        spoilt["content"]["fields"]["draws"] = node
        kept = {n: a for n, a in arrays.items() if not n.startswith("draws")}
        write(tmp_path / "file", kept, json.dumps(spoilt))
        with pytest.raises(credo.CredoError):
            credo.load(tmp_path / "file")


def test_what_cannot_be_read_again_is_not_written(tmp_path):
    from dataclasses import dataclass, field
    from typing import Any

    @dataclass(frozen=True)
    class Bag(credo.Saveable):
        content: Any = field(default=None)

    endless = []
    endless.append(endless)
    for content in (endless, [0] * 400_000, {str(n): [[[n]]] for n in range(100_000)}):
        with pytest.raises(credo.CredoError):
            credo.save(Bag(content), tmp_path / "bag")
    assert not list(tmp_path.iterdir())


def test_rows_for_a_table_are_those_of_its_encoder():
    assert list(rows_for(THINGS[0]).columns) == ["a", "b"]
