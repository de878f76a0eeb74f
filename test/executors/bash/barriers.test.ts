import * as fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { Barriers } from '../../../executors/bash/barriers.ts';

const barrierOf = (token: string): string => `\u001b]${token}\u0007`;

/** What is left of the output, and the tokens seen, when the text comes in pieces of these lengths. */
function pass(barriers: Barriers, text: string, lengths: readonly number[]): { output: string; tokens: string[] } {
  const bytes = Buffer.from(text, 'latin1');
  const tokens: string[] = [];
  let output = '';
  let at = 0;
  for (const length of [...lengths, bytes.length]) {
    for (const part of barriers.split(bytes.subarray(at, at + length))) {
      if (typeof part === 'string') tokens.push(part);
      else output += part.toString('latin1');
    }
    at += length;
  }
  return { output: output + (barriers.rest()?.toString('latin1') ?? ''), tokens };
}

describe('barriers in the output of a terminal', () => {
  test('that of an earlier command, while another one runs', () => {
    const barriers = new Barriers();
    const [first, second] = [barriers.newToken(), barriers.newToken()];
    const text = `a${barrierOf(first)}b${barrierOf(first)}c${barrierOf(second)}d`;
    expect(pass(barriers, text, [])).toEqual({ output: 'abcd', tokens: [first, first, second] });
  });

  test('those of another terminal, and other sequences, are output', () => {
    const barriers = new Barriers();
    const text = `${barrierOf(new Barriers().newToken())}\u001b]0;title\u0007\u001b[31m\u001b`;
    expect(pass(barriers, text, [])).toEqual({ output: text, tokens: [] });
  });

  test('output does not wait unless it may be a barrier', () => {
    const barriers = new Barriers();
    const barrier = Buffer.from(barrierOf(barriers.newToken()));
    expect(barriers.split(Buffer.from('text \u001b[1m'))).toEqual([Buffer.from('text \u001b[1m')]);
    expect(barriers.split(Buffer.concat([Buffer.from('a'), barrier.subarray(0, 20)]))).toEqual([Buffer.from('a')]);
    expect(barriers.split(Buffer.from('x'))).toEqual([Buffer.concat([barrier.subarray(0, 20), Buffer.from('x')])]);
  });

  test('property: however the output is cut, all barriers go and all else stays', () => {
    fc.assert(
      fc.property(
        fc.array(fc.constantFrom('T', 'U', 'half', '\u001b', '\u001b]', 'a', '\u0007', 'text'), { maxLength: 20 }),
        fc.array(fc.nat(40), { maxLength: 30 }),
        (words, lengths) => {
          const barriers = new Barriers();
          const tokens = { T: barriers.newToken(), U: barriers.newToken() } as Record<string, string>;
          const half = barrierOf(barriers.newToken()).slice(0, 25);
          const written = words.map((word) => (tokens[word] ? barrierOf(tokens[word]) : word === 'half' ? half : word));
          const kept = words.map((word) => (tokens[word] ? '' : word === 'half' ? half : word));
          const result = pass(barriers, written.join(''), lengths);
          expect(result.output).toBe(kept.join(''));
          expect(result.tokens).toEqual(words.flatMap((word) => tokens[word] ?? []));
        },
      ),
      { numRuns: 2000 },
    );
  });
});
