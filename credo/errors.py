"""The one exception users should ever see from credo."""


class CredoError(ValueError):
    """Something the user can mend: says what was received, what was expected, what to change."""


class DivergedError(CredoError):
    """A run whose loss or chain left the finite numbers."""


class CredoWarning(UserWarning):
    """Something that ended but should not be trusted as it is."""


class CredoNote(CredoWarning):
    """Something that was decided for the user, who may see it otherwise."""
