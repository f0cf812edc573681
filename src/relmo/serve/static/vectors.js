// From layers to the vectors compared. A sentence's `layers` is [layer][token][number].

export function softmax(s) {
  const top = Math.max(...s);
  const powers = s.map((value) => Math.exp(value - top));
  const total = powers.reduce((a, b) => a + b, 0);
  return powers.map((value) => value / total);
}

// ELMo_k = gamma * sum_j softmax(s)_j * h_kj
export function mix(layers, s, gamma) {
  const weights = softmax(s);
  return layers[0].map((first, token) => first.map((_, d) =>
    gamma * weights.reduce((sum, weight, j) => sum + weight * layers[j][token][d], 0)));
}

export const dot = (a, b) => a.reduce((sum, value, d) => sum + value * b[d], 0);

export function cosine(a, b) {
  const length = Math.sqrt(dot(a, a) * dot(b, b));
  return length ? dot(a, b) / length : 0;
}

export const table = (rows, columns, measure) =>
  rows.map((row) => columns.map((column) => measure(row, column)));
