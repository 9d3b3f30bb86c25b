"""Text data sets, as hashed word counts beside the raw sentences."""

import zipfile
from collections.abc import Sequence

import numpy as np

from credo.data.dataset import Dataset, Split, Texts
from credo.data.locate import DataDir, locate, reading
from credo.data.tabular import random_split
from credo.errors import CredoError

NUM_FEATURES = 2048
TEXT_NAMES = ("text/sms-spam", "text/subjectivity", "text/trec")


def load_text(name: str, split: int = 0, data_dir: DataDir = None) -> Dataset:
    """Sentences with one class each: sms-spam, subjectivity, or trec (six question types).

    trec has one standard split; the others keep 20 % for the test, stratified, drawn with seed
    `split`. The network sees `hash_texts` of the sentences.

    Reference: Almeida, Hidalgo & Yamakami, Contributions to the Study of SMS Spam Filtering, 2011;
    Pang & Lee, A Sentimental Education, ACL 2004; Li & Roth, Learning Question Classifiers, 2002.
    """
    if name == "text/trec":
        train, test = (_read_trec(part, data_dir) for part in ("train", "test"))
    else:
        read = _read_sms_spam if name == "text/sms-spam" else _read_subjectivity
        train, test = _split_pairs(read(data_dir), split)
    classes = tuple(sorted({label for label, _ in train}))
    texts = Texts(tuple(text for _, text in train), tuple(text for _, text in test))
    first, second = _hash_split(train, classes), _hash_split(test, classes)
    return Dataset(name, "classification", first, second, classes, texts=texts)


def hash_texts(texts: Sequence[str], num_features: int = NUM_FEATURES) -> np.ndarray:
    """Word counts folded into a fixed number of columns, each row scaled to length 1.

    A word's column is a hash of the word, so nothing is fitted and unseen words need no care;
    several words share a column, which is the price.

    Reference: Weinberger et al., Feature Hashing for Large Scale Multitask Learning, ICML 2009.

    Example:
        >>> hash_texts(["to be or not to be", "not"]).shape
        (2, 2048)
    """
    from sklearn.feature_extraction.text import HashingVectorizer

    hasher = HashingVectorizer(n_features=num_features, alternate_sign=False, dtype=np.float32)
    return hasher.transform(texts).toarray()


Labelled = list[tuple[str, str]]


def _read_sms_spam(data_dir: DataDir) -> Labelled:
    path = locate("text/SMSSpamCollection", data_dir, archive="text/sms+spam+collection.zip")
    with reading(path):
        return _parse(path.read_text("utf-8"), "\t", path.name)


def _read_trec(part: str, data_dir: DataDir) -> Labelled:
    lines = _read_member("text/qc.zip", f"qc/{part}.txt", data_dir)
    # "NUM:dist How far is it ...": the coarse type, the fine type, the question
    return [(label.partition(":")[0], text) for label, text in _parse(lines, " ", "qc.zip")]


def _read_subjectivity(data_dir: DataDir) -> Labelled:
    files = {"objective": "plot.tok.gt9.5000", "subjective": "quote.tok.gt9.5000"}
    return [
        (label, text.strip())
        for label, file in files.items()
        for text in _read_member(
            "text/subjectivity.zip", f"subjectivity/{file}", data_dir
        ).splitlines()
    ]


def _read_member(archive: str, member: str, data_dir: DataDir) -> str:
    path = locate(archive, data_dir)
    with reading(path), zipfile.ZipFile(path) as files:
        return files.read(member).decode("latin-1")


def _parse(lines: str, separator: str, origin: str) -> Labelled:
    pairs = [line.partition(separator) for line in lines.split("\n") if line]
    if not pairs or not all(middle for _, middle, _ in pairs):
        raise CredoError(
            f"expected a class and a sentence on every line of {origin}; fetch it again"
        )
    return [(label, text.strip()) for label, _, text in pairs]


def _split_pairs(pairs: Labelled, seed: int) -> tuple[Labelled, Labelled]:
    labels = np.array([label for label, _ in pairs])
    _, numbers = np.unique(labels, return_inverse=True)
    rows = random_split(np.arange(len(pairs)), numbers, "classification", 0.2, seed)
    train, test = ([pairs[int(row)] for row in part.x] for part in rows)
    return train, test


def _hash_split(pairs: Labelled, classes: tuple[str, ...]) -> Split:
    x = hash_texts([text for _, text in pairs])
    return Split(x, np.array([classes.index(label) for label, _ in pairs], np.int32))
