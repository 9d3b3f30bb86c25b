"""The command line: one command, one file; its flags are the fields of a dataclass."""
