"""An epoch of ten wide networks on data of MNIST's size."""

from rows._ensemble import ensemble_row

ROW = ensemble_row((784, 500, 500, 10), targets={"PyTorch": 2.5})
