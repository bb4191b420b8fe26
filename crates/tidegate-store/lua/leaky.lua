algorithms.leaky = bucket(true, true)
