/** Set by the build from package.json. */
declare const __ACTIOND_VERSION__: string;

export const VERSION: string = __ACTIOND_VERSION__;
/** The wire contract that is spoken: OpenHands V0 and this server's own additions. */
export const PROTOCOL = 'openhands-v0';
