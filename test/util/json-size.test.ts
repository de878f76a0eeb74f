import fc from 'fast-check';
import { expect, test } from 'vitest';
import { hasMoreValues } from '../../src/util/json-size.ts';

/** Slow and plain: without the strings, what begins a value other than the first. */
const valuesIn = (text: string): number => text.replaceAll(/"(?:[^"\\]|\\.)*"/g, '').match(/[,[{]/g)?.length ?? 0;

test('counts what stands outside of strings, whatever is in them', () => {
  const text = fc.oneof(
    fc.json(),
    fc.array(fc.string({ unit: fc.constantFrom('\\', '"', ',', '[', '{', 'x') })).map((list) => JSON.stringify(list)),
  );
  fc.assert(
    fc.property(text, (json) => {
      const values = valuesIn(json);
      expect(hasMoreValues(json, values)).toBe(false);
      if (values > 0) expect(hasMoreValues(json, values - 1)).toBe(true);
    }),
  );
});

test.each(['', '"', '"\\', '"\\"', '\\', '[[['])('what is no JSON gets an answer: %j', (text) => {
  expect(hasMoreValues(text, 3)).toBe(false);
});
