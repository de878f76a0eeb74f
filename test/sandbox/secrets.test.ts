import * as fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { Secrets } from '../../src/sandbox/secrets.ts';

const MASK = '<secret_hidden>';
const DEFAULT_NAMES = ['*KEY*', '*TOKEN*', '*SECRET*', '*PASSWORD*'];

function knowing(...values: readonly string[]): Secrets {
  const secrets = new Secrets([]);
  for (const value of values) secrets.add(value);
  return secrets;
}

function streamed(secrets: Secrets, pieces: readonly string[]): string {
  const stream = secrets.stream();
  return pieces.map((piece) => stream.push(piece)).join('') + stream.end();
}

/** Cuts text at places given in thousandths of it. */
function cut(text: string, places: readonly number[]): string[] {
  const at = [0, ...places.map((place) => Math.floor((place * text.length) / 1000)), text.length].toSorted(
    (a, b) => a - b,
  );
  return at.slice(1).map((end, index) => text.slice(at[index], end));
}

describe('names', () => {
  test.each([
    ['API_KEY', true],
    ['KEY', true],
    ['github_token', true],
    ['MY_SECRET_2', true],
    ['PGPASSWORD', true],
    ['PATH', false],
    ['HOME', false],
    ['K_E_Y', false],
    ['', false],
  ])('%s: %s', (name, isSecret) => {
    expect(new Secrets(DEFAULT_NAMES).isSecretName(name)).toBe(isSecret);
  });

  test.each([
    ['X_*', 'X_ONE', true],
    ['X_*', 'AX_ONE', false],
    ['*_X', 'ONE_X', true],
    ['*_X', 'ONE_XA', false],
    ['EXACT', 'EXACT', true],
    ['EXACT', 'EXACT2', false],
    ['A.C', 'ABC', false],
    ['*', 'ANYTHING', true],
  ])('pattern %s, name %s: %s', (pattern, name, isSecret) => {
    expect(new Secrets([pattern]).isSecretName(name)).toBe(isSecret);
  });
});

