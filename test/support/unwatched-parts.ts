import { neverReloads } from '../../src/config/reloadable.ts'

/** Of a console that nothing reloads or waits for. */
export const UNWATCHED_PARTS = { version: '0.0.0', onReload: neverReloads, onWaiting: () => {} }
