"""The sections with single inputs, as pictures or as rows of a table."""

import base64
import io
from html import escape

import numpy as np

from credo.report.examples import Example, examples
from credo.report.guides import CLASSES_GUIDE, MISTAKES, QUANTITIES_GUIDE
from credo.report.results import Comparison
from credo.report.sections import paragraph, section

FEATURES_SHOWN = 6


def example_sections(comparison: Comparison) -> str:
    """The most and least certain inputs, and the most confident mistakes."""
    found = {name: examples(comparison, name) for name in comparison.runs}
    titles = list(next(iter(found.values())))
    mistakes = [title for title in titles if title in MISTAKES]
    others = [title for title in titles if title not in MISTAKES]

    def strips(title: str) -> str:
        return "".join(
            f"<h4>{escape(name)}</h4>{show_examples(comparison, groups[title])}"
            for name, groups in found.items()
        )

    certain = "".join(f"<h3>{escape(title)}</h3>{strips(title)}" for title in others)
    guide = QUANTITIES_GUIDE if comparison.regression else CLASSES_GUIDE
    return section(
        "examples", "The most and least certain inputs", paragraph(guide), certain
    ) + section("mistakes", mistakes[0], paragraph(MISTAKES[mistakes[0]]), strips(mistakes[0]))


def show_examples(comparison: Comparison, group: list[Example]) -> str:
    """A strip of pictures, or a table where inputs are no images."""
    if not group:
        same = "None: this method is equally certain of all inputs."
        return f"<p>{same if comparison.regression else 'None.'}</p>"
    if comparison.data.image_shape:
        pictures = "".join(_picture(comparison, example) for example in group)
        return f'<ul class="strip">{pictures}</ul>'
    return _rows(comparison, group)


def _picture(comparison: Comparison, example: Example) -> str:
    image = png(_inputs(comparison, example))
    is_what = example.truth
    if not example.right:
        is_what += f", taken for {example.predicted}"
    described = escape(f"An input that is {is_what}, with confidence {example.certainty}")
    wrong = "" if example.right else ' class="wrong"'
    verdict = escape(example.predicted) if example.right else (
        f"{escape(example.predicted)} <small>(is {escape(example.truth)})</small>"
    )  # fmt: skip
    return (
        f'<li{wrong}><figure><img src="data:image/png;base64,{image}" alt="{described}">'
        f"<figcaption><b>{verdict}</b> {escape(example.certainty)}</figcaption></figure></li>"
    )


def _rows(comparison: Comparison, group: list[Example]) -> str:
    features = comparison.data.features or ()
    width = _inputs(comparison, group[0]).size
    names = [features[i] if i < len(features) else f"feature {i}" for i in range(width)]
    shown = names[:FEATURES_SHOWN]
    heads = ["row", "true", "predicted", "certainty", *shown]
    cells = "".join(f'<th scope="col">{escape(head)}</th>' for head in heads)
    body = "".join(_row(comparison, example, len(shown)) for example in group)
    left_out = width - len(shown)
    more = f"<p><small>and {left_out} more features, not shown</small></p>" if left_out else ""
    return (
        f'<div class="scroll" tabindex="0"><table><thead><tr>{cells}</tr></thead>'
        f"<tbody>{body}</tbody></table></div>{more}"
    )


def _row(comparison: Comparison, example: Example, width: int) -> str:
    values = [f"{value:.2f}" for value in _inputs(comparison, example).ravel()[:width]]
    cells = [str(example.row), example.truth, example.predicted, example.certainty, *values]
    wrong = "" if example.right else ' class="wrong"'
    return f"<tr{wrong}>" + "".join(f"<td>{escape(cell)}</td>" for cell in cells) + "</tr>"


def _inputs(comparison: Comparison, example: Example) -> np.ndarray:
    if example.is_ood:
        assert comparison.ood is not None
        return comparison.ood.x[example.row]
    return comparison.data.test.x[example.row]


def png(image: np.ndarray) -> str:
    """An image (height, width, channels) with values in [0, 1] as base64 of a PNG file."""
    from PIL import Image

    pixels = np.clip(np.round(np.asarray(image, np.float64) * 255), 0, 255).astype(np.uint8)
    # One channel is grey, three are colors; of anything else the first channel is shown.
    pixels = pixels if pixels.shape[-1] == 3 else pixels[..., 0]
    buffer = io.BytesIO()
    Image.fromarray(pixels).save(buffer, format="PNG", optimize=True)
    return base64.b64encode(buffer.getvalue()).decode()
