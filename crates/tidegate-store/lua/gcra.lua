algorithms.gcra = bucket(true, false)
