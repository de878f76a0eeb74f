/** The most a stored record's JSON may be, so that with everything around it stays a frame. In bytes. */
export const MAX_RECORD_JSON_BYTES = 128 * 1024;

/** Longest strings kept, in UTF-16 units, tried one after another until the whole fits. */
const STRING_LIMITS = [32 * 1024, 1024, 64];

/** A field that is still larger than this when all strings are cut is left out. */
const MAX_FIELD_BYTES = 1024;

/** The same fields with long strings cut, such that the JSON of `envelope` and fields together fits into a record. */
export function cutPayload(
  payload: Readonly<Record<string, unknown>>,
  envelopeBytes: number,
): Readonly<Record<string, unknown>> {
  const room = MAX_RECORD_JSON_BYTES - envelopeBytes - 2;
  for (const limit of STRING_LIMITS) {
    const text = cutStrings(payload, limit);
    if (text !== undefined && Buffer.byteLength(text) <= room) return JSON.parse(text) as Record<string, unknown>;
  }
  const small = Object.entries(payload).map(([key, value]) => [key, cutField(value)]);
  const result = Object.fromEntries(small) as Record<string, unknown>;
  return Buffer.byteLength(JSON.stringify(result)) <= room ? result : {};
}

/** As JSON; undefined for what is nested too deep to be looked through. */
function cutStrings(payload: Readonly<Record<string, unknown>>, limit: number): string | undefined {
  try {
    return JSON.stringify(payload, (_key, value: unknown) =>
      typeof value === 'string' ? cutString(value, limit) : value,
    );
  } catch (error) {
    if (error instanceof RangeError) return undefined;
    throw error;
  }
}

/** Head and tail of a string, with how many characters are missing between them. */
export function cutString(text: string, limit: number): string {
  if (text.length <= limit) return text;
  const half = Math.floor(limit / 2);
  const head = isHighSurrogate(text.charCodeAt(half - 1)) ? half - 1 : half;
  const tail = text.length - half + (isLowSurrogate(text.charCodeAt(text.length - half)) ? 1 : 0);
  return `${text.slice(0, head)}… [${tail - head} characters left out] …${text.slice(tail)}`;
}

function cutField(value: unknown): unknown {
  const bytes = Buffer.byteLength(JSON.stringify(value) ?? '');
  return bytes <= MAX_FIELD_BYTES ? value : `… [${bytes} bytes left out] …`;
}

function isHighSurrogate(unit: number): boolean {
  return unit >= 0xd8_00 && unit <= 0xdb_ff;
}

function isLowSurrogate(unit: number): boolean {
  return unit >= 0xdc_00 && unit <= 0xdf_ff;
}
