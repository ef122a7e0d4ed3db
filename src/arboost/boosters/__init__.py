"""Ensembles: how rounds of trees become a model."""
