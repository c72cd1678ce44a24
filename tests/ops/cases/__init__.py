"""One module per op family, each with a list RECORDS (and, for ops no record can hold,
COVERED_ELSEWHERE).
"""