describe('where secrets come from', () => {
  test('the environment, by name, of at least eight characters', () => {
    const secrets = new Secrets(DEFAULT_NAMES);
    secrets.addEnvironment({
      API_KEY: 'environment-1',
      A_TOKEN: 'short12',
      PATH: '/usr/local/bin',
      B_TOKEN: undefined,
      C_TOKEN: 'eightch8',
    });
    expect(secrets.mask('environment-1 short12 /usr/local/bin eightch8')).toBe(
      `${MASK} short12 /usr/local/bin ${MASK}`,
    );
    expect(secrets.add('short12')).toBe(false);
  });

  test.each([
    ['export X_TOKEN=unquoted-1', 'unquoted-1'],
    [`export X_TOKEN='single quoted 1'`, 'single quoted 1'],
    ['export X_TOKEN="double quoted 1"', 'double quoted 1'],
    [String.raw`X_TOKEN="with \"quotes\" and \$dollar" ./run`, 'with "quotes" and $dollar'],
    ['X_TOKEN=for-one-command curl x', 'for-one-command'],
    ['cd /tmp && export X_TOKEN=after-others-1;ls', 'after-others-1'],
    ['(X_TOKEN=in-a-subshell)', 'in-a-subshell'],
    ['export PLAIN=nothing-secret X_TOKEN=second-of-two', 'second-of-two'],
    ['declare -x X_TOKEN=declared-one', 'declared-one'],
    ['a=1\nexport X_TOKEN=on-a-line-of-its-own', 'on-a-line-of-its-own'],
    ['export x_token=lower-case-name', 'lower-case-name'],
    ["export X_TOKEN='line one\nline two'", 'line one\nline two'],
  ])('%s', (command, value) => {
    const secrets = new Secrets(DEFAULT_NAMES);
    secrets.addAssignments(command);
    expect(secrets.mask(`<${value}>`)).toBe(`<${MASK}>`);
    expect(secrets.mask(command)).not.toContain(value);
  });

  test.each([
    'export PLAIN=nothing-secret',
    'export X_TOKEN=short12',
    'echo X_TOKENS',
    'X_TOKEN==',
    'test "$a" = "$b"',
  ])('%s: nothing', (command) => {
    const secrets = new Secrets(DEFAULT_NAMES);
    secrets.addAssignments(command);
    expect(secrets.mask(command)).toBe(command);
  });

  test('a value longer than any secret is none, however long it is, and what follows it is seen', () => {
    for (const long of ['b'.repeat(20_000_000), '\\\\'.repeat(10_000_000)]) {
      for (const text of [`"${long}"`, `'${long}'`, long, `"${long}`, `'${long}`]) {
        const secrets = new Secrets(DEFAULT_NAMES);
        secrets.addAssignments(`X_TOKEN=${text} Y_TOKEN="seen-after-it"`);
        // A quote that is never closed, or the one that closes it first, may take the rest along.
        if (/^(["']).*\1$|^[^"']/s.test(text)) expect(secrets.mask('seen-after-it')).toBe(MASK);
        expect(secrets.mask(`${long.slice(0, 5000)} ordinary`)).toContain('ordinary');
        expect(secrets.mask(long.slice(0, 100))).toBe(long.slice(0, 100));
      }
    }
    const names = new Secrets(DEFAULT_NAMES);
    names.addAssignments(`${'N'.repeat(20_000_000)}_TOKEN=never-a-secret`);
    expect(names.mask('never-a-secret')).toBe('never-a-secret');
  });

  test('the longest secret is taken, with each of its characters escaped too', () => {
    for (const value of ['$'.repeat(4096), 'x'.repeat(4096)]) {
      for (const text of [`"${value.replaceAll('$', '\\$')}"`, `'${value}'`]) {
        const secrets = new Secrets(DEFAULT_NAMES);
        secrets.addAssignments(`export X_TOKEN=${text}`);
        expect(secrets.mask(value)).toBe(MASK);
      }
    }
  });

  test('text is looked through in time that grows with its length', () => {
    // What makes a careless pattern look again and again.
    for (const text of [
      'PLAIN='.repeat(50_000),
      `PLAIN="${'\\"'.repeat(200_000)}`,
      'a'.repeat(400_000),
      ' ='.repeat(200_000),
    ]) {
      const secrets = new Secrets(DEFAULT_NAMES);
      secrets.addAssignments(text);
      expect(secrets.mask('ordinary')).toBe('ordinary');
    }
  });

  test.each([
    ['one very long value', ['x'.repeat(2_000_000)]],
    ['many long values', Array.from({ length: 100 }, (_, n) => `${n}${'-'.repeat(5000)}`)],
    ['many values', Array.from({ length: 2000 }, (_, n) => `value-${n}-`)],
  ])('%s: text can still be masked', (_, values) => {
    const secrets = new Secrets(DEFAULT_NAMES);
    secrets.add('known-before');
    for (const value of values) secrets.addAssignments(`export X_TOKEN='${value}'`);
    // The message of the engine has the whole pattern in it.
    const problems: string[] = [];
    for (const attempt of [
      () => secrets.mask('known-before'),
      () => secrets.maskValue({ text: 'known-before' }).text,
    ]) {
      try {
        expect(attempt()).toBe(MASK);
      } catch (error) {
        problems.push(String(error).slice(0, 60));
      }
    }
    expect(problems).toEqual([]);
  });

  test('registration: too short ones are refused, known ones are not', () => {
    const secrets = new Secrets([]);
    expect(secrets.add('1234567')).toBe(false);
    expect(secrets.add('')).toBe(false);
    expect(secrets.add('12345678')).toBe(true);
    expect(secrets.add('12345678')).toBe(true);
    expect(secrets.mask('1234567 12345678 123456789')).toBe(`1234567 ${MASK} ${MASK}9`);
  });
});

describe('masking', () => {
  test('every place, special characters, the longer of two', () => {
    const secrets = knowing('a.b*c(d)[e]', '$&-$1-$`-x', 'password', 'password-long');
    expect(secrets.mask('a.b*c(d)[e] a.b*c(d)[e]')).toBe(`${MASK} ${MASK}`);
    expect(secrets.mask('aXb*c(d)[e]')).toBe('aXb*c(d)[e]');
    expect(secrets.mask('$&-$1-$`-x')).toBe(MASK);
    expect(secrets.mask('password-long password')).toBe(`${MASK} ${MASK}`);
  });

  test('nothing to mask: the same value', () => {
    const value = { a: ['text'] };
    expect(knowing('password').maskValue(value)).toBe(value);
    expect(new Secrets([]).maskValue(value)).toBe(value);
  });

  test('parts in which nothing is masked: the same parts', () => {
    const value = { a: ['text', { b: 'plain' }], c: { d: 'password' }, e: null };
    const masked = knowing('password').maskValue(value);
    expect(masked).toEqual({ ...value, c: { d: MASK } });
    expect(masked.a).toBe(value.a);
  });

  test('values with characters that JSON escapes', () => {
    const secret = 'line one\nline "two"\t\\end\u0007';
    expect(knowing(secret).maskValue({ a: `<${secret}>`, b: [secret], [secret]: 1 })).toEqual({
      a: `<${MASK}>`,
      b: [MASK],
      [MASK]: 1,
    });
  });

  test('digits that are also part of a number', () => {
    const value = { id: 12_345_678, timeout: 123_456_780, text: 'it is 12345678' };
    expect(knowing('12345678').maskValue(value)).toEqual({ ...value, text: `it is ${MASK}` });
  });

  test('what looks like an escape of JSON', () => {
    expect(knowing('new-value-1').maskValue({ text: 'a\new-value-1 b' })).toEqual({ text: 'a\new-value-1 b' });
    expect(knowing('u0007abcd').maskValue({ text: '\u0007abcd' })).toEqual({ text: '\u0007abcd' });
  });

  test('what looks like structure of JSON', () => {
    const value = { a: { b: { c: false } }, d: [[[[[[[[]]]]]]]] };
    expect(knowing(':false}}', '[[[[[[[[', 'false}},').maskValue(value)).toEqual(value);
  });

  test('property: a JSON value keeps its shape, and each string is masked by itself', () => {
    const text = fc.string({
      unit: fc.constantFrom('n', 'u', '0', '1', '\n', '\\', '"', ',', ':', '}', '[', 'ż'),
      maxLength: 30,
    });
    const secret = fc.string({
      unit: fc.constantFrom('n', 'u', '0', '1', '\n', '\\', '"', ',', ':', '}', '[', 'ż'),
      minLength: 8,
      maxLength: 9,
    });
    const value = fc.letrec((tie) => ({
      value: fc.oneof(
        { depthSize: 'small' },
        text,
        fc.integer(),
        fc.boolean(),
        fc.constant(null),
        fc.array(tie('value'), { maxLength: 4 }),
        fc.record({ a: tie('value'), n: tie('value') }),
      ),
    })).value;
    const byHand = (secrets: Secrets, part: unknown): unknown => {
      if (typeof part === 'string') return secrets.mask(part);
      if (Array.isArray(part)) return part.map((item) => byHand(secrets, item));
      if (typeof part !== 'object' || part === null) return part;
      return Object.fromEntries(Object.entries(part).map(([key, item]) => [key, byHand(secrets, item)]));
    };
    fc.assert(
      fc.property(fc.array(secret, { minLength: 1, maxLength: 3 }), value, (values, whole) => {
        const secrets = knowing(...values);
        const mixed = [
          whole,
          ...values,
          `\\${values[0]}`,
          `\n${values[0]?.slice(1)}`,
          Number(/\d+/.exec(values[0] ?? '')?.[0] ?? 1),
        ];
        expect(secrets.maskValue(mixed)).toEqual(byHand(secrets, mixed));
      }),
      { numRuns: 3000 },
    );
  });
});

describe('limits', () => {
  test('thousands of values, one by one: their number and their characters are bounded', () => {
    const secrets = new Secrets([]);
    const taken = Array.from({ length: 10_050 }, (_, n) => secrets.add(`value-number-${n}`));
    expect(taken.indexOf(false)).toBe(10_000);
    expect(secrets.mask('value-number-1 value-number-10 value-number-9999 value-number-10001')).toBe(
      `${MASK} ${MASK} ${MASK} ${MASK}1`,
    );
    const long = new Secrets([]);
    const accepted = Array.from({ length: 400 }, (_, n) => long.add(`${n}${'x'.repeat(4000)}`)).filter(Boolean).length;
    expect(accepted).toBeGreaterThan(255);
    expect(accepted).toBeLessThan(263);
    expect(long.mask(`<7${'x'.repeat(4000)}>`)).toBe(`<${MASK}>`);
  });

  test('a part of the mask is no secret', () => {
    const secrets = new Secrets([]);
    expect(secrets.add('secret_hidden')).toBe(false);
    secrets.add('password-1');
    expect(secrets.mask(secrets.mask('password-1'))).toBe(MASK);
  });
});

describe('a text that is cut', () => {
  test.each([
    ['say password-1', `say ${MASK}`],
    ['say password', `say ${MASK}`],
    ['say password-1 pass', `say ${MASK} ${MASK}`],
    ['say pas', 'say pas'],
    ['say nothing', 'say nothing'],
  ])('%s', (text, shown) => {
    expect(knowing('password-1').mask(text, true)).toBe(shown);
  });
});

describe('secrets that overlap', () => {
  test('are masked as one, and no end of any is left', () => {
    const secrets = knowing('abcdefgh', 'fghijklm', 'lmnopqrs');
    expect(secrets.mask('<abcdefghijklmnopqrs>')).toBe(`<${MASK}>`);
    expect(secrets.mask('<abcdefghfghijklm>')).toBe(`<${MASK}${MASK}>`);
    expect(streamed(secrets, '<abcdefghijklmnopqrs>'.split(''))).toBe(`<${MASK}>`);
  });

  test('without end: nothing piles up', () => {
    const stream = knowing('aaaaaaaa').stream();
    const shown = Array.from({ length: 1000 }, () => stream.push('a'.repeat(1000))).join('');
    expect(shown + stream.push('b') + stream.end()).toBe(`${MASK}b`);
  });
});

describe('bytes in pieces', () => {
  test('a secret of several lines, as a terminal shows it', () => {
    const secrets = knowing('-----BEGIN-----\nabc\n-----END-----');
    const stream = secrets.byteStream();
    const shown = stream.push(Buffer.from('<-----BEGIN-----\r\nabc\r\n-----END-----><'));
    expect(shown.toString()).toBe(`<${MASK}><`);
    expect(secrets.mask('-----BEGIN-----\nabc\n-----END-----')).toBe(MASK);
  });

  test('property: as the text, and bytes that are no text are left alone', () => {
    const word = fc.constantFrom('passwörd-1', 'passw', 'örd-1', '😀', 'plain-secret', 'plain', '-secret', ' ');
    fc.assert(
      fc.property(fc.array(word, { maxLength: 12 }), fc.array(fc.nat(9), { maxLength: 20 }), (words, lengths) => {
        const secrets = knowing('passwörd-1', 'plain-secret');
        const stream = secrets.byteStream();
        const bytes = Buffer.concat([Buffer.from([0xff, 0xc3]), Buffer.from(words.join(''))]);
        const shown: Buffer[] = [];
        let at = 0;
        for (const length of [...lengths, bytes.length]) {
          shown.push(stream.push(bytes.subarray(at, at + length)));
          at += length;
        }
        shown.push(stream.end());
        const expected = Buffer.concat([Buffer.from([0xff, 0xc3]), Buffer.from(secrets.mask(words.join('')))]);
        expect(Buffer.concat(shown)).toEqual(expected);
      }),
      { numRuns: 2000 },
    );
  });
});

describe('a text whose end has to be shown', () => {
  test('a short beginning is shown, and the rest is masked if it is one', () => {
    const stream = knowing('password-1').stream();
    expect([stream.push('say pas'), stream.giveShort(3)]).toEqual(['say ', 'pas']);
    expect(stream.push('sword-1 and')).toBe(`${MASK} and`);
    expect([stream.push(' pas'), stream.giveShort(3)]).toEqual([' ', 'pas']);
    expect(stream.push('t it') + stream.end()).toBe('t it');
  });

  test('a longer one waits', () => {
    const stream = knowing('password-1').stream();
    expect([stream.push('say pass'), stream.giveShort(3)]).toEqual(['say ', '']);
    expect(stream.push('word-1')).toBe(MASK);
    expect([stream.push(' pass'), stream.giveShort(3), stream.end()]).toEqual([' ', '', 'pass']);
  });

  test('property: what is shown at any time never spells a secret, and nothing else is lost', () => {
    const word = fc.constantFrom('abcabcab', 'abc', 'ab', 'cab', 'x', 'abcabcabcx');
    fc.assert(
      fc.property(fc.array(fc.tuple(word, fc.boolean()), { maxLength: 12 }), (words) => {
        const secrets = knowing('abcabcab', 'abcabcabcx');
        const stream = secrets.stream();
        const shown = words.map(([text, isAsked]) => stream.push(text) + (isAsked ? stream.giveShort(3) : ''));
        const whole = shown.join('') + stream.end();
        expect(whole).not.toMatch(/abcabcab/);
        if (!words.some(([, isAsked]) => isAsked))
          expect(whole).toBe(secrets.mask(words.map(([text]) => text).join('')));
      }),
      { numRuns: 3000 },
    );
  });
});

describe('text in pieces', () => {
  test('a secret over two pieces, and over as many as it has characters', () => {
    const secrets = knowing('password-1');
    expect(streamed(secrets, ['a passw', 'ord-1 b'])).toBe(`a ${MASK} b`);
    expect(streamed(secrets, 'a password-1 b'.split(''))).toBe(`a ${MASK} b`);
  });

  test('what only began like a secret is not lost', () => {
    const secrets = knowing('password-1');
    expect(streamed(secrets, ['a passw'])).toBe('a passw');
    expect(streamed(secrets, ['a passw', 'oman'])).toBe('a passwoman');
    const stream = secrets.stream();
    expect(stream.push('a passw')).toBe('a ');
    expect(stream.push('x')).toBe('passwx');
    expect(stream.end()).toBe('');
  });

  test('ordinary text does not wait', () => {
    const stream = knowing('password-1').stream();
    expect(stream.push('nothing of it')).toBe('nothing of it');
  });

  test('one secret is the beginning of another', () => {
    const secrets = knowing('password', 'password-and-more');
    expect(streamed(secrets, ['a password', '-and-more b'])).toBe(`a ${MASK} b`);
    expect(streamed(secrets, ['a password', '-and b'])).toBe(`a ${MASK}-and b`);
    expect(streamed(secrets, ['a password'])).toBe(`a ${MASK}`);
  });

  test('one secret is inside another', () => {
    const secrets = knowing('password', 'my-password-too');
    expect(streamed(secrets, ['a my-password', '-too b'])).toBe(`a ${MASK} b`);
    expect(streamed(secrets, ['a my-password', '-not b'])).toBe(`a my-${MASK}-not b`);
  });

  test('a secret that is registered meanwhile', () => {
    const secrets = knowing('password-1');
    const stream = secrets.stream();
    const before = stream.push('one ');
    secrets.add('password-2');
    expect(before + stream.push('passwo') + stream.push('rd-2') + stream.end()).toBe(`one ${MASK}`);
  });

  test('property: however the text is cut, it is masked as the whole is', () => {
    // All from one word, so that they begin, end and contain each other.
    const slice = fc.tuple(fc.nat(8), fc.integer({ min: 8, max: 16 }));
    const base = fc.string({ unit: fc.constantFrom('a', 'b', 'c'), minLength: 16, maxLength: 24 });
    const places = fc.array(fc.integer({ min: 0, max: 1000 }), { maxLength: 12 });
    fc.assert(
      fc.property(
        base,
        fc.array(slice, { minLength: 1, maxLength: 4 }),
        fc.array(fc.tuple(fc.nat(16), fc.nat(16))),
        places,
        (word, secretAt, textAt, at) => {
          const secrets = knowing(...secretAt.map(([from, length]) => word.slice(from, from + length)));
          const text = textAt.map(([from, length]) => word.slice(from, from + length)).join('');
          expect(streamed(secrets, cut(text, at))).toBe(secrets.mask(text));
        },
      ),
      { numRuns: 5000 },
    );
  });

  test('property: secrets of which none begins or lies in another', () => {
    // Each has a first and a last character that no other place has.
    const secret = fc
      .string({ unit: fc.constantFrom('a', 'b', '😀'), minLength: 6, maxLength: 10 })
      .map((text) => `<${text}>`);
    const places = fc.array(fc.integer({ min: 0, max: 1000 }), { maxLength: 12 });
    fc.assert(
      fc.property(
        fc.array(secret, { minLength: 1, maxLength: 3 }),
        fc.array(fc.string({ unit: fc.constantFrom('a', 'b', '<', '>'), maxLength: 8 })),
        places,
        (values, words, at) => {
          const secrets = knowing(...values);
          const text = words.map((one, index) => one + (values[index % (values.length + 1)] ?? '')).join('');
          expect(streamed(secrets, cut(text, at))).toBe(secrets.mask(text));
        },
      ),
      { numRuns: 5000 },
    );
  });
});
