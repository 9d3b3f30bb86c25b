"""An epoch of ten small networks on data of MNIST's size."""

from rows._ensemble import ensemble_row

ROW = ensemble_row((784, 100, 10), targets={"PyTorch": 2.5})
