algorithms.concurrency = log
