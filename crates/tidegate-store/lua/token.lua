algorithms.token = bucket(false, false)
