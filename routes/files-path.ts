import type { FastifyRequest } from 'fastify';
import { AppError } from '../src/errors.ts';

/** Path of a file in the address of a request: what stands behind `/files`. @throws AppError for a NUL */
export function pathInAddress(request: FastifyRequest): string {
  const { '*': rest = '' } = request.params as { readonly '*'?: string };
  if (rest.includes('\0')) throw AppError.invalidBody('path: must not contain a NUL character.');
  return `/${rest}`;
}

interface Version {
  readonly etag: string;
  readonly mtime: Date;
}

type Condition = 'if-match' | 'if-unmodified-since' | 'if-none-match';

/**
 * The conditions of a request that must hold for it to be carried out (RFC 9110 §13).
 * @param looked for, all of them for a request that changes something
 * @throws AppError FILE_CHANGED
 */
export function checkConditions(
  { headers }: FastifyRequest,
  current: Version | undefined,
  looked: readonly Condition[] = ['if-match', 'if-unmodified-since', 'if-none-match'],
): void {
  const [mustBe, since, mustNotBe] = looked.map((name) => headers[name]);
  if (mustBe !== undefined && !matches(mustBe, current))
    throw new AppError(
      'FILE_CHANGED',
      `If-Match ${mustBe}: ${current ? `the file is ${current.etag}` : 'there is no file'}.`,
    );
  if (mustBe === undefined && since !== undefined && current && isAfter(current.mtime, since))
    throw new AppError('FILE_CHANGED', `If-Unmodified-Since ${since}: it was changed ${current.mtime.toUTCString()}.`);
  if (mustNotBe !== undefined && matches(mustNotBe, current))
    throw new AppError('FILE_CHANGED', `If-None-Match ${mustNotBe}: the file is ${current?.etag}.`);
}

/** HTTP's dates have no fractions; one that cannot be read says nothing. */
function isAfter(time: Date, date: string): boolean {
  return Math.floor(time.getTime() / 1000) * 1000 > Date.parse(date);
}

/** Whether a list of tags, or `*`, is about this version. */
export function matches(tags: string, current: Pick<Version, 'etag'> | undefined): boolean {
  if (current === undefined) return false;
  return tags.trim() === '*' || tags.split(',').some((tag) => tag.trim().replace(/^W\//, '') === current.etag);
}
