"""Tests of ONNX models as modules."""
