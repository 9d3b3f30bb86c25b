"""The section with single inputs, as pictures or as rows of a table."""

import base64
import io
from html import escape

import numpy as np

from credo.report.examples import UNFAMILIAR, Answer, Example, examples
from credo.report.guides import EXAMPLE_GUIDES, FEATURES_GUIDE, PICTURES_GUIDE
from credo.report.results import Comparison
from credo.report.sections import paragraph, section

FEATURES_SHOWN = 6


def example_section(comparison: Comparison) -> str:
    """Inputs about which the methods disagree; of a single method, its mistakes."""
    groups = examples(comparison)
    titles = list(groups)
    alone = len(comparison.runs) == 1
    heading = titles[0] if alone else "Where the methods disagree"
    guide = PICTURES_GUIDE if comparison.data.image_shape else FEATURES_GUIDE
    parts = [paragraph(EXAMPLE_GUIDES[titles[0]])]
    if any(groups.values()):
        parts.append(paragraph(guide))
    for title, group in groups.items():
        if len(groups) > 1:
            parts.append(f"<h3>{escape(title)}</h3>")
        if title == UNFAMILIAR:
            parts.append(paragraph(EXAMPLE_GUIDES[UNFAMILIAR]))
        parts.append(show_examples(comparison, group))
    return section("examples", heading, *parts)


def show_examples(comparison: Comparison, group: list[Example]) -> str:
    """A strip of pictures, or a table where inputs are no images."""
    if not group:
        return paragraph("None." if len(comparison.runs) == 1 else "None: they agree.")
    if comparison.data.image_shape:
        pictures = "".join(_picture(comparison, example) for example in group)
        return f'<ul class="strip">{pictures}</ul>'
    return _rows(comparison, group)


def _picture(comparison: Comparison, example: Example) -> str:
    image = png(_inputs(comparison, example))
    described = escape(f"An input that is {example.truth}")
    answers = "".join(
        f"<tr{_mark(example, answer)}><th scope='row'>{escape(name)}</th>"
        f"<td>{escape(answer.predicted)}</td><td>{escape(answer.certainty)}</td></tr>"
        for name, answer in example.answers.items()
    )
    return (
        f'<li><figure><img src="data:image/png;base64,{image}" alt="{described}">'
        f"<figcaption><b>is {escape(example.truth)}</b><table>{answers}</table></figcaption>"
        "</figure></li>"
    )


def _mark(example: Example, answer: Answer) -> str:
    # No answer about an unfamiliar input can be right.
    return "" if answer.right or example.is_ood else ' class="wrong"'


def _rows(comparison: Comparison, group: list[Example]) -> str:
    features = comparison.data.features or ()
    width = _inputs(comparison, group[0]).size
    names = [features[i] if i < len(features) else f"feature {i}" for i in range(width)]
    shown = names[:FEATURES_SHOWN]
    heads = ["row", "true", *group[0].answers, *shown]
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
    answers = "".join(
        f"<td{_mark(example, answer)}>{escape(answer.predicted)} "
        f"<small>{escape(answer.certainty)}</small></td>"
        for answer in example.answers.values()
    )
    plain = "".join(f"<td>{escape(value)}</td>" for value in values)
    return f"<tr><td>{example.row}</td><td>{escape(example.truth)}</td>{answers}{plain}</tr>"


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
