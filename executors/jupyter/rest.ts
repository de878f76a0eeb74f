import { isObject } from './messages.ts';

/** A server of the Jupyter kernels API. */
export interface Endpoint {
  /** `http:` or `https:`, without a slash at the end; may have a path. */
  readonly url: string;
  readonly token: string;
}

/** Why a request could not be carried out; the message is for the agent. */
export class JupyterError extends Error {
  override readonly name = 'JupyterError';
  /** HTTP status, undefined when there was no answer at all. */
  readonly status: number | undefined;

  constructor(message: string, status?: number, cause?: unknown) {
    super(message, { cause });
    this.status = status;
  }
}

/** There was no answer at all. */
export class UnreachableError extends JupyterError {}

/** The server is well, and has no kernel of that name. */
export class UnknownKernelError extends JupyterError {}

/** An answer later than this is none; starting a kernel waits for its process. */
const ANSWER_LIMIT_MS = 15_000;

export function authorization({ token }: Endpoint): Record<string, string> {
  return token === '' ? {} : { authorization: `token ${token}` };
}

/**
 * Starts a kernel.
 * @param path directory, from the root of the server; undefined leaves it to the server
 * @returns its id
 * @throws JupyterError
 */
export async function startKernel(endpoint: Endpoint, name: string, path: string | undefined): Promise<string> {
  const body = await request(endpoint, 'POST', '/api/kernels', JSON.stringify({ name, path }));
  if (isObject(body) && typeof body['id'] === 'string') return body['id'];
  throw new JupyterError(`${endpoint.url} is no Jupyter server: it started a kernel without an id.`);
}

/** Which kernels the server can start. @throws JupyterError */
export async function listKernelSpecs(endpoint: Endpoint): Promise<{ names: string[]; defaultName: string }> {
  const body = await request(endpoint, 'GET', '/api/kernelspecs');
  if (!isObject(body) || !isObject(body['kernelspecs']))
    throw new JupyterError(`${endpoint.url} is no Jupyter server: it has no list of kernels.`);
  const names = Object.keys(body['kernelspecs']);
  const { default: defaultName } = body;
  return { names, defaultName: typeof defaultName === 'string' ? defaultName : (names[0] ?? 'python3') };
}

/** @throws JupyterError */
export async function interruptKernel(endpoint: Endpoint, id: string): Promise<void> {
  await request(endpoint, 'POST', `/api/kernels/${encodeURIComponent(id)}/interrupt`);
}

/** @throws JupyterError */
export async function deleteKernel(endpoint: Endpoint, id: string): Promise<void> {
  await request(endpoint, 'DELETE', `/api/kernels/${encodeURIComponent(id)}`);
}

async function request(endpoint: Endpoint, method: string, path: string, body?: string): Promise<unknown> {
  let response: Response;
  let text: string;
  try {
    response = await fetch(endpoint.url + path, {
      method,
      headers: { ...authorization(endpoint), ...(body === undefined ? {} : { 'content-type': 'application/json' }) },
      ...(body === undefined ? {} : { body }),
      redirect: 'manual',
      signal: AbortSignal.timeout(ANSWER_LIMIT_MS),
    });
    text = await response.text();
  } catch (error) {
    throw new UnreachableError(
      `The Jupyter server at ${endpoint.url} does not answer: ${causeOf(error)}.`,
      undefined,
      error,
    );
  }
  if (!response.ok) throw refused(endpoint, response.status, text);
  return parsed(text);
}

function refused({ url }: Endpoint, status: number, text: string): JupyterError {
  if (status === 401 || status === 403 || (status >= 300 && status < 400))
    return new JupyterError(
      `The Jupyter server at ${url} refuses the token (HTTP ${status}): check --jupyter-token.`,
      status,
    );
  const body = parsed(text);
  const reason = isObject(body) && typeof body['message'] === 'string' ? `: ${body['message']}` : '';
  return new JupyterError(`The Jupyter server at ${url} answered HTTP ${status}${reason}.`, status);
}

function parsed(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}

function causeOf(error: unknown): string {
  const cause = error instanceof Error && error.cause instanceof Error ? error.cause : error;
  if (!(cause instanceof Error)) return String(cause);
  if (cause.name === 'TimeoutError') return `no answer within ${ANSWER_LIMIT_MS / 1000} s`;
  return 'code' in cause && cause.message === '' ? String(cause.code) : cause.message;
}
