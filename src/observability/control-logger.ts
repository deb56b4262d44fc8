import type { Logger } from 'pino'

/** The part of a logger that the control plane uses. */
export type ControlLogger = Pick<Logger, 'debug' | 'info' | 'warn' | 'error'>

/** For commands, which report failures themselves. */
export const SILENT: ControlLogger = { debug() {}, info() {}, warn() {}, error() {} }

/**
 * The message of an error. Errors of ioredis must not be logged whole: they contain the command with its arguments, and so
 * the password of AUTH.
 */
export function describeError(error: unknown): string {
  if (!(error instanceof Error)) return String(error)
  // The message of OpenSSL has its source file and line; the reason is in words.
  if ('library' in error && 'reason' in error) return String(error.reason)
  // If several addresses failed, the error has a code and no message.
  return error.message || ('code' in error ? String(error.code) : error.name)
}
