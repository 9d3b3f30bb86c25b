"""Rows that time a process, from its start to its end."""

import os
import subprocess
import sys


def fresh(script: str, *arguments: str, **environment: str):
    """A repetition: run a script in a new interpreter, and return the number it prints, if any."""
    command = [sys.executable, "-c", script, *arguments]

    def repetition():
        done = subprocess.run(
            command, env=os.environ | environment, check=True, capture_output=True, text=True
        )
        return float(done.stdout) if done.stdout.strip() else None

    return repetition
