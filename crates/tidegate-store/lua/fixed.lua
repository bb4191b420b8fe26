algorithms.fixed = windows(false)
