"""The CPU back end: one module per subject, the same names on every device."""
