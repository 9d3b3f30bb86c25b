"""LeNet, which is written as patches and reshapes, against XLA's own convolution and pooling."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import credo
from credo.networks import LeNet, conv, max_pool, site_shapes

pytestmark = pytest.mark.usefixtures("float64")

NETWORK = LeNet(channels=(3, 4), hidden=(5,), kernel=3)


def xla_conv(x, weight, bias):
    layout = ("NHWC", "HWIO", "NHWC")
    return jax.lax.conv_general_dilated(x, weight, (1, 1), "VALID", dimension_numbers=layout) + bias


def xla_max_pool(x):
    return jax.lax.reduce_window(x, -jnp.inf, jax.lax.max, (1, 2, 2, 1), (1, 2, 2, 1), "VALID")


def xla_lenet(params, x):
    for name in ("conv0", "conv1"):
        x = xla_max_pool(jax.nn.relu(xla_conv(x, params[name]["w"], params[name]["b"])))
    h = jax.nn.relu(x.reshape(len(x), -1) @ params["dense0"]["w"] + params["dense0"]["b"])
    return h @ params["dense1"]["w"] + params["dense1"]["b"]


def normal(seed, *shape):
    return np.random.default_rng(seed).normal(size=shape)


def value_and_gradient(function):
    """The outputs, and the gradient of a function of them with respect to every argument."""

    def pulled_back(*arguments):
        outputs, pull = jax.vjp(function, *arguments)
        return outputs, pull(jnp.cos(outputs))

    return jax.jit(pulled_back)


def close(actual, expected):
    for a, b in zip(jax.tree.leaves(actual), jax.tree.leaves(expected), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-10, atol=1e-10)


@pytest.mark.parametrize("kernel", [(3, 3), (2, 4), (5, 1)])
def test_conv(kernel):
    x, weight, bias = normal(0, 2, 9, 7, 3), normal(1, *kernel, 3, 4), normal(2, 4)
    close(
        value_and_gradient(conv)(x, weight, bias),
        value_and_gradient(xla_conv)(x, weight, bias),
    )
    turned = weight[::-1, ::-1]  # a convolution of the signal-processing kind would turn the kernel
    assert not np.allclose(conv(x, weight, bias), xla_conv(x, turned, bias))


def test_a_kernel_larger_than_the_image_is_refused():
    with pytest.raises(credo.CredoError, match="5 × 5 does not fit into an image of 8 × 4"):
        conv(normal(0, 2, 8, 4, 3), normal(1, 5, 5, 3, 4), normal(2, 4))


def test_max_pool():
    x = normal(0, 2, 8, 6, 3)
    close(value_and_gradient(max_pool)(x), value_and_gradient(xla_max_pool)(x))


def test_the_whole_network_and_its_gradient():
    params = NETWORK.init(jax.random.key(0), (14, 14, 2), 3)
    params = jax.tree.map(lambda leaf: leaf + 0.1, params)  # biases off zero
    x = normal(3, 4, 14, 14, 2)
    close(value_and_gradient(NETWORK.apply)(params, x), value_and_gradient(xla_lenet)(params, x))


def test_sites_lie_before_the_pooling():
    params = NETWORK.init(jax.random.key(0), (14, 14, 2), 3)
    expected = {"conv0": (14, 14, 2), "conv1": (12, 12, 3), "dense0": (4, 4, 4), "dense1": (5,)}
    assert site_shapes(NETWORK, params, (14, 14, 2)) == expected


def test_caffe_sizes_on_mnist():
    shapes = jax.eval_shape(lambda: LeNet().init(jax.random.key(0), (28, 28, 1), 10))
    sizes = {name: layer["w"].shape for name, layer in shapes.items()}
    expected = {"conv0": (5, 5, 1, 20), "conv1": (5, 5, 20, 50)}
    assert sizes == expected | {"dense0": (800, 500), "dense1": (500, 10)}


@pytest.mark.parametrize("shape", [(14, 14), (200,), (13, 14, 1), (5, 5, 1), (3, 3, 1)])
def test_images_it_cannot_take_are_refused(shape):
    with pytest.raises(credo.CredoError, match="MLP"):
        NETWORK.init(jax.random.key(0), shape, 3)
