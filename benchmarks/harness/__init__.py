"""Runs credo and its peers in turns, and says how they compare."""
