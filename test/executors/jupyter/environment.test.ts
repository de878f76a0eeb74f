import { expect, test } from 'vitest';
import { Environment } from '../../../executors/jupyter/environment.ts';

const exportsOf = (variables: Record<string, string>): string =>
  Object.entries(variables)
    .map(([name, value]) => `declare -x ${name}=${JSON.stringify(value)}\n`)
    .join('');

test('only what the shell changed goes to the kernel', () => {
  const environment = new Environment({ HOME: '/root', OLD: '1' });
  const first = exportsOf({ HOME: '/root', NEW: '2' });
  expect(environment.update(first)).toEqual({ NEW: '2', OLD: null });
  expect(environment.update(first)).toBeUndefined();
  expect(environment.update(exportsOf({ HOME: '/home', NEW: '2' }))).toEqual({ HOME: '/home' });
});

test("a successor gets the shell's variables, and above them those of Python code", () => {
  const environment = new Environment({ HOME: '/root' });
  environment.update(exportsOf({ HOME: '/root', A: '1', B: '1' }));
  environment.remember({ A: 'mine', C: 'mine', HOME: null });
  environment.forgetKernel();
  expect(environment.update(exportsOf({ HOME: '/root', A: '1', B: '1' }))).toEqual({
    A: 'mine',
    B: '1',
    C: 'mine',
    HOME: null,
  });
  expect(environment.update(exportsOf({ HOME: '/root', A: '2', B: '1' }))).toEqual({ A: '2' });
  environment.forgetKernel();
  expect(environment.update(exportsOf({ HOME: '/root', A: '2', B: '1' }))).toEqual({
    A: '2',
    B: '1',
    C: 'mine',
    HOME: null,
  });
});

test('without a shell nothing is changed but what Python code has set', () => {
  const environment = new Environment({ HOME: '/root' });
  expect(environment.update('')).toBeUndefined();
  environment.remember({ A: '1' });
  environment.forgetKernel();
  expect(environment.update('')).toEqual({ A: '1' });
});

test('what is kept of Python code is bounded', () => {
  const environment = new Environment({});
  for (let index = 0; index < 10; index += 1) environment.remember({ [`V${index}`]: 'x'.repeat(1_000_000) });
  environment.forgetKernel();
  expect(Object.keys(environment.update('') ?? {})).toHaveLength(3);
});

test('what is kept counts as it is now: values that change, and those that the shell took over', () => {
  const environment = new Environment({});
  const large = 'x'.repeat(1_500_000);
  environment.update(exportsOf({ A: '0' }));
  for (let round = 0; round < 6; round += 1) {
    environment.remember({ A: large, B: large, C: '1' });
    environment.update(exportsOf({ A: `the shell's, round ${round}` }));
  }
  environment.remember({ D: 'x'.repeat(2_000_000) });
  // No room is left for it: a value that was small before is not kept either.
  environment.remember({ C: large });
  environment.forgetKernel();
  const { A: shells, ...own } = environment.update(exportsOf({ A: '1' })) ?? {};
  expect(shells).toBe('1');
  expect(Object.keys(own).toSorted()).toEqual(['B', 'D']);
});
