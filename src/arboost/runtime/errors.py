"""The error that XGBoost users catch, and its more precise kinds."""


class XGBoostError(ValueError):
    """Bad input, bad parameter or bad state. A ValueError, as in XGBoost."""


class ModelFileError(XGBoostError):
    """A model file that is truncated, corrupted or not a model; the message names the field."""
