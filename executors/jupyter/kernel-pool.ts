import type { Gateway } from './gateway.ts';
import { Kernel } from './kernel.ts';
import { textOf } from './messages.ts';
import { setUpRequest, stateOf } from './python-side.ts';
import { type Endpoint, JupyterError, listKernelSpecs, UnknownKernelError, UnreachableError } from './rest.ts';

/** A kernel that has been set up. */
export interface PreparedKernel {
  readonly kernel: Kernel;
  /** `sys.executable`; the kernel's name for other languages. */
  readonly interpreter: string;
  /** Whether it is Python with our functions in it: others do not follow the shell. */
  readonly isPrepared: boolean;
}

export interface KernelPoolOptions {
  readonly gateway: Gateway;
  /** Kernels of the default kind that are kept ready. */
  readonly warm: number;
  readonly withSkills: boolean;
  readonly onLog: (text: string) => void;
}

const PYTHON = 'python';
/** Imports of the set-up; a start-up file of the user's may be slow. */
const SET_UP_LIMIT_MS = 60_000;

/** Starts kernels, and keeps some ready. */
export class KernelPool {
  readonly #options: KernelPoolOptions;
  readonly #spares: Promise<PreparedKernel | undefined>[] = [];
  readonly #kernels = new Set<Kernel>();
  #specs: { readonly names: readonly string[]; readonly defaultName: string } | undefined;
  #isStopped = false;

  constructor(options: KernelPoolOptions) {
    this.#options = options;
    options.gateway.onExit = (cause) => this.#onGatewayExit(cause);
  }

  /**
   * A kernel that has run nothing yet.
   * @param name of its specification; undefined takes the server's default
   * @param directory where one of another language starts: only Python's can be taken elsewhere later
   * @throws JupyterError
   */
  async take(name: string | undefined, directory: string): Promise<PreparedKernel> {
    const spare = await this.#takeSpare(name);
    const prepared = spare ?? (await this.#start(name, directory));
    this.#refill();
    return prepared;
  }

  /** Starts spares until there are enough, in the background; one that fails is started again with the next kernel that is taken. */
  #refill(): void {
    while (!this.#isStopped && this.#spares.length < this.#options.warm) {
      this.#spares.push(
        this.#start(undefined).catch((error: unknown) => {
          this.#options.onLog(`a spare kernel could not be started: ${String(error)}`);
          return undefined;
        }),
      );
    }
  }

  /** Ends all kernels and the gateway. */
  async stop(): Promise<void> {
    this.#isStopped = true;
    const kernels = [...this.#kernels];
    await Promise.all([...kernels.map((kernel) => kernel.close()), this.#options.gateway.stop()]);
  }

  /** The oldest spare that lives; one that is still starting is waited for. */
  async #takeSpare(name: string | undefined): Promise<PreparedKernel | undefined> {
    if (name !== undefined && name !== this.#specs?.defaultName) return undefined;
    while (this.#spares.length > 0) {
      const spare = await this.#spares.shift();
      if (spare?.kernel.isAlive) return spare;
    }
    return undefined;
  }

  /** @param isRetry whether a gateway that did not answer has been replaced already */
  async #start(name: string | undefined, directory?: string, isRetry = false): Promise<PreparedKernel> {
    const { gateway, onLog } = this.#options;
    const endpoint = await gateway.start();
    let kernel: Kernel;
    try {
      const spec = await this.#specName(endpoint, name);
      const { isLocal } = gateway;
      kernel = await Kernel.start({ endpoint, name: spec, directory, isLocal, onProblem: onLog });
    } catch (error) {
      if (!(error instanceof UnreachableError)) throw error;
      gateway.giveUp(endpoint);
      if (!gateway.isLocal || isRetry) throw error;
      return this.#start(name, directory, true);
    }
    if (this.#isStopped) {
      await kernel.close();
      throw new JupyterError('The server is shutting down.');
    }
    this.#kernels.add(kernel);
    void kernel.died.then(() => this.#kernels.delete(kernel));
    return this.#prepare(kernel);
  }

  async #specName(endpoint: Endpoint, name: string | undefined): Promise<string> {
    if (this.#specs === undefined || (name !== undefined && !this.#specs.names.includes(name)))
      this.#specs = await listKernelSpecs(endpoint);
    const { names, defaultName } = this.#specs;
    if (name === undefined || names.includes(name)) return name ?? defaultName;
    throw new UnknownKernelError(
      `There is no kernel ${JSON.stringify(name)}: args.kernel can be ${names.toSorted().join(', ')}.`,
    );
  }

  async #prepare(kernel: Kernel): Promise<PreparedKernel> {
    if (kernel.language !== PYTHON) return { kernel, interpreter: kernel.name, isPrepared: false };
    let problem = '';
    const cell = kernel.execute(setUpRequest(this.#options.withSkills), ({ type, content }) => {
      if (type === 'error') problem = `${textOf(content['ename'])}: ${textOf(content['evalue'])}`;
    });
    let timer: NodeJS.Timeout | undefined;
    const late = new Promise<undefined>((resolve) => (timer = setTimeout(resolve, SET_UP_LIMIT_MS, undefined)));
    const end = await Promise.race([cell.ended, late]);
    clearTimeout(timer);
    const state = end?.kind === 'replied' ? stateOf(end.reply) : undefined;
    const trouble = textOf(state?.['problem']) || problem;
    if (trouble !== '') this.#options.onLog(`setting up a kernel: ${trouble}`);
    if (end === undefined || end.kind === 'died') {
      await kernel.close();
      const why = end === undefined ? `took longer than ${SET_UP_LIMIT_MS / 1000} s` : `ended (${end.cause})`;
      throw new JupyterError(`The kernel ${kernel.name} ${why} while it was set up.`);
    }
    return {
      kernel,
      interpreter: textOf(state?.['executable']) || kernel.name,
      isPrepared: state !== undefined,
    };
  }

  #onGatewayExit(cause: string): void {
    this.#specs = undefined;
    this.#spares.length = 0;
    for (const kernel of this.#kernels) kernel.abandon(`the Jupyter server ended: ${cause}`);
  }
}
