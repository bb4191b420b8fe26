algorithms.sliding = windows(true)
