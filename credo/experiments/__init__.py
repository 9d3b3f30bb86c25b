"""Experiments: one table or figure of a source document is one file, run by `credo reproduce`."""
