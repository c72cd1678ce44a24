"""The test suite; ops/record.py says how an op is tested."""
