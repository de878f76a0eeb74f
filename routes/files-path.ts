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
}

/** `If-Match` and `If-None-Match` of a request that changes something. @throws AppError FILE_CHANGED */
export function checkConditions(request: FastifyRequest, current: Version | undefined): void {
  const { 'if-match': mustBe, 'if-none-match': mustNotBe } = request.headers;
  if (mustBe !== undefined && !matches(mustBe, current))
    throw new AppError(
      'FILE_CHANGED',
      `If-Match ${mustBe}: ${current ? `the file is ${current.etag}` : 'there is no file'}.`,
    );
  if (mustNotBe !== undefined && matches(mustNotBe, current))
    throw new AppError('FILE_CHANGED', `If-None-Match ${mustNotBe}: the file is ${current?.etag}.`);
}

/** Whether a list of tags, or `*`, is about this version. */
export function matches(tags: string, current: Version | undefined): boolean {
  if (current === undefined) return false;
  return tags.trim() === '*' || tags.split(',').some((tag) => tag.trim().replace(/^W\//, '') === current.etag);
}
