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

const unit = (vector, length = 1) => {
  const own = Math.sqrt(dot(vector, vector)) || 1;
  return vector.map((value) => length * value / own);
};

// What both directions expect at this place, beside the LSTM layers of the word, as
// Elmo.sense_vectors joins them; null at the ends, where a neighbor is outside the sentence.
export function senseVector(layers, token) {
  const top = layers.at(-1);
  if (token < 1 || token + 1 >= top.length) return null;
  const half = top[token].length / 2;
  const expected = top[token - 1].slice(0, half).map((value, d) => value + top[token + 1][half + d]);
  const upper = layers.slice(1);
  return [unit(expected), ...upper.map((layer) => unit(layer[token], 1 / Math.sqrt(upper.length)))].flat();
}

export const table = (rows, columns, measure) =>
  rows.map((row) => columns.map((column) => measure(row, column)));
