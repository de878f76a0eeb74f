import { describe, expect, test } from 'vitest';
import { AppError } from '../src/errors.ts';
import { Guard, type GuardOptions, isLoopbackAddress } from '../src/guard.ts';

function codeOf(options: Partial<GuardOptions>, path: string, headers: Record<string, string>): string {
  try {
    new Guard({ apiKeys: [], allowOrigins: [], isLoopback: false, ...options }).check(path, headers);
    return 'ok';
  } catch (error) {
    return error instanceof AppError ? error.code : String(error);
  }
}

describe('keys', () => {
  const apiKeys = ['alpha', 'beta'];

  test('without keys everything is open', () => {
    expect(codeOf({}, '/execute_action', {})).toBe('ok');
    expect(codeOf({}, '/execute_action', { 'x-session-api-key': 'anything' })).toBe('ok');
  });

  test.each(['/alive', '/health', '/ready', '/server_info'])('%s needs none', (path) => {
    expect(codeOf({ apiKeys }, path, {})).toBe('ok');
  });

  test.each([
    '/execute_action',
    '/sessions',
    '/nowhere',
    '/',
    '',
    '/alive/',
    '/ALIVE',
    '/alive/x',
    '/openapi.json',
    '/list_files',
  ])('%s needs one', (path) => {
    expect(codeOf({ apiKeys }, path, {})).toBe('AUTH_INVALID_KEY');
    expect(codeOf({ apiKeys }, path, { 'x-session-api-key': 'alpha' })).toBe('ok');
    expect(codeOf({ apiKeys }, path, { authorization: 'Bearer beta' })).toBe('ok');
  });

  test.each(['', 'alph', 'alphaa', 'ALPHA', 'alpha,beta', 'gamma'])('%j is none', (key) => {
    expect(codeOf({ apiKeys }, '/x', { 'x-session-api-key': key })).toBe('AUTH_INVALID_KEY');
    expect(codeOf({ apiKeys }, '/x', { authorization: `Bearer ${key}` })).toBe('AUTH_INVALID_KEY');
  });

  test('the message does not say which keys there are', () => {
    try {
      new Guard({ apiKeys, allowOrigins: [], isLoopback: false }).check('/x', { 'x-session-api-key': 'secret-guess' });
      expect.unreachable();
    } catch (error) {
      expect(String(error)).not.toMatch(/alpha|beta|secret-guess/);
    }
  });
});

describe('origins and hosts', () => {
  test.each([
    [{ origin: 'https://evil.example', host: 'localhost:8000' }, 'ORIGIN_FORBIDDEN'],
    [{ origin: 'http://localhost:8001', host: 'localhost:8000' }, 'ORIGIN_FORBIDDEN'],
    [{ origin: 'null', host: 'localhost' }, 'ORIGIN_FORBIDDEN'],
    [{ origin: '', host: 'localhost' }, 'ORIGIN_FORBIDDEN'],
    [{ origin: 'http://localhost:8000', host: 'localhost:8000' }, 'ok'],
    [{ origin: 'HTTPS://APP.example', host: 'localhost' }, 'ok'],
    [{ 'sec-fetch-site': 'cross-site', host: 'localhost' }, 'ORIGIN_FORBIDDEN'],
    [{ 'sec-fetch-site': 'same-site', host: 'localhost' }, 'ORIGIN_FORBIDDEN'],
    [{ 'sec-fetch-site': 'none', host: 'localhost' }, 'ok'],
    [{ 'sec-fetch-site': 'same-origin', host: 'localhost' }, 'ok'],
    [{ host: 'evil.example' }, 'HOST_FORBIDDEN'],
    [{ host: 'localhost.' }, 'HOST_FORBIDDEN'],
    [{ host: '127.0.0.1.evil.example' }, 'HOST_FORBIDDEN'],
    [{ host: '0.0.0.0:8000' }, 'HOST_FORBIDDEN'],
    [{ host: '' }, 'HOST_FORBIDDEN'],
    [{ host: '[::1]:8000' }, 'ok'],
    [{ host: '127.255.0.9' }, 'ok'],
    [{}, 'ok'],
  ])('%j on loopback: %s', (headers, code) => {
    expect(codeOf({ isLoopback: true, allowOrigins: ['https://app.example'] }, '/alive', headers)).toBe(code);
  });

  test('a page of another name that points here is refused by its name, though Origin and Host agree', () => {
    const headers = { origin: 'http://evil.example:8000', host: 'evil.example:8000' };
    expect(codeOf({ isLoopback: true }, '/execute_action', headers)).toBe('HOST_FORBIDDEN');
  });

  test('elsewhere than on loopback any Host is served', () => {
    expect(codeOf({ isLoopback: false }, '/alive', { host: 'box.example:8000' })).toBe('ok');
  });
});

test('loopback addresses', () => {
  for (const host of ['127.0.0.1', '127.9.9.9', '::1', 'localhost'])
    expect([host, isLoopbackAddress(host)]).toEqual([host, true]);
  for (const host of ['0.0.0.0', '::', '10.0.0.1', '128.0.0.1', 'example.com', '127.evil.example', '1127.0.0.1']) {
    expect([host, isLoopbackAddress(host)]).toEqual([host, false]);
  }
});
