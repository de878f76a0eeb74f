import { describe, expect, test } from 'vitest';
import { AppError, type ErrorCode, ERRORS } from '../src/errors.ts';

const TABLE: readonly [ErrorCode, number, boolean][] = [
  ['AUTH_INVALID_KEY', 403, false],
  ['ORIGIN_FORBIDDEN', 403, false],
  ['HOST_MISSING', 400, false],
  ['HOST_FORBIDDEN', 403, false],
  ['ROUTE_NOT_FOUND', 404, false],
  ['SESSION_NOT_FOUND', 404, false],
  ['ACTION_NOT_FOUND', 404, false],
  ['METHOD_NOT_ALLOWED', 405, false],
  ['FILE_FORBIDDEN', 403, false],
  ['FILE_NOT_FOUND', 404, false],
  ['FILE_CONFLICT', 409, false],
  ['FILE_CHANGED', 412, false],
  ['BODY_TOO_LARGE', 413, false],
  ['RANGE_INVALID', 416, false],
  ['ARCHIVE_REFUSED', 422, false],
  ['BODY_INVALID', 422, false],
  ['MEDIA_TYPE', 422, false],
  ['UPGRADE_REQUIRED', 426, false],
  ['SESSION_LIMIT', 429, true],
  ['TOO_MANY_ACTIONS', 429, true],
  ['OVERLOADED', 429, true],
  ['IDEMPOTENCY_KEY_REUSED', 422, false],
  ['TRANSFER_FAILED', 500, false],
  ['BROWSER_NOT_ANSWERING', 503, true],
  ['INTERNAL', 500, false],
  ['TOO_MANY_SUBSCRIBERS', 503, true],
  ['SHUTTING_DOWN', 503, true],
  ['DISK_FULL', 507, false],
];

test('the table is closed', () => {
  expect(TABLE.map(([code]) => code)).toEqual(Object.keys(ERRORS));
});

test.each(TABLE)('%s is %i, retryable %s', (code, status, retryable) => {
  expect(new AppError(code)).toMatchObject({ code, status, retryable, message: ERRORS[code].detail });
});

test.each<[ErrorCode, string]>([
  ['AUTH_INVALID_KEY', 'Invalid API Key'],
  ['ROUTE_NOT_FOUND', 'Not Found'],
  ['METHOD_NOT_ALLOWED', 'Method Not Allowed'],
  ['BODY_INVALID', 'Invalid request parameters'],
  ['INTERNAL', 'An unexpected error occurred. Please try again later.'],
])('%s has the detail of V0 §2.1', (code, detail) => {
  expect(new AppError(code).toBody()).toEqual({ detail });
});

describe('what is sent', () => {
  test('the detail of the thrower, and errors', () => {
    expect(new AppError('BODY_TOO_LARGE', 'More than 5 bytes').toBody()).toEqual({ detail: 'More than 5 bytes' });
    expect(AppError.invalidBody('body: expected an object').toBody()).toEqual({
      detail: 'Invalid request parameters',
      errors: 'body: expected an object',
    });
  });

  test('never the cause or the stack', () => {
    const error = AppError.from(new Error('password=hunter2'));
    expect(JSON.parse(JSON.stringify(error))).toEqual({ detail: ERRORS.INTERNAL.detail });
    expect(error.cause).toMatchObject({ message: 'password=hunter2' });
  });
});

describe('AppError.from', () => {
  test('leaves its own alone', () => {
    const error = new AppError('SESSION_LIMIT');
    expect(AppError.from(error)).toBe(error);
  });

  test.each([
    [null],
    ['text'],
    [new TypeError('x')],
    [{ statusCode: 400 }],
    [Object.assign(new Error('x'), { statusCode: 503 })],
  ])('%s is INTERNAL', (thrown) => {
    expect(AppError.from(thrown)).toMatchObject({ code: 'INTERNAL', status: 500, cause: thrown });
  });

  test('takes what a library marks as the client’s fault for a bad request', () => {
    const thrown = Object.assign(new Error('Bad header'), { statusCode: 400 });
    expect(AppError.from(thrown)).toMatchObject({ code: 'BODY_INVALID', errors: 'Bad header', cause: thrown });
  });
});
