/** The value below which a share `q` (0 to 1) of the values lies, by nearest rank. */
export function quantile(values, q) {
  const sorted = values.toSorted((a, b) => a - b);
  return sorted[Math.max(0, Math.ceil(q * sorted.length) - 1)];
}

export function median(values) {
  return quantile(values, 0.5);
}

/** Three significant digits, as a number. */
export function rounded(value) {
  return Number(value.toPrecision(3));
}
