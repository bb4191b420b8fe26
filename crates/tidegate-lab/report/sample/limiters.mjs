// The sample's limiters: simple ones, of floating point. `(t, factor)` gives how long a request waits, or null if it is refused; the
// factor is what the adaptation makes of the rate at that moment.

export const limiters = {
  fixed: ({ rate, window }) => {
    let [current, used] = [-1, 0];
    return (t, factor) => {
      const now = Math.floor(t / window);
      if (now !== current) [current, used] = [now, 0];
      return used < rate * factor ? ((used += 1), 0) : null;
    };
  },
  sliding: ({ rate, window }) => {
    let [current, used, before] = [-1, 0, 0];
    return (t, factor) => {
      const now = Math.floor(t / window);
      if (now !== current) [current, before, used] = [now, now === current + 1 ? used : 0, 0];
      const weighted = used + before * (1 - (t / window - now));
      return weighted + 1 <= rate * factor ? ((used += 1), 0) : null;
    };
  },
  sliding_log: ({ rate, window }) => {
    let log = [];
    return (t, factor) => {
      log = log.filter((one) => one > t - window);
      return log.length < rate * factor ? (log.push(t), 0) : null;
    };
  },
  token: ({ rate, burst }) => {
    let [tokens, last] = [burst, 0];
    return (t, factor) => {
      tokens = Math.min(burst * factor, tokens + (t - last) * rate * factor);
      last = t;
      return tokens >= 1 ? ((tokens -= 1), 0) : null;
    };
  },
  leaky: ({ rate, burst }) => {
    let free = 0;
    return (t, factor) => {
      const start = Math.max(t, free);
      if ((start - t) * rate * factor > burst) return null;
      free = start + 1 / (rate * factor);
      return start - t;
    };
  },
  gcra: ({ rate, burst }) => {
    let due = 0;
    return (t, factor) => {
      const gap = 1 / (rate * factor);
      const next = Math.max(t, due);
      if (next - t > (burst - 1) * gap) return null;
      due = next + gap;
      return 0;
    };
  },
};
