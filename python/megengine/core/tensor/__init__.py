"""Tensor helpers under the reference's names."""
