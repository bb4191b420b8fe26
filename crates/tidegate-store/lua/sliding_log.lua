algorithms.sliding_log = log
