import { statfsSync } from 'node:fs';

/** Below this, shared memory goes to files: pages crash when /dev/shm is full (Docker gives it 64 MB). */
const MIN_SHARED_MEMORY_BYTES = 512 * 1024 * 1024;

/** What would act, ask, phone home or wait without anybody having asked for it. */
const QUIET = [
  '--headless=new',
  '--no-first-run',
  '--no-default-browser-check',
  '--no-service-autorun',
  '--disable-field-trial-config',
  '--disable-background-networking',
  '--disable-component-update',
  '--disable-component-extensions-with-background-pages',
  '--disable-default-apps',
  '--disable-domain-reliability',
  '--disable-extensions',
  '--disable-sync',
  '--disable-quic',
  '--disable-breakpad',
  '--disable-crash-reporter',
  '--disable-search-engine-choice-screen',
  '--disable-prompt-on-repost',
  '--disable-infobars',
  '--disable-stack-profiler',
  '--metrics-recording-only',
  '--mute-audio',
  '--password-store=basic',
  '--use-mock-keychain',
  '--unsafely-disable-devtools-self-xss-warnings',
];

/** What the driver relies on. */
const DRIVER = [
  '--allow-pre-commit-input',
  '--disable-back-forward-cache',
  '--disable-background-timer-throttling',
  '--disable-backgrounding-occluded-windows',
  '--disable-renderer-backgrounding',
  '--disable-hang-monitor',
  '--disable-ipc-flooding-protection',
  '--disable-popup-blocking',
  '--force-color-profile=srgb',
  '--hide-scrollbars',
  '--blink-settings=primaryHoverType=2,availableHoverTypes=2,primaryPointerType=4,availablePointerTypes=4',
  '--enable-features=CDPScreenshotNewSurface',
];

const DISABLED_FEATURES = [
  'AvoidUnnecessaryBeforeUnloadCheckSync',
  'DestroyProfileOnBrowserClose',
  'HttpsFirstBalancedModeAutoEnable',
  'HttpsUpgrades',
  'MediaRouter',
  'NetworkTimeServiceQuerying',
  'OptimizationHints',
  'PaintHolding',
  'PreconnectToSearch',
  'ThirdPartyStoragePartitioning',
  'Translate',
];

export interface ArgumentOptions {
  readonly profileDir: string;
  readonly isSandboxed: boolean;
  /** Whether other clients of the DevTools protocol may attach, on a loopback port. */
  readonly hasPort: boolean;
  readonly extra: readonly string[];
}

export function browserArguments({ profileDir, isSandboxed, hasPort, extra }: ArgumentOptions): string[] {
  return [
    ...QUIET,
    ...DRIVER,
    `--disable-features=${DISABLED_FEATURES.join(',')}`,
    '--disable-gpu',
    '--enable-unsafe-swiftshader',
    ...(hasLittleSharedMemory() ? ['--disable-dev-shm-usage'] : []),
    ...(isSandboxed ? [] : ['--no-sandbox']),
    `--user-data-dir=${profileDir}`,
    '--remote-debugging-pipe',
    ...(hasPort ? ['--remote-debugging-port=0'] : []),
    '--window-size=1280,720',
    ...extra,
    '--no-startup-window',
  ];
}

function hasLittleSharedMemory(): boolean {
  try {
    const { bavail, bsize } = statfsSync('/dev/shm');
    return bavail * bsize < MIN_SHARED_MEMORY_BYTES;
  } catch {
    return true;
  }
}

/** Settings of the clean profile: a PDF is a file to have, not a page that nobody can read. */
export const PREFERENCES = {
  plugins: { always_open_pdf_externally: true },
  credentials_enable_service: false,
  profile: { password_manager_enabled: false, default_content_setting_values: { notifications: 2 } },
  translate: { enabled: false },
  safebrowsing: { enabled: false },
  browser: { has_seen_welcome_page: true },
  distribution: { skip_first_run_ui: true },
} as const;
