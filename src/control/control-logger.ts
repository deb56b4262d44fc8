import type { Logger } from 'pino'

/** What the control plane needs of a logger. */
export type ControlLogger = Pick<Logger, 'debug' | 'info' | 'warn' | 'error'>
