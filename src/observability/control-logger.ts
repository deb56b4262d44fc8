import type { Logger } from 'pino'

/** What the control plane needs of a logger. */
export type ControlLogger = Pick<Logger, 'debug' | 'info' | 'warn' | 'error'>

/**
 * An error in words. Those of the Redis client are never logged whole: they carry the command with its arguments, and
 * that of signing in has the password among them.
 */
export function causeOf(error: unknown): string {
  if (!(error instanceof Error)) return String(error)
  // Where several addresses were tried in vain, there is a code and no message.
  return error.message || ('code' in error ? String(error.code) : error.name)
}
